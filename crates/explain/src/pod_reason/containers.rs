//! Messages and remedies for pods whose containers do not run or are not ready, and for pods that
//! have ended.

use std::fmt;

use super::text::reported;
use super::{FailedContainer, UnreadyContainer};
use crate::details::{ContainerKind, Ended, Probe};
use crate::remedy::Person::{ClusterAdministrator, PodOwner};
use crate::{Remedy, Step};

/// The maximum number of containers whose logs a remedy shows.
const LOGS: usize = 3;

/// Returns how a sentence calls a container.
pub(super) fn called(kind: ContainerKind, name: &str) -> String {
    match kind {
        ContainerKind::Main => format!("container {name}"),
        ContainerKind::Init => format!("init container {name}"),
        ContainerKind::Sidecar => format!("sidecar {name}"),
    }
}

fn restarted(restarts: u32) -> String {
    if restarts == 1 { "restarted once".to_owned() } else { format!("restarted {restarts} times") }
}

impl fmt::Display for FailedContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", called(self.kind, &self.name), self.end)
    }
}

/// Prints the end of a pod.
pub(super) fn finished(
    f: &mut fmt::Formatter<'_>,
    why: &str,
    message: &str,
    failed: Option<&FailedContainer>,
) -> fmt::Result {
    match (why, failed) {
        ("", Some(failed)) => write!(f, "the pod has failed for good: {failed}"),
        ("", None) => f.write_str("the pod has ended for good (phase Succeeded or Failed)"),
        (why, _) => {
            f.write_str("the pod has ended for good")?;
            reported(f, why, message)
        }
    }
}

/// A container that does not run.
pub(super) struct Stopped<'a> {
    pub(super) name: &'a str,
    pub(super) kind: ContainerKind,
    pub(super) why: &'a str,
    pub(super) message: &'a str,
    pub(super) exit_code: Option<i32>,
    pub(super) restarts: u32,
    pub(super) last: Option<&'a Ended>,
}

impl fmt::Display for Stopped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not run", called(self.kind, self.name))?;
        reported(f, self.why, self.message)?;
        let mut more = Vec::new();
        more.extend(self.exit_code.map(|code| format!("exit code {code}")));
        if self.restarts > 0 {
            more.push(restarted(self.restarts));
        }
        more.extend(self.last.map(|last| format!("its last run ended with {last}")));
        if more.is_empty() { Ok(()) } else { write!(f, " ({})", more.join("; ")) }
    }
}

impl Stopped<'_> {
    /// Returns the remedy for the pod of a namespace.
    pub(super) fn remedy(&self, namespace: &str, pod: &str) -> Remedy {
        let container = called(self.kind, self.name);
        let describe = Step::kubectl_in(namespace, ["describe", "pod", pod]);
        let never_ran = |sentence: String| Remedy::ask(PodOwner, sentence).shown_by([describe.clone()]);
        match self.why {
            "ImagePullBackOff"
            | "ErrImagePull"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "ImageInspectError"
            | "RegistryUnavailable"
            | "SignatureValidationFailed" => {
                return never_ran(format!("Correct the image of {container}, or the credentials to pull it"));
            }
            "CreateContainerConfigError" => {
                return never_ran(format!(
                    "Correct what {container} refers to: a ConfigMap, a Secret, or a key of one, or its user"
                ));
            }
            "CreateContainerError"
            | "RunContainerError"
            | "StartError"
            | "ContainerCannotRun"
            | "PreCreateHookError"
            | "PreStartHookError" => {
                return never_ran(format!(
                    "Correct the command, the volumes or the security settings of {container}"
                ));
            }
            _ => {}
        }
        let is_out_of_memory = |why: &str| why == "OOMKilled";
        if is_out_of_memory(self.why) || self.last.is_some_and(|last| is_out_of_memory(&last.reason)) {
            let sentence = format!("Raise the memory limit of {container}, or let it use less");
            return Remedy::ask(PodOwner, sentence).shown_by(self.logs(namespace, pod));
        }
        match self.logs(namespace, pod) {
            Some(logs) => Remedy::ask(PodOwner, format!("Look at why {container} ends")).shown_by([logs]),
            None => never_ran(format!(
                "Look at the pod's events: an image, a volume or the network may keep {container} from starting"
            )),
        }
    }

    /// Returns the command that prints the log of the run that ended, if there was one.
    fn logs(&self, namespace: &str, pod: &str) -> Option<Step> {
        if self.exit_code.is_some() {
            return Some(logs(namespace, pod, self.name));
        }
        let has_run = self.restarts > 0 || self.last.is_some();
        has_run.then(|| previous_logs(namespace, pod, self.name))
    }
}

