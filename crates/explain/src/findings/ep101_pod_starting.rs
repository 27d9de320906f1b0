//! The pod is starting, within what its own specification allows.

use kube_endpoint_core_model::LeftOut;

use crate::facts::age;
use crate::facts::details::{ContainerKind, ContainerState, Probe, RunState};
use crate::facts::pod_details::PodDetails;
use crate::findings::pod::{Cause, WAITS, called};
use crate::findings::pod_reason::{reported, such_as};
use crate::findings::prelude::*;

about! {
    /// The pod is new, and nothing has gone wrong. This is what happens in each rollout, so it is
    /// information while other pods serve, and the status of the Service stays OK. If no pod serves
    /// yet, the status is STARTING and the severity warning: clients fail now.
    ///
    /// The allowance is that of the pod's own specification: `initialDelaySeconds` and
    /// `failureThreshold` times `periodSeconds` of a startup probe, the same of a readiness probe
    /// but at least 30 seconds, five minutes for images once the pod has a network, and 30 seconds
    /// for each step about which nothing says more, such as the scheduler, an init container or a
    /// readiness gate. It needs that the pod was never ready, that none of its containers was
    /// restarted, and that the node is ready. After it, the finding is the one that names what
    /// keeps the pod. If another pod of the same template has failed, this one is no progress: the
    /// severity is warning.
    EP101 "pod-starting" Info
    "The pod is starting, within what its own specification allows."
}

/// A pod that is starting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStarting {
    /// The step that it waits for.
    pub waits_for: WaitsFor,
    /// The container, or the type of the readiness gate, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub of: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ContainerKind>,
    /// The seconds for which it has waited.
    pub seconds: i64,
    /// The seconds for which it may still wait.
    pub left_seconds: i64,
    /// True if another pod of its template has failed, so that this one is no progress.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub after_failure: bool,
    /// The last warning about it, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub warning: Text,
}

/// The steps of a pod that is starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitsFor {
    Scheduler,
    Kubelet,
    ContainerCreation,
    Image,
    StartHook,
    InitContainer,
    ContainerStart,
    StartupProbe,
    ReadinessProbe,
    ReadinessGate,
}

/// The seconds that a step may take about which nothing says more.
const DEFAULT: i64 = 30;

/// The seconds that the pull of images may take.
const IMAGES: i64 = 300;

/// The seconds from which on a wait is worth a question.
const LONG: i64 = 60;

impl PodFinding for PodStarting {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let is_nowhere = match pod.left_out() {
            Some(LeftOut::NoAddress) => true,
            Some(LeftOut::NodeNotFound { node }) => node.is_empty(),
            Some(_) => false,
            None => pod.may_not_answer(),
        };
        let details = pod.details?;
        let was_restarted = details.containers.iter().any(ContainerState::has_run_before);
        let is_on_ready_node = pod.pod.node_name.is_none() || pod.node.is_some_and(|node| node.ready);
        if !is_nowhere || was_restarted || was_ready(pod, details) || !is_on_ready_node {
            return None;
        }
        let Step { waits_for, container, gate, since, allowed } = step(pod)?;
        let seconds = age::since(since?, pod.now);
        // Kubelets and servers have clocks of their own, and write whole seconds.
        let left_seconds = allowed - seconds.max(0);
        let is_creation = (WaitsFor::Kubelet..=WaitsFor::StartHook).contains(&waits_for);
        let warning = pod.last_warning().filter(|_| is_creation);
        (left_seconds > 0).then(|| Self {
            waits_for,
            of: container.map(|one| &one.name).or(gate).cloned().unwrap_or_default(),
            kind: container.map(|one| one.kind),
            seconds: seconds.max(0),
            after_failure: pod.has_failed_peer,
            left_seconds,
            warning: warning.map(|event| event.message.clone()).unwrap_or_default(),
        })
    }

    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        let gate = &*first.of;
        let of = first.kind.map(|kind| called(kind, gate)).unwrap_or_default();
        let step = match first.waits_for {
            WaitsFor::Scheduler => "no scheduler has looked at it yet".to_owned(),
            WaitsFor::Kubelet => "the kubelet of its node has not reported on it yet".to_owned(),
            WaitsFor::ContainerCreation => format!("{of} is being created"),
            WaitsFor::Image => format!("{of} is being created, or its image pulled"),
            WaitsFor::StartHook => {
                format!("{of} is being created, and its postStart hook has not returned yet")
            }
            WaitsFor::InitContainer => {
                format!("{of} has not ended, and the containers after it wait for that")
            }
            WaitsFor::ContainerStart => format!("{of} runs and is not marked as ready yet"),
            WaitsFor::StartupProbe => format!("the startup probe of {of} has not succeeded yet"),
            WaitsFor::ReadinessProbe => {
                format!("the readiness probe of {of} has not succeeded yet")
            }
            WaitsFor::ReadinessGate => format!("readiness gate {gate} is not met yet"),
        };
        let seconds = all.iter().map(|one| one.seconds).max().unwrap_or_default();
        let warning = reported("", &such_as(all, |one| &one.warning));
        let failure = if first.after_failure { "; another pod of its template has failed" } else { "" };
        format!("the pod is starting: {step} ({}){warning}{failure}", age::seconds(seconds))
    }

    fn remedy(all: &[&Self], _: &PodsOf<'_>) -> Remedy {
        let left = all.iter().map(|one| one.left_seconds).max().unwrap_or_default();
        let is_told_to_wait = all.iter().any(|one| one.waits_for >= WaitsFor::StartupProbe);
        let or = match is_told_to_wait && left > LONG {
            true => ", or lower initialDelaySeconds: a startupProbe waits no longer than it has to",
            false => "",
        };
        Remedy::new(format!("Wait: it may take {} more; look again then{or}", age::seconds(left)))
    }

    fn group(&self) -> Option<String> {
        Some(format!("{:?} {} {}", self.waits_for, self.of, self.after_failure))
    }

    fn severity(&self) -> Option<Severity> {
        self.after_failure.then_some(Severity::Warning)
    }

    fn keeps_from_answering(&self) -> bool {
        true
    }

    fn passes(&self) -> bool {
        !self.after_failure
    }
}

