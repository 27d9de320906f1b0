//! Judges the version of the API servers, which may read Endpoints themselves.

use std::collections::BTreeMap;

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_core_model::retirement::{LAST_THAT_PROXIES, LAST_THAT_RESOLVES, ServerVersion};
use serde_json::Value;

use super::evidence::{EvidenceKind, Findings, Source};
use crate::answers::doctor::{Lease, Read};

/// API servers renew their Leases every ten seconds.
const GONE_SECONDS: i64 = 120;

/// A Service that API servers call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Called {
    pub service: ObjectKey,
    /// The object for which they call it, such as `APIService v1beta1.metrics.k8s.io`.
    pub by: String,
}

/// Returns the Services that API servers call because of an APIService, a webhook configuration or
/// a CustomResourceDefinition.
pub fn called_services(kind: &str, object: &Value) -> Vec<Called> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let spec = &object["spec"];
    let references = match kind {
        "APIService" => vec![&spec["service"]],
        "CustomResourceDefinition" => vec![&spec["conversion"]["webhook"]["clientConfig"]["service"]],
        _ => {
            let webhooks = object["webhooks"].as_array().into_iter().flatten();
            webhooks.map(|webhook| &webhook["clientConfig"]["service"]).collect()
        }
    };
    let called = |reference: &Value| {
        let service = ObjectKey::new(reference["namespace"].as_str()?, reference["name"].as_str()?);
        Some(Called { service, by: format!("{kind} {name}") })
    };
    references.into_iter().filter_map(called).collect()
}

/// Returns the number of API servers by the Leases that they hold, or `None` if there are none. One
/// that has not been renewed for minutes is of a server that has gone.
pub fn api_servers(leases: &[Value]) -> Option<usize> {
    let renewed = leases.iter().filter_map(|lease| Lease::read(lease).renewed);
    let renewed: Vec<i64> = renewed.map(|at| at.as_second()).collect();
    let newest = renewed.iter().max()?;
    Some(renewed.iter().filter(|at| newest - **at < GONE_SECONDS).count())
}

/// Returns the number of addresses of API servers, by the EndpointSlices of their Service, or
/// `None` if there are no addresses.
pub fn addresses_of_api_servers(slices: &[Value]) -> Option<usize> {
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    Some(endpoints.count()).filter(|count| *count > 0)
}

/// Returns true if API servers read Endpoints for requests to `services/NAME/proxy`. Those of an
/// unknown version may.
pub(super) fn reads_for_proxy(version: Option<ServerVersion>) -> bool {
    version.is_none_or(|version| version <= LAST_THAT_PROXIES)
}

/// Returns true if API servers read Endpoints to reach aggregated APIs and webhooks. Those of an
/// unknown version may.
pub(super) fn resolves(version: Option<ServerVersion>) -> bool {
    version.is_none_or(|version| version <= LAST_THAT_RESOLVES)
}

/// Says what the version tells. `shows_proxy` is true if an audit log shows requests to
/// `services/NAME/proxy`, and `proxied` what metrics tell about them.
pub(super) fn evidence(
    version: &Read<ServerVersion>,
    called: &Read<Vec<Called>>,
    shows_proxy: bool,
    proxied: Result<bool, u64>,
) -> Findings {
    let mut findings = Findings::default();
    if let Err(why) = version {
        findings.unread("The version of the API servers, which may read Endpoints themselves", why);
    }
    let known = version.as_ref().ok().copied();
    if reads_for_proxy(known) {
        proxies(known, shows_proxy, proxied, &mut findings);
    }
    if resolves(known) {
        match called {
            Ok(called) => resolved(known, called, &mut findings),
            Err(why) => findings.unread("The Services of aggregated APIs and webhooks", why),
        }
    }
    findings
}

fn servers(version: Option<ServerVersion>) -> String {
    version.map_or("API servers".to_owned(), |version| format!("API servers of version {version}"))
}

fn proxies(version: Option<ServerVersion>, shows: bool, proxied: Result<bool, u64>, findings: &mut Findings) {
    let reads = format!("{} read Endpoints for requests to services/NAME/proxy", servers(version));
    let probe = "`kubectl get --raw /api/v1/namespaces/default/services/no-such-service/proxy/` is answered with 404, and an audit \
         log that shows it shows the others, too.";
    match (shows, proxied) {
        (true, _) => {
            findings.add(
                EvidenceKind::Note,
                Source::Server,
                None,
                format!("{reads}; the audit log shows such requests"),
                "",
            );
        }
        (false, Err(count)) => {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            findings.hidden(
                format!("{reads}. By their metrics that happened {times}, and no audit log shows by whom"),
                probe,
            );
        }
        (false, Ok(true)) => {
            let what =
                format!("{reads}. By the metrics of all API servers there was none since they started");
            findings.add(EvidenceKind::Note, Source::Metrics, None, what, "");
        }
        (false, Ok(false)) => {
            findings.hidden(format!("{reads}, and nothing shows that there are none"), probe);
        }
    }
}

fn resolved(version: Option<ServerVersion>, called: &[Called], findings: &mut Findings) {
    let mut services: BTreeMap<&ObjectKey, Vec<&str>> = BTreeMap::new();
    for Called { service, by } in called {
        let known = services.entry(service).or_default();
        if !known.contains(&&**by) {
            known.push(by);
        }
    }
    for (service, by) in services {
        let what = format!(
            "{} reach {} through the Endpoints of Service {}",
            servers(version),
            by.join(", "),
            service.name
        );
        let remedy = "Update the API servers to 1.34, which read EndpointSlices for it.";
        findings.add(EvidenceKind::Refused, Source::Server, Some(&service.namespace), what, remedy);
    }
}
