//! Polls a healthy rollout each second, with the statuses that a kubelet writes: it never leaves
//! OK. It has a surge of one pod. A new pod is ready after nine seconds, and an old one serves for
//! three more seconds after its deletion.

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::{LintOptions, Objects, Options, Status, explain, lint};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

use super::open;
use crate::fault_manifests::{Fault, all_of};

/// The name of this test in `open`.
pub(super) const NAME: &str = "rollout-polled-each-second";

/// The number of pods.
const PODS: i64 = 4;

/// The seconds until a new pod is ready, and until an old one is gone.
const READY: i64 = 9;
const GONE: i64 = 6;

/// Returns the time of a second of the rollout.
fn time(second: i64) -> Timestamp {
    let time = format!("2026-01-01T00:{:02}:{:02}Z", 10 + second.div_euclid(60), second.rem_euclid(60));
    time.parse().unwrap()
}

/// Returns a condition as the kubelet writes it.
fn condition(kind: &str, is_true: bool, reason: &str, since: i64) -> Value {
    let mut condition = json!({"type": kind, "status": if is_true { "True" } else { "False" },
        "lastTransitionTime": time(since).to_string()});
    if !is_true {
        condition["reason"] = reason.into();
    }
    condition
}

/// Returns the conditions of a pod that is bound to a node.
fn conditions(is_ready: bool, reason: &str, created: i64, since: i64) -> Value {
    json!([
        condition("Initialized", true, "", created),
        condition("Ready", is_ready, reason, since),
        condition("ContainersReady", is_ready, reason, since),
        condition("PodScheduled", true, "", created),
    ])
}

/// Returns a pod of a ReplicaSet. `created` and `deleted` are seconds of the rollout.
fn pod(model: &Value, number: i64, created: i64, deleted: Option<i64>, now: i64) -> Option<Value> {
    let mut pod = model.clone();
    let of = if created < 0 { "7px6z8lfrg" } else { "vlvhfgzfmc" };
    pod["metadata"]["name"] = format!("web-{of}-x{number}").into();
    pod["metadata"]["uid"] = format!("uid-{of}-{number}").into();
    pod["metadata"]["creationTimestamp"] = time(created).to_string().into();
    pod["metadata"]["labels"]["pod-template-hash"] = of.into();
    pod["metadata"]["ownerReferences"][0]["name"] = format!("web-{of}").into();
    let ip = format!("10.244.1.{}", number + if created < 0 { 20 } else { 40 });
    let container = |is_ready: bool, state: Value| {
        let is_started = state["running"].is_object();
        json!([{"name": "web", "image": "registry.example.com/web:1.9.0", "ready": is_ready, "started": is_started,
            "restartCount": 0, "state": state}])
    };
    let runs = json!({"running": {"startedAt": time(created + 2).to_string()}});
    let address = json!([{"ip": ip}]);
    pod["status"] = match now - created {
        // The scheduler has not bound it yet.
        0 => {
            pod["spec"].as_object_mut().unwrap().remove("nodeName");
            json!({"phase": "Pending"})
        }
        1 => {
            json!({"phase": "Pending", "conditions": conditions(false, "ContainersNotReady", created, created),
            "containerStatuses": container(false, json!({"waiting": {"reason": "ContainerCreating"}}))})
        }
        2..READY => json!({"phase": "Running", "podIP": ip, "podIPs": address,
            "conditions": conditions(false, "ContainersNotReady", created, created),
            "containerStatuses": container(false, runs)}),
        _ => json!({"phase": "Running", "podIP": ip, "podIPs": address,
            "conditions": conditions(true, "", created, created + READY), "containerStatuses": container(true, runs)}),
    };
    let Some(since) = deleted.filter(|since| *since <= now) else { return Some(pod) };
    pod["metadata"]["deletionTimestamp"] = time(since + 30).to_string().into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    match now - since {
        0..3 => {}
        3..GONE => {
            let end = json!({"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": time(since + 3).to_string()}});
            pod["status"]["phase"] = "Succeeded".into();
            pod["status"]["conditions"] = conditions(false, "PodCompleted", created, since + 3);
            pod["status"]["containerStatuses"] = container(false, end);
        }
        _ => return None,
    }
    Some(pod)
}

/// Returns the objects at a second. An old pod is deleted when its successor is ready, and the next
/// new one is made then.
fn cluster(model: &Fault, now: i64) -> Vec<Value> {
    let is_pod = |object: &&Value| object["kind"] == "Pod";
    let template = model.objects.iter().rfind(is_pod).unwrap();
    let mut objects: Vec<Value> = model.objects.iter().filter(|object| !is_pod(object)).cloned().collect();
    for number in 0..PODS {
        let (created, ready) = (number * (READY + 1), number * (READY + 1) + READY);
        objects.extend(pod(template, number, -600, Some(ready), now));
        if created <= now {
            objects.extend(pod(template, number, created, None, now));
        }
    }
    objects
}

#[test]
fn a_healthy_rollout_that_is_polled_each_second_never_leaves_ok() {
    let model = all_of("diagnosis").remove("rollout-pod-starts.yaml").unwrap();
    let (options, key) = (Options::default(), ObjectKey::new("default", "web"));
    let mut wrong = Vec::new();
    let mut slices: Vec<Value> = Vec::new();
    for second in 0..PODS * (READY + 1) + GONE {
        let now = time(second);
        let objects = cluster(&model, second).into_iter().chain(slices);
        let cluster = objects.fold(Cluster::new(), |cluster, object| cluster.with(object));
        let settled = model.settle(cluster, now, &options);
        let objects = Objects::read(settled.objects().iter().cloned()).unwrap();
        let said = explain(&objects, &key, &objects.topology(), now, None, &options).unwrap();
        let linted = lint(&objects, now, &options, &LintOptions::default()).problems;
        if said.verdict.status != Status::Ok || !linted.is_empty() {
            wrong.push(format!("second {second}: {} {}", said.verdict.code, said.verdict.message));
        }
        slices = settled.objects().to_vec();
        slices.retain(|object| object["kind"] == "EndpointSlice" || object["kind"] == "Endpoints");
    }
    let is_open = open().iter().any(|name| name == NAME);
    assert_eq!(is_open, !wrong.is_empty(), "{NAME} is open: {is_open}\n{}", wrong.join("\n"));
}
