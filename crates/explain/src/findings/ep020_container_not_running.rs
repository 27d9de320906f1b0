//! A container of the pod does not run.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::facts::details::{ContainerKind, Ended, write_optional_time};
use crate::facts::remedy::Person::PodOwner;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::{PodFinding, Stopped, called, containers};

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

impl PodFinding for ContainerNotRunning {
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        self.stopped().remedy(&service.namespace, pod)
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
    pub(super) fn stopped(&self) -> Stopped<'_> {
        Stopped {
            name: &self.container,
            kind: self.kind,
            why: &self.why,
            message: &self.message,
            exit_code: self.exit_code,
            restarts: (self.restarts, self.restarts),
            last: self.last.as_ref(),
            has_liveness_probe: self.has_liveness_probe,
            has_post_start_hook: self.has_post_start_hook,
        }
    }
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

impl PodFinding for InitContainerRuns {
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        Remedy::ask(PodOwner, containers::init_sentence(&self.container, self.seconds))
            .shown_by([containers::logs(&service.namespace, pod, &self.container)])
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

impl fmt::Display for ContainerNotRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stopped().fmt(f)
    }
}

impl fmt::Display for InitContainerRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = called(ContainerKind::Init, &self.container);
        write!(f, "{container} has not ended, and the containers after it wait for that")
    }
}
