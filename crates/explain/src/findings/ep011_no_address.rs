//! The pod has no IP address yet.

use kube_endpoint_core_model::{ObjectKey, Timestamp};

use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::{PodFinding, describe};

pub use crate::findings::pod_reason::NoAddress;

about! {
    /// The scheduler has bound the pod to a node, and its status has no address. Usually the
    /// network plugin has not finished, or a container that must run first does not (EP020). If the
    /// node is not ready, the message has what the node says about that. Otherwise it has the last
    /// warning about the pod, such as `FailedAttachVolume` or `FailedMount`, if the events of the
    /// pod are among the objects. A `postStart` hook that does not return has the same effect,
    /// because the kubelet reports on the pod only after it. Five minutes after the creation of the
    /// pod the advice is no longer to wait.
    EP011 "no-address" Warning
    "The pod has no IP address yet."
}

impl PodFinding for NoAddress {
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        self.look_at(describe(service, pod))
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn node(&self) -> Option<&str> {
        self.silent.as_ref().map(|_| &*self.node)
    }

    fn group(&self) -> Option<String> {
        Some(self.group_of())
    }
}
