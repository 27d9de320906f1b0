//! A container of the pod runs but is not ready.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use serde::Serialize;

use crate::facts::details::write_optional_time;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::{PodFinding, UnreadyContainer, containers, unready};

about! {
    /// The condition ContainersReady is false, and the container runs. The message names the
    /// container and the probe that has not succeeded: the startup probe until it has succeeded
    /// once, then the readiness probe. A sidecar is an init container that keeps running; the
    /// containers after it wait for its startup probe.
    ///
    /// If `initialDelaySeconds` is not over, the probe has not run, and the severity is warning
    /// even if no pod receives traffic. The message names the port that the probe asks if no
    /// container of the pod declares it. If the Service is headless and names its pods, and none of
    /// them is ready, they may wait for one another: the advice names `publishNotReadyAddresses`.
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

impl PodFinding for ContainerNotReady {
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        containers::unready_remedy(&self.containers, &service.namespace, pod)
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn group(&self) -> Option<String> {
        let one = |container: &UnreadyContainer| {
            let waits = container.first_probe_in_seconds.is_some();
            (container.name.clone(), container.probe, waits, container.undeclared_port.clone())
        };
        Some(format!("{:?}", self.containers.iter().map(one).collect::<Vec<_>>()))
    }

    fn passes(&self) -> bool {
        let waits = |one: &UnreadyContainer| one.first_probe_in_seconds.is_some();
        !self.containers.is_empty() && self.containers.iter().all(waits)
    }

    fn peers_wait(&self) -> bool {
        self.peers
    }
}

impl fmt::Display for ContainerNotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        unready(f, &self.containers)
    }
}
