//! The Service asks for topology aware routing, but its endpoints cannot have hints.

use kube_endpoint_core_model::well_known::LABEL_ZONE;

use crate::findings::prelude::*;
use crate::findings::words::capital;
use crate::models::cluster::SomeNodes;

about! {
    /// The annotation `service.kubernetes.io/topology-mode: Auto` asks for endpoints in proportion
    /// to the CPU of each zone. The controllers look at the nodes that are ready and have neither
    /// the label `node-role.kubernetes.io/control-plane` nor `node-role.kubernetes.io/master`. Each
    /// of these needs a zone and allocatable CPU: one without withholds the hints of all Services.
    /// They must be in two zones at least, and there must be enough ready pods to divide them in
    /// proportion. The message names the nodes and what they lack, or quotes the controller's
    /// event. Each cause is a finding of its own. It is information if there are too few pods, or
    /// if they cannot be divided: clients are served, from any zone. The annotation overrides
    /// `spec.trafficDistribution` ([EP074](#ep074-distribution-overridden)).
    EP039 "topology-hints-withheld" Warning
    "The Service asks for topology aware routing, but its endpoints cannot have hints."
}

/// Topology mode `Auto` has no effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyHintsWithheld {
    /// The reason, as the controller's event gives it.
    pub message: String,
    pub cause: Withheld,
}

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

impl Finding for TopologyHintsWithheld {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let Some(message) = inputs.withheld_hints() else { return Vec::new() };
        let causes = causes(inputs, message).into_iter();
        causes.map(|cause| Self { message: message.to_owned(), cause }).collect()
    }

    /// The number of pods changes, and clients are served from any zone.
    fn severity(&self) -> Option<Severity> {
        matches!(self.cause, Withheld::TooFewEndpoints | Withheld::Unbalanced).then_some(Severity::Info)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        read.hints()
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        match &self.cause {
            Withheld::NodesWithoutZone { nodes } => {
                let label = format!("Label {} with its zone", these(nodes));
                let sentence = format!(
                    "{label}, which the controller of the cloud provider usually does; one node without it is enough to withhold all hints"
                );
                Remedy::ask(ClusterAdministrator, sentence).shown_by([show(nodes)])
            }
            Withheld::EndpointsWithoutZone { nodes } => {
                let label = format!("Label {} with its zone", these(nodes));
                let sentence = format!("{label}, or keep the pods off nodes of the control plane");
                Remedy::ask(ClusterAdministrator, sentence).shown_by([show(nodes)])
            }
            Withheld::NodesWithoutCpu { nodes } => {
                let sentence =
                    format!("Look at the kubelet of {}, which reports no allocatable CPU", these(nodes));
                let describe = nodes.names.iter().map(|node| Step::kubectl(["describe", "node", node]));
                Remedy::ask(ClusterAdministrator, sentence).shown_by(describe)
            }
            Withheld::OneZone { not_ready, .. } if !not_ready.is_empty() => {
                let sentence = format!(
                    "Look at the kubelet of {}: topology mode Auto needs nodes that are ready in two zones",
                    these(not_ready)
                );
                Remedy::ask(ClusterAdministrator, sentence).shown_by([show(not_ready)])
            }
            Withheld::OneZone { .. } => {
                Remedy::ask(ServiceOwner, format!("{TWO_ZONES}; until there are some, {OTHERWISE}"))
                    .shown_by([Step::kubectl(["get", "nodes", "-L", LABEL_ZONE])])
            }
            Withheld::TooFewEndpoints => Remedy::ask(
                ServiceOwner,
                format!(
                    "Run more pods: each zone needs a ready one, and zones with more CPU need more; or {OTHERWISE}"
                ),
            ),
            Withheld::Unbalanced => Remedy::ask(
                ServiceOwner,
                format!(
                    "Run more pods, so that they can be divided in proportion to the CPU of the zones; or {OTHERWISE}"
                ),
            ),
            Withheld::Other => Remedy::ask(ServiceOwner, capital(OTHERWISE)),
        }
    }

    /// An endpoint without a hint lacks it because of this.
    fn explains(&self, other: &Fault) -> bool {
        matches!(other, Fault::HintsIgnored(_))
    }
}

impl fmt::Display for TopologyHintsWithheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("topology mode Auto has no effect: ")?;
        match &self.cause {
            Withheld::NodesWithoutZone { nodes } => {
                write!(f, "{} no label {LABEL_ZONE}, which withholds the hints of every Service", have(nodes))
            }
            Withheld::NodesWithoutCpu { nodes } => {
                write!(f, "{} no allocatable CPU, which withholds the hints of every Service", have(nodes))
            }
            Withheld::OneZone { zone, not_ready, control_plane } => {
                let elsewhere = match zone {
                    Some(zone) => {
                        write!(f, "all nodes that count are in zone {zone}")?;
                        "in other zones "
                    }
                    None => {
                        f.write_str("no node counts")?;
                        ""
                    }
                };
                if !not_ready.is_empty() {
                    write!(f, "; {elsewhere}{} not ready", are(not_ready))?;
                }
                if !control_plane.is_empty() {
                    let are = are(control_plane);
                    write!(f, "; {elsewhere}{are} of the control plane, which does not count")?;
                }
                Ok(())
            }
            Withheld::EndpointsWithoutZone { nodes } if !nodes.is_empty() => {
                write!(f, "ready pods are on nodes without the label {LABEL_ZONE}: {}", listed(nodes))
            }
            Withheld::EndpointsWithoutZone { .. }
            | Withheld::TooFewEndpoints
            | Withheld::Unbalanced
            | Withheld::Other => f.write_str(&self.message),
        }
    }
}

/// Finds the causes for the message of the controller's event. Upstream's controller has one
/// message for nodes that lack something and for nodes in one zone only.
fn causes(inputs: &FaultInputs<'_>, message: &str) -> Vec<Withheld> {
    let all = &inputs.cluster.topology;
    let is = |start: &str| message.starts_with(start);
    if is("One or more endpoints do not have a zone") {
        let nodes = SomeNodes::from_iter(&inputs.published_without_zone());
        return vec![Withheld::EndpointsWithoutZone { nodes }];
    }
    if is("Insufficient number of endpoints") {
        return vec![Withheld::TooFewEndpoints];
    }
    if is("Unable to allocate minimum required endpoints") {
        return vec![Withheld::Unbalanced];
    }
    if !is("Insufficient Node information") && !is("Nodes only ready in one zone") {
        return vec![Withheld::Other];
    }
    let mut causes = Vec::new();
    if !all.without_zone.is_empty() {
        causes.push(Withheld::NodesWithoutZone { nodes: all.without_zone.clone() });
    }
    if !all.without_cpu.is_empty() {
        causes.push(Withheld::NodesWithoutCpu { nodes: all.without_cpu.clone() });
    }
    if causes.is_empty() {
        causes.push(Withheld::OneZone {
            zone: all.zones.first().cloned(),
            not_ready: all.not_ready.clone(),
            control_plane: all.control_plane.clone(),
        });
    }
    causes
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

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_node_without_a_zone_withholds_hints_unless_it_is_of_the_control_plane() {
        let worker = example("ep039-node-without-zone");
        assert!(worker.finds(Code::TopologyHintsWithheld));
        let zone = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "eu-b"}}});
        let control_plane = worker.with("Node/node-b", zone).and(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-c", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        assert!(!control_plane.finds(Code::TopologyHintsWithheld));
    }
}
