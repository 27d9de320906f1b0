//! The slices differ from what they should be.

use super::words::{look_at_controller, look_at_running_controller, wait_or_permit};
use crate::findings::inputs::Behind;
use crate::findings::prelude::*;

about! {
    /// The controllers would write slices now. Within 10 seconds of the oldest change that they do
    /// not show, that is normal, and the severity is info. Later, it means that the controller does
    /// not run, has no leader, or fails to write: the severity is warning, and after 30 seconds
    /// error. It is error at once if no endpoint receives traffic while a ready pod waits, and if
    /// the slices name a pod that does not exist any more. If a controller wrote slices of another
    /// Service less than two minutes ago, it runs, and the message says so. If no controller runs,
    /// the finding is [EP073](#ep073-cluster-unserved). If a pod holds the Lease that the
    /// EndpointSelector names, and its status shows no holder, the controller may not read the
    /// Leases of the namespace.
    ///
    /// If the controller's last event, or the status of the Service's EndpointSelector, says that
    /// the API server refused a write, the message quotes it, the severity is error at once, and
    /// the advice is that of the reason: an admission webhook that refuses, or that cannot be
    /// asked; an admission policy; a ResourceQuota; a missing permission; credentials; an invalid
    /// field; another client that writes the same objects; an object that is too large; an
    /// overloaded API server; a full etcd; an API server that fails or does not answer. If the
    /// namespace is being deleted, the severity is info. The same holds for EP057. The overview of
    /// the manager's status page does not read events.
    EP050 "slices-behind" Error may_be_under_way
    "The slices differ from what they should be."
}

/// Slices that a controller still has to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SlicesBehind(pub Behind);

impl Finding for SlicesBehind {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        inputs.slices_behind_without_cause().into_iter().map(Self).collect()
    }

    fn severity(&self) -> Option<Severity> {
        self.0.severity()
    }

    fn since(&self) -> Option<Timestamp> {
        self.0.since
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        wait_or_permit(&self.0, service).unwrap_or_else(|| match self.0.others_written_seconds {
            Some(_) => look_at_running_controller("", service),
            None => look_at_controller(),
        })
    }

    fn traffic_lost(&self) -> TrafficLost {
        if self.0.may_be_under_way() { TrafficLost::None } else { TrafficLost::Some }
    }
}

impl fmt::Display for SlicesBehind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f, "the slices are not up to date")
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn controllers_that_run_bring_slices_up_to_date() {
        for name in ["ep050-slices-behind", "ep050-slice-edited"] {
            let behind = example(name);
            assert!(behind.finds(Code::SlicesBehind));
            assert!(!behind.served().finds(Code::SlicesBehind));
        }
    }

    #[test]
    fn a_slice_with_all_pods_need_not_be_written_by_a_controller_that_runs() {
        let endpoint = json!({
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "web-1", "uid": "uid-pod-web-1"},
            "nodeName": "node-a",
            "zone": "eu-a",
        });
        let patch = json!({"endpoints": [endpoint]});
        let same = example("ep050-slice-edited").with("EndpointSlice/web-abcde", patch);
        assert!(!same.finds(Code::SlicesBehind));
    }
}
