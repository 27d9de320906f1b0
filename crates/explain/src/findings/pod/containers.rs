//! Finds the container that is the cause of the state of its pod, not one that waits for it.

use kube_endpoint_core_model::{LeftOut, Timestamp};

use super::Judged;
use crate::facts::details::{ContainerKind, ContainerState, Ended, RunState};

/// The reasons of waiting containers that have a cause elsewhere, or none at all.
const WAITS: [&str; 3] = ["", "PodInitializing", "ContainerCreating"];

/// The containers that keep a pod from being ready.
pub(in crate::findings) enum Cause<'a> {
    /// One does not run.
    NotRunning(&'a ContainerState),
    /// An init container runs, and the containers after it wait for its end.
    InitRuns { container: &'a ContainerState, since: Option<Timestamp> },
    /// These run and are not ready.
    NotReady(Vec<&'a ContainerState>),
}

impl Judged<'_> {
    /// Returns the containers that keep the pod from getting an address, or from being ready.
    pub(in crate::findings) fn cause(&self) -> Option<Cause<'_>> {
        match self.left_out() {
            // Before a pod has an address, all of its containers wait for their creation.
            Some(LeftOut::NoAddress) => self.first_cause().filter(|cause| !cause.is_wait()),
            None if self.may_not_answer() && self.pod.ready.is_none() => self.first_cause(),
            None if self.may_not_answer() && self.disruption().is_none() => {
                self.condition("ContainersReady").filter(|_| !self.is_true("ContainersReady"))?;
                Some(self.first_cause().unwrap_or(Cause::NotReady(Vec::new())))
            }
            _ => None,
        }
    }

    /// Returns the first container that keeps others from starting, else one that does not run,
    /// else all that run and are not ready.
    fn first_cause(&self) -> Option<Cause<'_>> {
        let containers = &self.details?.containers;
        let is_waiting = |one: &ContainerState| matches!(one.state, RunState::Waiting { .. });
        let has_started = containers
            .iter()
            .any(|one| one.kind == ContainerKind::Main && (one.has_run_before() || !is_waiting(one)));
        let blocking = containers.iter().filter(|_| !has_started).find(|container| blocks(container));
        if let Some(container) = blocking {
            return Some(match container.state {
                RunState::Running { since } if container.kind == ContainerKind::Init => {
                    Cause::InitRuns { container, since }
                }
                RunState::Running { .. } => Cause::NotReady(vec![container]),
                _ => Cause::NotRunning(container),
            });
        }
        // An init container that has ended stays so while the others run.
        let lasting: Vec<&ContainerState> =
            containers.iter().filter(|one| one.kind != ContainerKind::Init && !one.ready).collect();
        let runs = |one: &&&ContainerState| matches!(one.state, RunState::Running { .. });
        let all: Vec<Cause<'_>> =
            lasting.iter().filter(|one| !runs(one)).map(|one| Cause::NotRunning(one)).collect();
        let at = all.iter().position(|cause| !cause.is_wait()).unwrap_or_default();
        let first = all.into_iter().nth(at);
        first.or_else(|| (!lasting.is_empty()).then_some(Cause::NotReady(lasting)))
    }

    /// Returns true if the pod's containers are known, and none of them runs.
    pub(crate) fn runs_nothing(&self) -> bool {
        let containers = self.details.map_or(&[][..], |details| &details.containers);
        let serves = |one: &ContainerState| {
            one.kind != ContainerKind::Init && matches!(one.state, RunState::Running { .. })
        };
        !containers.is_empty() && !containers.iter().any(serves)
    }
}

impl Cause<'_> {
    /// Returns true if a container only waits for its creation, or for another container.
    fn is_wait(&self) -> bool {
        let Self::NotRunning(container) = self else { return false };
        let is_wait = |why: &str| WAITS.contains(&why) && container.last.is_none();
        match &container.state {
            RunState::Waiting { reason, .. } => is_wait(reason),
            RunState::Ended(end) => is_wait(&end.reason),
            RunState::Running { .. } => false,
        }
    }
}

/// Returns true if the containers after this one wait for it.
fn blocks(container: &ContainerState) -> bool {
    match container.kind {
        ContainerKind::Main => false,
        ContainerKind::Init => {
            !container.ready && !matches!(&container.state, RunState::Ended(end) if end.exit_code == 0)
        }
        ContainerKind::Sidecar => {
            let is_running = matches!(container.state, RunState::Running { .. });
            !(is_running && container.started != Some(false))
        }
    }
}

/// Returns how a sentence calls a container.
pub(in crate::findings) fn called(kind: ContainerKind, name: &str) -> String {
    match kind {
        ContainerKind::Main => format!("container {name}"),
        ContainerKind::Init => format!("init container {name}"),
        ContainerKind::Sidecar => format!("sidecar {name}"),
    }
}

/// Says how often containers of several pods were restarted.
pub(in crate::findings) fn restarted(least: u32, most: u32) -> String {
    match (least, most) {
        (1, 1) => "restarted once".to_owned(),
        (least, most) if least == most => format!("restarted {most} times"),
        (least, most) => format!("restarted {least} to {most} times"),
    }
}

/// Returns true if a container was told to stop, and then perhaps killed. The kubelet does so when
/// a liveness or startup probe fails.
pub(in crate::findings) fn was_stopped(end: &Ended) -> bool {
    matches!(end.exit_code, 137 | 143) && *end.reason != *"OOMKilled"
}
