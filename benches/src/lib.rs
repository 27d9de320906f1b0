//! Inputs of the benchmarks: any number of pods and Services.
//!
//! Pods are copies of one from a real cluster, so that their size and fields are realistic.

pub mod instructions;
pub mod planned_service;

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use kube_endpoint_core_model::protobuf::{Envelope, fields_after_metadata, identity, object_meta};
use kube_endpoint_core_model::{Intern, Interner, Node, ObjectKey, ObjectMeta, Pod, Service};
use kube_endpoint_workqueue::WorkQueue;
use serde_json::{Value, json};

/// The namespace of all objects.
const NAMESPACE: &str = "shop";

/// The number of nodes.
const NODES: usize = 60;

/// Returns the objects of one kind in the recorded sample cluster.
fn recorded(kind: &str) -> Vec<Value> {
    let fixture = include_str!("../../integration-tests/fixtures/shop-cluster.json");
    let mut list: Value = serde_json::from_str(fixture).expect("the fixture is JSON");
    let items = list["items"].as_array_mut().expect("the fixture is a List");
    let found: Vec<Value> = items.iter_mut().filter(|item| item["kind"] == kind).map(Value::take).collect();
    assert!(!found.is_empty(), "the fixture has no {kind}");
    found
}

fn recorded_answer(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration-tests/fixtures/protobuf");
    std::fs::read(folder.join(name)).expect("the fixture can be read")
}

/// Returns the items of a list that a real API server answered in JSON. `kind` is the plural
/// resource name.
///
/// # Panics
///
/// When there is no such fixture.
pub fn recorded_list_in_json(kind: &str) -> Vec<String> {
    let list: Value =
        serde_json::from_slice(&recorded_answer(&format!("{kind}.list.json"))).expect("the fixture is JSON");
    list["items"].as_array().expect("the fixture is a list").iter().map(Value::to_string).collect()
}

/// Returns the items of the same list in protobuf.
///
/// # Panics
///
/// When there is no such fixture.
pub fn recorded_list_in_protobuf(kind: &str) -> Vec<Vec<u8>> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct List {
        #[prost(bytes, repeated, tag = "2")]
        items: Vec<Vec<u8>>,
    }
    let body = recorded_answer(&format!("{kind}.list.pb"));
    let list = Envelope::read(&body).expect("the fixture has an envelope");
    <List as prost::Message>::decode(list.object).expect("the fixture is a list").items
}

/// Reads the parts of an echo that the informer reads if the object equals the one that was sent:
/// the key, the length of the fields after the metadata, and the metadata.
///
/// # Panics
///
/// If the metadata is malformed.
pub fn decode_echo(object: &[u8], interner: &mut Interner) -> (Option<ObjectKey>, Option<usize>, ObjectMeta) {
    let metadata = object_meta(object, interner).expect("the metadata can be decoded");
    (identity(object).key, fields_after_metadata(object).map(<[u8]>::len), metadata)
}

/// Returns keys of Services.
pub fn keys(count: usize) -> Vec<ObjectKey> {
    (0..count).map(|number| ObjectKey::new(NAMESPACE, format!("web-{number}"))).collect()
}

/// Takes each key from a queue, and marks it done.
///
/// # Panics
///
/// If the queue does not return a ready key at once.
pub fn take_all(queue: &WorkQueue<ObjectKey>) {
    while !queue.is_empty() {
        let key = queue.get().now_or_never().flatten().expect("a key is ready");
        queue.done(&key);
        queue.forget(&key);
    }
}

/// Returns pods as a store has them, which share strings: each with its own name, uid and address,
/// on [`NODES`] nodes in turn, and all with the label `app` of the workload.
pub(crate) fn pods(workload: &str, count: usize) -> Vec<Arc<Pod>> {
    let mut interner = Interner::default();
    let template = recorded("Pod").swap_remove(0);
    let pod = |number: usize| {
        let mut pod = template.clone();
        pod["metadata"]["name"] = format!("{workload}-{number:05}").into();
        pod["metadata"]["namespace"] = NAMESPACE.into();
        pod["metadata"]["uid"] = format!("00000000-0000-4000-8000-{number:012}").into();
        pod["metadata"]["resourceVersion"] = (number + 1).to_string().into();
        pod["metadata"]["labels"]["app"] = workload.into();
        pod["spec"]["nodeName"] = node_name(number % NODES).into();
        let address = format!("10.{}.{}.{}", 1 + number / 65_536, number / 256 % 256, number % 256);
        pod["status"]["podIP"] = address.as_str().into();
        pod["status"]["podIPs"] = json!([{ "ip": address }]);
        pod["status"]["phase"] = "Running".into();
        pod["status"]["conditions"] = json!([ready(true)]);
        Arc::new(stored(pod, &mut interner))
    };
    (0..count).map(pod).collect()
}

/// Returns a Service that selects the pods of a workload.
pub(crate) fn service(workload: &str) -> Service {
    view(json!({
        "metadata": {"name": workload, "namespace": NAMESPACE, "uid": format!("uid-of-{workload}"), "labels": {"app": workload}},
        "spec": {"type": "ClusterIP", "selector": {"app": workload},
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]},
    }))
}

/// Returns the nodes of the pods, in three zones.
pub(crate) fn nodes() -> Vec<Arc<Node>> {
    let node = |number: usize| {
        view(json!({
            "metadata": {"name": node_name(number), "labels": {"topology.kubernetes.io/zone": format!("zone-{}", number % 3)}},
            "status": {"allocatable": {"cpu": "8"}, "conditions": [ready(true)]},
        }))
    };
    (0..NODES).map(|number| Arc::new(node(number))).collect()
}

fn stored<T: serde::de::DeserializeOwned + Intern>(json: Value, interner: &mut Interner) -> T {
    let mut object: T = view(json);
    object.intern(interner);
    object
}

fn node_name(number: usize) -> String {
    format!("node-{number}")
}

fn ready(is_ready: bool) -> Value {
    let status = if is_ready { "True" } else { "False" };
    json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn view<T: serde::de::DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("what is made here can be read")
}
