//! A replica leaves a Lease, EndpointSlices and Endpoints behind. Each version records them in
//! `fixtures/left-behind/VERSION.json`, and every later version takes over from them.

use std::fs::{read_dir, read_to_string, write};
use std::path::{Path, PathBuf};

use kube_endpoint_controllers::{Gates, LeaderElectionSettings, Settings};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::running_manager::{settings, writes_within};
use kube_endpoint_testing::Redacted;
use serde_json::{Value, json};

use crate::gates::objects::{node, pod, service};
use crate::gates::test_cluster::LONG;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const LAST_WRITES: &str = "kube-endpoint-manager/last-writes";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/left-behind")
}

/// Returns a Service with hints, a headless one, and one whose Endpoints a user wrote.
fn inputs() -> Vec<Value> {
    let named = |name: &str| {
        let mut service = service();
        service["metadata"]["name"] = name.into();
        service["metadata"]["uid"] = format!("uid-{name}").into();
        service
    };
    let (mut close, mut headless, mut custom) = (named("close"), named("headless"), named("custom"));
    close["spec"]["trafficDistribution"] = "PreferSameZone".into();
    headless["spec"]["clusterIP"] = "None".into();
    headless["spec"]["clusterIPs"] = json!(["None"]);
    custom["spec"]["selector"] = Value::Null;
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "custom", "namespace": "default", "uid": "uid-endpoints"},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "web", "port": 8080}]}],
    });
    let nodes = (0..2).map(|number| node(&format!("n{number}"), &format!("z{number}")));
    let pods = (0..4).map(|number| pod(number, &format!("n{}", number % 2), number != 3));
    nodes.chain(pods).chain([close, headless, custom, endpoints]).collect()
}

fn replica(identity: &str) -> Settings {
    let mut settings = settings(Gates::default());
    settings.leader_election =
        Some(LeaderElectionSettings { identity: Some(identity.to_owned()), ..Default::default() });
    settings
}

/// Returns the objects that this version leaves, with those that it was started on.
async fn left_by_this_version() -> Vec<Value> {
    let server = EmbeddedApiServer::builder().seed(1).track_managers().load(inputs()).build().unwrap();
    writes_within(&server, &replica("a"), LONG).await;
    let kinds = ["nodes", "pods", "services", "endpoints", "endpointslices", "leases"];
    kinds.iter().flat_map(|plural| server.list(plural)).collect()
}

/// Returns the annotation that the Lease of a released leader has.
fn last_writes(lease: &Value) -> Value {
    serde_json::from_str(lease["metadata"]["annotations"][LAST_WRITES].as_str().unwrap()).unwrap()
}

/// Returns everything that the next version may depend on, without names, uids, times and versions.
fn comparable(mut objects: Vec<Value>) -> Value {
    for object in &mut objects {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        object["writers"] =
            entries.iter().map(|entry| json!([entry["manager"], entry["operation"]])).collect();
        if object["kind"] == "Lease" {
            let mut left = last_writes(object);
            for version in left["versions"].as_object_mut().unwrap().values_mut() {
                assert!(version.as_str().unwrap().parse::<u64>().is_ok(), "{object}");
                *version = "[version]".into();
            }
            object["metadata"]["annotations"][LAST_WRITES] = left;
        }
    }
    Redacted::new(objects).as_value().clone()
}

#[tokio::test(start_paused = true)]
async fn this_version_leaves_what_its_fixture_says() {
    let path = folder().join(concat!(env!("CARGO_PKG_VERSION"), ".json"));
    let left = left_by_this_version().await;
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        write(&path, serde_json::to_string_pretty(&left).unwrap() + "\n").unwrap();
    }
    let recorded = read_to_string(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; UPDATE_FIXTURES=1 writes the file for a new version", path.display())
    });
    let recorded: Vec<Value> = serde_json::from_str(&recorded).unwrap();
    let kinds: Vec<&str> = left.iter().filter_map(|object| object["kind"].as_str()).collect();
    let count = |kind: &str| kinds.iter().filter(|it| **it == kind).count();
    assert_eq!((count("Lease"), count("Endpoints"), count("EndpointSlice")), (1, 3, 3), "{kinds:?}");
    assert!(
        comparable(left.clone()) == comparable(recorded),
        "This version leaves something else than {}. If it is released, other versions have to read \
         what it left: change nothing. Otherwise read the difference that UPDATE_FIXTURES=1 makes.",
        path.display()
    );
}

/// The next version reads the Lease and its annotation, and finds nothing else to write.
#[tokio::test(start_paused = true)]
async fn a_replica_takes_over_from_each_version_and_writes_only_the_lease() {
    let mut files: Vec<PathBuf> = read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let objects: Vec<Value> = serde_json::from_str(&read_to_string(&file).unwrap()).unwrap();
        let lease = objects.iter().find(|object| object["kind"] == "Lease").unwrap().clone();
        // The caches of the next leader have to reach the versions that the annotation names.
        let version = lease["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let released: jiff::Timestamp = lease["spec"]["renewTime"].as_str().unwrap().parse().unwrap();
        let builder = EmbeddedApiServer::builder().first_resource_version(version).start_time(released);
        let server = builder.track_managers().load(objects).build().unwrap();
        let before = outputs(&server);
        let writes = writes_within(&server, &replica("b"), LONG).await;
        let others: Vec<&String> = writes.iter().filter(|it| !is_about_the_lease(it)).collect();
        assert!(others.is_empty(), "{}: {others:?}", file.display());
        assert_eq!(outputs(&server), before);
        // It has led: it took the Lease, and left its own last writes.
        let after = server.get("leases", "kube-system", "kube-endpoint-manager").unwrap();
        assert_eq!(
            after["spec"]["leaseTransitions"],
            json!(lease["spec"]["leaseTransitions"].as_i64().unwrap() + 1)
        );
        let kinds = |lease: &Value| {
            last_writes(lease)["versions"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(kinds(&after), kinds(&lease));
    }
}

fn outputs(server: &EmbeddedApiServer) -> Vec<Value> {
    ["endpoints", "endpointslices"].iter().flat_map(|plural| server.list(plural)).collect()
}

/// Returns true for a write of the Lease, or of an event that tells who leads.
fn is_about_the_lease(write: &str) -> bool {
    write.contains(LEASE) || write.contains("/namespaces/kube-system/events ")
}
