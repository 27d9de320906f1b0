//! A container of the pod does not run.

use crate::facts::age;
use crate::facts::details::{ContainerKind, ContainerState, Ended, RunState, write_optional_time};
use crate::facts::raw::PodOwner as Owner;
use crate::findings::pod::{Cause, Publication, called, restarted, was_stopped};
use crate::findings::pod_reason::{common, images, reported, shortened, such_as};
use crate::findings::prelude::*;

about! {
    /// A container waits, has ended, or ends again and again: the kubelet cannot pull its image,
    /// its command fails, or it uses more memory than it may. The message names the container that
    /// is the cause, not one that waits for it: an init container that fails or has not ended comes
    /// first. It has the reason, the exit code and how the previous run ended. The command shows
    /// the log of the previous run only if there was one. A container that cannot be started
    /// (`StartError`) never ran: the message is that of its runtime. Exit codes 137 and 143, and 0
    /// of a program that handles signals, tell that it was stopped from outside, often because its
    /// liveness probe failed; the message has the words of the probe if the events of the pod are
    /// known. About several pods, the message has only what they have in common.
    ///
    /// A container that runs between two crashes has this finding, too, until it has run for ten
    /// minutes. If the pod is ready, it receives traffic, and the first restart is only
    /// information.
    EP020 "container-not-running" Warning
    "A container of the pod does not run, or ends again and again."
}

/// A container that does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerNotRunning {
    pub container: Text,
    pub kind: ContainerKind,
    /// Reason of its state, such as `CrashLoopBackOff`.
    pub why: Text,
    /// Message of its state, or empty.
    pub message: Text,
    /// The exit code, if the container has ended and waits for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The number of restarts.
    pub restarts: u32,
    /// The end of its previous run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Ended>,
    /// True if the kubelet ends it when its liveness or startup probe fails.
    #[serde(skip)]
    pub has_liveness_probe: bool,
    #[serde(skip)]
    pub has_post_start_hook: bool,
    /// True if it runs, and has ended before not long ago.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub runs_again: bool,
    /// True if the pod is ready.
    #[serde(skip)]
    pub is_ready: bool,
    /// The words of the kubelet about its liveness probe, which fails, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub liveness_probe_says: Text,
    /// The words of the kubelet about its image, which it cannot pull, or empty.
    #[serde(skip)]
    pub image_says: Text,
    #[serde(skip)]
    pub owner: Owner,
}

/// An init container that has not ended, so the containers after it do not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitContainerRuns {
    pub container: Text,
    /// The seconds since its start, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
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

impl PodFinding for ContainerNotRunning {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        match pod.cause()? {
            Cause::NotRunning(container) => Some(Self::of(pod, container)),
            _ => None,
        }
    }

    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        let container = called(first.kind, &first.container);
        let not_started = first.not_started();
        let last = first.last.as_ref().filter(|_| not_started.is_none() && first.exit_code.is_none());
        let last = last.map(|last| {
            let words = such_as(all, |one| one.last.as_ref().map_or("", |last| &last.message));
            format!("its last run ended with {last}{}", reported("", &words))
        });
        let restarts = || all.iter().map(|one| one.restarts);
        let (least, most) = restarts().min().zip(restarts().max()).unwrap_or_default();
        let mut more = Vec::new();
        more.extend(first.exit_code.map(|code| format!("exit code {code}")));
        more.extend((most > 0).then(|| restarted(least, most)));
        let mut message = match (not_started, last) {
            (Some(last), _) => {
                format!("{container} cannot be started{}", reported(&last.reason, &shortened(&last.message)))
            }
            (None, Some(last)) if first.runs_again && most == 1 => format!("{container} runs again; {last}"),
            (None, Some(last)) if first.runs_again => format!("{container} ends again and again: {last}"),
            (None, last) => {
                more.extend(last);
                format!("{container} does not run{}", reported(&first.why, &Self::told(all)))
            }
        };
        if !more.is_empty() {
            message += &format!(" ({})", more.join("; "));
        }
        let probe = such_as(all, |one| &one.liveness_probe_says);
        let is_stopped = !probe.is_empty() && first.was_stopped().is_some();
        if is_stopped { format!("{message}; its liveness probe fails: {probe}") } else { message }
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        pod.container_named(&self.container)
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        let [first, ..] = all else { return Remedy::default() };
        let never_ran = |mut sentence: String| {
            // It replaces pods one by one, and each has to be ready before the next.
            if first.owner == Owner::StatefulSet {
                sentence += "; after a change of the template, delete the pod, because its StatefulSet waits until it is ready";
            }
            Remedy::ask(PodOwner, sentence).shown_by([pods.describe()])
        };
        first.advice_before_its_start(&Self::told(all)).map_or_else(|| first.remedy_of_a_run(pods), never_ran)
    }

    /// A pod that is ready, and whose container was restarted once, may have had bad luck.
    fn severity(&self) -> Option<Severity> {
        (self.is_ready && self.restarts == 1).then_some(Severity::Info)
    }

    fn group(&self) -> Option<String> {
        let last = self.last.as_ref().map(|last| (&last.reason, last.exit_code));
        let state = (self.is_ready, self.runs_again && self.restarts > 1);
        Some(format!("{} {} {:?} {last:?} {state:?}", self.container, self.why, self.exit_code))
    }

    fn receives_traffic(&self) -> bool {
        self.is_ready
    }

    fn keeps_from_answering(&self) -> bool {
        !self.is_ready
    }
}

