//! Judges the version of the API servers, which may read Endpoints themselves.

use kube_endpoint_core_model::retirement::{LAST_THAT_PROXIES, LAST_THAT_RESOLVES, ServerVersion};
use serde_json::Value;

use super::evidence::{EvidenceKind, Findings, Source};
use crate::answers::doctor::{Lease, Read};

/// API servers renew their Leases every ten seconds.
const GONE_SECONDS: i64 = 120;

/// Returns the number of API servers by the Leases that they hold, or `None` if there are none. One
/// that has not been renewed for minutes is of a server that has gone.
pub fn api_servers<'l>(leases: impl IntoIterator<Item = &'l Value>) -> Option<usize> {
    let renewed = leases.into_iter().filter_map(|lease| Lease::read(lease).renewed);
    let renewed: Vec<i64> = renewed.map(|at| at.as_second()).collect();
    let newest = renewed.iter().max()?;
    Some(renewed.iter().filter(|at| newest - **at < GONE_SECONDS).count())
}

/// Returns true if API servers read Endpoints for requests to `services/NAME/proxy`. Those of an
/// unknown version may.
pub(super) fn reads_for_proxy(version: Option<ServerVersion>) -> bool {
    version.is_none_or(|version| version <= LAST_THAT_PROXIES)
}

/// Returns true if API servers watch Endpoints to reach aggregated APIs and webhooks.
pub(super) fn resolves(version: Option<ServerVersion>) -> bool {
    version.is_some_and(|version| version <= LAST_THAT_RESOLVES)
}

/// Says what the version tells. `shows_proxy` is true if an audit log shows requests to
/// `services/NAME/proxy`; `proxied` is their number by the metrics, if it is known.
pub(super) fn evidence(version: &Read<ServerVersion>, shows_proxy: bool, proxied: Option<u64>) -> Findings {
    let mut findings = Findings::default();
    if let Err(why) = version {
        findings.unread("The version of the API servers, which may read Endpoints themselves", why);
    }
    let known = version.as_ref().ok().copied();
    let servers = known.map_or("API servers".to_owned(), |known| format!("API servers of version {known}"));
    if reads_for_proxy(known) && !shows_proxy && proxied != Some(0) {
        let times = match proxied {
            Some(1) => "By their metrics that happened once".to_owned(),
            Some(count) => format!("By their metrics that happened {count} times"),
            None => "Their metrics do not tell how often".to_owned(),
        };
        findings.hidden(
            format!("{servers} read Endpoints for requests to services/NAME/proxy. {times}, and no audit log shows by whom"),
            "Log requests for services/proxy at the level Metadata, and give a log that has been written since.",
        );
    }
    if resolves(known) {
        findings.add(
            EvidenceKind::Refused,
            Source::Server,
            None,
            format!("{servers} reach aggregated APIs and webhooks through the Endpoints of their Services"),
            "Update the API servers to 1.34, which read EndpointSlices for it.",
        );
    }
    findings
}