pub(super) fn logs(namespace: &str, pod: &str, container: &str) -> Step {
    Step::kubectl_in(namespace, ["logs", pod, "-c", container])
}

fn previous_logs(namespace: &str, pod: &str, container: &str) -> Step {
    Step::kubectl_in(namespace, ["logs", "--previous", pod, "-c", container])
}

/// The probes, in the order in which the kubelet runs them.
const PROBES: [Option<Probe>; 3] = [Some(Probe::Startup), Some(Probe::Readiness), None];

/// Prints why containers that run are not ready.
pub(super) fn unready(f: &mut fmt::Formatter<'_>, containers: &[UnreadyContainer]) -> fmt::Result {
    if containers.is_empty() {
        return f.write_str("not all containers are ready");
    }
    let sentences = PROBES.iter().filter_map(|probe| {
        let of: Vec<&UnreadyContainer> = containers.iter().filter(|one| one.probe == *probe).collect();
        let first = of.first()?;
        let names: Vec<&str> = of.iter().map(|one| &*one.name).collect();
        let sentence = match (probe, of.len()) {
            (Some(Probe::Startup), 1) => {
                let container = called(first.kind, &first.name);
                format!("{container} runs but has not started: its startup probe has not succeeded yet")
            }
            (Some(Probe::Startup), _) => format!(
                "containers {} run but have not started: their startup probes have not succeeded yet",
                names.join(", ")
            ),
            (Some(Probe::Readiness), 1) => {
                let container = called(first.kind, &first.name);
                format!("{container} runs but is not ready: its readiness probe fails")
            }
            (Some(Probe::Readiness), _) => {
                format!("containers {} run but are not ready: their readiness probes fail", names.join(", "))
            }
            (None, 1) => {
                let container = called(first.kind, &first.name);
                format!("{container} runs and is not marked as ready, although no probe keeps it from that")
            }
            (None, _) => format!(
                "containers {} run and are not marked as ready, although no probe keeps them from that",
                names.join(", ")
            ),
        };
        Some(match first.restarts {
            1.. if of.len() == 1 => format!("{sentence} ({})", restarted(first.restarts)),
            _ => sentence,
        })
    });
    f.write_str(&sentences.collect::<Vec<_>>().join("; "))
}

/// Returns the remedy for a pod whose containers run and are not ready.
pub(super) fn unready_remedy(containers: &[UnreadyContainer], namespace: &str, pod: &str) -> Remedy {
    let describe = Step::kubectl_in(namespace, ["describe", "pod", pod]);
    let logs = containers.iter().take(LOGS).flat_map(|container| {
        let before = container.has_run_before.then(|| previous_logs(namespace, pod, &container.name));
        std::iter::once(logs(namespace, pod, &container.name)).chain(before)
    });
    let with = |probe: Option<Probe>| containers.iter().find(|one| one.probe == probe);
    let remedy = if let Some(one) = with(Some(Probe::Startup)) {
        let container = called(one.kind, &one.name);
        Remedy::ask(
            PodOwner,
            format!("Look at why {container} does not come up, or give its startup probe more time"),
        )
    } else if let Some(one) = with(Some(Probe::Readiness)) {
        let container = called(one.kind, &one.name);
        Remedy::ask(PodOwner, format!("Look at the readiness probe of {container}"))
    } else {
        Remedy::ask(ClusterAdministrator, "Look at the kubelet of the pod's node, which reports readiness")
    };
    remedy.shown_by(std::iter::once(describe).chain(logs))
}
