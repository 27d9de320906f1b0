//! Tests loading objects verbatim, and repeated runs.

use kube_endpoint_embedded_apiserver::{BuildError, EmbeddedApiServer, LoadError};
use serde_json::{Value, json};

use crate::protocol::common::*;

fn recorded() -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {
            "name": "web", "namespace": "shop", "uid": "service-uid", "resourceVersion": "900",
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl", "operation": "Update"}],
        }, "spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ports": [{"port": 80}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": "web-1", "namespace": "shop", "uid": "pod-uid", "resourceVersion": "100",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs"}],
        }, "spec": {"containers": []}, "status": {"phase": "Running"}},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {
            "name": "web-x", "namespace": "shop", "uid": "slice-uid", "resourceVersion": "950", "generation": 4,
        }, "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
    ]})
}

#[tokio::test(start_paused = true)]
async fn loaded_objects_are_unchanged() {
    let (server, raw) = start(EmbeddedApiServer::builder().first_resource_version(5000).load([recorded()]));
    let web = server.get("services", "shop", "web").unwrap();
    let mut expected = recorded()["items"][0]["metadata"].clone();
    expected["resourceVersion"] = web["metadata"]["resourceVersion"].clone();
    assert_eq!(web["metadata"], expected);
    assert_eq!(web["spec"]["ipFamilies"], json!(["IPv4"]), "defaults are filled in");
    let pod = server.get("pods", "shop", "web-1").unwrap();
    assert_eq!(pod["status"]["phase"], "Running");
    assert!(version_of(&pod) < version_of(&web), "the order of the versions is kept");
    assert!(version_of(&pod) > 5000);
    assert!(server.get("namespaces", "", "shop").is_some(), "missing namespaces are made");
    let created = raw.post(SERVICES, &service("other")).await.expect(201);
    assert_ne!(created["spec"]["clusterIP"], "10.96.0.1", "addresses of loaded services are taken");
    let mut watch = raw.watch(&format!("/api/v1/pods?watch=1&resourceVersion={}", version_of(&pod))).await;
    assert!(watch.short().await.starts_with("ERROR too old"), "what was there from the start is no history");
}

/// Writing objects of a real cluster back unchanged causes no new version, no new generation and no
/// event.
#[tokio::test(start_paused = true)]
async fn loaded_objects_can_be_updated_without_a_change() {
    let cluster: Value =
        serde_json::from_str(include_str!("../../../../../integration-tests/fixtures/shop-cluster.json"))
            .unwrap();
    for mut objects in [cluster, recorded()] {
        let (server, raw) = start(EmbeddedApiServer::builder().load([objects.clone()]));
        let version = server.resource_version();
        // A test can load a pod without containers, but no client can write it.
        objects["items"].as_array_mut().unwrap().retain(|item| item["spec"]["containers"] != json!([]));
        for item in objects["items"].as_array().unwrap() {
            let plural = match item["kind"].as_str().unwrap() {
                "Endpoints" => "endpoints".to_owned(),
                kind => format!("{}s", kind.to_lowercase()),
            };
            let (name, namespace) =
                (item["metadata"]["name"].as_str().unwrap(), &item["metadata"]["namespace"]);
            let path = match (item["apiVersion"].as_str().unwrap(), namespace.as_str()) {
                ("v1", None) => format!("/api/v1/{plural}/{name}"),
                ("v1", Some(namespace)) => format!("/api/v1/namespaces/{namespace}/{plural}/{name}"),
                (group, namespace) => {
                    format!("/apis/{group}/namespaces/{}/{plural}/{name}", namespace.unwrap())
                }
            };
            let read = raw.get(&path).await.expect(200);
            for field in ["uid", "ownerReferences", "generation", "managedFields"] {
                assert_eq!(read["metadata"].get(field), item["metadata"].get(field), "{path}");
            }
            assert_eq!(raw.put(&path, &read).await.expect(200), read, "{path}");
            raw.merge(&path, &json!({})).await.expect(200);
            raw.send("PATCH", &path, "application/strategic-merge-patch+json", "{}").await.expect(200);
            if item.get("status").is_some() {
                assert_eq!(raw.put(&format!("{path}/status"), &read).await.expect(200), read, "{path}");
            }
            assert_eq!(server.resource_version(), version, "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn watchers_see_objects_loaded_later() {
    let (server, raw) = started();
    let mut watch = raw.watch("/api/v1/pods?watch=1").await;
    assert!(watch.is_idle());
    assert_eq!(server.load([recorded()]).unwrap(), 3);
    server.load([recorded()]).unwrap();
    assert_eq!(watch.take(2).await, ["ADDED web-1@6", "MODIFIED web-1@9"]);
    pass(5).await;
    assert_eq!(server.count("pods"), 1, "the collector leaves what was loaded alone");
}

#[tokio::test(start_paused = true)]
async fn missing_metadata_is_set() {
    let (server, _) = started();
    let list = json!({"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "bare"}}]});
    assert_eq!(server.load([list]).unwrap(), 1);
    let pod = server.get("pods", "default", "bare").unwrap();
    assert_eq!(
        (pod["kind"].as_str(), pod["metadata"]["creationTimestamp"].as_str()),
        (Some("Pod"), Some("2026-01-01T00:00:00Z"))
    );
    assert_eq!(pod["metadata"]["uid"].as_str().unwrap().len(), 36);
}

#[tokio::test(start_paused = true)]
async fn a_load_with_an_invalid_object_loads_nothing() {
    let (server, _) = started();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}});
    let error = server.load([recorded(), deployment.clone()]).unwrap_err();
    assert_eq!(error.to_string(), "cannot load \"d\": this server does not store Deployment of apps/v1");
    assert_eq!(server.count("pods"), 0);
    let error = server.load([json!({"apiVersion": "v1", "kind": "Pod"})]).unwrap_err();
    assert_eq!(error, LoadError::NoName { kind: "Pod".to_owned() });
    let error = EmbeddedApiServer::builder().load([deployment]).build().unwrap_err();
    assert!(matches!(error, BuildError::Load(_)));
    let error = EmbeddedApiServer::builder().service_ranges(["nonsense", "fd00::/112"]).build().unwrap_err();
    assert!(matches!(error, BuildError::Range(_)));
}

async fn run(seed: u64) -> Vec<String> {
    let (server, raw) = start(EmbeddedApiServer::builder().seed(seed).load([recorded()]));
    let watch = raw.watch("/api/v1/pods?watch=1&timeoutSeconds=100").await;
    let mut unnamed = pod_on("", "n");
    unnamed["metadata"] = json!({"generateName": "p-"});
    for _ in 0..5 {
        raw.post(PODS, &unnamed).await.expect(201);
        pass(3).await;
    }
    raw.post(SERVICES, &service("web")).await.expect(201);
    raw.delete(PODS, &json!({"gracePeriodSeconds": 0})).await.expect(200);
    let mut seen = drain(watch).await;
    seen.extend(
        ["services", "namespaces", "pods"].iter().flat_map(|p| server.list(p)).map(|o| o.to_string()),
    );
    seen
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    let first = run(7).await;
    assert_eq!(first, run(7).await);
    assert_ne!(first, run(8).await);
}

#[test]
fn a_server_can_be_built_without_a_runtime() {
    let server = EmbeddedApiServer::builder().load([recorded()]).build().unwrap();
    assert_eq!(server.count("pods"), 1);
    assert!(format!("{server:?}").starts_with("EmbeddedApiServer"));
}
