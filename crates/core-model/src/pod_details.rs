//! The fields of a pod that tell why it is not ready. Explanations read them, controllers do not.
//!
//! All of them exist in each version of Kubernetes that has EndpointSlices, except for those that
//! say since when; an older kubelet leaves them out.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};

use crate::meta::or_default;
use crate::service::TargetPort;
use crate::{Intern, Interner, Text, Timestamp, text, time};

/// The most bytes of a message that the details keep. A container may end with a message of 4 KiB,
/// and in an outage many pods have one.
const MESSAGE: usize = 1024;

/// Conditions and containers of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodDetails {
    pub conditions: Vec<PodCondition>,
    /// The condition types of `spec.readinessGates`.
    pub readiness_gates: Vec<Text>,
    /// `spec.schedulingGates`, since 1.27: the scheduler ignores the pod as long as it has one.
    pub scheduling_gates: Vec<Text>,
    /// `spec.nodeSelector`, as `key=value`.
    pub node_selector: Vec<Text>,
    /// `spec.schedulerName`, or empty.
    pub scheduler_name: Text,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Text>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `status.reason`, such as `Evicted`, or empty.
    pub reason: Text,
    /// `status.message`, or empty.
    pub message: Text,
    /// The containers with a status: the init containers in the order in which they start, then
    /// the others.
    pub containers: Vec<ContainerState>,
}

impl PodDetails {
    /// Returns the condition of a type.
    pub fn condition(&self, condition_type: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| *condition.condition_type == *condition_type)
    }
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    #[serde(rename = "type", deserialize_with = "text::or_empty")]
    pub condition_type: Text,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "text::or_empty")]
    pub status: Text,
    /// Machine-readable reason, or empty.
    #[serde(deserialize_with = "text::or_empty")]
    pub reason: Text,
    /// Message for people, or empty.
    #[serde(deserialize_with = "text::or_empty")]
    pub message: Text,
    /// Time of the last change of the status.
    #[serde(deserialize_with = "time::lenient")]
    pub last_transition_time: Option<Timestamp>,
}

/// The kinds of containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContainerKind {
    /// It has to end with success before the next container starts.
    Init,
    /// An init container that runs as long as the pod (`restartPolicy: Always`, since 1.29). It has
    /// to start before the next container starts.
    Sidecar,
    #[default]
    Main,
}

/// The kinds of probes that make a container ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// No other probe runs until it has succeeded once.
    Startup,
    Readiness,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerState {
    pub name: Text,
    pub kind: ContainerKind,
    /// True if it is ready. An init container is ready once it has ended with success.
    pub ready: bool,
    /// False while the startup probe has not succeeded. `None` if the kubelet does not say.
    pub started: Option<bool>,
    /// The number of restarts.
    pub restarts: u32,
    pub state: RunState,
    /// The end of its previous run, or `None` if it has run at most once.
    pub last: Option<Ended>,
    pub startup_probe: Option<ProbeSpec>,
    pub readiness_probe: Option<ProbeSpec>,
    pub has_liveness_probe: bool,
    /// True if it has a `postStart` hook: the kubelet reports nothing more about the pod until the
    /// hook returns.
    pub has_post_start_hook: bool,
}

/// A probe that makes a container ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeSpec {
    /// Seconds from the start of the container until the kubelet asks for the first time.
    pub initial_delay_seconds: i32,
    /// Seconds for which the probe may fail until the kubelet acts: its period as often as its
    /// failure threshold says.
    pub tries_seconds: i32,
    /// The port of the pod that it asks, or `None` if it asks no port, or one of another host.
    pub port: Option<TargetPort>,
}

impl ContainerState {
    /// Returns the probe that has not succeeded, if the container runs and is not ready.
    pub fn failing_probe(&self) -> Option<Probe> {
        match (self.started, self.startup_probe.is_some(), self.readiness_probe.is_some()) {
            (Some(false), true, _) | (None, true, false) => Some(Probe::Startup),
            (Some(false), false, _) => None,
            (_, _, true) => Some(Probe::Readiness),
            (_, _, false) => None,
        }
    }

