//! The validated form of the options.

mod error;
mod leader_election;
mod part;
mod rate;
mod retirement;
mod serving;
mod tracing;

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::ContentType;
use kube_endpoint_core_model::maker::is_tool;
use kube_endpoint_core_model::{LabelSelector, Text};
use kube_endpoint_informer::{PodLogOptions, ReflectorOptions};

use crate::controller_name::ControllerName;
use crate::gates::{Gates, UpstreamRequests};
use crate::go_duration;
use crate::options::{ControllerOptions, Options};

pub use self::tracing::{LoggingFormat, TracingSettings};
pub use error::InvalidOption;
use error::in_range;
pub use kube_endpoint_serving::{CipherSuites, OpenPaths, TlsVersion};
pub use leader_election::LeaderElectionSettings;
use rate::request_rate;
pub use retirement::RetirementSettings;
pub use serving::ServingSettings;

/// The most workers of each controller of slices (upstream `maxConcurrentServiceEndpointSyncs`,
/// `mirroringMaxConcurrentServiceEndpointSyncs`).
const MAX_WORKERS: usize = 50;
/// The most workers of the endpoints controller. Upstream has no bounds; without a worker it does
/// nothing.
const MAX_ENDPOINTS_WORKERS: usize = 1000;

/// The configuration of a [`Manager`](crate::Manager).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    pub controllers: Vec<ControllerName>,
    pub gates: Gates,
    /// Requests per second to the API server, per controller. A negative value means no limit. Zero
    /// is invalid here; the option `--kube-api-qps=0` stands for client-go's default.
    pub qps: f64,
    /// Requests that a controller may send at once before `qps` applies; at least 1 if `qps` is
    /// positive.
    pub burst: u32,
    /// The encoding of objects in requests and, if the API server supports it, in answers.
    pub content_type: ContentType,
    /// True if informers ask for the first list as a stream (upstream's gate `WatchListClient`).
    /// Otherwise, or if the API server refuses, they list in pages.
    pub watch_list_client: bool,
    /// The options of the informers; no flag changes them. `watch_list_client` takes precedence
    /// over their `streaming_list`, and the manager replaces their seed.
    pub reflectors: ReflectorOptions,
    /// Decides which Services have a log of changed pods; no flag changes it.
    pub pod_log: PodLogOptions,
    /// Maximum number of endpoints in a slice.
    pub max_endpoints_per_slice: usize,
    /// Maximum number of addresses that the mirroring controller takes from one subset.
    pub mirroring_max_endpoints_per_subset: usize,
    /// Number of Services that the endpointslice controller syncs concurrently.
    pub endpoint_slice_workers: usize,
    /// Number of Services that the endpoints controller syncs concurrently.
    pub endpoints_workers: usize,
    /// Number of Endpoints objects that the mirroring controller syncs concurrently.
    pub mirroring_workers: usize,
    /// Number of Services that the endpoint selector controller syncs concurrently.
    pub endpoint_selector_workers: usize,
    /// Delay between a pod change and the sync of its slices, to batch further changes; of the
    /// endpointslice and of the endpoint selector controller.
    pub endpoint_slice_batch_period: Duration,
    /// Delay between a pod change and the sync of its Endpoints, to batch further changes.
    pub endpoints_batch_period: Duration,
    /// The Services without v1 Endpoints.
    pub retirement: RetirementSettings,
    /// Field managers under which kube-controller-manager writes, besides the known ones, sorted.
    pub controller_field_managers: Arc<[Text]>,
    /// Delay between a change of a mirrored slice and its sync, to batch further changes.
    pub mirroring_batch_period: Duration,
    /// Shortest time between two resyncs of all Services and Endpoints. Each resync waits up to
    /// twice as long. Zero turns them off.
    pub min_resync_period: Duration,
    /// The time after which a shutdown without leader election abandons queued keys.
    pub shutdown_timeout: Duration,
    /// The URL of the API server, if it differs from that of the kubeconfig or the service account.
    pub master: Option<String>,
    /// Leader election among replicas. `None` means that this process is the only one.
    pub leader_election: Option<LeaderElectionSettings>,
    /// Serving metrics, health and status over HTTPS. `None` serves nothing.
    pub serving: Option<ServingSettings>,
    /// The collector of traces. `None` sends no traces.
    pub tracing: Option<TracingSettings>,
    pub logging_format: LoggingFormat,
    /// True if the manager writes nothing: no object, no event, no Lease.
    pub dry_run: bool,
    /// The namespaces to list and watch; empty for all.
    pub namespaces: Vec<String>,
    /// Label selector of the Services to sync. `None` selects all.
    pub service_selector: Option<LabelSelector>,
}

