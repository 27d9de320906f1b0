//! The fields of a pod that tell why it is not ready. All of them exist in each version of
//! Kubernetes that has EndpointSlices, except for those that say since when; an older kubelet
//! leaves them out.

use std::fmt;

use kube_endpoint_core_model::pod::PodPhase;
use kube_endpoint_core_model::service::TargetPort;
use kube_endpoint_core_model::{Interner, Pod, Text, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::facts::details::write_optional_time;
use crate::facts::json::{each, number, pairs, text, time};

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
    /// The PersistentVolumeClaims of `spec.volumes`.
    pub claims: Vec<Text>,
    /// True if a kubelet has seen the pod: it has a `status.startTime`.
    pub has_started: bool,
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

    /// Returns true if an explanation of a pod needs its details: it receives no traffic, and has
    /// not simply ended.
    pub(crate) fn are_needed(pod: &Pod) -> bool {
        (!pod.is_ready() || pod.is_terminating()) && pod.phase != PodPhase::Succeeded
    }

    /// Reads a pod, as the API has it.
    pub(crate) fn read(pod: &Value, texts: &mut Interner) -> Self {
        let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
        let mut names = |list: &Value, field: Option<&str>| {
            let of = |item| texts.shared(text(field.map_or(item, |field| &item[field])));
            each(list).map(of).collect::<Vec<Text>>()
        };
        let mut details = Self {
            readiness_gates: names(&spec["readinessGates"], Some("conditionType")),
            scheduling_gates: names(&spec["schedulingGates"], Some("name")),
            finalizers: names(&metadata["finalizers"], None),
            node_selector: pairs(&spec["nodeSelector"])
                .map(|(key, value)| format!("{key}={}", text(value)).into())
                .collect(),
            claims: each(&spec["volumes"])
                .map(|volume| text(&volume["persistentVolumeClaim"]["claimName"]))
                .filter(|name| !name.is_empty())
                .map(Text::from)
                .collect(),
            has_started: !status["startTime"].is_null(),
            scheduler_name: texts.shared(text(&spec["schedulerName"])),
            created: time(&metadata["creationTimestamp"]),
            reason: texts.shared(text(&status["reason"])),
            message: shortened(&status["message"]),
            conditions: each(&status["conditions"]).map(|it| PodCondition::read(it, texts)).collect(),
            containers: Vec::new(),
        };
        let specs: Vec<&Value> = each(&spec["initContainers"]).collect();
        let position = |status: &&Value| specs.iter().position(|spec| spec["name"] == status["name"]);
        let mut init: Vec<&Value> = each(&status["initContainerStatuses"]).collect();
        init.sort_by_key(position);
        for status in init {
            let spec = position(&status).map_or(&Value::Null, |at| specs[at]);
            let is_sidecar = spec["restartPolicy"] == "Always";
            let kind = if is_sidecar { ContainerKind::Sidecar } else { ContainerKind::Init };
            details.containers.push(ContainerState::read(status, spec, kind, texts));
        }
        for status in each(&status["containerStatuses"]) {
            let spec = each(&spec["containers"]).find(|spec| spec["name"] == status["name"]);
            let spec = spec.unwrap_or(&Value::Null);
            details.containers.push(ContainerState::read(status, spec, ContainerKind::Main, texts));
        }
        details
    }
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCondition {
    pub condition_type: Text,
    /// `True`, `False` or `Unknown`.
    pub status: Text,
    /// Machine-readable reason, or empty.
    pub reason: Text,
    /// Message for people, or empty.
    pub message: Text,
    /// Time of the last change of the status.
    pub last_transition_time: Option<Timestamp>,
}

impl PodCondition {
    fn read(condition: &Value, texts: &mut Interner) -> Self {
        Self {
            condition_type: texts.shared(text(&condition["type"])),
            status: texts.shared(text(&condition["status"])),
            reason: texts.shared(text(&condition["reason"])),
            message: shortened(&condition["message"]),
            last_transition_time: time(&condition["lastTransitionTime"]),
        }
    }
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

impl ProbeSpec {
    fn read(probe: &Value) -> Option<Self> {
        let target =
            ["httpGet", "tcpSocket", "grpc"].iter().map(|form| &probe[*form]).find(|it| !it.is_null());
        let target = target.filter(|target| text(&target["host"]).is_empty());
        let port = target.and_then(|target| TargetPort::deserialize(&target["port"]).ok());
        // The API server sets these defaults.
        let or = |field: &str, default| match number(&probe[field]) {
            number if number > 0 => number,
            _ => default,
        };
        (!probe.is_null()).then(|| Self {
            initial_delay_seconds: number(&probe["initialDelaySeconds"]),
            tries_seconds: or("periodSeconds", 10).saturating_mul(or("failureThreshold", 3)),
            port,
        })
    }
}

impl ContainerState {
    /// Reads the status of a container. `spec` is null if the pod lacks the container.
    fn read(status: &Value, spec: &Value, kind: ContainerKind, texts: &mut Interner) -> Self {
        Self {
            name: texts.shared(text(&status["name"])),
            kind,
            ready: status["ready"] == true,
            started: status["started"].as_bool(),
            restarts: number(&status["restartCount"]).try_into().unwrap_or_default(),
            state: RunState::read(&status["state"], texts),
            last: Ended::read(&status["lastState"]["terminated"], texts),
            startup_probe: ProbeSpec::read(&spec["startupProbe"]),
            readiness_probe: ProbeSpec::read(&spec["readinessProbe"]),
            has_liveness_probe: !spec["livenessProbe"].is_null(),
            has_post_start_hook: !spec["lifecycle"]["postStart"].is_null(),
        }
    }

    /// Returns the probe that has not succeeded, if the container runs and is not ready.
    pub(crate) fn failing_probe(&self) -> Option<Probe> {
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
    pub(crate) fn has_run_before(&self) -> bool {
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

impl RunState {
    fn read(state: &Value, texts: &mut Interner) -> Self {
        let (waiting, running) = (&state["waiting"], &state["running"]);
        match Ended::read(&state["terminated"], texts) {
            Some(ended) if waiting.is_null() => Self::Ended(ended),
            None if waiting.is_null() && !running.is_null() => {
                Self::Running { since: time(&running["startedAt"]) }
            }
            // The API defines that a container without a state waits.
            _ => Self::Waiting {
                reason: texts.shared(text(&waiting["reason"])),
                message: shortened(&waiting["message"]),
            },
        }
    }
}

/// The end of a run of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// Machine-readable reason, such as `OOMKilled`, or empty.
    pub reason: Text,
    /// Message of the kubelet or of the container itself, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Text,
    pub exit_code: i32,
    #[serde(serialize_with = "write_optional_time", skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
}

impl Ended {
    fn read(end: &Value, texts: &mut Interner) -> Option<Self> {
        (!end.is_null()).then(|| Self {
            reason: texts.shared(text(&end["reason"])),
            message: shortened(&end["message"]),
            exit_code: number(&end["exitCode"]),
            finished_at: time(&end["finishedAt"]),
        })
    }
}

/// Prints as `exit code 137, OOMKilled`.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}", self.exit_code)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, ", {}", self.reason) }
    }
}

/// Returns a message without its end if it is too long.
fn shortened(message: &Value) -> Text {
    let message = text(message);
    if message.len() <= MESSAGE {
        return message.into();
    }
    let kept = (0..=MESSAGE).rev().find_map(|at| message.get(..at)).unwrap_or_default();
    format!("{kept}…").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(pod: Value) -> PodDetails {
        PodDetails::read(&pod, &mut Interner::default())
    }

    #[test]
    fn conditions_gates_and_containers_are_read() {
        let details = read(json!({
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
        }));
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
        let details = read(json!({
            "spec": null, "status": {"conditions": [{"type": "Ready", "lastTransitionTime": "soon"}],
                "containerStatuses": null, "initContainerStatuses": [{"name": "a", "state": null, "lastState": null}]},
        }));
        assert_eq!(details.conditions[0].last_transition_time, None);
        assert_eq!(details.containers[0].last, None);
    }

    #[test]
    fn a_probe_asks_a_port_of_the_pod_or_none() {
        let check = |probe: serde_json::Value, want: Option<TargetPort>| {
            let details = read(json!({
                "spec": {"containers": [{"name": "a", "startupProbe": probe}]},
                "status": {"containerStatuses": [{"name": "a"}]},
            }));
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
        let details = read(json!({"status": {
            "message": &long, "conditions": [{"type": "Ready", "message": &long}],
            "containerStatuses": [{"name": "a", "state": ended, "lastState": ended}],
        }}));
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

    #[test]
    fn only_a_pod_without_traffic_that_has_not_simply_ended_needs_details() {
        let check = |ready: &str, phase: &str, deleted: Option<&str>, want: bool| {
            let pod = json!({"metadata": {"name": "p", "deletionTimestamp": deleted},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
            let pod = serde_json::from_value(pod).unwrap();
            assert_eq!(PodDetails::are_needed(&pod), want, "{ready} {phase} {deleted:?}");
        };
        let deleted = Some("2026-01-01T00:00:00Z");
        check("True", "Running", None, false);
        check("True", "Running", deleted, true);
        check("False", "Running", None, true);
        check("False", "Pending", None, true);
        check("False", "Failed", None, true);
        check("False", "Succeeded", None, false);
        check("False", "Succeeded", deleted, false);
    }
}
