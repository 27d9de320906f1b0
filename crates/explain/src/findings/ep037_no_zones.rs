//! The Service asks for traffic within a zone, but nodes have no zone.

use kube_endpoint_core_model::well_known::LABEL_ZONE;
use serde_json::Value;

use crate::findings::evidence::{self, OBJECTS};
use crate::findings::prelude::*;

about! {
    /// The controller hints each endpoint for the zone of its node. An endpoint on a node without a
    /// zone has no hint, and kube-proxy ignores the hints of a Service if one endpoint has none.
    /// All clients are served, from any zone.
    EP037 "no-zones" Info
    "The Service asks for traffic within a zone, but nodes have no zone."
}

/// Nodes without a zone, on which ready pods of the Service run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoZones {
    /// Nodes of the Service's pods that have no zone.
    pub nodes: Vec<Text>,
}

impl Finding for NoZones {
    /// Hints for nodes need no zone.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let plan = inputs.hinted_plan().filter(|plan| !plan.stats.topology_auto);
        let distribution = plan.and_then(|plan| plan.stats.traffic_distribution.as_deref());
        if distribution.is_none_or(|value| value == "PreferSameNode") {
            return Vec::new();
        }
        let nodes = inputs.published_without_zone();
        if nodes.is_empty() { Vec::new() } else { vec![Self { nodes: nodes.into_iter().collect() }] }
    }

    fn evidence(&self, _: &Read<'_>) -> Vec<Evidence> {
        let none = |node| Read::node(node, evidence::key(".metadata.labels", LABEL_ZONE), Value::Null);
        self.nodes.iter().take(OBJECTS).map(none).collect()
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        Remedy::ask(
            ClusterAdministrator,
            "Label each node with topology.kubernetes.io/zone, or unset trafficDistribution",
        )
    }

    /// The endpoints on these nodes have no hints.
    fn explains(&self, other: &Fault) -> bool {
        matches!(other, Fault::HintsIgnored(_))
    }
}

impl fmt::Display for NoZones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nodes without the label topology.kubernetes.io/zone: {}", names(&self.nodes))
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn traffic_within_a_node_needs_no_zone() {
        let zone = example("ep037-no-zones");
        assert!(zone.finds(Code::NoZones));
        let node = zone.with("Service/web", json!({"spec": {"trafficDistribution": "PreferSameNode"}}));
        assert!(!node.finds(Code::NoZones));
    }
}