    /// Returns the description of a probe, if the container has it.
    pub fn probe(&self, probe: Probe) -> Option<&ProbeSpec> {
        match probe {
            Probe::Startup => self.startup_probe.as_ref(),
            Probe::Readiness => self.readiness_probe.as_ref(),
        }
    }

    /// Returns true if it has run before the present run, so that its previous log exists.
    pub fn has_run_before(&self) -> bool {
        self.restarts > 0 || self.last.is_some()
    }
}

/// The present activity of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    Waiting {
        /// Machine-readable reason, such as `CrashLoopBackOff`, or empty.
        reason: Text,
        /// Message for people, or empty.
        message: Text,
    },
    Running {
        since: Option<Timestamp>,
    },
    Ended(Ended),
}

/// The end of a run of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ended {
    /// Machine-readable reason, such as `OOMKilled`, or empty.
    #[serde(deserialize_with = "text::or_empty")]
    pub reason: Text,
    /// Message of the kubelet or of the container itself, or empty.
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "str::is_empty")]
    pub message: Text,
    #[serde(deserialize_with = "or_default")]
    pub exit_code: i32,
    #[serde(
        deserialize_with = "time::lenient",
        serialize_with = "time::write_optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub finished_at: Option<Timestamp>,
}

/// Prints as `exit code 137, OOMKilled`.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}", self.exit_code)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, ", {}", self.reason) }
    }
}