impl Default for Settings {
    /// Returns kube-controller-manager's defaults, with those of [`ControllerName::DEFAULT`] that
    /// this build contains and the default feature gates, but without leader election and serving.
    fn default() -> Self {
        Self {
            controllers: ControllerName::DEFAULT.into_iter().filter(|name| name.is_built_in()).collect(),
            gates: Gates::default(),
            qps: 20.0,
            burst: 30,
            content_type: ContentType::default(),
            watch_list_client: true,
            reflectors: ReflectorOptions::new(0),
            pod_log: PodLogOptions::default(),
            max_endpoints_per_slice: 100,
            mirroring_max_endpoints_per_subset: 1000,
            endpoint_slice_workers: 5,
            endpoints_workers: 5,
            mirroring_workers: 5,
            endpoint_selector_workers: 5,
            endpoint_slice_batch_period: Duration::ZERO,
            endpoints_batch_period: Duration::ZERO,
            retirement: RetirementSettings::default(),
            controller_field_managers: Arc::default(),
            mirroring_batch_period: Duration::ZERO,
            min_resync_period: Duration::from_secs(12 * 3600),
            shutdown_timeout: Duration::from_secs(10),
            master: None,
            leader_election: None,
            serving: None,
            tracing: None,
            logging_format: LoggingFormat::Text,
            dry_run: false,
            namespaces: Vec::new(),
            service_selector: None,
        }
    }
}

impl TryFrom<&Options> for Settings {
    type Error = InvalidOption;

