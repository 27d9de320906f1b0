//! Tests that nothing is wrong with correct Services as the managers of Kubernetes 1.29, 1.32 and
//! 1.36 leave them.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::{
    Explanation, LintOptions, Objects, Options, Planned, Problem, Severity, Status, explain, lint,
};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

/// The minor versions.
const VERSIONS: [u32; 3] = [29, 32, 36];

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn objects(cluster: &Cluster) -> Objects {
    Objects::read(cluster.objects().iter().cloned()).unwrap()
}

/// Carries out the writes of the controllers, twice, because mirrored slices follow the Endpoints.
fn written(mut cluster: Cluster) -> Cluster {
    for _ in 0..2 {
        let objects = objects(&cluster);
        let keys: Vec<ObjectKey> = objects.services().cloned().collect();
        for key in keys {
            let planned = Planned::new(&objects, &key, &objects.topology(), now(), &Options::upstream());
            cluster = planned.slice_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
            cluster = planned.endpoints_writes().fold(cluster, |cluster, writes| cluster.apply(writes));
        }
    }
    cluster
}

/// Changes the objects to those that the manager of a version writes: it knows the label of
/// Endpoints since 1.33. `by` is the field manager, if the objects name it.
fn as_of(cluster: Cluster, minor: u32, by: Option<&str>) -> Vec<Value> {
    let mut objects = cluster.objects().to_vec();
    for object in &mut objects {
        let is_output = object["kind"] == "Endpoints" || object["kind"] == "EndpointSlice";
        if object["kind"] == "Endpoints" && minor < 33 {
            object["metadata"]["labels"].as_object_mut().map(|labels| labels.remove(MANAGED_BY));
        }
        if let Some(by) = by.filter(|_| is_output) {
            object["metadata"]["managedFields"] = json!([{"manager": by, "time": "2026-01-01T00:00:06Z"}]);
        }
    }
    objects
}

/// Returns a cluster with the kinds of Services that each of these versions has.
fn services(minor: u32) -> Cluster {
    let mut cluster = Cluster::new().node("a").zone("eu-1").node("b").zone("eu-2");
    cluster = cluster.service("web").port("http", 80, "http").pods("web", 3);
    cluster = cluster.service("db").port("db", 8080, 8080).headless().pods("db", 2);
    cluster = cluster.service("both").dual_stack().pods("both", 1);
    cluster = cluster.service("early").publish_not_ready().pods("early", 1);
    cluster = cluster.service("old-hints").topology_aware().pods("old-hints", 4);
    cluster = cluster.service("near").traffic_distribution("PreferClose").pods("near", 2);
    // Before 1.31 no API server keeps the field.
    let forget = |service: &mut Value| {
        if minor < 31 {
            service["spec"].as_object_mut().map(|spec| spec.remove("trafficDistribution"));
        }
    };
    cluster = cluster.select("Service", "near").change(forget);
    let by_hand = [
        json!({"kind": "Service", "metadata": {"name": "outside"}, "spec": {"clusterIP": "10.96.0.99",
            "ipFamilies": ["IPv4"], "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]}}),
        json!({"kind": "Endpoints", "metadata": {"name": "outside"},
            "subsets": [{"addresses": [{"ip": "192.0.2.9"}], "ports": [{"port": 80, "protocol": "TCP"}]}]}),
        // The lock of a leader election, as clients wrote it before Leases.
        json!({"kind": "Endpoints", "metadata": {"name": "lock",
            "annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}}),
    ];
    by_hand.iter().fold(cluster, Cluster::with)
}

/// Returns what lint finds, except for infos of a Service that says itself what it asks for.
fn found(objects: &Objects) -> Vec<String> {
    let all = LintOptions { include_info: true, ..LintOptions::default() };
    let problems = lint(objects, now(), &Options::default(), &all).problems;
    problems.iter().map(|lint| format!("{} {} {}", lint.object.name, lint.code, lint.message)).collect()
}

#[test]
fn nothing_is_wrong_with_what_the_managers_of_three_versions_write() {
    for minor in VERSIONS {
        for by in [None, Some("kube-controller-manager")] {
            let values = as_of(written(services(minor)), minor, by);
            let labels = values.iter().filter(|value| value["metadata"]["labels"][MANAGED_BY].is_string());
            assert_eq!(labels.count() > 0, minor >= 33, "1.{minor}");
            let objects = Objects::read(values).unwrap();
            assert_eq!(found(&objects), [""; 0], "1.{minor} {by:?}");
        }
    }
}

fn explained(values: Vec<Value>) -> Explanation {
    let objects = Objects::read(values).unwrap();
    let key = ObjectKey::new("default", "web");
    explain(&objects, &key, &objects.topology(), now(), None, &Options::default()).unwrap()
}

/// Returns status, codes and the remedies of the problems.
fn told(values: Vec<Value>) -> (Status, Vec<(String, Severity)>, String) {
    let explained = explained(values);
    let codes = explained.faults.iter().map(|fault| (fault.code().to_string(), fault.severity())).collect();
    let remedies: Vec<String> = explained.to_do.iter().map(|advice| advice.remedy.sentence.clone()).collect();
    (explained.verdict.status, codes, remedies.join("\n"))
}

/// Endpoints that a controller has written and that are old are no work of another client, whatever
/// its version is; and no advice says to remove the selector.
#[test]
fn old_endpoints_of_each_version_are_those_of_the_controller() {
    for minor in VERSIONS {
        for by in [None, Some("kube-controller-manager"), Some("kube-endpoint-manager")] {
            let cluster = written(Cluster::new().node("a").service("web").pods("web", 2));
            let mut values = as_of(cluster, minor, by);
            let pod = |value: &Value| value["kind"] == "Endpoints";
            let endpoints = values.iter_mut().find(|value| pod(value)).unwrap();
            endpoints["subsets"][0]["addresses"].as_array_mut().unwrap().pop();
            let (status, codes, remedies) = told(values);
            assert_eq!(codes, [("EP057".to_owned(), Severity::Info)], "1.{minor} {by:?}");
            assert_eq!(status, Status::Ok, "1.{minor} {by:?}");
            assert!(!remedies.contains("selector"), "{remedies}");
        }
    }
}

#[test]
fn endpoints_of_another_client_are_told_in_each_version() {
    for minor in VERSIONS {
        let values = |by: Option<&str>, target: Value| {
            let cluster = written(Cluster::new().node("a").service("web").pods("web", 2));
            let mut values = as_of(cluster, minor, by);
            let endpoints = values.iter_mut().find(|value| value["kind"] == "Endpoints").unwrap();
            endpoints["metadata"]["labels"] = json!({});
            endpoints["subsets"] = json!([{"addresses": [{"ip": "10.9.0.1", "targetRef": target}],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}]);
            values
        };
        let others = [("EP061".to_owned(), Severity::Warning)];
        assert_eq!(told(values(Some("kubectl-edit"), json!({"kind": "Pod", "name": "web-1"}))).1, others);
        assert_eq!(told(values(None, Value::Null)).1, others, "1.{minor}");
    }
}
