//! Finds in the status of a pod the reason why it has ended, does not start, or is not ready: the
//! container that is the cause, not one that waits for it.

use crate::facts::age;
use crate::facts::details::{ContainerKind, ContainerState, RunState};
use crate::findings::pod_reason::{
    Disruption, FailedContainer, NoAddress, SilentNode, UndeclaredPort, UnreadyContainer,
};
use crate::findings::{
    ContainerNotReady, ContainerNotRunning, InitContainerRuns, NodeNotReady, NotReady, NotScheduled,
    PodFinished, PodReason, PodTerminating, ReadinessGateNotMet, ReadinessUnknown,
};
use kube_endpoint_core_model::service::TargetPort;
use kube_endpoint_core_model::{Text, Timestamp};

use super::Judged;

/// The reasons of waiting containers that have a cause elsewhere, or none at all.
const WAITS: [&str; 3] = ["", "PodInitializing", "ContainerCreating"];

impl Judged<'_> {
    pub(super) fn finished(&self) -> PodReason {
        let Some(details) = self.details else {
            return PodReason::PodFinished(PodFinished {
                why: Default::default(),
                message: Default::default(),
                failed: None,
                disruption: None,
                node: self.pod.node_name.clone(),
                owner: self.pod.owner,
            });
        };
        let failed = details.containers.iter().find_map(|container| match &container.state {
            RunState::Ended(end) if end.exit_code != 0 => {
                Some(FailedContainer { name: container.name.clone(), kind: container.kind, end: end.clone() })
            }
            _ => None,
        });
        PodReason::PodFinished(PodFinished {
            why: details.reason.clone(),
            message: details.message.clone(),
            failed,
            disruption: self.disruption(),
            node: self.pod.node_name.clone(),
            owner: self.pod.owner,
        })
    }

    pub(super) fn terminating(&self, serving: bool) -> PodReason {
        let finalizers = self.details.map(|details| details.finalizers.clone()).unwrap_or_default();
        let silent_node = match (&self.pod.node_name, self.node) {
            (_, Some(node)) if !node.ready => Some(SilentNode { name: node.name.clone(), exists: true }),
            (Some(name), None) => Some(SilentNode { name: name.clone(), exists: false }),
            _ => None,
        };
        PodReason::PodTerminating(PodTerminating {
            until: self.pod.deletion_timestamp,
            serving,
            finalizers,
            disruption: self.disruption(),
            silent_node,
            node: self.pod.node_name.clone(),
            owner: self.pod.owner,
            overdue_seconds: self.pod.deletion_timestamp.map(|until| age::since(until, self.now)),
        })
    }

    /// Returns who ends the pod, as its conditions tell.
    fn disruption(&self) -> Option<Disruption> {
        let condition = self.details?.condition("DisruptionTarget")?;
        (*condition.status == *"True").then(|| Disruption {
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            node: self.node.map(|node| node.name.clone()),
        })
    }

    pub(super) fn no_address(&self) -> PodReason {
        if self.pod.node_name.is_none() {
            return self.not_scheduled();
        }
        // Before a pod has an address, all of its containers wait for their creation.
        let cause = self.cause().filter(|reason| !is_wait(reason));
        cause.unwrap_or_else(|| PodReason::NoAddress(self.starting()))
    }

    /// Returns what may keep the pod from getting an address.
    fn starting(&self) -> NoAddress {
        let since = self.details.and_then(|details| details.created);
        let hook = self.details.into_iter().flat_map(|details| &details.containers);
        let last = self.events.iter().max_by_key(|event| event.last);
        NoAddress {
            since,
            seconds: since.map(|since| age::since(since, self.now)),
            node: self.pod.node_name.clone().unwrap_or_default(),
            silent: self.node.filter(|node| !node.ready).map(|node| node.not_ready_message.clone()),
            hook: hook.filter(|one| one.has_post_start_hook).map(|one| one.name.clone()).next(),
            why: last.map(|event| event.reason.clone()).unwrap_or_default(),
            message: last.map(|event| event.message.clone()).unwrap_or_default(),
        }
    }

    /// Returns true if the pod's containers are known, and none of them runs.
    pub(crate) fn runs_nothing(&self) -> bool {
        let containers = self.details.map_or(&[][..], |details| &details.containers);
        let serves = |one: &ContainerState| {
            one.kind != ContainerKind::Init && matches!(one.state, RunState::Running { .. })
        };
        !containers.is_empty() && !containers.iter().any(serves)
    }

    /// Returns the reason why a pod does not answer that is published although it is not ready, or
    /// `None` if it may answer.
    pub(super) fn broken(&self, serving: bool, terminating: bool) -> Option<PodReason> {
        let reason = (!serving).then(|| self.not_ready(serving, terminating));
        reason.filter(PodReason::keeps_from_answering)
    }

    pub(super) fn not_scheduled(&self) -> PodReason {
        let scheduled = self.details.and_then(|details| details.condition("PodScheduled"));
        PodReason::NotScheduled(NotScheduled {
            why: scheduled.map(|condition| condition.reason.clone()),
            message: scheduled.map(|condition| condition.message.clone()).unwrap_or_default(),
            gates: self.details.map(|details| details.scheduling_gates.clone()).unwrap_or_default(),
            since: scheduled.and_then(|condition| condition.last_transition_time),
        })
    }

    /// Returns the reason why a published pod is not ready.
    pub(super) fn not_ready(&self, serving: bool, terminating: bool) -> PodReason {
        if terminating {
            return self.terminating(serving);
        }
        if self.pod.ready.is_none() {
            return self.cause().unwrap_or(PodReason::ReadinessUnknown(ReadinessUnknown {}));
        }
        let since = self.not_ready_since();
        let ready = self.details.and_then(|details| details.condition("Ready"));
        let not_ready = PodReason::NotReady(NotReady {
            why: ready.map(|condition| condition.reason.clone()).unwrap_or_default(),
            message: ready.map(|condition| condition.message.clone()).unwrap_or_default(),
            disruption: self.disruption(),
            stale_on: self.stale_on(),
            owner: self.pod.owner,
            since,
        });
        // Who is about to delete a pod ends its containers, too.
        if matches!(not_ready, PodReason::NotReady(NotReady { disruption: Some(_), .. })) {
            return not_ready;
        }
        let containers = self.containers_not_ready();
        let gate = || self.gate_not_met();
        let node = self.node.filter(|node| !node.ready);
        let node = node.map(|node| {
            PodReason::NodeNotReady(NodeNotReady {
                node: node.name.clone(),
                message: node.not_ready_message.clone(),
                since,
            })
        });
        containers.or_else(gate).or(node).unwrap_or(not_ready)
    }

    fn containers_not_ready(&self) -> Option<PodReason> {
        let details = self.details?;
        let condition =
            details.condition("ContainersReady").filter(|condition| *condition.status != *"True")?;
        let mut reason = self.cause().unwrap_or_else(|| self.unready([]));
        if let PodReason::ContainerNotReady(ContainerNotReady { since, .. }) = &mut reason {
            *since = condition.last_transition_time;
        }
        Some(reason)
    }

    /// Returns the node whose kubelet should set the pod's Ready condition to true, if all of its
    /// containers are ready, and the condition does not say why it is false. The node controller
    /// sets it so while a node is not ready.
    fn stale_on(&self) -> Option<Text> {
        let is_true = |name: &str| {
            let condition = self.details.and_then(|details| details.condition(name));
            condition.is_some_and(|condition| *condition.status == *"True")
        };
        let says_why = self
            .details
            .and_then(|details| details.condition("Ready"))
            .is_none_or(|ready| !(ready.reason.is_empty() && ready.message.is_empty()));
        self.node.filter(|_| is_true("ContainersReady") && !says_why).map(|node| node.name.clone())
    }

    fn gate_not_met(&self) -> Option<PodReason> {
        let details = self.details?;
        details.readiness_gates.iter().find_map(|gate| {
            let condition = details.condition(gate);
            let is_met = condition.is_some_and(|condition| *condition.status == *"True");
            (!is_met).then(|| {
                PodReason::ReadinessGateNotMet(ReadinessGateNotMet {
                    gate: gate.clone(),
                    status: condition.map(|condition| condition.status.clone()),
                    why: condition.map(|condition| condition.reason.clone()).unwrap_or_default(),
                    message: condition.map(|condition| condition.message.clone()).unwrap_or_default(),
                    since: condition.and_then(|condition| condition.last_transition_time),
                })
            })
        })
    }

    pub(super) fn not_ready_since(&self) -> Option<Timestamp> {
        self.pod.ready.filter(|ready| !ready.is_true).and_then(|ready| ready.last_transition)
    }
}