    /// Validates the options. Logs a warning about options that change nothing here.
    fn try_from(options: &Options) -> Result<Self, InvalidOption> {
        let controllers = &options.controllers;
        let (gates, upstream_gates) = gates(controllers)?;
        let selected = selected(options)?;
        let dry_run = options.api_server.dry_run;
        if dry_run && options.leader_election.leader_elect == Some(true) {
            ::tracing::warn!("--leader-elect is ignored: --dry-run takes no Lease");
        }
        // This checks the flags of leader election even if it is off, so that turning it on reveals
        // no mistake.
        let mut leader_election = LeaderElectionSettings::try_from(&options.leader_election)?;
        let namespaces = part::namespaces(&options.selection.namespaces)?;
        let service_selector = part::service_selector(&options.selection)?;
        leader_election.name = part::lease_name(leader_election.name, service_selector.as_ref(), &namespaces);
        let (qps, burst) = request_rate(options.api_server.kube_api_qps, options.api_server.kube_api_burst)?;
        let workers = |option: &str, value: usize| in_range(option, value, 1, MAX_WORKERS);
        let serving = ServingSettings::new(options.port(), &options.serving, &options.auth)?;
        Ok(Self {
            controllers: selected,
            gates,
            qps,
            burst,
            content_type: options.api_server.kube_api_content_type,
            watch_list_client: upstream_gates.watch_list_client.unwrap_or(true),
            reflectors: ReflectorOptions::new(0),
            pod_log: PodLogOptions::default(),
            max_endpoints_per_slice: in_range(
                "--max-endpoints-per-slice",
                controllers.max_endpoints_per_slice,
                1,
                1000,
            )?,
            mirroring_max_endpoints_per_subset: in_range(
                "--mirroring-max-endpoints-per-subset",
                controllers.mirroring_max_endpoints_per_subset,
                1,
                1000,
            )?,
            endpoint_slice_workers: workers(
                "--concurrent-service-endpoint-syncs",
                controllers.concurrent_service_endpoint_syncs,
            )?,
            endpoints_workers: in_range(
                "--concurrent-endpoint-syncs",
                controllers.concurrent_endpoint_syncs,
                1,
                MAX_ENDPOINTS_WORKERS,
            )?,
            mirroring_workers: workers(
                "--mirroring-concurrent-service-endpoint-syncs",
                controllers.mirroring_concurrent_service_endpoint_syncs,
            )?,
            endpoint_selector_workers: workers(
                "--concurrent-endpoint-selector-syncs",
                controllers.concurrent_endpoint_selector_syncs,
            )?,
            endpoint_slice_batch_period: controllers.endpointslice_updates_batch_period,
            endpoints_batch_period: controllers.endpoint_updates_batch_period,
            retirement: RetirementSettings::new(controllers)?,
            controller_field_managers: field_managers(&controllers.controller_field_managers)?,
            mirroring_batch_period: controllers.mirroring_endpointslice_updates_batch_period,
            min_resync_period: min_resync_period(controllers.min_resync_period)?,
            shutdown_timeout: controllers.controller_shutdown_timeout,
            master: options.api_server.master.clone().filter(|master| !master.is_empty()),
            leader_election: options.elects_leader().then_some(leader_election),
            serving: (options.port() != 0).then_some(serving),
            tracing: TracingSettings::new(&options.logging)?,
            logging_format: LoggingFormat::new(&options.logging)?,
            dry_run,
            namespaces,
            service_selector,
        })
    }
}

/// Returns the gates. Logs those that change nothing here.
fn gates(controllers: &ControllerOptions) -> Result<(Gates, UpstreamRequests), InvalidOption> {
    let mut gates = match controllers.compatibility.as_deref() {
        None => Gates::default(),
        Some("upstream") => Gates::upstream(),
        Some(other) => {
            return Err(InvalidOption::new("--compatibility", other, "the only profile is `upstream`"));
        }
    };
    let upstream = gates.set(&controllers.feature_gates)?;
    for name in &upstream.ignored {
        ::tracing::warn!(gate = %name, "a feature gate of kube-controller-manager is ignored: it changes nothing here");
    }
    Ok((gates, upstream))
}

/// Returns the controllers that run. Logs those that this program does not have.
fn selected(options: &Options) -> Result<Vec<ControllerName>, InvalidOption> {
    let selection = ControllerName::select(&controllers_of(options))?;
    for controller in &selection.ignored {
        ::tracing::warn!(
            controller,
            "a controller of kube-controller-manager is ignored: this program does not have it"
        );
    }
    Ok(selection.controllers)
}

/// Returns the list of `--controllers`. A sample with EndpointSelectors adds their controller to
/// `*`.
fn controllers_of(options: &Options) -> Vec<String> {
    let words = options.controllers.controllers.iter().cloned();
    #[cfg(feature = "embedded")]
    let words = words.chain(
        (options.is_embedded()
            && options.embedded.sample() == Some(crate::options::EmbeddedSample::Selectors)
            && options.controllers.controllers.iter().any(|word| word == "*"))
        .then(|| ControllerName::EndpointSelector.as_str().to_owned()),
    );
    words.collect()
}

