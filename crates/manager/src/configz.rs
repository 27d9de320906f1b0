//! The effective settings as JSON: the data of `/configz`.

use std::time::Duration;

use kube_endpoint_api_client::without_credentials;
use kube_endpoint_serving::FrontProxyOptions;
use serde_json::{Map, Value, json};

use crate::go_duration;
use crate::settings::{
    LeaderElectionSettings, LoggingFormat, RetirementSettings, ServingSettings, Settings, TracingSettings,
};

/// Returns the settings without secrets: it shows the paths of files without their content, and
/// URLs without user and password.
pub(crate) fn configz(settings: &Settings) -> Value {
    // The pattern names all fields, so that nobody forgets a new setting here.
    let Settings {
        controllers,
        gates,
        qps,
        burst,
        content_type,
        watch_list_client,
        reflectors: _,
        pod_log: _,
        max_endpoints_per_slice,
        mirroring_max_endpoints_per_subset,
        endpoint_slice_workers,
        endpoints_workers,
        mirroring_workers,
        endpoint_selector_workers,
        endpoint_slice_batch_period,
        endpoints_batch_period,
        retirement: RetirementSettings { all, namespaces: retired_namespaces, accepted },
        controller_field_managers,
        mirroring_batch_period,
        min_resync_period,
        shutdown_timeout,
        master,
        leader_election,
        serving,
        tracing,
        logging_format,
        dry_run,
        namespaces,
        service_selector,
    } = settings;
    let controllers: Vec<&str> = controllers.iter().map(|name| name.as_str()).collect();
    let gates: Map<String, Value> =
        gates.states().map(|(name, on)| (name.to_owned(), Value::Bool(on))).collect();
    json!({
        "controllers": controllers,
        "featureGates": gates,
        "kubeApiQps": qps,
        "kubeApiBurst": burst,
        "kubeApiContentType": content_type.as_str(),
        "watchListClient": watch_list_client,
        "maxEndpointsPerSlice": max_endpoints_per_slice,
        "mirroringMaxEndpointsPerSubset": mirroring_max_endpoints_per_subset,
        "concurrentServiceEndpointSyncs": endpoint_slice_workers,
        "concurrentEndpointSyncs": endpoints_workers,
        "mirroringConcurrentServiceEndpointSyncs": mirroring_workers,
        "concurrentEndpointSelectorSyncs": endpoint_selector_workers,
        "endpointsliceUpdatesBatchPeriod": duration(endpoint_slice_batch_period),
        "endpointUpdatesBatchPeriod": duration(endpoints_batch_period),
        "endpointsDefault": if *all { "retired" } else { "published" },
        "endpointsRetiredNamespaces": retired_namespaces,
        "endpointsRetiredAccept": accepted,
        "controllerFieldManagers": &**controller_field_managers,
        "mirroringEndpointsliceUpdatesBatchPeriod": duration(mirroring_batch_period),
        "minResyncPeriod": duration(min_resync_period),
        "controllerShutdownTimeout": duration(shutdown_timeout),
        "master": master.as_deref().map(url),
        "leaderElection": leader_election.as_ref().map(leader_election_json),
        "serving": serving.as_ref().map(serving_json),
        "tracing": tracing.as_ref().map(|TracingSettings { endpoint, sampling_rate_per_million }| json!({
            "endpoint": url(endpoint),
            "samplingRatePerMillion": sampling_rate_per_million,
        })),
        "loggingFormat": match logging_format {
            LoggingFormat::Text => "text",
            LoggingFormat::Json => "json",
        },
        "dryRun": dry_run,
        "namespaces": namespaces,
        "serviceSelector": service_selector.as_ref().map(ToString::to_string),
    })
}

fn leader_election_json(settings: &LeaderElectionSettings) -> Value {
    let LeaderElectionSettings {
        namespace,
        name,
        identity,
        former: _,
        lease_duration,
        renew_deadline,
        retry_period,
        reserve_for,
    } = settings;
    json!({
        "resourceNamespace": namespace,
        "resourceName": name,
        "identity": identity,
        "leaseDuration": duration(lease_duration),
        "renewDeadline": duration(renew_deadline),
        "retryPeriod": duration(retry_period),
        "reserveFor": duration(reserve_for),
    })
}

fn serving_json(settings: &ServingSettings) -> Value {
    let ServingSettings {
        bind_address,
        port,
        cert_file,
        key_file,
        cert_dir,
        min_tls_version,
        cipher_suites,
        http2,
        http2_max_streams_per_connection,
        client_ca_file,
        front_proxy,
        always_allow_paths,
        authentication_kubeconfig,
        authentication_skip_lookup,
        authentication_tolerate_lookup_failure,
        token_cache_ttl,
        authorization_kubeconfig,
        authorized_cache_ttl,
        unauthorized_cache_ttl,
    } = settings;
    json!({
        "bindAddress": bind_address,
        "securePort": port,
        "tlsCertFile": cert_file,
        "tlsPrivateKeyFile": key_file,
        "certDir": cert_dir,
        "tlsMinVersion": min_tls_version.as_str(),
        "tlsCipherSuites": cipher_suites.allowed(),
        "http2": http2,
        "http2MaxStreamsPerConnection": http2_max_streams_per_connection,
        "clientCaFile": client_ca_file,
        "requestHeader": front_proxy.as_ref().map(|FrontProxyOptions { client_ca_file, headers }| json!({
            "clientCaFile": client_ca_file,
            "allowedNames": headers.allowed_names,
            "usernameHeaders": headers.username,
            "uidHeaders": headers.uid,
            "groupHeaders": headers.group,
            "extraHeadersPrefix": headers.extra_prefixes,
        })),
        "authorizationAlwaysAllowPaths": always_allow_paths.paths(),
        "authenticationKubeconfig": authentication_kubeconfig,
        "authenticationSkipLookup": authentication_skip_lookup,
        "authenticationTolerateLookupFailure": authentication_tolerate_lookup_failure,
        "authenticationTokenWebhookCacheTtl": duration(token_cache_ttl),
        "authorizationKubeconfig": authorization_kubeconfig,
        "authorizationWebhookCacheAuthorizedTtl": duration(authorized_cache_ttl),
        "authorizationWebhookCacheUnauthorizedTtl": duration(unauthorized_cache_ttl),
    })
}

fn duration(duration: &Duration) -> String {
    go_duration::format(*duration)
}

/// Returns a URL without user and password.
pub(crate) fn url(text: &str) -> String {
    match text.parse() {
        Ok(uri) => without_credentials(&uri),
        Err(_) => "a URL that is not shown because it cannot be parsed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_are_shown_without_secrets() {
        let mut serving = ServingSettings::on_port(10270);
        serving.key_file = Some("/etc/tls.key".into());
        let settings = Settings {
            master: Some("https://admin:hidden-1@192.0.2.1:6443".to_owned()),
            leader_election: Some(LeaderElectionSettings::default()),
            serving: Some(serving),
            tracing: Some(TracingSettings {
                endpoint: "http://user:hidden-2@192.0.2.2:4317".to_owned(),
                sampling_rate_per_million: 5,
            }),
            ..Settings::default()
        };
        let shown = format!("{:#}", configz(&settings));
        assert!(!shown.contains("hidden"), "{shown}");
        insta::assert_snapshot!(shown);
    }

    #[test]
    fn a_malformed_url_is_not_shown() {
        for text in ["http://user:hid den@x", "user:hidden@", "http://[hidden"] {
            assert!(!url(text).contains("hid"), "{text}");
        }
        assert_eq!(url("192.0.2.1:8080"), "192.0.2.1:8080");
    }
}
