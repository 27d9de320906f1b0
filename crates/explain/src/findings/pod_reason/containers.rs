//! Messages and remedies for pods whose containers do not run or are not ready, and for pods that
//! have ended.

use std::fmt;

use super::text::reported;
use super::{FailedContainer, UndeclaredPort, UnreadyContainer};
use crate::facts::details::{ContainerKind, Ended, Probe};
use crate::facts::remedy::Person::{ClusterAdministrator, PodOwner};
use crate::facts::remedy::{Remedy, Step};

/// The maximum number of containers whose logs a remedy shows.
const LOGS: usize = 3;

/// Returns how a sentence calls a container.
pub(in crate::findings) fn called(kind: ContainerKind, name: &str) -> String {
    match kind {
        ContainerKind::Main => format!("container {name}"),
        ContainerKind::Init => format!("init container {name}"),
        ContainerKind::Sidecar => format!("sidecar {name}"),
    }
}

fn restarted((least, most): (u32, u32)) -> String {
    match (least, most) {
        (1, 1) => "restarted once".to_owned(),
        (least, most) if least == most => format!("restarted {most} times"),
        (least, most) => format!("restarted {least} to {most} times"),
    }
}

/// The reasons of a container that was not started. It never ran, so it has no log.
const NOT_STARTED: [&str; 6] = [
    "CreateContainerError",
    "RunContainerError",
    "StartError",
    "ContainerCannotRun",
    "PreCreateHookError",
    "PreStartHookError",
];

/// The age in seconds from which on an init container probably waits for what does not come.
const LONG: i64 = 600;

/// Says what to do about an init container that runs, started some seconds ago.
pub(in crate::findings) fn init_sentence(container: &str, seconds: Option<i64>) -> String {
    match seconds {
        Some(seconds) if seconds >= LONG => format!(
            "Look at what init container {container} waits for: it has run for {}",
            crate::facts::age::seconds(seconds)
        ),
        _ => format!("Wait for init container {container}, or look at what it waits for"),
    }
}

/// Returns true if a container was told to stop, and then perhaps killed. The kubelet does so when
/// a liveness or startup probe fails.
fn was_stopped(end: &Ended) -> bool {
    matches!(end.exit_code, 137 | 143) && *end.reason != *"OOMKilled"
}

impl fmt::Display for FailedContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", called(self.kind, &self.name), self.end)
    }
}

/// Prints the end of a pod.
pub(in crate::findings) fn finished(
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
pub(in crate::findings) struct Stopped<'a> {
    pub(in crate::findings) name: &'a str,
    pub(in crate::findings) kind: ContainerKind,
    pub(in crate::findings) why: &'a str,
    pub(in crate::findings) message: &'a str,
    pub(in crate::findings) exit_code: Option<i32>,
    /// The least and the greatest number of restarts of several pods.
    pub(in crate::findings) restarts: (u32, u32),
    pub(in crate::findings) last: Option<&'a Ended>,
    /// True if the kubelet ends it when its liveness or startup probe fails.
    pub(in crate::findings) has_liveness_probe: bool,
    pub(in crate::findings) has_post_start_hook: bool,
}

impl fmt::Display for Stopped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = called(self.kind, self.name);
        let not_started = self.not_started();
        match not_started {
            Some(last) => {
                write!(f, "{container} cannot be started")?;
                reported(f, &last.reason, &last.message)?;
            }
            None => {
                write!(f, "{container} does not run")?;
                reported(f, self.why, self.told())?;
            }
        }
        let mut more = Vec::new();
        more.extend(self.exit_code.map(|code| format!("exit code {code}")));
        if self.restarts.1 > 0 {
            more.push(restarted(self.restarts));
        }
        let last = self.last.filter(|_| not_started.is_none());
        more.extend(last.map(|last| format!("its last run ended with {last}")));
        if more.is_empty() { Ok(()) } else { write!(f, " ({})", more.join("; ")) }
    }
}