/// Checks `--controller-field-managers`. Controllers may delete what a listed client wrote.
fn field_managers(names: &[String]) -> Result<Arc<[Text]>, InvalidOption> {
    const OPTION: &str = "--controller-field-managers";
    let names = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
    let mut names: Vec<&str> = names.collect();
    if let Some(name) =
        names.iter().find(|name| name.contains('/') || !name.chars().all(|it| it.is_ascii_graphic()))
    {
        let why = "write field managers as metadata.managedFields shows them, such as k3s";
        return Err(InvalidOption::new(OPTION, name, why));
    }
    if let Some(name) = names.iter().find(|name| is_tool(name)) {
        return Err(InvalidOption::new(
            OPTION,
            name,
            "this is a tool with which people write objects of their own",
        ));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names.into_iter().map(Text::from).collect())
}

/// Checks `--min-resync-period`: a manager that syncs everything many times a second does nothing
/// else.
fn min_resync_period(period: Duration) -> Result<Duration, InvalidOption> {
    if period.is_zero() || period >= Duration::from_secs(1) {
        return Ok(period);
    }
    let why = "it must be at least 1s, or 0 for no resyncs";
    Err(InvalidOption::new("--min-resync-period", go_duration::format(period), why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::Gate;
    use clap::Parser;

    fn settings(words: &[&str]) -> Result<Settings, String> {
        let words = ["kube-endpoint-manager"].iter().chain(words);
        let options = Options::try_parse_from(words).map_err(|error| error.to_string())?;
        Settings::try_from(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_upstreams() {
        let got = settings(&["--leader-elect=false", "--secure-port=0"]).unwrap();
        assert_eq!(format!("{got:?}"), format!("{:?}", Settings::default()));
        let got = settings(&[]).unwrap();
        assert_eq!(got.leader_election, Some(LeaderElectionSettings::default()));
        assert_eq!(got.serving, Some(ServingSettings::on_port(10270)));
    }

    #[cfg(feature = "embedded")]
    #[test]
    fn a_sample_with_selectors_adds_their_controller_to_the_star() {
        use ControllerName::{EndpointSelector, Endpoints};
        let check = |controllers: &str, want: &[ControllerName]| {
            let words = ["--embedded", "--embedded-sample=selectors", controllers];
            assert_eq!(settings(&words).unwrap().controllers, want, "{controllers}");
        };
        check("--controllers=*", &ControllerName::ALL);
        check("--controllers=*,-endpoint-selector-controller", &ControllerName::DEFAULT);
        check("--controllers=endpoint", &[Endpoints]);
        check("--controllers=endpoint-selector-controller", &[EndpointSelector]);
        check("--controllers=-*", &[]);
        assert_eq!(settings(&["--embedded"]).unwrap().controllers, ControllerName::DEFAULT);
        for other in ["--embedded-empty", "--embedded-load=a"] {
            assert!(settings(&["--embedded", "--embedded-sample=selectors", other]).is_err(), "{other}");
        }
    }

    #[test]
    fn leader_election_is_settled_by_its_flags() {
        let got = settings(&[
            "--leader-elect-lease-duration=30s",
            "--leader-elect-renew-deadline=20s",
            "--leader-elect-retry-period=5s",
            "--leader-elect-reserve-for=168h",
            "--leader-elect-resource-lock=leases",
            "--leader-elect-resource-name=part-a",
            "--leader-elect-resource-namespace=default",
            "--leader-elect-identity=one",
        ]);
        let want = LeaderElectionSettings {
            namespace: "default".into(),
            name: "part-a".into(),
            identity: Some("one".into()),
            former: None,
            lease_duration: Duration::from_secs(30),
            renew_deadline: Duration::from_secs(20),
            retry_period: Duration::from_secs(5),
            reserve_for: Duration::from_secs(7 * 24 * 3600),
        };
        assert_eq!(got.unwrap().leader_election, Some(want));
    }

    #[test]
    fn serving_is_settled_by_its_flags() {
        let got = settings(&[
            "--secure-port=443",
            "--bind-address=::1",
            "--tls-cert-file=crt",
            "--tls-private-key-file=key",
            "--tls-min-version=VersionTLS13",
            "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305,TLS_RSA_WITH_AES_256_CBC_SHA",
            "--authorization-always-allow-paths=healthz,/metrics*",
            "--http2-max-streams-per-connection=7",
        ]);
        let mut want = ServingSettings::on_port(443);
        want.bind_address = std::net::Ipv6Addr::LOCALHOST.into();
        want.cert_file = Some("crt".into());
        want.key_file = Some("key".into());
        want.min_tls_version = TlsVersion::V13;
        let suites = [
            "TLS_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_RSA_WITH_AES_256_CBC_SHA",
        ];
        want.cipher_suites = CipherSuites::parse(&suites).unwrap();
        want.always_allow_paths = OpenPaths::parse(&["/healthz", "/metrics*"]).unwrap();
        want.http2_max_streams_per_connection = Some(7);
        assert_eq!(got.unwrap().serving, Some(want));
    }

    #[test]
    fn retirement_is_settled_by_its_flags() {
        let check = |words: &[&str], want: (bool, &[&str], Option<&str>)| {
            let got = settings(words).unwrap().retirement;
            let namespaces: Vec<&str> = got.namespaces.iter().map(String::as_str).collect();
            assert_eq!((got.all, &namespaces[..], got.accepted.as_deref()), want, "{words:?}");
        };
        check(&[], (false, &[], None));
        check(&["--endpoints-default=published"], (false, &[], None));
        check(&["--endpoints-default=retired"], (true, &[], None));
        check(&["--endpoints-retired-namespaces=b, a,b"], (false, &["a", "b"], None));
        check(
            &["--endpoints-default=retired", "--endpoints-retired-accept=nobody proxies"],
            (true, &[], Some("nobody proxies")),
        );
    }

    #[test]
    fn field_managers_are_added_once_each() {
        let added = |words: &[&str]| settings(words).unwrap().controller_field_managers.join(" ");
        assert_eq!(added(&[]), "");
        let both = ["--controller-field-managers=b, a,b", "--controller-field-managers=a"];
        assert_eq!(added(&both), "a b");
    }

    #[test]
    fn traces_are_settled_by_their_flags() {
        let check = |words: &[&str], want: Option<(&str, u32)>| {
            let want = want.map(|(endpoint, rate)| TracingSettings {
                endpoint: endpoint.into(),
                sampling_rate_per_million: rate,
            });
            assert_eq!(settings(words).unwrap().tracing, want, "{words:?}");
        };
        check(&[], None);
        check(&["--tracing-endpoint="], None);
        check(&["--tracing-endpoint=otel:4317"], Some(("http://otel:4317", 1_000_000)));
        check(
            &["--tracing-endpoint=https://otel", "--tracing-sampling-rate-per-million=5"],
            Some(("https://otel", 5)),
        );
    }

    #[test]
    fn errors_name_the_valid_values() {
        let errors = [
            &["--max-endpoints-per-slice=0"][..],
            &["--max-endpoints-per-slice=1001"],
            &["--kube-api-qps=NaN"],
            &["--kube-api-qps=1e-300"],
            &["--min-resync-period=1ns"],
            &["--min-resync-period=999ms"],
            &["--kube-api-burst=0"],
            &["--kube-api-burst=-1"],
            &["--controllers=deploymnt"],
            &["--compatibility=1.20"],
            &["--feature-gates=Nope=true"],
            &["--leader-elect-retry-period=0"],
            &["--leader-elect-renew-deadline=2.4s"],
            &["--leader-elect-lease-duration=10s"],
            &["--leader-elect-reserve-for=59m"],
            &["--leader-elect-resource-lock=endpoints"],
            &["--leader-elect-resource-name="],
            &["--leader-elect-resource-namespace=a/b"],
            &["--leader-elect-identity="],
            &["--secure-port=65536"],
            &["--bind-address=localhost"],
            &["--tls-cert-file=crt"],
            &["--tls-private-key-file=key"],
            &["--tls-min-version=1.2"],
            &["--tls-cipher-suites=AES"],
            &["--tls-cipher-suites=TLS_RSA_WITH_AES_256_CBC_SHA"],
            &["--authorization-always-allow-paths=/a*b"],
            &["--tracing-endpoint=ftp://otel"],
            &["--tracing-endpoint=otel", "--tracing-sampling-rate-per-million=1000001"],
            &["--logging-format=xml"],
            &["--namespaces=a,B"],
            &["--service-selector=a in b"],
            &["--concurrent-service-endpoint-syncs=0"],
            &["--concurrent-service-endpoint-syncs=51"],
            &["--mirroring-concurrent-service-endpoint-syncs=0"],
            &["--mirroring-concurrent-service-endpoint-syncs=51"],
            &["--concurrent-endpoint-selector-syncs=0"],
            &["--concurrent-endpoint-selector-syncs=51"],
            &["--concurrent-endpoint-syncs=0"],
            &["--concurrent-endpoint-syncs=1001"],
            &["--feature-gates=InOrderInformers=false"],
            &["--endpoints-default=off"],
            &["--endpoints-retired-namespaces=a,B"],
            &["--endpoints-retired-namespaces=a", "--endpoints-default=retired"],
            &["--endpoints-retired-accept="],
            &["--endpoints-retired-accept= "],
            &["--controller-field-managers=hyperkube,kube/v1"],
            &["--controller-field-managers=kubectl-edit"],
        ]
        .map(|words| settings(words).unwrap_err());
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn the_rate_limit_is_resolved_as_by_client_go() {
        let check = |qps: &str, burst: &str, want: (f64, u32)| {
            let got = settings(&[&format!("--kube-api-qps={qps}"), &format!("--kube-api-burst={burst}")]);
            let got = got.unwrap();
            assert_eq!((got.qps, got.burst), want, "{qps} {burst}");
        };
        check("0", "0", (5.0, 10));
        check("0", "30", (5.0, 30));
        check("0.5", "1", (0.5, 1));
        check("0.001", "1000000", (0.001, 1_000_000));
        check("-1", "0", (-1.0, 0));
        check("-1", "7", (-1.0, 7));
    }

    #[test]
    fn a_resync_period_is_zero_or_at_least_a_second() {
        for seconds in [0, 1] {
            let got = settings(&[&format!("--min-resync-period={seconds}s")]).unwrap();
            assert_eq!(got.min_resync_period, Duration::from_secs(seconds));
        }
    }

    #[test]
    fn upstreams_bounds_of_workers_are_inclusive() {
        for workers in [1, 50] {
            let got = settings(&[
                &format!("--concurrent-service-endpoint-syncs={workers}"),
                &format!("--mirroring-concurrent-service-endpoint-syncs={workers}"),
            ]);
            let got = got.unwrap();
            assert_eq!([got.endpoint_slice_workers, got.mirroring_workers], [workers; 2]);
        }
    }

    #[test]
    fn a_command_line_of_kube_controller_manager_can_be_copied() {
        let gates =
            "--feature-gates=AllBeta=true,WatchListClient=false,JobManagedBy=false,InOrderInformers=true";
        let got = settings(&[gates, "--feature-gates=kube:DRAAdminAccess=true"]).unwrap();
        assert!(!got.watch_list_client);
        assert_eq!(got.gates, Gates::default());
        assert!(settings(&["--feature-gates=WatchListClient=true"]).unwrap().watch_list_client);
    }

    #[test]
    fn the_upstream_profile_turns_all_gates_off_unless_they_are_set_explicitly() {
        assert_eq!(settings(&["--compatibility=upstream"]).unwrap().gates, Gates::upstream());
        let one = settings(&["--compatibility=upstream", "--feature-gates=NodeZoneResync=true"]).unwrap();
        assert_eq!(one.gates, Gates::upstream().with(Gate::NodeZoneResync, true));
    }
}
