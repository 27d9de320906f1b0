//! Messages and remedies for Services that ask for topology mode `Auto` in vain.

use kube_endpoint_core_model::Text;
use kube_endpoint_core_model::well_known::LABEL_ZONE;
use serde::Serialize;

use crate::cluster::SomeNodes;
use crate::pod_reason::capital;
use crate::remedy::Person::{ClusterAdministrator, ServiceOwner};
use crate::{Remedy, Step};

/// The reason why the endpoints of a Service cannot have hints. Serialises with the tag `why`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Withheld {
    /// Nodes that count have no zone. Then no Service of the cluster gets hints.
    NodesWithoutZone { nodes: SomeNodes },
    /// Nodes that count have no allocatable CPU. Then no Service of the cluster gets hints.
    NodesWithoutCpu { nodes: SomeNodes },
    /// The nodes that count are in one zone, or there are none. Then no Service of the cluster gets
    /// hints.
    OneZone {
        /// The zone, if there is one.
        zone: Option<Text>,
        /// Nodes of other zones that are not ready.
        not_ready: SomeNodes,
        /// Nodes of other zones that do not count, because they belong to the control plane.
        control_plane: SomeNodes,
    },
    /// Ready endpoints are on nodes without a zone, which do not count.
    EndpointsWithoutZone { nodes: SomeNodes },
    /// There are fewer ready endpoints than zones.
    TooFewEndpoints,
    /// The ready endpoints cannot be divided in proportion to the CPU of the zones.
    Unbalanced,
    /// Another reason, which the message gives.
    Other,
}

const TWO_ZONES: &str = "Topology mode Auto needs nodes in two zones that are ready and have no label node-role.kubernetes.io/control-plane or node-role.kubernetes.io/master";

const OTHERWISE: &str = "remove the annotation of topology mode and set trafficDistribution: PreferSameZone (before Kubernetes 1.34 PreferClose)";

/// Says why a Service has no hints. `message` is that of the controller's event.
pub(super) fn withheld(cause: &Withheld, message: &str) -> String {
    let why = match cause {
        Withheld::NodesWithoutZone { nodes } => {
            format!("{} no label {LABEL_ZONE}, which withholds the hints of every Service", have(nodes))
        }
        Withheld::NodesWithoutCpu { nodes } => {
            format!("{} no allocatable CPU, which withholds the hints of every Service", have(nodes))
        }
        Withheld::OneZone { zone, not_ready, control_plane } => {
            let (mut why, elsewhere) = match zone {
                Some(zone) => (format!("all nodes that count are in zone {zone}"), "in other zones "),
                None => ("no node counts".to_owned(), ""),
            };
            if !not_ready.is_empty() {
                why.push_str(&format!("; {elsewhere}{} not ready", are(not_ready)));
            }
            if !control_plane.is_empty() {
                why.push_str(&format!(
                    "; {elsewhere}{} of the control plane, which does not count",
                    are(control_plane)
                ));
            }
            why
        }
        Withheld::EndpointsWithoutZone { nodes } if !nodes.is_empty() => {
            format!("ready pods are on nodes without the label {LABEL_ZONE}: {}", listed(nodes))
        }
        Withheld::EndpointsWithoutZone { .. }
        | Withheld::TooFewEndpoints
        | Withheld::Unbalanced
        | Withheld::Other => message.to_owned(),
    };
    format!("topology mode Auto has no effect: {why}")
}

/// Says how to give a Service hints, or what to use instead.
pub(super) fn withheld_remedy(cause: &Withheld) -> Remedy {
    match cause {
        Withheld::NodesWithoutZone { nodes } => Remedy::ask(
            ClusterAdministrator,
            format!("Label {} with its zone, which the controller of the cloud provider usually does; one node without it is enough to withhold all hints", these(nodes)),
        )
        .shown_by([show(nodes)]),
        Withheld::EndpointsWithoutZone { nodes } => Remedy::ask(
            ClusterAdministrator,
            format!("Label {} with its zone, or keep the pods off nodes of the control plane", these(nodes)),
        )
        .shown_by([show(nodes)]),
        Withheld::NodesWithoutCpu { nodes } => Remedy::ask(
            ClusterAdministrator,
            format!("Look at the kubelet of {}, which reports no allocatable CPU", these(nodes)),
        )
        .shown_by(nodes.names.iter().map(|node| Step::kubectl(["describe", "node", node]))),
        Withheld::OneZone { not_ready, .. } if !not_ready.is_empty() => Remedy::ask(
            ClusterAdministrator,
            format!("Look at the kubelet of {}: topology mode Auto needs nodes that are ready in two zones", these(not_ready)),
        )
        .shown_by([show(not_ready)]),
        Withheld::OneZone { .. } => {
            Remedy::ask(ServiceOwner, format!("{TWO_ZONES}; until there are some, {OTHERWISE}"))
                .shown_by([Step::kubectl(["get", "nodes", "-L", LABEL_ZONE])])
        }
        Withheld::TooFewEndpoints => Remedy::ask(
            ServiceOwner,
            format!("Run more pods: each zone needs a ready one, and zones with more CPU need more; or {OTHERWISE}"),
        ),
        Withheld::Unbalanced => Remedy::ask(
            ServiceOwner,
            format!("Run more pods, so that they can be divided in proportion to the CPU of the zones; or {OTHERWISE}"),
        ),
        Withheld::Other => Remedy::ask(ServiceOwner, capital(OTHERWISE)),
    }
}

/// Returns a command that shows the zones of these nodes.
fn show(nodes: &SomeNodes) -> Step {
    let names = nodes.names.iter().map(|name| &**name);
    Step::kubectl(["get", "node"].into_iter().chain(names).chain(["-L", LABEL_ZONE]))
}

fn listed(nodes: &SomeNodes) -> String {
    let names: Vec<&str> = nodes.names.iter().map(|name| &**name).collect();
    match nodes.count.saturating_sub(names.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn these(nodes: &SomeNodes) -> String {
    if nodes.count == 1 {
        format!("node {}", listed(nodes))
    } else {
        format!("each of the nodes {}", listed(nodes))
    }
}

fn have(nodes: &SomeNodes) -> String {
    let (node, have) = if nodes.count == 1 { ("node", "has") } else { ("nodes", "have") };
    format!("{node} {} {have}", listed(nodes))
}

fn are(nodes: &SomeNodes) -> String {
    let (node, are) = if nodes.count == 1 { ("node", "is") } else { ("nodes", "are") };
    format!("{node} {} {are}", listed(nodes))
}
