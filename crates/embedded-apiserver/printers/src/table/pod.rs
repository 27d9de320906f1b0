//! Rows of pods: ready containers, status and restarts.

use jiff::Timestamp;
use kube_endpoint_apiserver_rules::resource::Resource;
use serde_json::{Value, json};

use super::age;
use super::view::{condition, flag, has, list, number, text, text_or};

/// A summary of the statuses of a pod's containers.
#[derive(Default)]
struct Summary<'a> {
    ready: usize,
    restarts: i64,
    last_restart: &'a str,
    reason: String,
}

impl<'a> Summary<'a> {
    fn add_restarts(&mut self, status: &'a Value) {
        self.restarts += number(status, "/restartCount");
        // Times of one format and zone compare as text.
        self.last_restart = self.last_restart.max(text(status, "/lastState/terminated/finishedAt"));
    }
}

/// Returns the cells of a pod.
pub(super) fn cells(pod: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let sidecars = list(pod, "/spec/initContainers").iter().filter(|container| is_sidecar(container)).count();
    let total = list(pod, "/spec/containers").len() + sidecars;
    let summary = summarize(pod);
    let mut restarts = summary.restarts.to_string();
    if summary.restarts != 0 && !summary.last_restart.is_empty() {
        restarts = format!("{restarts} ({} ago)", age::since(summary.last_restart, now));
    }
    vec![
        name,
        json!(format!("{}/{total}", summary.ready)),
        json!(summary.reason),
        json!(restarts),
        age,
        json!(text_or(pod, "/status/podIPs/0/ip", "<none>")),
        json!(text_or(pod, "/spec/nodeName", "<none>")),
        json!(text_or(pod, "/status/nominatedNodeName", "<none>")),
        json!(readiness_gates(pod)),
    ]
}

/// Returns the row condition of a terminated pod, which lets clients hide it.
pub(super) fn completed(resource: &Resource, pod: &Value) -> Option<Value> {
    if resource.plural != "pods" {
        return None;
    }
    let message = match text(pod, "/status/phase") {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    let reason = text(pod, "/status/phase");
    Some(json!({"type": "Completed", "status": "True", "reason": reason, "message": message}))
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

fn summarize(pod: &Value) -> Summary<'_> {
    let mut init = init_containers(pod);
    let initializing = !init.0.reason.is_empty();
    let mut summary = if !initializing || condition(pod, "Initialized") == Some("True") {
        containers(pod, &mut init)
    } else {
        init.0
    };
    if !text(pod, "/metadata/deletionTimestamp").is_empty() {
        if text(pod, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut summary.reason);
        } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut summary.reason);
        }
    }
    summary
}

/// Returns summaries of all init containers and, for the restarts, of the sidecars alone. The first
/// has a reason while the pod initializes.
fn init_containers(pod: &Value) -> (Summary<'_>, Summary<'_>) {
    let (mut all, mut sidecars) = (Summary::default(), Summary::default());
    let specs = list(pod, "/spec/initContainers");
    for (index, status) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
        let spec = specs.iter().find(|spec| text(spec, "/name") == text(status, "/name"));
        let sidecar = spec.is_some_and(is_sidecar);
        all.add_restarts(status);
        if sidecar {
            sidecars.add_restarts(status);
        }
        let ended = has(status, "/state/terminated");
        if ended && number(status, "/state/terminated/exitCode") == 0 {
            continue;
        }
        if sidecar && flag(status, "/started") {
            all.ready += usize::from(flag(status, "/ready"));
            continue;
        }
        let waiting = text(status, "/state/waiting/reason");
        all.reason = if ended {
            format!("Init:{}", ending(status))
        } else if !matches!(waiting, "" | "PodInitializing") {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", specs.len())
        };
        break;
    }
    (all, sidecars)
}

/// Returns the reason, the signal or the exit code of a terminated container.
fn ending(status: &Value) -> String {
    match (text(status, "/state/terminated/reason"), number(status, "/state/terminated/signal")) {
        ("", 0) => format!("ExitCode:{}", number(status, "/state/terminated/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Returns a summary of the ordinary containers; the reason is that of the first one.
fn containers<'a>(pod: &'a Value, init: &mut (Summary<'a>, Summary<'a>)) -> Summary<'a> {
    let (all, sidecars) = init;
    let mut summary = Summary { ready: all.ready, reason: pod_reason(pod), ..std::mem::take(sidecars) };
    if !all.reason.is_empty() {
        summary.reason = std::mem::take(&mut all.reason);
    }
    let mut running = false;
    let mut error = String::new();
    for status in list(pod, "/status/containerStatuses").iter().rev() {
        summary.add_restarts(status);
        let waiting = text(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.reason);
        } else if has(status, "/state/terminated") {
            summary.reason = ending(status);
            if number(status, "/state/terminated/exitCode") != 0 {
                error.clone_from(&summary.reason);
            }
        } else if flag(status, "/ready") && has(status, "/state/running") {
            running = true;
            summary.ready += 1;
        }
    }
    // A pod is not completed because one of its containers is.
    if summary.reason == "Completed" {
        if running && condition(pod, "Ready") == Some("True") {
            "Running".clone_into(&mut summary.reason);
        } else if !error.is_empty() {
            summary.reason = error;
        } else if running {
            "NotReady".clone_into(&mut summary.reason);
        }
    }
    summary
}

/// Returns the reason in the pod's own status.
fn pod_reason(pod: &Value) -> String {
    let gated = list(pod, "/status/conditions").iter().any(|condition| {
        text(condition, "/type") == "PodScheduled" && text(condition, "/reason") == "SchedulingGated"
    });
    if gated {
        return "SchedulingGated".to_owned();
    }
    text_or(pod, "/status/reason", text(pod, "/status/phase")).to_owned()
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed =
        gates.iter().filter(|gate| condition(pod, text(gate, "/conditionType")) == Some("True")).count();
    format!("{passed}/{}", gates.len())
}
