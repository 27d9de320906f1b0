//! Messages and remedies for faults in the way kube-proxy uses the slices of a Service.

use kube_endpoint_core_model::Text;

use super::{LocalPolicy, UnusedSlice, families, ports};

/// The nodes with and without an endpoint.
pub(super) struct LocalNodes<'a> {
    pub(super) with: usize,
    pub(super) without: usize,
    /// The nodes without an endpoint that keep ordinary pods away.
    pub(super) closed: usize,
    /// The names of those without one.
    pub(super) names: &'a str,
    /// The names of those that do not exist.
    pub(super) missing: &'a str,
    pub(super) are_known: bool,
    pub(super) has_health_check: bool,
}

impl LocalNodes<'_> {
    /// Says on which nodes clients have no endpoint.
    pub(super) fn message(&self, policy: LocalPolicy) -> String {
        let Self { with, without, closed, names, missing, are_known, has_health_check } = *self;
        let why = format!("the Service's {policy} is Local");
        let clients = |place: &str| match policy {
            LocalPolicy::Internal => format!("clients on {place} get no answer"),
            LocalPolicy::External => format!("clients from outside that come to {place} get no answer"),
        };
        if with == 0 {
            return format!("{why}, and no endpoint names a node that exists, so {}", clients("any node"));
        }
        let have = |count| if count == 1 { "has" } else { "have" };
        let nodes = if with == 1 { "node" } else { "nodes" };
        if !are_known {
            return format!(
                "{why}, and {with} {nodes} {} an endpoint; whether there are other nodes could not be read",
                have(with)
            );
        }
        if without == 0 {
            return format!(
                "{why}, and endpoints are on nodes that do not exist, so no client is sent to them: {missing}"
            );
        }
        let (it, fails) = if without == 1 { ("it", "it fails") } else { ("them", "they fail") };
        let all = with + without;
        let but = match closed {
            0 => String::new(),
            1 => " (without 1 that keeps ordinary pods away)".to_owned(),
            more => format!(" (without {more} that keep ordinary pods away)"),
        };
        let so = if policy == LocalPolicy::External && has_health_check {
            format!(
                "{fails} the load balancer's health check, and clients of the node ports there get no answer"
            )
        } else {
            clients(it)
        };
        format!("{why}, and {without} of {all} nodes{but} {} no endpoint, so {so}: {names}", have(without))
    }
}

/// Says how to give clients on all nodes an endpoint.
pub(super) fn no_local_remedy(
    policy: LocalPolicy,
    with: usize,
    without: usize,
    has_health_check: bool,
) -> String {
    let set = format!("set spec.{policy} to Cluster");
    match (policy, with) {
        (_, 1..) if without == 0 => {
            "Delete the pods of these nodes, or correct the nodeName of the endpoints".to_owned()
        }
        (_, 0) => format!("Write nodeName into the endpoints, or {set}"),
        (LocalPolicy::Internal, _) => {
            format!("Run a pod on each node, for example with a DaemonSet, or {set}")
        }
        (LocalPolicy::External, _) if has_health_check => format!(
            "Nothing, if clients use the load balancer, which leaves these nodes out; if they use node ports, {set}"
        ),
        (LocalPolicy::External, _) => {
            format!("Nothing, if the load balancer leaves nodes out that fail its health check; else {set}")
        }
    }
}

/// Says which proxy serves the Service.
pub(super) fn other_proxy(proxy: &str, label: &str) -> String {
    let which = if proxy.is_empty() { "another proxy".to_owned() } else { format!("the proxy {proxy:?}") };
    format!(
        "kube-proxy ignores the Service, which has the label {label}: it leaves it to {which}, and whether that runs is not known"
    )
}

/// Says on which nodes kube-proxy ignores a Service with a cluster IP because of its label.
pub(super) fn service_label(old: usize, known: usize) -> String {
    let label = kube_endpoint_core_model::well_known::LABEL_HEADLESS;
    if known == 0 {
        return format!(
            "kube-proxy before Kubernetes 1.36 ignores the Service, which has a cluster IP and the label {label}"
        );
    }
    let (nodes, have) = if old == 1 { ("node", "has") } else { ("nodes", "have") };
    format!(
        "kube-proxy of {old} {nodes}, which {have} a Kubernetes before 1.36, ignores the Service, because it has a cluster IP and the label {label}: clients there get no answer"
    )
}

/// Says why kube-proxy uses no endpoint of a slice.
pub(super) fn unused(slice: &Text, cause: &UnusedSlice) -> String {
    match cause {
        UnusedSlice::Family { has, wanted } => format!(
            "kube-proxy ignores slice {slice}: it holds {}, and the Service is {}",
            families::addresses(*has),
            families::list(wanted).replace(" or ", " and ")
        ),
        UnusedSlice::Ports { has, wanted } if has.is_empty() => format!(
            "kube-proxy uses no endpoint of slice {slice}: it has no ports, and the Service has {}",
            ports::list(wanted, ports::the)
        ),
        UnusedSlice::Ports { has, wanted } => format!(
            "kube-proxy uses no endpoint of slice {slice}: it has {}, and the Service has {}; ports are matched by name and protocol",
            ports::list(has, ports::the),
            ports::list(wanted, ports::the)
        ),
    }
}