impl ContainerNotRunning {
    /// Returns the reason of a pod that is ready, and whose container ends again and again.
    pub(super) fn of_ready_pod(pod: &Judged<'_>) -> Option<Self> {
        let is_ready = pod.publication() == Publication::Ready && pod.is_serving();
        pod.unsteady().filter(|_| is_ready).map(|container| Self { is_ready, ..Self::of(pod, container) })
    }

    fn of(pod: &Judged<'_>, container: &ContainerState) -> Self {
        let (why, message, exit_code) = match &container.state {
            RunState::Running { .. } => Default::default(),
            RunState::Waiting { reason, message } => (reason.clone(), message.clone(), None),
            RunState::Ended(end) => (end.reason.clone(), end.message.clone(), Some(end.exit_code)),
        };
        let pull = pod.last_warning().filter(|event| event.message.starts_with("Failed to pull image"));
        Self {
            container: container.name.clone(),
            kind: container.kind,
            why,
            message,
            exit_code,
            restarts: container.restarts,
            last: container.last.clone(),
            has_liveness_probe: container.has_liveness_probe || container.startup_probe.is_some(),
            has_post_start_hook: container.has_post_start_hook,
            runs_again: matches!(container.state, RunState::Running { .. }),
            is_ready: false,
            liveness_probe_says: pod.probe_says("Liveness probe", &container.name),
            image_says: pull.map(|event| event.message.clone()).unwrap_or_default(),
            owner: pod.owner,
        }
    }

    /// Returns what to do about a container that has not run: its image, what it refers to, or its
    /// command. `told` is what the kubelet says.
    fn advice_before_its_start(&self, told: &str) -> Option<String> {
        let container = called(self.kind, &self.container);
        match &*self.why {
            "CreateContainerConfigError" => Some(format!(
                "Correct what {container} refers to: a ConfigMap, a Secret, or a key of one, or its user"
            )),
            "PostStartHookError" => Some(format!("Correct the postStart hook of {container}, which fails")),
            why if NOT_STARTED.contains(&why) || self.not_started().is_some() => Some(format!(
                "Correct the command, the image, the volumes or the security settings of {container}"
            )),
            why => images::advice(why, told, &container),
        }
    }

    /// Returns what to do about a container that has run, or may have.
    fn remedy_of_a_run(&self, pods: &PodsOf<'_>) -> Remedy {
        let container = called(self.kind, &self.container);
        let is_out_of_memory = |why: &str| why == "OOMKilled";
        if is_out_of_memory(&self.why)
            || self.last.as_ref().is_some_and(|last| is_out_of_memory(&last.reason))
        {
            let sentence = format!("Raise the memory limit of {container}, or let it use less");
            return Remedy::ask(PodOwner, sentence).shown_by(self.logs(pods));
        }
        if let Some(code) = self.was_stopped().filter(|_| self.has_liveness_probe) {
            let sentence = match (self.liveness_probe_says.is_empty(), code) {
                (false, _) => format!(
                    "Look at the liveness probe of {container}: the kubelet restarts it because the probe fails; a startupProbe gives it time to come up"
                ),
                (true, 0) => format!(
                    "Look at the pod's events: a liveness probe that fails stops {container}, which may then end with exit code 0; else look at why it ends"
                ),
                (true, _) => format!(
                    "Look at the pod's events: exit code {code} tells that {container} was stopped from outside, often because its liveness probe fails; a startupProbe gives it time to come up"
                ),
            };
            let shows = std::iter::once(pods.describe()).chain(self.logs(pods));
            return Remedy::ask(PodOwner, sentence).shown_by(shows);
        }
        let hook = match self.has_post_start_hook {
            true => "; or its postStart hook does not return, and the kubelet reports nothing until then",
            false => "",
        };
        match self.logs(pods) {
            Some(logs) => Remedy::ask(PodOwner, format!("Look at why {container} ends")).shown_by([logs]),
            None => {
                let sentence = format!(
                    "Look at the pod's events: an image, a volume or the network may keep {container} from starting{hook}"
                );
                Remedy::ask(PodOwner, sentence).shown_by([pods.describe()])
            }
        }
    }

