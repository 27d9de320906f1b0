//! The decisions of a kubelet and a scheduler that run no containers: a pod gets a node and
//! addresses, its containers start at once and are ready a second later, and they run until the
//! grace period of the pod's deletion is over. The statuses come in the order in which a real
//! kubelet writes them; some of its states are left out.
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
pub use status::{ended, is_taken_over, observed, ready, started};

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
    /// The kubelet notes that it has seen the pod's specification or deletion.
    Observe,
    /// It is being deleted. Its containers end at this time.
    End(Timestamp),
    /// It is being deleted, and its containers have ended: it is removed.
    Remove,
}

/// Decides about the next step of a pod whose status nobody but the kubelet has written.
pub fn next(pod: &Value) -> Next {
    let metadata = &pod["metadata"];
    let phase = pod["status"].text("phase");
    if phase == "Running" && status::has_old_readiness(pod) {
        return Next::UpdateReady;
    }
    let end: Option<Timestamp> = metadata.text("deletionTimestamp").parse().ok();
    if end.is_some() && metadata.int("deletionGracePeriodSeconds") == 0 {
        // Without a grace period the API server removes the pod, once it has no finalizers.
        return Next::Nothing;
    }
    if phase == "Running" && metadata.int("generation") > pod["status"].int("observedGeneration") {
        return Next::Observe;
    }
    if let Some(end) = end {
        return if phase == "Succeeded" { Next::Remove } else { Next::End(end) };
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
