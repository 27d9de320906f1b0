//! The recordings, each against a server and controllers of its own in this process, in compressed time.
//!
//! With `CONFORMANCE_KUBECONFIG` set they are also played against the cluster that it names, one after another and in
//! real time; this project's controllers must run there already, with `--compatibility=upstream`, since that is what the
//! recordings show, and other nodes may not be there, since hints count them. `CONFORMANCE_SCENARIOS` may then name some
//! recordings, separated by commas.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::conformance::missing::{BUILT, judge, parts_of};
use kube_endpoint_integration_tests::conformance::{Api, Kind, Op, Parts, Scenario, World, play, recordings};

type Outcome = Result<(), Box<dyn Error>>;

/// Makes one test of each recording, so that they run side by side, and a list of their names.
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
    let mut world = World::in_process(BUILT).await?;
    check_in(&world, &Scenario::recorded(name)?).await?;
    if !world.controllers_are_alive() {
        return Err("a controller has ended by itself".into());
    }
    Ok(())
}

async fn check_in(world: &World, scenario: &Scenario) -> Outcome {
    let failures = play(world, scenario, parts_of(&scenario.name)).await?;
    judge(&scenario.name, &failures).map_or(Ok(()), |reason| Err(reason.into()))
}

#[test]
fn every_recording_is_a_test() {
    let files = recordings().unwrap();
    let names: Vec<&str> = files.iter().filter_map(|file| file.file_stem()?.to_str()).collect();
    assert_eq!(names, LISTED);
}

/// Without controllers no output appears, so that only the inputs and the server are tried.
#[tokio::test(start_paused = true)]
async fn the_server_accepts_every_operation() {
    let mut refused = Vec::new();
    for name in LISTED {
        Box::pin(offer(name, &mut refused)).await.unwrap();
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

async fn offer(name: &str, refused: &mut Vec<String>) -> Outcome {
    let world = World::in_process(Parts::NONE).await?;
    let api = Api::new(world.client(), name);
    api.create(serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .await?;
    for step in Scenario::recorded(name)?.steps {
        for op in step.ops.iter().map(|op| op.expand()).collect::<Result<Vec<_>, _>>()?.concat() {
            match api.run(&op).await {
                // Nobody has written the Endpoints that this deletes.
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

/// Nothing writes outputs there, and none are compared: this is about the way to a cluster, and about cleaning up.
#[tokio::test]
async fn a_cluster_is_left_as_it_was_found() {
    let server = EmbeddedApiServer::builder().build().unwrap();
    let before = (server.count("namespaces"), server.count("nodes"));
    let listener = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let mut kubeconfig = tempfile::NamedTempFile::new().unwrap();
    kubeconfig.write_all(server.kubeconfig(listener.address()).as_bytes()).unwrap();
    let world = World::of_kubeconfig(kubeconfig.path()).await.unwrap();
    let scenario = Scenario::recorded("hostname-subdomain").unwrap();
    let failures = Box::pin(play(&world, &scenario, Parts::NONE)).await.unwrap();
    assert!(failures.is_empty(), "{failures:?}");
    let created = server.request_log().iter().filter(|logged| logged.request.method == "POST").count();
    assert!(created > 5, "only {created} objects were created");
    for _ in 0..100 {
        if (server.count("namespaces"), server.count("nodes")) == before && server.count("pods") == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("namespaces {}, nodes {}", server.count("namespaces"), server.count("nodes"));
}

#[tokio::test]
async fn the_cluster_of_the_environment_passes() {
    let Some(kubeconfig) = std::env::var_os("CONFORMANCE_KUBECONFIG") else { return };
    let world = World::of_kubeconfig(Path::new(&kubeconfig)).await.unwrap();
    let some = std::env::var("CONFORMANCE_SCENARIOS").ok();
    let is_wanted =
        |name: &str| some.as_ref().is_none_or(|some| some.split(',').any(|wanted| wanted == name));
    let mut failed = Vec::new();
    for name in LISTED.iter().filter(|name| is_wanted(name)) {
        let scenario = Scenario::recorded(name).unwrap();
        if let Err(reason) = Box::pin(check_in(&world, &scenario)).await {
            failed.push(format!("{name}\n{reason}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
