//! Nodes.

use serde_json::json;

use super::{Cluster, set_ready};

impl Cluster {
    /// Adds a node: ready, with 4 CPUs, without a zone.
    #[track_caller]
    pub fn node(self, name: &str) -> Self {
        self.with(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "allocatable": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }))
    }

    /// Puts the current nodes into a zone.
    #[track_caller]
    pub fn zone(self, zone: &str) -> Self {
        self.change_only(&["Node"], "zone", |node| {
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone.into();
        })
    }

    /// Sets the allocatable CPU of the current nodes, such as `4` or `3920m`.
    #[track_caller]
    pub fn cpu(self, quantity: &str) -> Self {
        self.change_only(&["Node"], "cpu", |node| node["status"]["allocatable"]["cpu"] = quantity.into())
    }

    /// Labels the current nodes as nodes of the control plane.
    #[track_caller]
    pub fn control_plane(self) -> Self {
        self.change_only(&["Node"], "control_plane", |node| {
            node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "".into();
        })
    }

    /// Makes the current nodes or pods unready.
    #[track_caller]
    pub fn not_ready(self) -> Self {
        self.change_only(&["Node", "Pod"], "not_ready", |object| set_ready(object, "False"))
    }

    /// Makes the current nodes or pods ready, as new ones are.
    #[track_caller]
    pub fn ready(self) -> Self {
        self.change_only(&["Node", "Pod"], "ready", |object| set_ready(object, "True"))
    }
}
