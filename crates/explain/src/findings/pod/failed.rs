//! Tells what has failed from what is new: containers that end again and again, and templates whose
//! pods do.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::pod::PodPhase;
use kube_endpoint_core_model::{Pod, Text, Timestamp};

use crate::facts::age;
use crate::facts::details::{ContainerState, Ended, RunState};
use crate::facts::objects::Objects;

/// The seconds after which the kubelet forgets how often a container has ended.
const FORGOTTEN: i64 = 600;

/// Returns the last end of a container.
pub(in crate::findings) fn last_end(container: &ContainerState) -> Option<&Ended> {
    match &container.state {
        RunState::Ended(end) => Some(end),
        _ => container.last.as_ref(),
    }
}

/// Returns true if a container has ended and was started again not long ago.
pub(in crate::findings) fn was_restarted(container: &ContainerState, now: Timestamp) -> bool {
    let ended = last_end(container).and_then(|end| end.finished_at);
    container.restarts > 0 && ended.is_some_and(|ended| age::since(ended, now) < FORGOTTEN)
}

/// Returns true if a container was told to stop, and then perhaps killed. The kubelet does so when
/// a liveness or startup probe fails. A program that handles the signal may end without an error.
pub(in crate::findings) fn was_stopped(end: &Ended) -> bool {
    matches!(end.exit_code, 0 | 137 | 143) && *end.reason != *"OOMKilled"
}

/// Returns true if the kubelet restarts a container because its startup probe fails: it has never
/// come up, and has not ended by itself with an error.
pub(in crate::findings) fn fails_to_start_up(container: &ContainerState) -> bool {
    container.startup_probe.is_some()
        && container.started != Some(true)
        && container.restarts > 0
        && last_end(container).is_some_and(was_stopped)
}

/// Returns the template of a pod, as its Deployment, StatefulSet or DaemonSet labels it.
pub(crate) fn template(pod: &Pod) -> Option<&Text> {
    pod.labels.get("pod-template-hash").or_else(|| pod.labels.get("controller-revision-hash"))
}

/// Returns the templates of pods that have failed: they ended with an error of their own, or their
/// containers end again and again.
pub(crate) fn failed_templates(objects: &Objects, pods: &[Arc<Pod>], now: Timestamp) -> BTreeSet<Text> {
    let has_failed = |pod: &&Arc<Pod>| {
        objects.pod_details.get(&pod.key).is_some_and(|details| {
            let has_ended = pod.phase == PodPhase::Failed && details.reason.is_empty();
            !pod.is_terminating()
                && (has_ended || details.containers.iter().any(|one| was_restarted(one, now)))
        })
    };
    pods.iter().filter(has_failed).filter_map(|pod| template(pod)).cloned().collect()
}
