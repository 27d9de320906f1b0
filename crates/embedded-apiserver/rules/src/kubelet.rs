//! The decisions of a kubelet and a scheduler that run no containers: a pod gets a node and
//! addresses, its containers start at once and are ready a second later, and they run until the
//! grace period of the pod's deletion is over.
//!
//! No container ends by itself, so restartPolicy changes nothing. There are no probes, events,
//! logs, resources, affinities and pod topology spread. Conditions of readiness gates come from
//! whoever writes them.

mod nodes;
mod status;

use jiff::Timestamp;
use serde_json::Value;

use crate::value::{Fields, spec};

pub use nodes::{NODE_NAME, Unfit, concerns_pods, fits, node, node_addresses, unschedulable};
pub use status::{ended, is_taken_over, ready, started};

/// The next step of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is nothing to do before somebody changes the pod.
    Nothing,
    /// It gets a node and addresses, and its containers start.
    Start,
    /// Its containers become ready.
    BecomeReady,
    /// Its containers are ready, and the conditions of its readiness gates have changed: so does
    /// the pod's condition Ready.
    UpdateReady,
    /// It is being deleted. Its containers end at this time, and then it is removed.
    End(Timestamp),
}

/// Decides about the next step of a pod whose status nobody but the kubelet has written.
pub fn next(pod: &Value) -> Next {
    let metadata = &pod["metadata"];
    let phase = pod["status"].text("phase");
    if phase == "Running" && status::has_old_readiness(pod) {
        return Next::UpdateReady;
    }
    if let Ok(end) = metadata.text("deletionTimestamp").parse() {
        // Without a grace period the API server removes the pod, once it has no finalizers.
        return if metadata.int("deletionGracePeriodSeconds") > 0 { Next::End(end) } else { Next::Nothing };
    }
    match phase {
        "" | "Pending" if spec(pod).list("schedulingGates").is_empty() => Next::Start,
        "Running" if !status::has_ready_containers(pod) => Next::BecomeReady,
        _ => Next::Nothing,
    }
}

/// Returns true if a pod uses the addresses of its node.
pub fn uses_host_network(pod: &Value) -> bool {
    spec(pod).flag("hostNetwork")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(fields: Value, want: Next) {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
        json_patch::merge(&mut pod, &fields);
        assert_eq!(next(&pod), want, "{pod}");
    }

    #[test]
    fn a_pod_starts_and_becomes_ready() {
        check(json!({}), Next::Start);
        check(json!({"status": {"phase": "Pending", "qosClass": "BestEffort"}}), Next::Start);
        check(json!({"spec": {"schedulingGates": [{"name": "wait"}]}}), Next::Nothing);
        let running = |ready: &str| {
            let conditions = ["ContainersReady", "Ready"].map(|kind| json!({"type": kind, "status": ready}));
            json!({"status": {"phase": "Running", "conditions": conditions}})
        };
        check(running("False"), Next::BecomeReady);
        check(running("True"), Next::Nothing);
        check(json!({"status": {"phase": "Succeeded"}}), Next::Nothing);
    }

    #[test]
    fn a_readiness_gate_decides_about_a_pod_whose_containers_are_ready() {
        let gated = |ready: &str, gate: &str| {
            let conditions = [("ContainersReady", "True"), ("Ready", ready), ("example.com/up", gate)]
                .map(|(kind, status)| json!({"type": kind, "status": status}));
            json!({
                "spec": {"readinessGates": [{"conditionType": "example.com/up"}]},
                "status": {"phase": "Running", "conditions": conditions},
            })
        };
        check(gated("False", "True"), Next::UpdateReady);
        check(gated("True", "True"), Next::Nothing);
        check(gated("True", "False"), Next::UpdateReady);
        let mut deleted = gated("True", "False");
        deleted["metadata"] =
            json!({"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30});
        check(deleted, Next::UpdateReady);
    }

    #[test]
    fn a_deletion_ends_with_its_grace_period() {
        let end: Timestamp = "2026-01-01T00:00:30Z".parse().unwrap();
        let deleted = |seconds: i64| {
            json!({"metadata": {"deletionTimestamp": end.to_string(), "deletionGracePeriodSeconds": seconds},
                "status": {"phase": "Running"}})
        };
        check(deleted(30), Next::End(end));
        check(deleted(0), Next::Nothing);
    }
}
