//! A container of the pod runs but is not ready.

use kube_endpoint_core_model::service::TargetPort;

use crate::facts::details::{ContainerKind, ContainerState, Ended, Probe, write_optional_time};
use crate::findings::pod::{Cause, called, restarted, was_stopped};
use crate::findings::pod_reason::{reported, such_as};
use crate::findings::prelude::*;

about! {
    /// The condition ContainersReady is false, and the container runs. The message names the
    /// container and the probe that has not succeeded: the startup probe until it has succeeded
    /// once, then the readiness probe. A sidecar is an init container that keeps running; the
    /// containers after it wait for its startup probe.
    ///
    /// The message has the words of the probe if the events of the pod are known. A probe may ask
    /// the number of a port that no container declares; the message names the port if it is a name
    /// that no container port has. While a container that was not restarted is within what its
    /// specification allows, the finding is EP101. If the Service is headless and names its pods,
    /// and none of them is ready, they may wait for one another: the advice names
    /// `publishNotReadyAddresses`.
    EP019 "container-not-ready" Warning
    "A container of the pod runs but is not ready."
}

/// Containers that run and are not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerNotReady {
    pub containers: Vec<UnreadyContainer>,
    /// True if peers look for the pod by its own DNS name, which exists only while it is ready.
    #[serde(skip)]
    pub peers: bool,
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
}

/// A container that runs and is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnreadyContainer {
    pub name: Text,
    pub kind: ContainerKind,
    /// The probe that has not succeeded, or `None` if the container has no such probe.
    pub probe: Option<Probe>,
    /// The name of the port that the probe asks, if no container of the pod has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undeclared_port: Option<Text>,
    /// The words of the kubelet about the probe, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub probe_says: Text,
    /// The number of restarts.
    pub restarts: u32,
    /// The end of its previous run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Ended>,
    #[serde(skip)]
    pub(crate) has_liveness_probe: bool,
    /// True if it has run before, so that its previous log exists.
    #[serde(skip)]
    pub(crate) has_run_before: bool,
}

/// The maximum number of containers whose logs a remedy shows.
const LOGS: usize = 3;

impl PodFinding for ContainerNotReady {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let Cause::NotReady(containers) = pod.cause()? else { return None };
        let condition = pod.condition("ContainersReady").filter(|_| pod.is_unready());
        let one = |container: &&ContainerState| UnreadyContainer::of(pod, container);
        let is_told = pod.is_unready() || pod.left_out().is_some();
        is_told.then(|| Self {
            containers: containers.iter().map(one).collect(),
            peers: peers_ask_for_it(pod),
            since: condition.and_then(|condition| condition.last_transition_time),
        })
    }

    /// Tells of each container what holds for all pods.
    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        let mut containers = first.containers.clone();
        for (at, container) in containers.iter_mut().enumerate() {
            let same = all.iter().filter_map(|one| one.containers.get(at));
            if same.clone().any(|one| one.restarts != container.restarts) {
                container.restarts = 0;
            }
            let says: Vec<&UnreadyContainer> = same.clone().collect();
            container.probe_says = such_as(&says, |one| &one.probe_says).into();
        }
        unready(&containers)
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        let [Self { containers, .. }, ..] = all else { return Remedy::default() };
        let logs = containers.iter().take(LOGS).flat_map(|container| {
            let before = container.has_run_before.then(|| pods.previous_logs(&container.name));
            std::iter::once(pods.logs(&container.name)).chain(before)
        });
        let with = |probe: Probe| containers.iter().find(|one| one.probe == Some(probe));
        let remedy = if let Some(one) = with(Probe::Startup) {
            let container = called(one.kind, &one.name);
            Remedy::ask(
                PodOwner,
                format!("Look at why {container} does not come up, or give its startup probe more time"),
            )
        } else if let Some(one) = with(Probe::Readiness) {
            let container = called(one.kind, &one.name);
            let sentence = match (&one.undeclared_port, &one.last) {
                (Some(name), _) => format!(
                    "Let the readiness probe of {container} ask a port that it has, or give its port the name {:?}",
                    &**name
                ),
                (None, Some(last)) if one.has_liveness_probe && was_stopped(last) => format!(
                    "Look at the probes of {container}: its liveness probe may have ended its last run (exit code {})",
                    last.exit_code
                ),
                _ => format!("Look at the readiness probe of {container}"),
            };
            Remedy::ask(PodOwner, sentence)
        } else {
            Remedy::ask(
                ClusterAdministrator,
                "Look at the kubelet of the pod's node, which reports readiness",
            )
        };
        remedy.shown_by(std::iter::once(pods.describe()).chain(logs))
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn group(&self) -> Option<String> {
        let one = |container: &UnreadyContainer| {
            (container.name.clone(), container.probe, container.undeclared_port.clone())
        };
        Some(format!("{:?}", self.containers.iter().map(one).collect::<Vec<_>>()))
    }

    fn peers_wait(&self) -> bool {
        self.peers
    }
}

