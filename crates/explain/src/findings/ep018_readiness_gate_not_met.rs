//! A readiness gate of the pod is not met.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::facts::details::write_optional_time;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::{PodFinding, describe, gates, reported};

about! {
    /// A pod with readiness gates is ready only if the condition of each gate is true. A controller
    /// outside the kubelet sets these conditions. The message has the reason and the message of the
    /// condition. For well-known gates, such as that of the AWS Load Balancer Controller, the
    /// advice names where to look.
    EP018 "readiness-gate-not-met" Warning
    "A readiness gate of the pod is not met."
}

/// A readiness gate whose condition is not true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessGateNotMet {
    /// Type of the condition that the gate asks for.
    pub gate: Text,
    /// Status of that condition, or `None` if the pod has no such condition.
    pub status: Option<Text>,
    /// The condition's reason, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub why: Text,
    /// The condition's message, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Text,
    /// Time of the last change of the condition.
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
}

impl PodFinding for ReadinessGateNotMet {
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        gates::remedy(&self.gate, self.status.is_some(), service, describe(service, pod))
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn group(&self) -> Option<String> {
        Some(format!("{} {:?} {}", self.gate, self.status, self.why))
    }
}

impl fmt::Display for ReadinessGateNotMet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gate, status, why, message, .. } = self;
        let Some(status) = status else {
            return write!(f, "readiness gate {gate} has no condition: nobody has reported on it");
        };
        write!(f, "readiness gate {gate} is {status}")?;
        reported(f, why, message)
    }
}
