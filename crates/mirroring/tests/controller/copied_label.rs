//! Tests with slices that a user made with the label of the mirroring controller.

use std::time::Duration;

use kube_endpoint_mirroring::ControllerOptions;
use kube_endpoint_testing::Log;
use serde_json::{Value, json};
use tracing::Level;

use crate::controller::harness::{Harness, endpoints, fields_of, server, service};

/// Takes the lines about slices that the controller deletes.
fn deletions(log: &Log) -> Vec<String> {
    let text = log.take();
    let lines = text.lines().filter(|line| line.contains("with the label of the mirroring controller"));
    lines.map(str::to_owned).collect()
}

fn copied(name: &str, service: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
            },
            "managedFields": fields_of("kubectl-create", "f:endpoints"),
        },
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.1"]}], "ports": [],
    })
}

#[tokio::test(start_paused = true)]
async fn slices_with_the_label_whose_endpoints_are_not_mirrored_are_deleted_with_a_line_in_the_log() {
    let log = Log::capture(Level::INFO);
    let mut selected = service("selected");
    selected["spec"]["selector"] = json!({"app": "web"});
    let mut skipped = endpoints("skipped", &["192.0.2.1"]);
    skipped["metadata"]["labels"] = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let mut lock = endpoints("lock", &[]);
    lock["metadata"]["annotations"] = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    let objects = [
        copied("a", "web"),
        service("no-endpoints"),
        copied("b", "no-endpoints"),
        selected,
        endpoints("selected", &["192.0.2.1"]),
        copied("c", "selected"),
        service("skipped"),
        skipped,
        copied("d", "skipped"),
        service("lock"),
        lock,
        copied("e", "lock"),
        endpoints("no-service", &["192.0.2.1"]),
        copied("f", "no-service"),
    ];
    let harness = Harness::start(&server(objects), ControllerOptions::default()).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), ["delete endpointslices 200"; 6]);
    let mut lines = deletions(&log);
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"), @r#"
     INFO deleting slices with the label of the mirroring controller whose Endpoints are not mirrored endpoints=default/lock reason=the Endpoints are a leader-election lock slices=1 first="e"
     INFO deleting slices with the label of the mirroring controller whose Endpoints are not mirrored endpoints=default/no-endpoints reason=there are no Endpoints slices=1 first="b"
     INFO deleting slices with the label of the mirroring controller whose Endpoints are not mirrored endpoints=default/no-service reason=there is no Service of that name slices=1 first="f"
     INFO deleting slices with the label of the mirroring controller whose Endpoints are not mirrored endpoints=default/selected reason=the Service has a selector slices=1 first="c"
     INFO deleting slices with the label of the mirroring controller whose Endpoints are not mirrored endpoints=default/skipped reason=the Endpoints have the skip-mirror label slices=1 first="d"
     INFO deleting slices with the label of the mirroring controller whose Endpoints are not mirrored endpoints=default/web reason=there are no Endpoints slices=1 first="a"
    "#);
    // The log gets 20 lines a minute.
    for number in 0..100 {
        harness.create(&copied(&format!("copied-{number}"), &format!("gone-{number}"))).await;
    }
    harness.pass(Duration::from_secs(30)).await;
    assert_eq!(harness.server.count("endpointslices"), 0);
    assert_eq!(deletions(&log).len(), 20);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn mirrored_slices_have_no_line_when_they_are_no_longer_mirrored() {
    let log = Log::capture(Level::INFO);
    let harness = Harness::start(&server([service("web")]), ControllerOptions::default()).await;
    let skip = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let changes = [
        ("endpoints", Some(("metadata", json!({"labels": skip})))),
        ("endpoints", None),
        ("services", Some(("spec", json!({"selector": {"app": "web"}})))),
    ];
    for (kind, change) in changes {
        harness.create(&endpoints("web", &["192.0.2.1"])).await;
        harness.pass(Duration::from_secs(2)).await;
        assert_eq!(harness.server.count("endpointslices"), 1);
        match change {
            Some((field, value)) => harness.patch(kind, "web", json!({field: value})).await,
            None => harness.delete(kind, "web").await,
        };
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(harness.server.count("endpointslices"), 0);
        if harness.server.count("endpoints") > 0 {
            harness.delete("endpoints", "web").await;
        }
    }
    harness.patch("services", "web", json!({"spec": {"selector": null}})).await;
    harness.create(&endpoints("web", &["192.0.2.1"])).await;
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.server.count("endpointslices"), 1);
    harness.delete("services", "web").await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.server.count("endpointslices"), 0);
    assert_eq!(deletions(&log), [""; 0]);
    harness.nothing_is_remembered().await;
}
