//! Runs the controllers on the objects of a real cluster: from its nodes, pods and Services they
//! write the same outputs as upstream's controllers, and they keep the outputs that upstream's
//! controllers wrote.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::time::Duration;

use jiff::Timestamp;
use kube_endpoint_controllers::{ContentType, Gates, Settings};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::conformance::{Compare, unified_diff};
use kube_endpoint_integration_tests::recorded_cluster::{Hints, RecordedCluster, normal_form_of_list};
use kube_endpoint_integration_tests::running_manager::{settings, writes_within};

fn server(objects: Vec<serde_json::Value>) -> EmbeddedApiServer {
    // This is later than all timestamps in the fixture.
    let start: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
    EmbeddedApiServer::builder().start_time(start).load(objects).build().unwrap()
}

/// Returns the state of a server as a `List`, like the fixture.
fn list_of(server: &EmbeddedApiServer) -> serde_json::Value {
    let kinds = [
        ("nodes", "v1", "Node"),
        ("services", "v1", "Service"),
        ("pods", "v1", "Pod"),
        ("endpoints", "v1", "Endpoints"),
        ("endpointslices", "discovery.k8s.io/v1", "EndpointSlice"),
    ];
    let items = kinds.iter().flat_map(|(plural, api_version, kind)| {
        server.list(plural).into_iter().map(move |mut item| {
            item["apiVersion"] = (*api_version).into();
            item["kind"] = (*kind).into();
            item
        })
    });
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()})
}

/// Returns both profiles of gates, each in both formats.
fn all_settings() -> impl Iterator<Item = Settings> {
    let profiles = [Gates::default(), Gates::upstream()];
    profiles.into_iter().flat_map(|gates| {
        ContentType::ALL.into_iter().map(move |content_type| {
            let mut settings = settings(gates.clone());
            settings.content_type = content_type;
            settings
        })
    })
}

const LONG: Duration = Duration::from_secs(120);

#[tokio::test(start_paused = true)]
async fn the_controllers_write_what_upstreams_wrote() {
    let cluster = RecordedCluster::load().unwrap();
    let want = cluster.expected(&Compare::WITHOUT_TRIGGER, Hints::Keep);
    for settings in all_settings() {
        let server = server(cluster.inputs().into_iter().cloned().collect());
        writes_within(&server, &settings, Duration::from_secs(30)).await;
        let got = normal_form_of_list(&list_of(&server), &Compare::WITHOUT_TRIGGER, Hints::Keep);
        assert_eq!(want, got, "{}", unified_diff(&want, &got));
    }
}

#[tokio::test(start_paused = true)]
async fn the_outputs_of_upstreams_controllers_are_kept() {
    let cluster = RecordedCluster::load().unwrap();
    for settings in all_settings() {
        let server = server(vec![cluster.list().clone()]);
        for turn in ["first start", "second start"] {
            let writes = writes_within(&server, &settings, LONG).await;
            assert_eq!(writes, [""; 0], "{turn}, {:?}", settings.content_type);
        }
    }
}