impl Judged<'_> {
    /// Returns the reason of the container that keeps the pod from being ready: the first one that
    /// keeps others from starting, else one that does not run, else all that run and are not ready.
    fn cause(&self) -> Option<PodReason> {
        let containers = &self.details?.containers;
        let has_started = containers
            .iter()
            .any(|one| one.kind == ContainerKind::Main && (one.has_run_before() || !is_waiting(one)));
        let blocking = containers.iter().filter(|_| !has_started).find(|container| blocks(container));
        if let Some(container) = blocking {
            return Some(match &container.state {
                RunState::Running { since } if container.kind == ContainerKind::Init => {
                    PodReason::InitContainerRuns(InitContainerRuns {
                        container: container.name.clone(),
                        since: *since,
                        seconds: since.map(|since| age::since(since, self.now)),
                    })
                }
                RunState::Running { .. } => self.unready([container]),
                _ => stopped(container)?,
            });
        }
        // An init container that has ended stays so while the others run.
        let lasting = || containers.iter().filter(|one| one.kind != ContainerKind::Init && !one.ready);
        let all: Vec<PodReason> = lasting().filter_map(stopped).collect();
        let first = all.iter().find(|reason| !is_wait(reason)).or(all.first()).cloned();
        first.or_else(|| lasting().next().map(|_| self.unready(lasting())))
    }

    /// Returns the reason of containers that run and are not ready.
    fn unready<'a>(&self, containers: impl IntoIterator<Item = &'a ContainerState>) -> PodReason {
        let one = |container: &ContainerState| UnreadyContainer {
            name: container.name.clone(),
            kind: container.kind,
            probe: container.failing_probe(),
            initial_delay_seconds: self.first_probe(container).map(|(delay, _)| delay),
            first_probe_in_seconds: self.first_probe(container).map(|(_, seconds)| seconds),
            undeclared_port: self.undeclared_port(container),
            restarts: container.restarts,
            last: container.last.clone(),
            has_liveness_probe: container.has_liveness_probe,
            has_run_before: container.has_run_before(),
        };
        PodReason::ContainerNotReady(ContainerNotReady {
            containers: containers.into_iter().map(one).collect(),
            peers: self.peers_ask_for_it(),
            since: None,
        })
    }

    /// Returns the initial delay of the failing probe of a container, and the seconds until the
    /// kubelet runs the probe for the first time. Returns `None` if it has run.
    fn first_probe(&self, container: &ContainerState) -> Option<(i32, i64)> {
        let RunState::Running { since: Some(since) } = container.state else { return None };
        let delay = container.probe(container.failing_probe()?)?.initial_delay_seconds;
        let left = i64::from(delay) - age::since(since, self.now);
        (left > 0).then_some((delay, left))
    }

    /// Returns the port that the failing probe of a container asks, if no container of the pod
    /// declares it.
    fn undeclared_port(&self, container: &ContainerState) -> Option<UndeclaredPort> {
        let asked = container.probe(container.failing_probe()?)?.port.as_ref()?;
        let mut declared: Vec<i32> = self.pod.ports.iter().map(|port| port.container_port).collect();
        declared.sort_unstable();
        declared.dedup();
        let (is_declared, asked) = match asked {
            TargetPort::Number(number) => (declared.contains(number), number.to_string()),
            TargetPort::Name(name) => {
                (self.pod.ports.iter().any(|port| port.name == *name), format!("{:?}", &**name))
            }
        };
        (!is_declared && !declared.is_empty()).then_some(UndeclaredPort { asked, declared })
    }

    /// Returns true if peers look for the pod by its own DNS name, which exists only while the pod
    /// is ready.
    fn peers_ask_for_it(&self) -> bool {
        self.service.is_headless()
            && !self.service.publish_not_ready_addresses
            && self.pod.hostname.is_some()
            && self.pod.subdomain.as_ref().is_some_and(|subdomain| *subdomain == self.service.key.name)
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

fn is_waiting(container: &ContainerState) -> bool {
    matches!(container.state, RunState::Waiting { .. })
}

/// Returns true if a container only waits for its creation, or for another container.
fn is_wait(reason: &PodReason) -> bool {
    matches!(reason, PodReason::ContainerNotRunning(ContainerNotRunning { why, last: None, .. }) if WAITS.contains(&&**why))
}

/// Returns the reason of a container that does not run.
fn stopped(container: &ContainerState) -> Option<PodReason> {
    let (why, message, exit_code) = match &container.state {
        RunState::Running { .. } => return None,
        RunState::Waiting { reason, message } => (reason, message, None),
        RunState::Ended(end) => (&end.reason, &end.message, Some(end.exit_code)),
    };
    Some(PodReason::ContainerNotRunning(ContainerNotRunning {
        container: container.name.clone(),
        kind: container.kind,
        why: why.clone(),
        message: message.clone(),
        exit_code,
        restarts: container.restarts,
        last: container.last.clone(),
        has_liveness_probe: container.has_liveness_probe || container.startup_probe.is_some(),
        has_post_start_hook: container.has_post_start_hook,
    }))
}
