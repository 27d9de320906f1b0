//! A container of the pod does not run.

use kube_endpoint_core_model::{Text, Timestamp};
use serde::Serialize;

use crate::facts::age;
use crate::facts::details::{ContainerKind, Ended, RunState, write_optional_time};
use crate::facts::remedy::Person::PodOwner;
use crate::facts::remedy::{Remedy, Step};
use crate::findings::pod::{Cause, Judged, called, restarted, was_stopped};
use crate::findings::pod_reason::{PodFinding, PodsOf, common, reported};

about! {
    /// A container waits or has ended: the kubelet cannot pull its image, its command fails, or it
    /// uses more memory than it may. The message names the container that is the cause, not one
    /// that waits for it: an init container that fails or has not ended comes first. It has the
    /// reason, the exit code and how the previous run ended. The command shows the log of the
    /// previous run only if there was one. A container that cannot be started (`StartError`) never
    /// ran: the message is that of its runtime. Exit codes 137 and 143 tell that it was stopped
    /// from outside, often because its liveness probe failed. About several pods, the message has
    /// only what they have in common.
    EP020 "container-not-running" Warning
    "A container of the pod does not run."
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
        let Cause::NotRunning(container) = pod.cause()? else { return None };
        let (why, message, exit_code) = match &container.state {
            RunState::Running { .. } => return None,
            RunState::Waiting { reason, message } => (reason, message, None),
            RunState::Ended(end) => (&end.reason, &end.message, Some(end.exit_code)),
        };
        Some(Self {
            container: container.name.clone(),
            kind: container.kind,
            why: why.clone(),
            message: message.clone(),
            exit_code,
            restarts: container.restarts,
            last: container.last.clone(),
            has_liveness_probe: container.has_liveness_probe || container.startup_probe.is_some(),
            has_post_start_hook: container.has_post_start_hook,
        })
    }

    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        let container = called(first.kind, &first.container);
        let not_started = first.not_started();
        let mut message = match not_started {
            Some(last) => {
                format!("{container} cannot be started{}", reported(&last.reason, &last.message))
            }
            None => {
                let told = common(all, Self::told);
                format!("{container} does not run{}", reported(&first.why, told))
            }
        };
        let mut more = Vec::new();
        more.extend(first.exit_code.map(|code| format!("exit code {code}")));
        let restarts = || all.iter().map(|one| one.restarts);
        if let (Some(least), Some(most @ 1..)) = (restarts().min(), restarts().max()) {
            more.push(restarted(least, most));
        }
        let last = first.last.as_ref().filter(|_| not_started.is_none());
        more.extend(last.map(|last| format!("its last run ended with {last}")));
        if !more.is_empty() {
            message += &format!(" ({})", more.join("; "));
        }
        message
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        all.first().map(|first| first.remedy_of_one(pods)).unwrap_or_default()
    }

    fn group(&self) -> Option<String> {
        let last = self.last.as_ref().map(|last| (&last.reason, last.exit_code));
        Some(format!("{} {} {:?} {last:?}", self.container, self.why, self.exit_code))
    }

    fn keeps_from_answering(&self) -> bool {
        true
    }
}

impl ContainerNotRunning {
    fn remedy_of_one(&self, pods: &PodsOf<'_>) -> Remedy {
        let container = called(self.kind, &self.container);
        let never_ran = |sentence: String| Remedy::ask(PodOwner, sentence).shown_by([pods.describe()]);
        match &*self.why {
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
        if is_out_of_memory(&self.why)
            || self.last.as_ref().is_some_and(|last| is_out_of_memory(&last.reason))
        {
            let sentence = format!("Raise the memory limit of {container}, or let it use less");
            return Remedy::ask(PodOwner, sentence).shown_by(self.logs(pods));
        }
        if self.has_liveness_probe && self.last.as_ref().is_some_and(was_stopped) {
            let code = self.last.as_ref().map(|last| last.exit_code).unwrap_or_default();
            let sentence = format!(
                "Look at the pod's events: exit code {code} tells that {container} was stopped from outside, often because its liveness probe fails; a startupProbe gives it time to come up"
            );
            let shows = std::iter::once(pods.describe()).chain(self.logs(pods));
            return Remedy::ask(PodOwner, sentence).shown_by(shows);
        }
        let hook = match self.has_post_start_hook {
            true => "; or its postStart hook does not return, and the kubelet reports nothing until then",
            false => "",
        };
        match self.logs(pods) {
            Some(logs) => Remedy::ask(PodOwner, format!("Look at why {container} ends")).shown_by([logs]),
            None => never_ran(format!(
                "Look at the pod's events: an image, a volume or the network may keep {container} from starting{hook}"
            )),
        }
    }

    /// Returns the end of its last run, if it has never been started.
    fn not_started(&self) -> Option<&Ended> {
        self.last.as_ref().filter(|last| NOT_STARTED.contains(&&*last.reason))
    }

    /// Returns the message of the state. That of a back-off names the container and the pod again.
    fn told(&self) -> &str {
        self.message.split(" restarting failed container").next().unwrap_or_default()
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
    use serde_json::{Value, json};

    use crate::findings::Code;
    use crate::findings::testing::{code_of, with_conditions};

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
