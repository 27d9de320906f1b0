//! A node, as endpoint controllers see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use crate::meta::or_default;
use crate::pod::{ConditionStatus, ConditionType, RawMeta};
use crate::well_known::{LABEL_ZONE, LABELS_CONTROL_PLANE};
use crate::{Intern, Interner, ResourceVersion, Text, quantity};

/// The fields of a node that endpoint controllers read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: Text,
    /// Version of the object behind this view.
    pub resource_version: ResourceVersion,
    /// The value of the zone label, if it is set and not empty.
    pub zone: Option<Text>,
    /// True if it has a label of a control-plane node.
    pub control_plane: bool,
    /// True if its `Ready` condition is true.
    pub ready: bool,
    /// Allocatable CPU in billionths of a core; zero if unknown.
    pub allocatable_cpu_nano: i64,
}

impl Node {
    /// Returns true if two views are equal apart from their versions.
    pub fn same_for_controllers(&self, other: &Self) -> bool {
        // Without this destructuring, somebody could add a field and forget it here.
        let Self { name, resource_version: _, zone, control_plane, ready, allocatable_cpu_nano } = self;
        (control_plane, ready, allocatable_cpu_nano)
            == (&other.control_plane, &other.ready, &other.allocatable_cpu_nano)
            && *zone == other.zone
            && *name == other.name
    }
}

/// Looks up nodes by name.
pub trait NodeLookup {
    /// Returns the node with a name.
    fn node(&self, name: &str) -> Option<Arc<Node>>;
}

impl NodeLookup for BTreeMap<Text, Arc<Node>> {
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.get(name).cloned()
    }
}

impl Intern for Node {
    fn intern(&mut self, interner: &mut Interner) {
        interner.text(&mut self.name);
        interner.optional(&mut self.zone);
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(RawNode::deserialize(deserializer)?.into())
    }
}

impl From<RawNode> for Node {
    fn from(RawNode { metadata, status }: RawNode) -> Self {
        let ready = status.conditions.into_iter().find(|condition| condition.kind == ConditionType::Ready);
        let is_ready = ready.as_ref().is_some_and(|ready| ready.status == Some(ConditionStatus::True));
        Self {
            zone: metadata.labels.get(LABEL_ZONE).filter(|zone| !zone.is_empty()).cloned(),
            control_plane: LABELS_CONTROL_PLANE.iter().any(|label| metadata.labels.contains_key(label)),
            ready: is_ready,
            allocatable_cpu_nano: status.allocatable.nano(),
            name: metadata.name,
            resource_version: metadata.resource_version,
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct RawNode {
    pub(crate) metadata: RawMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawStatus {
    #[serde(deserialize_with = "or_default")]
    pub(crate) conditions: Vec<RawNodeCondition>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) allocatable: RawAllocatable,
}

#[derive(Deserialize)]
pub(crate) struct RawNodeCondition {
    #[serde(rename = "type")]
    pub(crate) kind: ConditionType,
    #[serde(default)]
    pub(crate) status: Option<ConditionStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawAllocatable {
    pub(crate) cpu: Option<RawQuantity>,
}

/// A quantity may be a number. An invalid quantity counts as unknown, so that the node is still
/// read.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum RawQuantity {
    Text(Text),
    Number(f64),
    Other(IgnoredAny),
}

impl RawAllocatable {
    fn nano(&self) -> i64 {
        match &self.cpu {
            None | Some(RawQuantity::Other(_)) => 0,
            Some(RawQuantity::Text(text)) => quantity::parse_nano(text).unwrap_or_default(),
            Some(RawQuantity::Number(cores)) => (cores * 1e9) as i64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_zone_role_readiness_and_cpu() {
        let check = |labels: serde_json::Value, status: serde_json::Value, want: Node| {
            let node: Node = serde_json::from_value(
                json!({"metadata": {"name": "n", "labels": labels, "resourceVersion": "5"}, "spec": {"podCIDR": "x"}, "status": status}),
            )
            .unwrap();
            assert_eq!(node, Node { name: "n".into(), resource_version: ResourceVersion(5), ..want });
        };
        check(json!(null), json!(null), Node::default());
        check(json!({"topology.kubernetes.io/zone": ""}), json!({}), Node::default());
        check(
            json!({"topology.kubernetes.io/zone": "a", "node-role.kubernetes.io/control-plane": ""}),
            json!({"allocatable": {"cpu": "3920m", "memory": "1Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}),
            Node {
                zone: Some("a".into()),
                control_plane: true,
                ready: true,
                allocatable_cpu_nano: 3_920_000_000,
                ..Node::default()
            },
        );
        check(
            json!({"node-role.kubernetes.io/master": "x"}),
            json!({"allocatable": {"cpu": 2}, "conditions": [{"type": "Ready", "status": "Unknown"}]}),
            Node { control_plane: true, allocatable_cpu_nano: 2_000_000_000, ..Node::default() },
        );
        for cpu in [json!("much"), json!(null), json!([]), json!(true)] {
            check(json!({}), json!({"allocatable": {"cpu": cpu}}), Node::default());
        }
    }
}
