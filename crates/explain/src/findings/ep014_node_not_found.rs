//! The pod's node does not exist.

use std::fmt;

use kube_endpoint_core_model::pod::PodOwner;
use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::{PodFinding, owner, save};

about! {
    /// The pod names a node that the cluster does not have. A slice that listed the pod now could
    /// keep it forever if the pod then disappeared with the node, so the EndpointSlice controller
    /// waits for the node. Endpoints hold the pod nevertheless.
    ///
    /// The machine may still run the pod, so no step deletes it. The advice depends on the
    /// controller that owns the pod: nothing makes a pod without one again, and the successor that
    /// a StatefulSet starts may write to the same data. The pod garbage collector of
    /// kube-controller-manager deletes a pod about a minute after its node is gone.
    EP014 "node-not-found" Warning
    "The pod's node does not exist."
}

/// A pod whose node does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeNotFound {
    /// The node that the pod names.
    pub node: Text,
    #[serde(skip)]
    pub owner: PodOwner,
}

impl PodFinding for NodeNotFound {
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        owner::node_gone(self.owner, "node", &self.node, save(service, pod))
    }

    fn node(&self) -> Option<&str> {
        Some(&self.node)
    }

    fn group(&self) -> Option<String> {
        Some(format!("{:?}", self.owner))
    }
}

impl fmt::Display for NodeNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pod's node {:?} does not exist", self.node)
    }
}
