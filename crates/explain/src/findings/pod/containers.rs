//! Finds the container that is the cause of the state of its pod, not one that waits for it.

use kube_endpoint_core_model::{LeftOut, Timestamp};

use super::Judged;
use super::failed::{fails_to_start_up, was_restarted};
use crate::facts::age;
use crate::facts::details::{ContainerKind, ContainerState, RunState};
use crate::findings::ep101_pod_starting::allowed_to_run;

/// The reasons of waiting containers that have a cause elsewhere, or none at all.
pub(in crate::findings) const WAITS: [&str; 3] = ["", "PodInitializing", "ContainerCreating"];

/// The containers that keep a pod from being ready.
pub(in crate::findings) enum Cause<'a> {
    /// One does not run, or ends again and again.
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
    pub(in crate::findings) fn first_cause(&self) -> Option<Cause<'_>> {
        let containers = &self.details?.containers;
        let is_waiting = |one: &ContainerState| matches!(one.state, RunState::Waiting { .. });
        let has_started = containers
            .iter()
            .any(|one| one.kind == ContainerKind::Main && (one.has_run_before() || !is_waiting(one)));
        let blocking = containers.iter().filter(|_| !has_started).find(|container| blocks(container));
        if let Some(container) = blocking {
            return Some(match container.state {
                _ if fails_to_start_up(container) => Cause::NotReady(vec![container]),
                RunState::Running { .. } if self.ends_again(container) => Cause::NotRunning(container),
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
        let runs = |one: &ContainerState| {
            let runs = matches!(one.state, RunState::Running { .. }) && !self.ends_again(one);
            runs || fails_to_start_up(one)
        };
        let all: Vec<Cause<'_>> =
            lasting.iter().filter(|one| !runs(one)).map(|one| Cause::NotRunning(one)).collect();
        let at = all.iter().position(|cause| !cause.is_wait()).unwrap_or_default();
        let first = all.into_iter().nth(at);
        first.or_else(|| (!lasting.is_empty()).then_some(Cause::NotReady(lasting)))
    }

    /// Returns true if a container that runs has ended not long ago, and it is too early to say
    /// that it does not become ready.
    fn ends_again(&self, container: &ContainerState) -> bool {
        let RunState::Running { since: Some(since) } = container.state else { return false };
        was_restarted(container, self.now) && age::since(since, self.now) < allowed_to_run(container)
    }

    /// Returns the container of a ready pod that ends again and again.
    pub(in crate::findings) fn unsteady(&self) -> Option<&ContainerState> {
        let lasting = self.details?.containers.iter().filter(|one| one.kind != ContainerKind::Init);
        lasting.filter(|one| was_restarted(one, self.now)).max_by_key(|one| one.restarts)
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
