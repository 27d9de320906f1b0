//! Plays each recording on its own server and controllers in this process, under a paused clock,
//! once in protobuf and once in JSON.

use std::error::Error;

use kube_endpoint_controllers::ContentType;
use kube_endpoint_integration_tests::conformance::{
    Api, Kind, Op, Parts, Scenario, TestBed, play, recordings, upstream_settings,
};

type Outcome = Result<(), Box<dyn Error>>;

/// Defines one test for each recording, so that they run in parallel, and the list of their names.
macro_rules! scenarios {
    ($($test:ident = $name:literal,)*) => {
        const LISTED: &[&str] = &[$($name),*];
        $(
            #[tokio::test(start_paused = true)]
            async fn $test() {
                if let Err(reason) = Box::pin(check($name)).await {
                    panic!("{reason}");
                }
            }
        )*
    };
}

scenarios! {
    dual_stack = "dual-stack",
    endpoints_tampered = "endpoints-tampered",
    external_name = "external-name",
    headless = "headless",
    hints_deprecated_annotation = "hints-deprecated-annotation",
    hostname_subdomain = "hostname-subdomain",
    mirror_basic = "mirror-basic",
    mirror_labels_annotations = "mirror-labels-annotations",
    mirror_needs_service = "mirror-needs-service",
    mirror_recreated = "mirror-recreated",
    mirror_skip = "mirror-skip",
    mirror_slice_tampered = "mirror-slice-tampered",
    multi_port_protocols = "multi-port-protocols",
    named_target_ports = "named-target-ports",
    node_missing = "node-missing",
    over_capacity = "over-capacity",
    packing_250 = "packing-250",
    publish_not_ready = "publish-not-ready",
    ready_and_not_ready = "ready-and-not-ready",
    selector_and_pod_label_changes = "selector-and-pod-label-changes",
    selector_removed_and_restored = "selector-removed-and-restored",
    service_deleted = "service-deleted",
    service_held_by_finalizer = "service-held-by-finalizer",
    service_labels = "service-labels",
    slice_labels_tampered = "slice-labels-tampered",
    slice_tampered = "slice-tampered",
    terminal_phases = "terminal-phases",
    terminating_pod = "terminating-pod",
    topology_mode_auto = "topology-mode-auto",
    topology_node_without_zone = "topology-node-without-zone",
    traffic_distribution = "traffic-distribution",
    trigger_time = "trigger-time",
    two_services_one_pod = "two-services-one-pod",
}

async fn check(name: &str) -> Outcome {
    for content_type in ContentType::ALL {
        let mut settings = upstream_settings(Parts::ALL);
        settings.content_type = content_type;
        let bed = TestBed::in_process_with(&settings).await?;
        check_in(&bed, &Scenario::recorded(name)?)
            .await
            .map_err(|error| format!("{content_type:?}: {error}"))?;
        if !bed.controllers_are_alive() {
            return Err(format!("{content_type:?}: a controller has ended unexpectedly").into());
        }
    }
    Ok(())
}

async fn check_in(bed: &TestBed, scenario: &Scenario) -> Outcome {
    let failures = play(bed, scenario, Parts::ALL).await?;
    if failures.is_empty() {
        return Ok(());
    }
    Err(failures.iter().map(ToString::to_string).collect::<String>().into())
}

#[test]
fn every_recording_has_something_to_compare() {
    for file in recordings().unwrap() {
        let scenario = Scenario::read(&file).unwrap();
        let compares = scenario.steps.iter().any(|step| Parts::ALL.has_any_of(&step.expect));
        assert!(compares, "{} expects no output of any controller", scenario.name);
    }
}

#[test]
fn every_recording_is_a_test() {
    let files = recordings().unwrap();
    let names: Vec<&str> = files.iter().filter_map(|file| file.file_stem()?.to_str()).collect();
    assert_eq!(names, LISTED);
}

/// This runs without controllers, and so tests only the operations of the recordings and the
/// server.
#[tokio::test(start_paused = true)]
async fn the_server_accepts_every_operation() {
    let mut refused = Vec::new();
    for name in LISTED {
        Box::pin(run_operations(name, &mut refused)).await.unwrap();
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

async fn run_operations(name: &str, refused: &mut Vec<String>) -> Outcome {
    let bed = TestBed::in_process(Parts::NONE).await?;
    let api = Api::new(bed.client(), name);
    api.create(serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .await?;
    for step in Scenario::recorded(name)?.steps {
        for op in step.ops.iter().map(|op| op.expand()).collect::<Result<Vec<_>, _>>()?.concat() {
            match api.run(&op).await {
                // Without controllers these Endpoints do not exist.
                Err(error) if error.is_status(404) && is_of_endpoints(&op) => {}
                Err(error) => refused.push(format!("{name}, {}: {error}", step.name)),
                Ok(()) => {}
            }
        }
    }
    Ok(())
}

fn is_of_endpoints(op: &Op) -> bool {
    matches!(op, Op::Delete { kind: Kind::Endpoints, .. })
}