impl Intern for PodDetails {
    /// Shares all strings but the messages about one container, which name the pod.
    fn intern(&mut self, interner: &mut Interner) {
        for condition in &mut self.conditions {
            let PodCondition { condition_type, status, reason, message, last_transition_time: _ } = condition;
            [condition_type, status, reason, message].into_iter().for_each(|text| interner.text(text));
        }
        let lists = [
            &mut self.readiness_gates,
            &mut self.scheduling_gates,
            &mut self.node_selector,
            &mut self.finalizers,
        ];
        interner.text(&mut self.scheduler_name);
        lists.into_iter().flatten().for_each(|text| interner.text(text));
        interner.text(&mut self.reason);
        for container in &mut self.containers {
            interner.text(&mut container.name);
            match &mut container.state {
                RunState::Waiting { reason, .. } => interner.text(reason),
                RunState::Running { .. } => {}
                RunState::Ended(end) => interner.text(&mut end.reason),
            }
            if let Some(last) = &mut container.last {
                interner.text(&mut last.reason);
            }
            let probes = [&mut container.startup_probe, &mut container.readiness_probe];
            for probe in probes.into_iter().flatten() {
                if let Some(TargetPort::Name(name)) = &mut probe.port {
                    interner.text(name);
                }
            }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawPod {
    #[serde(deserialize_with = "or_default")]
    pub(crate) metadata: RawMetadata,
    #[serde(deserialize_with = "or_default")]
    pub(crate) spec: RawSpec,
    #[serde(deserialize_with = "or_default")]
    pub(crate) status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawMetadata {
    #[serde(deserialize_with = "or_default")]
    pub(crate) finalizers: Vec<Text>,
    #[serde(rename = "creationTimestamp", deserialize_with = "time::lenient")]
    pub(crate) created: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawSpec {
    #[serde(deserialize_with = "or_default")]
    pub(crate) readiness_gates: Vec<RawGate>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) scheduling_gates: Vec<RawSchedulingGate>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) node_selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) scheduler_name: Text,
    #[serde(deserialize_with = "or_default")]
    pub(crate) init_containers: Vec<RawContainer>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) containers: Vec<RawContainer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawGate {
    #[serde(default, deserialize_with = "text::or_empty")]
    pub(crate) condition_type: Text,
}

#[derive(Deserialize)]
pub(crate) struct RawSchedulingGate {
    #[serde(default, deserialize_with = "text::or_empty")]
    pub(crate) name: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawContainer {
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) name: Text,
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) restart_policy: Text,
    pub(crate) startup_probe: Option<RawProbe>,
    pub(crate) readiness_probe: Option<RawProbe>,
    pub(crate) liveness_probe: Option<IgnoredAny>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) lifecycle: RawLifecycle,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawLifecycle {
    pub(crate) post_start: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawProbe {
    #[serde(deserialize_with = "or_default")]
    pub(crate) initial_delay_seconds: i32,
    #[serde(deserialize_with = "or_default")]
    pub(crate) period_seconds: i32,
    #[serde(deserialize_with = "or_default")]
    pub(crate) failure_threshold: i32,
    pub(crate) http_get: Option<RawTarget>,
    pub(crate) tcp_socket: Option<RawTarget>,
    pub(crate) grpc: Option<RawTarget>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawTarget {
    /// The host to ask in place of the pod, or empty.
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) host: Text,
    pub(crate) port: Option<TargetPort>,
}

impl From<RawProbe> for ProbeSpec {
    fn from(raw: RawProbe) -> Self {
        let target = raw.http_get.or(raw.tcp_socket).or(raw.grpc).filter(|target| target.host.is_empty());
        // The API server sets these defaults.
        let or = |number, default| if number > 0 { number } else { default };
        let (period, tries) = (or(raw.period_seconds, 10), or(raw.failure_threshold, 3));
        Self {
            initial_delay_seconds: raw.initial_delay_seconds,
            tries_seconds: period.saturating_mul(tries),
            port: target.and_then(|target| target.port),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawStatus {
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) reason: Text,
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) message: Text,
    #[serde(deserialize_with = "or_default")]
    pub(crate) conditions: Vec<PodCondition>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) init_container_statuses: Vec<RawContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) container_statuses: Vec<RawContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawContainerStatus {
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) name: Text,
    #[serde(deserialize_with = "or_default")]
    pub(crate) ready: bool,
    pub(crate) started: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) restart_count: i32,
    #[serde(deserialize_with = "or_default")]
    pub(crate) state: RawState,
    #[serde(deserialize_with = "or_default")]
    pub(crate) last_state: RawState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawState {
    pub(crate) waiting: Option<RawWaiting>,
    pub(crate) running: Option<RawRunning>,
    pub(crate) terminated: Option<Ended>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawWaiting {
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) reason: Text,
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) message: Text,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawRunning {
    #[serde(deserialize_with = "time::lenient")]
    pub(crate) started_at: Option<Timestamp>,
}

impl RawContainer {
    fn is_sidecar(&self) -> bool {
        *self.restart_policy == *"Always"
    }
}

impl RawContainerStatus {
    /// Returns the state of a container. `spec` is the container, if the pod has it.
    fn with(self, spec: Option<&mut RawContainer>, kind: ContainerKind) -> ContainerState {
        let spec = spec.map(std::mem::take).unwrap_or_default();
        let RawState { waiting, running, terminated } = self.state;
        ContainerState {
            name: self.name,
            kind,
            ready: self.ready,
            started: self.started,
            restarts: u32::try_from(self.restart_count).unwrap_or_default(),
            state: match (waiting, terminated, running) {
                (Some(RawWaiting { reason, message }), ..) => RunState::Waiting { reason, message },
                (None, Some(ended), _) => RunState::Ended(ended),
                (None, None, Some(running)) => RunState::Running { since: running.started_at },
                // The API defines so.
                (None, None, None) => RunState::Waiting { reason: Text::default(), message: Text::default() },
            },
            last: self.last_state.terminated,
            startup_probe: spec.startup_probe.map(ProbeSpec::from),
            readiness_probe: spec.readiness_probe.map(ProbeSpec::from),
            has_liveness_probe: spec.liveness_probe.is_some(),
            has_post_start_hook: spec.lifecycle.post_start.is_some(),
        }
    }
}

impl<'de> Deserialize<'de> for PodDetails {
    /// Reads a pod, as the API has it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(RawPod::deserialize(deserializer)?.into())
    }
}

