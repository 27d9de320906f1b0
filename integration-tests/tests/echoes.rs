//! Tests that writes stay bounded on a server that stores other bytes than it got, under the
//! version that it answers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube_endpoint_controllers::{ApiClient, ContentType, Gates, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, ServiceError};
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings, writes};
use serde_json::{Value, json};
use tower::ServiceExt;

/// Bytes, and two replacements of the same length that the server stores by turns.
type Replaced = (&'static [u8], [&'static [u8]; 2]);

/// Replaces bytes in the body of a request, if it creates or updates a slice or Endpoints.
async fn mutated(request: Request<Body>, replaced: &[Replaced], turn: &AtomicUsize) -> Request<Body> {
    let is_output =
        ["/endpointslices", "/endpoints"].iter().any(|plural| request.uri().path().contains(plural));
    if !(is_output && matches!(*request.method(), Method::POST | Method::PUT)) {
        return request;
    }
    let (head, body) = request.into_parts();
    let mut body = body.collect().await.unwrap().to_bytes().to_vec();
    let turn = turn.fetch_add(1, Ordering::Relaxed) % 2;
    for (from, to) in replaced {
        let to = to[turn];
        assert_eq!(from.len(), to.len());
        for at in 0..body.len().saturating_sub(from.len() - 1) {
            if body[at..].starts_with(from) {
                body[at..at + to.len()].copy_from_slice(to);
            }
        }
    }
    Request::from_parts(head, Body::from(body))
}

/// Returns Services with two pods each.
fn objects(services: usize) -> Vec<Value> {
    let pod = |app: &str, name: &str, ip: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
            "spec": {"nodeName": "node-a", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-12-01T00:00:00Z"}]}})
    };
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a", "labels": {"topology.kubernetes.io/zone": "zone-a"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}}}),
    ];
    for number in 0..services {
        let app = format!("web-{number}");
        let ip = format!("10.96.{}.{}", number / 200, number % 200 + 7);
        objects.push(
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": app, "namespace": "default"},
            "spec": {"clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"], "selector": {"app": app},
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]}}),
        );
        objects.push(pod(&app, &format!("{app}-1"), "10.0.0.1"));
        objects.push(pod(&app, &format!("{app}-2"), "10.0.0.2"));
    }
    objects
}

fn server(services: usize) -> EmbeddedApiServer {
    EmbeddedApiServer::builder()
        .seed(1)
        .start_time("2026-12-01T00:00:00Z".parse().unwrap())
        .load(objects(services))
        .build()
        .unwrap()
}

/// Runs a manager on a server that replaces bytes, for this time.
async fn run(server: &EmbeddedApiServer, settings: &Settings, replaced: &'static [Replaced], time: Duration) {
    let service = server.service();
    let turns: Arc<[AtomicUsize; 2]> = Arc::default();
    let client = ApiClient::for_tests(tower::service_fn(move |request: Request<Body>| {
        let (service, turns) = (service.clone(), Arc::clone(&turns));
        async move {
            let turn = &turns[usize::from(request.uri().path().contains("/endpointslices"))];
            let answer = service.oneshot(mutated(request, replaced, turn).await).await?;
            Ok::<_, ServiceError>(answer)
        }
    }));
    let manager = RunningManager::with_client(client, server, settings, 1);
    tokio::time::sleep(time).await;
    manager.stop().await;
}

/// Runs a manager on a server that replaces bytes, for an hour. Returns the number of writes of
/// slices and of Endpoints.
async fn writes_in_an_hour(content_type: ContentType, replaced: &'static [Replaced]) -> (usize, usize) {
    let server = server(1);
    let mut settings = settings(Gates::default());
    settings.content_type = content_type;
    run(&server, &settings, replaced, Duration::from_secs(3600)).await;
    let count = |plural: &str| {
        writes(&server).iter().filter(|write| write.contains(plural) && !write.contains("/events")).count()
    };
    (count("/endpointslices"), count("/endpoints") - count("/endpointslices"))
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stores_what_it_was_sent_gets_one_write_of_each() {
    for content_type in ContentType::ALL {
        assert_eq!(Box::pin(writes_in_an_hour(content_type, &[])).await, (1, 1), "{content_type:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_field_that_the_server_does_not_know_is_written_a_few_times() {
    for content_type in ContentType::ALL {
        // The zone of an endpoint, as a field that the server skips: number 15 in protobuf.
        let unknown: &'static [Replaced] = match content_type {
            ContentType::Protobuf => &[(b"\x3a\x06zone-a", [b"\x7a\x06zone-a"; 2])],
            ContentType::Json => &[(b"\"zone\":", [b"\"zonf\":"; 2])],
        };
        let (slices, endpoints) = Box::pin(writes_in_an_hour(content_type, unknown)).await;
        assert!((2..16).contains(&slices), "{content_type:?}: {slices} writes of slices");
        assert_eq!(endpoints, 1, "{content_type:?}");
    }
}

/// More writes wait for their echoes than the manager holds objects for a comparison.
#[tokio::test(start_paused = true)]
async fn what_a_mutating_webhook_changes_in_hundreds_of_objects_is_written_again() {
    const SERVICES: usize = 300;
    const WEBHOOK: &[Replaced] = &[(b"node-a", [b"node-b"; 2])];
    for content_type in ContentType::ALL {
        let server = server(SERVICES);
        let mut settings = settings(Gates::default());
        settings.content_type = content_type;
        settings.watch_list_client = false;
        for plural in ["endpoints", "endpointslices"] {
            let stalled = Fault::StallWatch(Duration::from_secs(60));
            server.add_fault(FaultRule::on(stalled, "watch", plural).times(1));
        }
        Box::pin(run(&server, &settings, WEBHOOK, Duration::from_secs(90))).await;
        for plural in ["endpoints", "endpointslices"] {
            let (creates, updates) = (format!("/{plural} 201"), format!("/{plural}/"));
            let writes = writes(&server);
            let created = writes.iter().filter(|it| it.starts_with("POST") && it.ends_with(&creates)).count();
            assert_eq!(created, SERVICES, "{content_type:?} {plural}");
            let updates = writes.iter().filter(|it| it.starts_with("PUT") && it.contains(&updates));
            let updated: BTreeSet<&String> = updates.collect();
            assert_eq!(updated.len(), SERVICES, "{content_type:?} {plural}");
        }
    }
}
