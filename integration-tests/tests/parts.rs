//! Tests managers that share a cluster: by the labels of Services, and by namespaces. The server's
//! request log names the writers.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_controllers::{Gates, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, LoggedRequest};
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings};
use kube_endpoint_testing::MetricsPage;
use serde_json::{Value, json};
use tokio::time::sleep;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns the settings of the manager that syncs the Services with this label.
fn part(name: &str) -> Settings {
    let mut settings = settings(Gates::default());
    settings.service_selector = Some(format!("part={name}").parse().unwrap());
    settings
}

/// Starts a manager whose requests carry `name` as user agent suffix.
fn start(server: &EmbeddedApiServer, name: &str, settings: &Settings) -> RunningManager {
    RunningManager::start_as(server, name, settings)
}

fn server() -> EmbeddedApiServer {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    EmbeddedApiServer::builder().seed(7).track_managers().load([node]).build().unwrap()
}

fn service(namespace: &str, name: &str, part: &str, selector: Option<&str>) -> Value {
    let selector = selector.map_or(Value::Null, |app| json!({"app": app}));
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": {"part": part}},
        "spec": {"selector": selector, "ports": [{"port": 80}]}})
}

fn pod(namespace: &str, name: &str, app: &str, address: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn endpoints(namespace: &str, name: &str, address: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "namespace": namespace},
        "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]})
}

/// Returns Endpoints that a controller has written.
fn made_endpoints(namespace: &str, name: &str, address: &str) -> Value {
    let mut endpoints = endpoints(namespace, name, address);
    endpoints["metadata"]["managedFields"] = json!([{
        "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:subsets": {}},
    }]);
    endpoints
}

/// Sets the label of a Service, as an update by a user does.
fn relabel(server: &EmbeddedApiServer, name: &str, part: &str) {
    let mut service = server.get("services", "default", name).unwrap();
    service["metadata"]["labels"]["part"] = part.into();
    server.load([service]).unwrap();
}

async fn delete_service(server: &EmbeddedApiServer, name: &str) {
    let client = kube::Client::new(server.service(), "default");
    let services = kube::Api::<k8s_openapi::api::core::v1::Service>::default_namespaced(client);
    services.delete(name, &Default::default()).await.unwrap();
}

/// Returns the writes of endpoint objects by the manager of this name, from the entry `since` of
/// the log on.
fn writes_of(server: &EmbeddedApiServer, name: &str, since: usize) -> Vec<String> {
    let log = server.request_log();
    let own = |entry: &&LoggedRequest| {
        entry.request.is_write()
            && entry.request.plural() != "events"
            && entry.request.user_agent.starts_with(&format!("{name}/"))
    };
    let line = |entry: &LoggedRequest| format!("{} {}", entry.request.verb, entry.request.path);
    log[since..].iter().filter(own).map(line).collect()
}

/// Returns the addresses in the slices of a Service, and in its Endpoints.
fn published(
    server: &EmbeddedApiServer,
    namespace: &str,
    name: &str,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let slices = server.list("endpointslices").into_iter().filter(|slice| {
        slice["metadata"]["namespace"] == namespace
            && slice["metadata"]["labels"]["kubernetes.io/service-name"] == name
    });
    let of_slice = |slice: Value| -> Vec<String> {
        let all = slice["endpoints"].as_array().cloned().unwrap_or_default();
        all.iter().map(|endpoint| text(&endpoint["addresses"][0])).collect()
    };
    let in_slices = slices.flat_map(of_slice).collect();
    let endpoints = server.get("endpoints", namespace, name).unwrap_or_default();
    let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
    let in_endpoints =
        subsets.iter().flat_map(|subset| subset["addresses"].as_array().cloned().unwrap_or_default());
    (in_slices, in_endpoints.map(|address| text(&address["ip"])).collect())
}