impl From<RawPod> for PodDetails {
    fn from(RawPod { metadata, mut spec, status }: RawPod) -> Self {
        let position = |name: &Text| spec.init_containers.iter().position(|spec| spec.name == *name);
        let mut init = status.init_container_statuses;
        init.sort_by_key(|status| position(&status.name));
        let mut containers = Vec::with_capacity(init.len() + status.container_statuses.len());
        for status in init {
            let spec = spec.init_containers.iter_mut().find(|spec| spec.name == status.name);
            let is_sidecar = spec.as_ref().is_some_and(|spec| spec.is_sidecar());
            let kind = if is_sidecar { ContainerKind::Sidecar } else { ContainerKind::Init };
            containers.push(status.with(spec, kind));
        }
        for status in status.container_statuses {
            let spec = spec.containers.iter_mut().find(|spec| spec.name == status.name);
            containers.push(status.with(spec, ContainerKind::Main));
        }
        let mut details = Self {
            containers,
            conditions: status.conditions,
            readiness_gates: spec.readiness_gates.into_iter().map(|gate| gate.condition_type).collect(),
            scheduling_gates: spec.scheduling_gates.into_iter().map(|gate| gate.name).collect(),
            node_selector: spec
                .node_selector
                .iter()
                .map(|(key, value)| format!("{key}={value}").into())
                .collect(),
            scheduler_name: spec.scheduler_name,
            finalizers: metadata.finalizers,
            created: metadata.created,
            reason: status.reason,
            message: status.message,
        };
        // A store may hold it for long.
        details.conditions.shrink_to_fit();
        details.messages_mut().for_each(shorten);
        details
    }
}

impl PodDetails {
    fn messages_mut(&mut self) -> impl Iterator<Item = &mut Text> {
        let of_containers = self.containers.iter_mut().flat_map(|container| {
            let now = match &mut container.state {
                RunState::Waiting { message, .. } => Some(message),
                RunState::Running { .. } => None,
                RunState::Ended(end) => Some(&mut end.message),
            };
            now.into_iter().chain(container.last.as_mut().map(|last| &mut last.message))
        });
        let of_conditions = self.conditions.iter_mut().map(|condition| &mut condition.message);
        of_containers.chain(of_conditions).chain([&mut self.message])
    }
}

