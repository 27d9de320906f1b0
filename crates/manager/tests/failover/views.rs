//! A change of leader between replicas that work only on some namespaces.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_controllers::Settings;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, LoggedRequest};
use kube_endpoint_informer::Kind;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::lagging::{ALL, lag};
use super::replica::{leader_and_standby, pod, seconds, service, settings};

/// The namespaces. A manager watches some of them.
const NAMESPACES: [&str; 6] = ["billing", "cart", "media", "orders", "search", "stock"];

fn of_namespaces() -> Settings {
    let mut settings = settings();
    settings.namespaces = vec!["billing".to_owned(), "media".to_owned()];
    settings
}

fn has(settings: &Settings, namespace: &str) -> bool {
    settings.watched_namespaces().contains(Kind::Pods, namespace)
}

fn within(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = namespace.into();
    object
}

/// Adds these Services, with a ready pod each, to every namespace.
fn add(server: &EmbeddedApiServer, numbers: std::ops::Range<usize>) {
    for namespace in NAMESPACES {
        let objects = numbers.clone().flat_map(|number| [service(number), pod(number, true)]);
        server.load(objects.map(|object| within(object, namespace))).unwrap();
    }
}

/// Makes the pod of a Service unready in every namespace.
fn make_unready(server: &EmbeddedApiServer, number: usize) {
    server.load(NAMESPACES.map(|namespace| within(pod(number, false), namespace))).unwrap();
}

/// Checks that each watched Service has one slice and one Endpoints object, with its pod ready if
/// `is_ready`, and that no other Service has any.
#[track_caller]
fn assert_right(
    server: &EmbeddedApiServer,
    settings: &Settings,
    services: usize,
    is_ready: impl Fn(usize) -> bool,
) {
    let slices = server.list("endpointslices");
    for namespace in NAMESPACES {
        for number in 0..services {
            let name = format!("s{number}");
            let is_own = |slice: &&Value| {
                slice["metadata"]["namespace"] == namespace
                    && slice["metadata"]["labels"]["kubernetes.io/service-name"] == name
            };
            let ready: Vec<&Value> =
                slices.iter().filter(is_own).map(|it| &it["endpoints"][0]["conditions"]["ready"]).collect();
            let endpoints = server.get("endpoints", namespace, &name);
            if !has(settings, namespace) {
                assert!(ready.is_empty() && endpoints.is_none(), "{namespace}/{name} is not watched");
                continue;
            }
            assert_eq!(ready, [&json!(is_ready(number))], "{namespace}/{name}");
            let part = if is_ready(number) { "addresses" } else { "notReadyAddresses" };
            assert!(endpoints.unwrap()["subsets"][0][part][0]["ip"].is_string(), "{namespace}/{name}");
        }
    }
}

/// Returns the versions of all outputs.
fn versions(server: &EmbeddedApiServer) -> Vec<Value> {
    let outputs = ["endpointslices", "endpoints"].map(|plural| server.list(plural));
    outputs.iter().flatten().map(|it| it["metadata"]["resourceVersion"].clone()).collect()
}

/// Ends the leader right after it has created and changed outputs, while the standby's watches lag
/// by five seconds. Returns the reads of the standby, without those of the Lease.
async fn play(server: EmbeddedApiServer, settings: &Settings, released: bool) -> Vec<LoggedRequest> {
    server.load([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).unwrap();
    for namespace in NAMESPACES {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        server.load([object]).unwrap();
    }
    let watched = NAMESPACES.iter().filter(|namespace| has(settings, namespace)).count();
    assert!((1..NAMESPACES.len()).contains(&watched), "{watched} namespaces are watched");
    add(&server, 0..5);
    let (leader, standby) = leader_and_standby(&server, settings, Arc::new(|_| ())).await;
    assert_right(&server, settings, 5, |_| true);

    lag(&server, "b", ALL);
    sleep(Duration::from_millis(1100)).await;
    add(&server, 5..10);
    make_unready(&server, 0);
    sleep(Duration::from_millis(100)).await;
    assert_right(&server, settings, 10, |number| number != 0);
    let before = versions(&server);
    server.clear_request_log();
    if released {
        leader.stop().await;
        assert!(standby.led().await < seconds(6));
    } else {
        leader.kill().await;
        standby.led().await;
    }
    // The previous leader has not seen this change.
    make_unready(&server, 1);
    sleep(seconds(60)).await;
    assert_right(&server, settings, 10, |number| number > 1);
    let refused = standby.writes(&server).into_iter().filter(|write| write.status >= 400).count();
    assert_eq!(refused, 0);
    let after = versions(&server);
    let changes = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert_eq!(changes, 2 * watched, "only the outputs of the changed pods were written");
    assert!(standby.writes(&server).iter().all(|write| has(settings, &write.request.namespace)));
    let is_read = |entry: &LoggedRequest| !entry.request.is_write() && entry.request.plural() != "leases";
    standby.requests(&server).into_iter().filter(is_read).collect()
}

fn plain_server() -> EmbeddedApiServer {
    EmbeddedApiServer::builder().seed(1).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_of_some_namespaces_reads_only_these_and_loses_no_update() {
    let settings = of_namespaces();
    for released in [true, false] {
        let reads = play(plain_server(), &settings, released).await;
        assert!(released || reads.iter().any(|read| read.request.query.contains("limit=1")));
        let foreign = |read: &&LoggedRequest| {
            read.request.plural() != "nodes" && !has(&settings, &read.request.namespace)
        };
        let foreign: Vec<_> = reads.iter().filter(foreign).map(|read| &read.request.path).collect();
        assert!(foreign.is_empty(), "{foreign:?}");
    }
}