/// The step that a pod waits for.
struct Step<'a> {
    waits_for: WaitsFor,
    container: Option<&'a ContainerState>,
    gate: Option<&'a Text>,
    since: Option<Timestamp>,
    /// The seconds that it may take.
    allowed: i64,
}

impl<'a> Step<'a> {
    fn new(waits_for: WaitsFor, since: Option<Timestamp>) -> Self {
        Self { waits_for, container: None, gate: None, since, allowed: DEFAULT }
    }

    fn of(self, container: &'a ContainerState, allowed: i64) -> Self {
        Self { container: Some(container), allowed, ..self }
    }
}

/// Returns what a pod waits for, if nothing is wrong with that.
fn step<'a>(pod: &'a Judged<'_>) -> Option<Step<'a>> {
    let details = pod.details?;
    if pod.pod.node_name.is_none() {
        let is_new = pod.condition("PodScheduled").is_none() && details.scheduling_gates.is_empty();
        return is_new.then(|| Step::new(WaitsFor::Scheduler, details.created));
    }
    match pod.first_cause() {
        Some(Cause::NotRunning(container)) => {
            let RunState::Waiting { reason, .. } = &container.state else { return None };
            let has_network = pod.is_true("PodReadyToStartContainers") || pod.pulls_image();
            let (waits_for, allowed) = match (has_network, container.has_post_start_hook) {
                (true, true) => (WaitsFor::StartHook, IMAGES),
                (true, false) => (WaitsFor::Image, IMAGES),
                (false, _) => (WaitsFor::ContainerCreation, DEFAULT),
            };
            let step = Step::new(waits_for, last_step(pod)).of(container, allowed);
            WAITS.contains(&&**reason).then_some(step)
        }
        Some(Cause::InitRuns { container, since }) => {
            Some(Step::new(WaitsFor::InitContainer, since).of(container, DEFAULT))
        }
        // The one with the least time left may be the first to be wrong.
        Some(Cause::NotReady(containers)) => {
            let steps: Option<Vec<Step<'_>>> = containers.into_iter().map(running).collect();
            let ends = |step: &Step<'_>| step.since.map(|since| step.allowed - age::since(since, pod.now));
            steps?.into_iter().min_by_key(ends)
        }
        None if details.containers.is_empty() => Some(Step::new(WaitsFor::Kubelet, last_step(pod))),
        None => {
            let gate = details.readiness_gates.iter().find(|gate| !pod.is_true(gate))?;
            let ready = pod.condition("ContainersReady").filter(|_| pod.is_true("ContainersReady"))?;
            let step = Step::new(WaitsFor::ReadinessGate, ready.last_transition_time);
            Some(Step { gate: Some(gate), ..step })
        }
    }
}

