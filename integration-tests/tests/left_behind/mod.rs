//! A replica leaves a Lease, EndpointSlices, Endpoints and statuses behind. Each version is
//! recorded in `fixtures/left-behind/VERSION.json`. Every later version takes over from the
//! records, and the reader of an earlier version understands what this one leaves.

mod additions;
mod reader_0_1;

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::path::PathBuf;

use kube_endpoint_controllers::{ControllerName, Gates, LeaderElectionSettings, Settings};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::left_behind::{
    change, folder, inputs, read as objects_of, record_of, shows_leader,
};
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings, writes};
use kube_endpoint_testing::Redacted;
use serde_json::{Value, json};

use crate::gates::test_cluster::LONG;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const LAST_WRITES: &str = "kube-endpoint-manager/last-writes";

fn replica(identity: &str) -> Settings {
    let mut settings = settings(Gates::default());
    settings.controllers = ControllerName::ALL.to_vec();
    settings.leader_election =
        Some(LeaderElectionSettings { identity: Some(identity.to_owned()), ..Default::default() });
    settings
}

/// Returns the objects that this version leaves, with those that it was started on.
async fn left_by_this_version() -> Vec<Value> {
    let server = EmbeddedApiServer::builder().seed(1).track_managers().load(inputs()).build().unwrap();
    let manager = RunningManager::start(&server, &replica("a"));
    tokio::time::sleep(LONG / 2).await;
    let client = kube::Client::new(server.service(), "default");
    change(&client, server.now()).await.unwrap();
    tokio::time::sleep(LONG / 2).await;
    manager.stop().await;
    objects_of(&client).await.unwrap()
}

fn recorded(path: PathBuf) -> Vec<Value> {
    let text = read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; the README there says how to record", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Returns the records of all versions.
fn records() -> Vec<(PathBuf, Vec<Value>)> {
    let files = read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|it| it.extension().is_some_and(|it| it == "json")).collect();
    files.sort();
    assert!(!files.is_empty());
    files.into_iter().map(|file| (file.clone(), recorded(file))).collect()
}

fn is_our_lease(object: &Value) -> bool {
    object["kind"] == "Lease" && object["metadata"]["name"] == "kube-endpoint-manager"
}

fn our_lease(objects: &[Value]) -> &Value {
    objects.iter().find(|object| is_our_lease(object)).unwrap()
}

