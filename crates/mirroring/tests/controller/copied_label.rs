//! Slices that a user made with the label of the mirroring controller.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_endpoint_mirroring::ControllerOptions;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::controller::harness::{Harness, endpoints, fields_of, server, service};

/// The fields of the lines of the mirroring controller.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO && metadata.target().starts_with("kube_endpoint_mirroring")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
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
async fn slices_with_the_label_and_without_endpoints_are_deleted_with_a_line_in_the_log() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let objects = [copied("a", "web"), service("no-endpoints"), copied("b", "no-endpoints")];
    let harness = Harness::start(&server(objects), ControllerOptions::default()).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), ["delete endpointslices 200"; 2]);
    let mut lines = log.take();
    lines.sort();
    let said =
        "message=deleting slices with the label of the mirroring controller whose Endpoints do not exist";
    assert_eq!(
        lines,
        [("no-endpoints", "b"), ("web", "a")].map(|(endpoints, slice)| {
            format!("{said} endpoints=default/{endpoints} slices=1 first=\"{slice}\" ")
        })
    );
    // In a minute there are 20 lines.
    for number in 0..100 {
        harness.create(&copied(&format!("copied-{number}"), &format!("gone-{number}"))).await;
    }
    harness.pass(Duration::from_secs(30)).await;
    assert_eq!(harness.server.count("endpointslices"), 0);
    assert_eq!(log.take().len(), 20);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn mirrored_slices_that_go_with_their_endpoints_have_no_line() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let harness = Harness::start(&server([service("web")]), ControllerOptions::default()).await;
    for gone in ["endpoints", "services"] {
        harness.create(&endpoints("web", &["192.0.2.1"])).await;
        harness.pass(Duration::from_secs(2)).await;
        assert_eq!(harness.server.count("endpointslices"), 1);
        harness.delete(gone, "web").await;
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(harness.server.count("endpointslices"), 0);
    }
    assert_eq!(log.take(), [""; 0]);
    harness.nothing_is_remembered().await;
}
