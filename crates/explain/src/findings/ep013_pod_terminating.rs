//! The pod is being deleted.

use std::fmt;

use kube_endpoint_core_model::pod::PodOwner;
use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::facts::details::write_optional_time;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::{Disruption, PodFinding, SilentNode, ending, terminating};

about! {
    /// The pod has a deletion timestamp. Its slice lists it as terminating, and as serving while it
    /// is still ready; Endpoints leave it out. kube-proxy sends traffic to serving endpoints if no
    /// endpoint is ready; DNS does not list them for a headless Service. If the Service has no
    /// other pods, the severity is warning while one of them receives traffic, and then error. The
    /// message names the finalizers, which keep the pod until the programs that handle them remove
    /// them. It names the node, if that is not ready or does not exist, because then no kubelet
    /// ends the pod. The condition `DisruptionTarget` (since Kubernetes 1.25) tells who ends the
    /// pod: a drain, the scheduler, a taint, the pod garbage collector or the kubelet. Each has its
    /// own advice. Deleting a node or a pod by force is a request to a person: the program may
    /// still run there, and its successor would start beside it. The message tells how long ago the
    /// grace period ended, if that is more than two minutes. A StatefulSet makes its pod again only
    /// once the old one is gone, so nobody is asked to start another.
    EP013 "pod-terminating" Info
    "The pod is being deleted."
}

/// A pod that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodTerminating {
    /// `metadata.deletionTimestamp`: when the grace period ends.
    #[serde(serialize_with = "write_optional_time")]
    pub until: Option<Timestamp>,
    /// True if it still answers requests.
    pub serving: bool,
    /// `metadata.finalizers`: the API server keeps the pod as long as it has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<Text>,
    /// Who ends it, if its conditions tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
    /// Its node, if no kubelet there ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_node: Option<SilentNode>,
    /// Its node, if it is bound to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Text>,
    #[serde(skip)]
    pub owner: PodOwner,
    /// The seconds since the end of the grace period; negative before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue_seconds: Option<i64>,
}

impl PodFinding for PodTerminating {
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        let node = self.node().unwrap_or_default();
        ending::terminating_remedy(self, service, pod, node, false)
    }

    fn node(&self) -> Option<&str> {
        self.silent_node.as_ref().map(|node| &*node.name).or(self.node.as_deref())
    }

    fn group(&self) -> Option<String> {
        let by = self.disruption.as_ref().map(|disruption| &disruption.reason);
        let exists = self.silent_node.as_ref().map(|node| node.exists);
        Some(format!("{:?} {by:?} {exists:?}", self.finalizers))
    }

    fn is_ending(&self) -> bool {
        true
    }
}

impl fmt::Display for PodTerminating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { serving, finalizers, disruption, silent_node, overdue_seconds, .. } = self;
        let silent = silent_node.as_ref().map(|node| (&*node.name, node.exists));
        terminating(f, *serving, disruption.as_ref(), finalizers, silent, *overdue_seconds)
    }
}