fn our_lease_mut(objects: &mut [Value]) -> &mut Value {
    objects.iter_mut().find(|object| is_our_lease(object)).unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// Returns the annotation that the Lease of a released leader has, or null if it cannot be read.
fn last_writes(lease: &Value) -> Value {
    let text = lease["metadata"]["annotations"][LAST_WRITES].as_str();
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Returns everything that the next version may depend on, without names, uids, times and versions.
fn comparable(mut objects: Vec<Value>) -> Value {
    for object in &mut objects {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let ours = entries.iter().filter(|entry| entry["manager"] == "kube-endpoint-manager");
        object["writes"] = ours.map(|entry| json!([entry["operation"], entry["subresource"]])).collect();
        if is_our_lease(object) {
            let mut left = last_writes(object);
            for version in left["versions"].as_object_mut().into_iter().flat_map(|it| it.values_mut()) {
                if version.as_str().is_some_and(|version| version.parse::<u64>().is_ok()) {
                    *version = "[version]".into();
                }
            }
            object["metadata"]["annotations"][LAST_WRITES] = left;
        }
    }
    Redacted::new(objects).as_value().clone()
}

#[tokio::test(start_paused = true)]
async fn this_version_leaves_what_its_record_says() {
    let path = record_of(env!("CARGO_PKG_VERSION"));
    let recorded = recorded(path.clone());
    let left = left_by_this_version().await;
    let count = |kind: &str| of_kind(&left, kind).count();
    assert_eq!((count("Lease"), count("Endpoints"), count("EndpointSlice")), (2, 3, 6));
    let slices: Vec<Value> = of_kind(&left, "EndpointSlice").cloned().collect();
    assert!(shows_leader(&slices), "{slices:#?}");
    let pretty = |objects: Vec<Value>| serde_json::to_string_pretty(&comparable(objects)).unwrap();
    let (recorded, left) = (pretty(recorded), pretty(left));
    let diff = similar::TextDiff::from_lines(&recorded, &left);
    assert!(
        recorded == left,
        "This version leaves something else than {}. If it is released, other versions have to read \
         what it left: change nothing. Otherwise record it again, as the README there says.\n{}",
        path.display(),
        diff.unified_diff().context_radius(5)
    );
}

/// The result of a take-over.
struct TakenOver {
    /// Writes of anything but the Lease and events on it.
    writes: Vec<String>,
    /// The Lease in the end.
    lease: Value,
    /// The outputs are the same as before.
    is_unchanged: bool,
}

impl TakenOver {
    /// Returns the versions that it leaves to the next leader, or null if it leaves none.
    fn versions(&self) -> Value {
        let mut left = last_writes(&self.lease);
        // A replica keeps an annotation that it does not know.
        let is_its_own = left["released"] == self.lease["spec"]["renewTime"];
        if is_its_own { left["versions"].take() } else { Value::Null }
    }
}

/// Starts this version on what another one left, and stops it.
async fn take_over(objects: Vec<Value>) -> TakenOver {
    let lease = our_lease(&objects);
    // The caches of the next leader have to reach the versions that the annotation names.
    let newest = objects.iter().filter_map(|it| it["metadata"]["resourceVersion"].as_str()?.parse().ok());
    let newest: u64 = newest.max().unwrap();
    let released: jiff::Timestamp = lease["spec"]["renewTime"].as_str().unwrap().parse().unwrap();
    let builder = EmbeddedApiServer::builder().first_resource_version(newest).start_time(released);
    let server = builder.track_managers().load(objects).build().unwrap();
    let outputs = || -> Vec<Value> {
        let kinds = ["endpoints", "endpointslices", "endpointselectors"];
        kinds.iter().flat_map(|plural| server.list(plural)).collect()
    };
    let before = outputs();
    let manager = RunningManager::start(&server, &replica("b"));
    tokio::time::sleep(LONG).await;
    manager.stop().await;
    let is_about_the_lease =
        |write: &String| write.contains(LEASES) || write.contains("/namespaces/kube-system/events ");
    let writes = writes(&server).into_iter().filter(|write| !is_about_the_lease(write)).collect();
    let lease = server.get("leases", "kube-system", "kube-endpoint-manager").unwrap();
    TakenOver { writes, lease, is_unchanged: outputs() == before }
}

/// A leader that writes nothing hands on the versions that it has read in the annotation, and those
/// only. So they show that it has read it.
#[tokio::test(start_paused = true)]
async fn a_replica_takes_over_from_each_version_and_writes_only_the_lease() {
    for (file, objects) in records() {
        let lease = our_lease(&objects).clone();
        let taken = take_over(objects).await;
        assert!(taken.writes.is_empty() && taken.is_unchanged, "{}: {:#?}", file.display(), taken.writes);
        let transitions = lease["spec"]["leaseTransitions"].as_i64().unwrap() + 1;
        assert_eq!(taken.lease["spec"]["leaseTransitions"], transitions, "it has led");
        let (left, handed_on) = (last_writes(&lease)["versions"].take(), taken.versions());
        for kind in ["endpoints", "endpointslices"] {
            assert_eq!(
                handed_on[kind],
                left[kind],
                "{}: this version does not read the last writes of {kind}. It would list them at each take-over, and \
                 replicas of two versions would not wait for each other. Read the former annotation, too",
                file.display()
            );
        }
    }
}

/// Returns what a reader says about each object of a kind.
fn read<T: Ord, R>(
    objects: &[Value],
    kind: &str,
    reader: impl Fn(&Value) -> Result<(T, R), String>,
) -> BTreeMap<T, R> {
    let read = of_kind(objects, kind).map(reader).collect::<Result<_, _>>();
    read.unwrap_or_else(|why| panic!("{why}. {}", reader_0_1::NOT_UNDERSTOOD))
}

/// Checks that replicas of 0.1 understand these objects.
fn check_with_reader_0_1(left: &[Value]) {
    let versions = reader_0_1::last_writes(our_lease(left));
    let versions = versions.unwrap_or_else(|why| panic!("{why}. {}", reader_0_1::NOT_UNDERSTOOD));
    for (kind, plural) in [("EndpointSlice", "endpointslices"), ("Endpoints", "endpoints")] {
        let ours = of_kind(left, kind).filter(|it| it["metadata"]["managedFields"].is_array());
        let version = |it: &Value| it["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok();
        let newest = ours.filter_map(version).max();
        assert_eq!(versions.get(plural), newest.as_ref(), "{kind}. {}", reader_0_1::NOT_UNDERSTOOD);
    }
    for plural in ["pods", "endpointselectors"] {
        assert!(versions.contains_key(plural), "{plural}: {versions:?}. {}", reader_0_1::NOT_UNDERSTOOD);
    }
    let slices = read(left, "EndpointSlice", reader_0_1::slice);
    let slices: Vec<(&str, &str)> = slices.iter().map(|(name, by)| (&**name, &**by)).collect();
    let wanted = [
        ("close", "slices"),
        ("custom", "mirrored"),
        ("expressions", "selector stable"),
        ("headless", "slices"),
        ("leader", "selector leader"),
        ("retired", "slices"),
    ];
    assert_eq!(slices, wanted, "{}", reader_0_1::NOT_UNDERSTOOD);
    let endpoints: Vec<_> = read(left, "Endpoints", reader_0_1::endpoints).into_iter().collect();
    let wanted = [("close", true), ("custom", false), ("headless", true)];
    assert_eq!(endpoints, wanted.map(|(name, is)| (name.to_owned(), is)), "{}", reader_0_1::NOT_UNDERSTOOD);
    let selectors: Vec<_> = read(left, "EndpointSelector", reader_0_1::selector).into_iter().collect();
    let wanted = [("leader", "HolderRecognised"), ("stable", "Accepted")];
    let wanted = wanted.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
    assert_eq!(selectors, wanted, "{}", reader_0_1::NOT_UNDERSTOOD);
}

#[tokio::test(start_paused = true)]
async fn replicas_of_0_1_understand_what_this_version_leaves() {
    check_with_reader_0_1(&left_by_this_version().await);
}

/// The reader is right about the version that it stands for.
#[test]
fn the_reader_of_0_1_understands_what_0_1_left() {
    check_with_reader_0_1(&recorded(record_of("0.1.0")));
}
