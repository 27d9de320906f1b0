//! Messages and remedies for faults in the way kube-proxy uses the slices of a Service.

use kube_endpoint_core_model::Text;

use super::{LocalPolicy, UnusedSlice, families, ports};

/// Says on which nodes clients have no endpoint. `names` are those of the nodes.
pub(super) fn no_local(policy: LocalPolicy, with: usize, without: usize, names: &str, known: bool) -> String {
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
    if !known {
        return format!(
            "{why}, and {with} {nodes} {} an endpoint; whether there are other nodes could not be read",
            have(with)
        );
    }
    let it = if without == 1 { "it" } else { "them" };
    let all = with + without;
    format!("{why}, and {without} of {all} nodes {} no endpoint, so {}: {names}", have(without), clients(it))
}

/// Says how to give clients on all nodes an endpoint.
pub(super) fn no_local_remedy(policy: LocalPolicy, with: usize) -> String {
    let set = format!("set spec.{policy} to Cluster");
    match (policy, with) {
        (_, 0) => format!("Write nodeName into the endpoints, or {set}"),
        (LocalPolicy::Internal, _) => {
            format!("Run a pod on each node, for example with a DaemonSet, or {set}")
        }
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