/// Returns true if a container started before the pod was last found not ready: the kubelet says
/// so before the first start, too, so the pod was ready in between. Its containers may have ended
/// since then, before the kubelet counts a restart.
fn was_ready(pod: &Judged<'_>, details: &PodDetails) -> bool {
    let not_ready = pod.not_ready_since();
    let mut starts = details.containers.iter().filter_map(|container| match container.state {
        RunState::Running { since } => since,
        _ => None,
    });
    not_ready.is_some_and(|not_ready| starts.any(|start| start < not_ready))
}

/// Returns what a container waits for that runs and is not ready.
fn running(container: &ContainerState) -> Option<Step<'_>> {
    let RunState::Running { since } = container.state else { return None };
    let waits_for = match container.failing_probe() {
        Some(Probe::Startup) => WaitsFor::StartupProbe,
        Some(Probe::Readiness) => WaitsFor::ReadinessProbe,
        None => WaitsFor::ContainerStart,
    };
    Some(Step::new(waits_for, since).of(container, allowed_to_run(container)))
}

/// Returns the seconds for which a container may run until it is ready, if nothing is wrong.
pub(super) fn allowed_to_run(container: &ContainerState) -> i64 {
    let of = |probe: Probe| container.probe(probe).map(|it| (it.initial_delay_seconds, it.tries_seconds));
    let startup = of(Probe::Startup).map(|(delay, tries)| i64::from(delay) + i64::from(tries));
    match (container.failing_probe(), of(Probe::Readiness)) {
        (Some(Probe::Startup), _) => startup.unwrap_or_default().max(DEFAULT),
        (Some(Probe::Readiness), Some((delay, tries))) => {
            startup.unwrap_or_default() + i64::from(delay) + i64::from(tries).max(DEFAULT)
        }
        _ => startup.unwrap_or_default() + DEFAULT,
    }
}

/// Returns the time of the last step that the pod has made.
fn last_step(pod: &Judged<'_>) -> Option<Timestamp> {
    let details = pod.details?;
    let conditions = details.conditions.iter().filter(|condition| *condition.status == *"True");
    let containers = details.containers.iter().filter_map(|container| match &container.state {
        RunState::Running { since } => *since,
        RunState::Ended(end) => end.finished_at,
        RunState::Waiting { .. } => None,
    });
    let conditions = conditions.filter_map(|condition| condition.last_transition_time);
    conditions.chain(containers).chain(details.created).max()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::findings::testing::*;

    /// A pod whose container runs since some seconds and is not ready.
    fn pod(seconds: i64, probe: Value) -> Value {
        let mut pod = with_conditions(&[("Ready", "False"), ("ContainersReady", "False")]);
        let started = format!("2026-01-01T00:{:02}:{:02}Z", (600 - seconds) / 60, (600 - seconds) % 60);
        pod["spec"]["containers"] = json!([{"name": "app", "readinessProbe": probe}]);
        pod["status"]["containerStatuses"] = json!([{"name": "app", "ready": false, "started": true, "state": {"running": {"startedAt": started}}}]);
        pod
    }

    #[test]
    fn a_pod_may_start_for_as_long_as_its_specification_allows() {
        assert_eq!(code_of(pod(29, json!({}))), Code::PodStarting);
        assert_eq!(code_of(pod(30, json!({}))), Code::ContainerNotReady);
        let slow = json!({"initialDelaySeconds": 60, "periodSeconds": 20, "failureThreshold": 3});
        assert_eq!(code_of(pod(119, slow.clone())), Code::PodStarting);
        assert_eq!(code_of(pod(120, slow)), Code::ContainerNotReady);
    }

    #[test]
    fn a_pod_that_was_restarted_does_not_start() {
        let mut restarted = pod(5, json!({}));
        restarted["status"]["containerStatuses"][0]["restartCount"] = json!(1);
        assert_ne!(code_of(restarted), Code::PodStarting);
    }

    /// A kubelet whose probe finds the end of a process writes this, and counts the restart later.
    #[test]
    fn a_pod_that_was_ready_does_not_start() {
        let mut ready_before = pod(20, json!({}));
        let conditions = ready_before["status"]["conditions"].as_array_mut().unwrap();
        let ready = conditions.iter_mut().find(|it| it["type"] == "Ready").unwrap();
        ready["lastTransitionTime"] = json!("2026-01-01T00:09:59Z");
        assert_eq!(code_of(ready_before), Code::ContainerNotReady);
    }
}