impl<'a> Stopped<'a> {
    /// Returns the remedy for the pod of a namespace.
    pub(in crate::findings) fn remedy(&self, namespace: &str, pod: &str) -> Remedy {
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
            "PostStartHookError" => {
                return never_ran(format!("Correct the postStart hook of {container}, which fails"));
            }
            why if NOT_STARTED.contains(&why) || self.not_started().is_some() => {
                return never_ran(format!(
                    "Correct the command, the image, the volumes or the security settings of {container}"
                ));
            }
            _ => {}
        }
        let is_out_of_memory = |why: &str| why == "OOMKilled";
        if is_out_of_memory(self.why) || self.last.is_some_and(|last| is_out_of_memory(&last.reason)) {
            let sentence = format!("Raise the memory limit of {container}, or let it use less");
            return Remedy::ask(PodOwner, sentence).shown_by(self.logs(namespace, pod));
        }
        if self.has_liveness_probe && self.last.is_some_and(was_stopped) {
            let code = self.last.map(|last| last.exit_code).unwrap_or_default();
            let sentence = format!(
                "Look at the pod's events: exit code {code} tells that {container} was stopped from outside, often because its liveness probe fails; a startupProbe gives it time to come up"
            );
            let shows = std::iter::once(describe).chain(self.logs(namespace, pod));
            return Remedy::ask(PodOwner, sentence).shown_by(shows);
        }
        let hook = match self.has_post_start_hook {
            true => "; or its postStart hook does not return, and the kubelet reports nothing until then",
            false => "",
        };
        match self.logs(namespace, pod) {
            Some(logs) => Remedy::ask(PodOwner, format!("Look at why {container} ends")).shown_by([logs]),
            None => never_ran(format!(
                "Look at the pod's events: an image, a volume or the network may keep {container} from starting{hook}"
            )),
        }
    }

    /// Returns the end of its last run, if it has never been started.
    fn not_started(&self) -> Option<&Ended> {
        self.last.filter(|last| NOT_STARTED.contains(&&*last.reason))
    }

    /// Returns the message of the state. That of a back-off names the container and the pod again.
    pub(in crate::findings) fn told(&self) -> &'a str {
        self.message.split(" restarting failed container").next().unwrap_or_default()
    }

    /// Returns the command that prints the log of the run that ended, if there was one.
    fn logs(&self, namespace: &str, pod: &str) -> Option<Step> {
        if self.exit_code.is_some() {
            return Some(logs(namespace, pod, self.name));
        }
        let has_run = self.restarts.1 > 0 || self.last.is_some();
        has_run.then(|| previous_logs(namespace, pod, self.name))
    }
}

pub(in crate::findings) fn logs(namespace: &str, pod: &str, container: &str) -> Step {
    Step::kubectl_in(namespace, ["logs", pod, "-c", container])
}

fn previous_logs(namespace: &str, pod: &str, container: &str) -> Step {
    Step::kubectl_in(namespace, ["logs", "--previous", pod, "-c", container])
}

/// The probes, in the order in which the kubelet runs them.
const PROBES: [Option<Probe>; 3] = [Some(Probe::Startup), Some(Probe::Readiness), None];