impl UnreadyContainer {
    fn of(pod: &Judged<'_>, container: &ContainerState) -> Self {
        Self {
            name: container.name.clone(),
            kind: container.kind,
            probe: container.failing_probe(),
            undeclared_port: undeclared_port(pod, container),
            probe_says: match container.failing_probe() {
                Some(Probe::Startup) => pod.probe_says("Startup probe", &container.name),
                Some(Probe::Readiness) => pod.probe_says("Readiness probe", &container.name),
                None => Text::default(),
            },
            restarts: container.restarts,
            last: container.last.clone(),
            has_liveness_probe: container.has_liveness_probe,
            has_run_before: container.has_run_before(),
        }
    }
}

/// Returns the name of the port that the failing probe of a container asks, if no container of the
/// pod has it. A number need not be declared.
fn undeclared_port(pod: &Judged<'_>, container: &ContainerState) -> Option<Text> {
    match container.probe(container.failing_probe()?)?.port.as_ref()? {
        TargetPort::Name(name) if !pod.pod.ports.iter().any(|port| port.name == *name) => Some(name.clone()),
        _ => None,
    }
}

/// Returns true if peers look for the pod by its own DNS name, which exists only while the pod
/// is ready.
fn peers_ask_for_it(pod: &Judged<'_>) -> bool {
    pod.service.is_headless()
        && !pod.service.publish_not_ready_addresses
        && pod.pod.hostname.is_some()
        && pod.pod.subdomain.as_ref().is_some_and(|subdomain| *subdomain == pod.service.key.name)
}

/// The probes, in the order in which the kubelet runs them.
const PROBES: [Option<Probe>; 3] = [Some(Probe::Startup), Some(Probe::Readiness), None];

/// Tells why containers that run are not ready: first those whose startup probe fails.
fn unready(containers: &[UnreadyContainer]) -> String {
    if containers.is_empty() {
        return "not all containers are ready".to_owned();
    }
    let sentences = PROBES.iter().filter_map(|probe| {
        let of: Vec<&UnreadyContainer> = containers.iter().filter(|one| one.probe == *probe).collect();
        let first = of.first()?;
        let mut sentence = unready_for(*probe, &of);
        let says = of.iter().map(|one| &*one.probe_says).find(|says| !says.is_empty());
        sentence += &reported("", says.unwrap_or_default());
        if let Some(name) = &first.undeclared_port
            && of.len() == 1
        {
            sentence += &format!("; it asks port {:?}, a name that no container port has", &**name);
        }
        if first.restarts > 0 && of.len() == 1 {
            sentence += &format!(" ({})", restarted(first.restarts, first.restarts));
        }
        Some(sentence)
    });
    sentences.collect::<Vec<_>>().join("; ")
}

/// Tells why containers with the same failing probe are not ready.
fn unready_for(probe: Option<Probe>, of: &[&UnreadyContainer]) -> String {
    let names: Vec<&str> = of.iter().map(|one| &*one.name).collect();
    let (who, run, are, their, have, fail, them) = match of {
        [one] => (called(one.kind, &one.name), "runs", "is", "its", "has", "fails", "it"),
        _ => (format!("containers {}", names.join(", ")), "run", "are", "their", "have", "fail", "them"),
    };
    let probes = if of.len() == 1 { "probe" } else { "probes" };
    match probe {
        Some(Probe::Startup) if of.iter().all(|one| one.restarts > 0) => {
            format!(
                "{who} {have} not come up: {their} startup {probes} {fail}, so the kubelet restarts {them}"
            )
        }
        Some(Probe::Startup) => {
            format!("{who} {run} but {have} not started: {their} startup {probes} {have} not succeeded yet")
        }
        Some(Probe::Readiness) => {
            format!("{who} {run} but {are} not ready: {their} readiness {probes} {fail}")
        }
        None => {
            format!("{who} {run} and {are} not marked as ready, although no probe keeps {them} from that")
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_container_that_runs_may_not_be_ready() {
        let pod = |state: &str| {
            let mut pod = with_conditions(&[("Ready", "False"), ("ContainersReady", "False")]);
            pod["status"]["containerStatuses"] =
                json!([{"name": "app", "ready": false, "state": {state: {}}}]);
            pod
        };
        assert_eq!(code_of(pod("running")), Code::ContainerNotReady);
        assert_eq!(code_of(pod("waiting")), Code::ContainerNotRunning);
    }
}