    /// Returns the exit code of its last end, if the kubelet may have stopped it.
    fn was_stopped(&self) -> Option<i32> {
        let end = match (self.exit_code, &self.last) {
            (Some(exit_code), _) => Ended { reason: self.why.clone(), exit_code, ..Ended::default() },
            (None, last) => last.clone()?,
        };
        was_stopped(&end).then_some(end.exit_code)
    }

    /// Returns the end of its last run, if it has never been started.
    fn not_started(&self) -> Option<&Ended> {
        self.last.as_ref().filter(|last| NOT_STARTED.contains(&&*last.reason))
    }

    /// Returns what the kubelet says about the state. A back-off names the container and the pod
    /// again, and in old versions does not say why an image cannot be pulled.
    fn told(all: &[&Self]) -> String {
        let says_why = |one: &Self| one.message.contains("Pull: ") || !one.message.starts_with("Back-off");
        match all {
            [first, ..] if *first.why == *"CrashLoopBackOff" => common(all, |one| {
                one.message.split(" restarting failed container").next().unwrap_or_default()
            })
            .to_owned(),
            [first, ..] if !says_why(first) && !first.image_says.is_empty() => {
                such_as(all, |one| &one.image_says)
            }
            _ => such_as(all, |one| &one.message),
        }
    }

    /// Returns the command that prints the log of the run that ended, if there was one.
    fn logs(&self, pods: &PodsOf<'_>) -> Option<Step> {
        if self.exit_code.is_some() {
            return Some(pods.logs(&self.container));
        }
        let has_run = self.restarts > 0 || self.last.is_some();
        has_run.then(|| pods.previous_logs(&self.container))
    }
}

/// The age in seconds from which on an init container probably waits for what does not come.
const LONG: i64 = 600;

/// Says what to do about an init container that runs, started some seconds ago.
fn init_sentence(container: &str, seconds: Option<i64>) -> String {
    match seconds {
        Some(seconds) if seconds >= LONG => format!(
            "Look at what init container {container} waits for: it has run for {}",
            age::seconds(seconds)
        ),
        _ => format!("Wait for init container {container}, or look at what it waits for"),
    }
}

impl PodFinding for InitContainerRuns {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let Cause::InitRuns { container, since } = pod.cause()? else { return None };
        Some(Self {
            container: container.name.clone(),
            since,
            seconds: since.map(|since| age::since(since, pod.now)),
        })
    }

    fn message(all: &[&Self]) -> String {
        let [Self { container, .. }, ..] = all else { return String::new() };
        let container = called(ContainerKind::Init, container);
        format!("{container} has not ended, and the containers after it wait for that")
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        pod.container_named(&self.container)
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        let [Self { container, seconds, .. }, ..] = all else { return Remedy::default() };
        Remedy::ask(PodOwner, init_sentence(container, *seconds)).shown_by([pods.logs(container)])
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn group(&self) -> Option<String> {
        Some(self.container.to_string())
    }

    fn keeps_from_answering(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::findings::testing::*;

    fn pod(init: Value, main: Value) -> Value {
        let mut pod = with_conditions(&[("Ready", "False"), ("ContainersReady", "False")]);
        pod["spec"]["initContainers"] = json!([{"name": "migrate"}]);
        pod["status"]["initContainerStatuses"] = json!([{"name": "migrate", "state": init}]);
        pod["status"]["containerStatuses"] = json!([{"name": "app", "state": main}]);
        pod
    }

    #[test]
    fn a_container_waits_for_an_init_container_that_has_not_ended() {
        let (runs, waits) = (json!({"running": {}}), json!({"waiting": {"reason": "PodInitializing"}}));
        let ended = json!({"terminated": {"exitCode": 0}});
        assert_eq!(code_of(pod(runs.clone(), waits)), Code::ContainerNotRunning);
        assert_eq!(code_of(pod(ended, runs)), Code::ContainerNotReady);
    }
}