/// Prints why containers that run are not ready.
pub(in crate::findings) fn unready(
    f: &mut fmt::Formatter<'_>,
    containers: &[UnreadyContainer],
) -> fmt::Result {
    if containers.is_empty() {
        return f.write_str("not all containers are ready");
    }
    let groups = PROBES.iter().flat_map(|probe| [(probe, true), (probe, false)]);
    let sentences = groups.filter_map(|(probe, waits)| {
        let is_of = |one: &&UnreadyContainer| {
            one.probe == *probe && one.first_probe_in_seconds.is_some() == waits
        };
        let of: Vec<&UnreadyContainer> = containers.iter().filter(is_of).collect();
        let first = of.first()?;
        let names: Vec<&str> = of.iter().map(|one| &*one.name).collect();
        let (who, run, are, their, have, fail) = match of.len() {
            1 => (called(first.kind, &first.name), "runs", "is", "its", "has", "fails"),
            _ => (format!("containers {}", names.join(", ")), "run", "are", "their", "have", "fail"),
        };
        let probes = if of.len() == 1 { "probe" } else { "probes" };
        let sentence = match probe {
            Some(probe) if waits => {
                let kind = match probe {
                    Probe::Startup => "startup",
                    Probe::Readiness => "readiness",
                };
                let most = |of: &mut dyn Iterator<Item = i64>| of.max().unwrap_or_default();
                let delay = most(&mut of.iter().filter_map(|one| one.initial_delay_seconds).map(i64::from));
                let left = most(&mut of.iter().filter_map(|one| one.first_probe_in_seconds));
                let left = crate::facts::age::seconds(left);
                format!("{who} {run}, and the kubelet has not asked {their} {kind} {probes} yet: initialDelaySeconds is {delay}, and at most {left} are left")
            }
            Some(Probe::Startup) => {
                format!("{who} {run} but {have} not started: {their} startup {probes} {have} not succeeded yet")
            }
            Some(Probe::Readiness) => {
                format!("{who} {run} but {are} not ready: {their} readiness {probes} {fail}")
            }
            None => {
                let them = if of.len() == 1 { "it" } else { "them" };
                format!("{who} {run} and {are} not marked as ready, although no probe keeps {them} from that")
            }
        };
        let sentence = match &first.undeclared_port {
            Some(port) if !waits && of.len() == 1 => format!("{sentence}; {}", port.told()),
            _ => sentence,
        };
        Some(match first.restarts {
            1.. if of.len() == 1 => format!("{sentence} ({})", restarted((first.restarts, first.restarts))),
            _ => sentence,
        })
    });
    f.write_str(&sentences.collect::<Vec<_>>().join("; "))
}

impl UndeclaredPort {
    fn told(&self) -> String {
        let declared: Vec<String> = self.declared.iter().map(ToString::to_string).collect();
        format!("it asks port {}, and the containers declare {}", self.asked, declared.join(", "))
    }
}

/// Returns the remedy for a pod whose containers run and are not ready.
pub(in crate::findings) fn unready_remedy(
    containers: &[UnreadyContainer],
    namespace: &str,
    pod: &str,
) -> Remedy {
    let describe = Step::kubectl_in(namespace, ["describe", "pod", pod]);
    let logs = containers.iter().take(LOGS).flat_map(|container| {
        let before = container.has_run_before.then(|| previous_logs(namespace, pod, &container.name));
        std::iter::once(logs(namespace, pod, &container.name)).chain(before)
    });
    let failing = || containers.iter().filter(|one| one.first_probe_in_seconds.is_none());
    let with = |probe: Option<Probe>| failing().find(|one| one.probe == probe);
    let remedy = if let Some(one) = with(Some(Probe::Startup)) {
        let container = called(one.kind, &one.name);
        Remedy::ask(
            PodOwner,
            format!("Look at why {container} does not come up, or give its startup probe more time"),
        )
    } else if let Some(one) = with(Some(Probe::Readiness)) {
        let container = called(one.kind, &one.name);
        let sentence = match (&one.undeclared_port, &one.last) {
            (Some(port), _) => format!(
                "Let the readiness probe of {container} ask a port on which the container listens, in place of {}",
                port.asked
            ),
            (None, Some(last)) if one.has_liveness_probe && was_stopped(last) => format!(
                "Look at the probes of {container}: its liveness probe may have ended its last run (exit code {})",
                last.exit_code
            ),
            _ => format!("Look at the readiness probe of {container}"),
        };
        Remedy::ask(PodOwner, sentence)
    } else if failing().next().is_none() && !containers.is_empty() {
        let sentence = "Wait, or lower initialDelaySeconds: a startupProbe waits no longer than it has to";
        return Remedy::ask(PodOwner, sentence).shown_by([describe]);
    } else {
        Remedy::ask(ClusterAdministrator, "Look at the kubelet of the pod's node, which reports readiness")
    };
    remedy.shown_by(std::iter::once(describe).chain(logs))
}
