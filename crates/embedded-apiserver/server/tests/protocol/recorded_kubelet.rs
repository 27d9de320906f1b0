//! Compares the lives of pods with those that a real kubelet wrote (`integration-tests/kubelet`).
//! The kubelet of the server may leave states out. It invents none, and it keeps their order.

use std::collections::BTreeMap;
use std::path::Path;

use futures::FutureExt;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::{Value, json};

use crate::protocol::common::*;

/// The recordings of pods that live as those of the server do, and what their files leave out of
/// the specification.
fn comparable() -> [(&'static str, Value); 9] {
    [
        ("finalizer", json!({})),
        ("force-delete", json!({})),
        ("init-container", json!({})),
        ("post-start", json!({})),
        ("pre-stop", json!({})),
        ("readiness-gate", json!({})),
        ("sidecar", json!({})),
        ("slow-readiness", json!({})),
        ("unschedulable", json!({"nodeSelector": {"disk": "of-no-node"}})),
    ]
}

/// The others. No program of the server's pods fails or ends by itself, each becomes ready, images
/// and volumes are always there, and the server evicts nothing and knows no static pods.
const OTHERS: [&str; 19] = [
    "config-missing",
    "crash-at-once",
    "crash-loop",
    "deadline",
    "evicted-api",
    "image-never-pull",
    "image-pull",
    "init-fails",
    "job-done",
    "job-failed",
    "liveness-fails",
    "never-ready",
    "oom",
    "sidecar-unready",
    "sigterm-grace",
    "start-error",
    "startup-fails",
    "static-pod",
    "volume-missing",
];

/// Returns the pod at each event of a recording, or null once it is gone.
fn recording(name: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../integration-tests/kubelet");
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod"});
    let event = |line: &str| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        for field in ["metadata", "spec", "status"] {
            if event[field].is_object() {
                pod[field] = event[field].take();
            }
        }
        if event["event"] == "DELETED" { Value::Null } else { pod.clone() }
    };
    text.lines().map(event).collect()
}

/// Returns what endpoint controllers and people can tell apart in a pod, in one line.
fn state(pod: &Value) -> String {
    if pod.is_null() {
        return "gone".to_owned();
    }
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let conditions: BTreeMap<String, String> = conditions
        .map(|it| (text(&it["type"]), format!("{}/{}", text(&it["status"]), text(&it["reason"]))))
        .collect();
    let containers = ["initContainerStatuses", "containerStatuses"].map(|list| {
        let of = |it: &Value| {
            let (kind, state) = it["state"].as_object().unwrap().iter().next().unwrap();
            let (reason, exit) = (text(&state["reason"]), &state["exitCode"]);
            let (ready, started, restarts) = (&it["ready"], &it["started"], &it["restartCount"]);
            format!("{kind} {reason} {exit} ready={ready} started={started} restarts={restarts}")
        };
        status[list].as_array().into_iter().flatten().map(of).collect::<Vec<_>>()
    });
    format!(
        "{} address={} deleting={} grace={} generation={}, observed {} {conditions:?} {containers:?}",
        text(&status["phase"]),
        status["podIP"].is_string(),
        metadata["deletionTimestamp"].is_string(),
        metadata["deletionGracePeriodSeconds"],
        metadata["generation"],
        status["observedGeneration"],
    )
}

fn states(pods: &[Value]) -> Vec<String> {
    let mut states: Vec<String> = pods.iter().map(state).collect();
    states.dedup();
    states
}

/// Lets the server run the pod of a recording, and returns it at each event.
async fn played(recording: &[Value], more: &Value) -> Vec<Value> {
    let (_server, raw) = start(EmbeddedApiServer::builder().seed(1).kubelet());
    let mut events = raw.watch(&format!("{PODS}?watch=1")).await;
    let mut pod = recording[0].clone();
    for field in ["creationTimestamp", "generation"] {
        pod["metadata"].as_object_mut().unwrap().remove(field);
    }
    for (field, value) in more.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            container["image"] = json!("registry.k8s.io/pause");
        }
    }
    raw.post(PODS, &pod).await.expect(201);
    pass(5).await;
    let grace = |pod: &Value| pod["metadata"]["deletionGracePeriodSeconds"].as_u64();
    if let Some(seconds) = recording.iter().find_map(grace) {
        let uri = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
        raw.delete(&uri, &json!({"gracePeriodSeconds": seconds})).await.expect(200);
        pass(seconds + 5).await;
    }
    let mut pods = Vec::new();
    while let Some(Some(event)) = events.next().now_or_never() {
        pods.push(if event["type"] == "DELETED" { Value::Null } else { event["object"].clone() });
    }
    pods
}

#[tokio::test(start_paused = true)]
async fn a_pod_lives_as_with_a_real_kubelet() {
    for (name, more) in comparable() {
        let recording = recording(name);
        let (recorded, played) = (states(&recording), states(&played(&recording, &more).await));
        let mut left = recorded.iter();
        for state in &played {
            assert!(
                left.any(|it| it == state),
                "{name}: {state}\nrecorded: {recorded:#?}\nplayed: {played:#?}"
            );
        }
        assert_eq!(left.next(), None, "{name} goes on in the recording; played: {played:#?}");
    }
}

#[test]
fn each_recording_is_compared_or_named() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../integration-tests/kubelet");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    let mut found: Vec<String> = files
        .filter_map(|name| Some(name.into_string().unwrap().strip_suffix(".jsonl")?.to_owned()))
        .collect();
    let mut known: Vec<&str> = comparable().iter().map(|(name, _)| *name).chain(OTHERS).collect();
    found.sort_unstable();
    known.sort_unstable();
    assert_eq!(found, known);
}