/// Cuts the end of a message off that is too long.
fn shorten(message: &mut Text) {
    if message.len() > MESSAGE {
        let kept = (0..=MESSAGE).rev().find_map(|at| message.get(..at)).unwrap_or_default();
        *message = format!("{kept}…").into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_gates_and_containers_are_read() {
        let details: PodDetails = serde_json::from_value(json!({
            "metadata": {"finalizers": ["example.com/drain"], "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "readinessGates": [{"conditionType": "example.com/lb"}],
                "schedulingGates": [{"name": "example.com/quota"}],
                "initContainers": [{"name": "migrate"}, {"name": "proxy", "restartPolicy": "Always", "startupProbe": {}}],
                "containers": [
                    {"name": "app", "readinessProbe": {"initialDelaySeconds": 60, "httpGet": {"port": 80}}, "livenessProbe": {}},
                    {"name": "side", "lifecycle": {"postStart": {}}}],
            },
            "status": {
                "reason": "Evicted", "message": "low on memory",
                "conditions": [{"type": "Ready", "status": "False", "reason": null,
                    "lastTransitionTime": "2026-01-01T00:00:05Z"}],
                "initContainerStatuses": [
                    {"name": "proxy", "ready": false, "started": false, "state": {"running": {"startedAt": null}}},
                    {"name": "migrate", "ready": true, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                ],
                "containerStatuses": [
                    {"name": "app", "ready": false, "restartCount": 7,
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
                        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
                    {"name": "side", "ready": true, "started": true, "state": {"running": {}}},
                ],
            },
        }))
        .unwrap();
        assert_eq!(details.readiness_gates, ["example.com/lb"]);
        assert_eq!(details.scheduling_gates, ["example.com/quota"]);
        assert_eq!(details.finalizers, ["example.com/drain"]);
        assert_eq!((&*details.reason, &*details.message), ("Evicted", "low on memory"));
        assert_eq!(&*details.condition("Ready").unwrap().status, "False");
        let kinds: Vec<(&str, ContainerKind, Option<Probe>)> = details
            .containers
            .iter()
            .map(|container| (&*container.name, container.kind, container.failing_probe()))
            .collect();
        let want = [
            ("migrate", ContainerKind::Init, None),
            ("proxy", ContainerKind::Sidecar, Some(Probe::Startup)),
            ("app", ContainerKind::Main, Some(Probe::Readiness)),
            ("side", ContainerKind::Main, None),
        ];
        assert_eq!(kinds, want);
        let app = &details.containers[2];
        let waiting =
            RunState::Waiting { reason: "CrashLoopBackOff".into(), message: "back-off 5m0s".into() };
        assert_eq!((&app.state, app.restarts), (&waiting, 7));
        assert_eq!(app.last.as_ref().map(|last| (&*last.reason, last.exit_code)), Some(("OOMKilled", 137)));
        assert_eq!(
            app.readiness_probe,
            Some(ProbeSpec {
                initial_delay_seconds: 60,
                tries_seconds: 30,
                port: Some(TargetPort::Number(80))
            })
        );
        assert!(app.has_liveness_probe && !app.has_post_start_hook);
        assert_eq!(details.containers[3].state, RunState::Running { since: None });
        assert!(details.containers[3].has_post_start_hook);
        assert_eq!(details.created, "2026-01-01T00:00:00Z".parse().ok());
    }

    #[test]
    fn nulls_and_odd_times_are_none() {
        let details: PodDetails = serde_json::from_value(json!({
            "spec": null, "status": {"conditions": [{"type": "Ready", "lastTransitionTime": "soon"}],
                "containerStatuses": null, "initContainerStatuses": [{"name": "a", "state": null, "lastState": null}]},
        }))
        .unwrap();
        assert_eq!(details.conditions[0].last_transition_time, None);
        assert_eq!(details.containers[0].last, None);
    }

    #[test]
    fn a_probe_asks_a_port_of_the_pod_or_none() {
        let check = |probe: serde_json::Value, want: Option<TargetPort>| {
            let details: PodDetails = serde_json::from_value(json!({
                "spec": {"containers": [{"name": "a", "startupProbe": probe}]},
                "status": {"containerStatuses": [{"name": "a"}]},
            }))
            .unwrap();
            let probe = details.containers[0].probe(Probe::Startup).unwrap();
            assert_eq!(probe.port, want);
        };
        check(json!({"httpGet": {"port": "web"}}), Some(TargetPort::Name("web".into())));
        check(json!({"tcpSocket": {"port": 6379}}), Some(TargetPort::Number(6379)));
        check(json!({"grpc": {"port": 9090, "service": "x"}}), Some(TargetPort::Number(9090)));
        check(json!({"httpGet": {"port": 80, "host": "example.com"}}), None);
        check(json!({"exec": {"command": ["true"]}}), None);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let long = format!("{}é{}", "x".repeat(MESSAGE - 1), "y".repeat(5000));
        let ended = json!({"terminated": {"exitCode": 1, "message": &long}});
        let details: PodDetails = serde_json::from_value(json!({"status": {
            "message": &long, "conditions": [{"type": "Ready", "message": &long}],
            "containerStatuses": [{"name": "a", "state": ended, "lastState": ended}],
        }}))
        .unwrap();
        let container = &details.containers[0];
        let RunState::Ended(end) = &container.state else { panic!("{container:?}") };
        let want = format!("{}…", "x".repeat(MESSAGE - 1));
        for message in [
            &details.message,
            &details.conditions[0].message,
            &end.message,
            &container.last.as_ref().unwrap().message,
        ] {
            assert_eq!(**message, *want);
        }
    }
}