fn addresses(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|address| (*address).to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_relabelled_keeps_its_outputs_and_is_synced_by_the_part_that_it_joins() {
    let server = server();
    server.create(service("default", "web", "a", Some("web"))).await.unwrap();
    server.create(service("default", "db", "b", Some("db"))).await.unwrap();
    // This Service is mirrored: it has no selector, and a user wrote its Endpoints.
    server.create(service("default", "ext", "a", None)).await.unwrap();
    server.create(endpoints("default", "ext", "192.0.2.1")).await.unwrap();
    server
        .load([pod("default", "web-1", "web", "10.0.0.1"), pod("default", "db-1", "db", "10.0.1.1")])
        .unwrap();
    let managers = [start(&server, "a", &part("a")), start(&server, "b", &part("b"))];
    sleep(seconds(10)).await;
    let one = addresses(&["10.0.0.1"]);
    assert_eq!(published(&server, "default", "web"), (one.clone(), one));
    assert_eq!(published(&server, "default", "ext").0, addresses(&["192.0.2.1"]));
    assert!(writes_of(&server, "a", 0).iter().all(|write| !write.contains("db")));
    assert!(
        writes_of(&server, "b", 0).iter().all(|write| write.contains("db") || write.starts_with("create"))
    );

    let mut expected = vec!["10.0.0.1".to_owned()];
    let mut mirrored = "192.0.2.1".to_owned();
    for round in 0..6 {
        let (joined, left) = if round % 2 == 0 { ("b", "a") } else { ("a", "b") };
        let before = server.request_log().len();
        relabel(&server, "web", joined);
        relabel(&server, "ext", joined);
        sleep(seconds(10)).await;
        // The new part of the Service copies its labels to the outputs.
        assert_eq!(writes_of(&server, left, before), [""; 0], "round {round}");
        let address = format!("10.0.0.{}", round + 2);
        server.load([pod("default", &format!("web-{}", round + 2), "web", &address)]).unwrap();
        expected.push(address);
        mirrored = format!("192.0.2.{}", round + 2);
        let mut changed = server.get("endpoints", "default", "ext").unwrap();
        changed["subsets"][0]["addresses"][0]["ip"] = mirrored.clone().into();
        server.load([changed]).unwrap();
        sleep(seconds(10)).await;
        let want: BTreeSet<String> = expected.iter().cloned().collect();
        assert_eq!(published(&server, "default", "web"), (want.clone(), want), "round {round}");
        assert_eq!(published(&server, "default", "ext").0, addresses(&[&mirrored]));
        assert_eq!(writes_of(&server, left, before), [""; 0], "round {round}");
        assert!(!writes_of(&server, joined, before).is_empty());
    }
    let deletes = ["a", "b"].map(|name| writes_of(&server, name, 0)).concat();
    assert!(deletes.iter().all(|write| !write.starts_with("delete")), "{deletes:?}");
    assert_eq!(published(&server, "default", "ext").1, addresses(&[&mirrored]));
    for manager in managers {
        manager.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_outputs_of_a_deleted_service_are_deleted_by_the_part_of_its_last_labels() {
    let server = server();
    for (name, selector) in [("web", Some("web")), ("ext", None)] {
        server.create(service("default", name, "a", selector)).await.unwrap();
    }
    // The labels of these Endpoints are not those of the Service, and select no part.
    server.create(endpoints("default", "ext", "192.0.2.1")).await.unwrap();
    let managers = [start(&server, "a", &part("a")), start(&server, "b", &part("b"))];
    sleep(seconds(10)).await;
    relabel(&server, "web", "b");
    relabel(&server, "ext", "b");
    sleep(seconds(10)).await;
    let before = server.request_log().len();
    for name in ["web", "ext"] {
        delete_service(&server, name).await;
    }
    sleep(seconds(20)).await;
    assert_eq!((server.count("endpointslices"), server.get("endpoints", "default", "ext")), (0, None));
    assert_eq!(server.get("endpoints", "default", "web"), None);
    assert_eq!(writes_of(&server, "a", before), [""; 0]);
    let deleted = writes_of(&server, "b", before);
    assert!(deleted.iter().all(|write| write.starts_with("delete")), "{deleted:?}");
    // The server itself deletes the Endpoints, and the garbage collector the other slices.
    assert!(deleted.iter().any(|write| write.contains("/endpointslices/ext-")), "{deleted:?}");
    for manager in managers {
        manager.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_service_left_that_was_deleted_while_no_part_ran_is_deleted_by_the_part_of_its_labels() {
    let server = server();
    let labelled = |name: &str, part: &str| {
        let mut endpoints = made_endpoints("default", name, "192.0.2.1");
        endpoints["metadata"]["labels"] = json!({"part": part});
        endpoints
    };
    // There is no Service. A mirrored slice without its Endpoints is left, too.
    let slice = |name: &str, part: &str| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [],
            "metadata": {"name": name, "namespace": "default", "labels": {"part": part,
                "kubernetes.io/service-name": "ext",
                "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"}}})
    };
    server
        .load([labelled("web", "a"), labelled("db", "b"), slice("ext-1", "a"), slice("ext-2", "b")])
        .unwrap();
    let one = start(&server, "a", &part("a"));
    sleep(seconds(20)).await;
    let mut deleted = writes_of(&server, "a", 0);
    deleted.sort_unstable();
    assert_eq!(
        deleted,
        [
            "delete /api/v1/namespaces/default/endpoints/web",
            "delete /apis/discovery.k8s.io/v1/namespaces/default/endpointslices/ext-1"
        ]
    );
    let other = start(&server, "b", &part("b"));
    sleep(seconds(20)).await;
    assert_eq!((server.count("endpoints"), server.count("endpointslices")), (0, 0));
    assert_eq!(writes_of(&server, "a", 0).len(), 2);
    one.stop().await;
    other.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_services_outside_the_selection_start_no_syncs() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let server = server();
    for (name, part) in [("web", "a"), ("db", "b")] {
        server.create(service("default", name, part, Some(name))).await.unwrap();
    }
    let manager = metrics::with_local_recorder(&recorder, || start(&server, "a", &part("a")));
    sleep(seconds(10)).await;
    let added = |queue: &str| {
        let page = MetricsPage::new(handle.render());
        page.value("workqueue_adds_total", &[("name", queue)]).unwrap_or_default()
    };
    let all = || ["endpoint_slice", "endpoint", "endpoint_slice_mirroring"].map(added);
    let before = all();
    for number in 1..20 {
        server.load([pod("default", &format!("db-{number}"), "db", &format!("10.0.1.{number}"))]).unwrap();
    }
    sleep(seconds(10)).await;
    assert_eq!(all(), before, "the pods of a Service outside the selection");
    server.load([pod("default", "web-1", "web", "10.0.0.1")]).unwrap();
    sleep(seconds(10)).await;
    assert!(all()[0] > before[0] && all()[1] > before[1], "the pods of a Service that is selected");
    assert_eq!(published(&server, "default", "db"), (addresses(&[]), addresses(&[])));
    manager.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_manager_of_some_namespaces_requests_and_writes_nothing_elsewhere() {
    let server = server();
    for namespace in ["one", "two", "three"] {
        server
            .load([json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})])
            .unwrap();
        server.create(service(namespace, "web", "a", Some("web"))).await.unwrap();
        server.load([pod(namespace, "web-1", "web", "10.0.0.1")]).unwrap();
        server.load([made_endpoints(namespace, "lonely", "192.0.2.1")]).unwrap();
    }
    let with = |namespaces: &[&str]| {
        let mut settings = settings(Gates::default());
        settings.namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        settings
    };
    let both = start(&server, "both", &with(&["one", "two"]));
    sleep(seconds(10)).await;
    let third = start(&server, "third", &with(&["three"]));
    sleep(seconds(10)).await;
    let one = addresses(&["10.0.0.1"]);
    for namespace in ["one", "two", "three"] {
        assert_eq!(published(&server, namespace, "web"), (one.clone(), one.clone()), "{namespace}");
        assert_eq!(server.get("endpoints", namespace, "lonely"), None, "it has no Service: {namespace}");
    }
    let log = server.request_log();
    let own = |name: &str| {
        let agent = format!("{name}/");
        let own = log.iter().filter(|entry| entry.request.user_agent.starts_with(&agent));
        own.map(|entry| entry.request.clone()).collect::<Vec<_>>()
    };
    for (name, namespaces) in [("both", &["one", "two"][..]), ("third", &["three"])] {
        let requests = own(name);
        assert!(requests.iter().any(|request| request.is_write()));
        // Discovery names no resource.
        for request in requests.into_iter().filter(|request| request.resource.is_some()) {
            assert!(
                request.plural() == "nodes" || namespaces.contains(&&*request.namespace),
                "{name}: {}",
                request.path
            );
        }
    }
    both.stop().await;
    third.stop().await;
}

#[tokio::test(start_paused = true)]
async fn mirrored_slices_outlast_a_cache_that_does_not_show_their_service_yet() {
    for kind in ["services", "endpoints"] {
        let server = server();
        let version = server.resource_version();
        server.create(service("default", "ext", "a", None)).await.unwrap();
        server.create(endpoints("default", "ext", "192.0.2.1")).await.unwrap();
        let first = start(&server, "first", &settings(Gates::default()));
        sleep(seconds(10)).await;
        first.stop().await;
        assert_eq!(server.count("endpointslices"), 1);
        // The next process reads one kind from a server that is behind, and its watch brings the
        // rest later.
        let behind = server.resource_version() - version;
        server.add_fault(FaultRule::on(Fault::ServeOlder { versions: behind }, "list", kind).times(1));
        server.add_fault(FaultRule::on(Fault::StallWatch(seconds(30)), "watch", kind).times(1));
        let mut settings = settings(Gates::default());
        settings.watch_list_client = false;
        let second = start(&server, "second", &settings);
        sleep(seconds(20)).await;
        let asked = |plural: &str| {
            let log = server.request_log();
            let gets = log.iter().filter(|entry| {
                entry.request.verb == "get"
                    && entry.request.plural() == plural
                    && entry.request.user_agent.contains("mirroring")
            });
            gets.count()
        };
        assert!(asked(kind) > 0, "the cache did not show {kind}, so the server was asked");
        sleep(seconds(60)).await;
        assert_eq!(writes_of(&server, "second", 0), [""; 0], "{kind}");
        assert_eq!(published(&server, "default", "ext").0, addresses(&["192.0.2.1"]));
        second.stop().await;
    }
}
