//! The metrics page after a flow that is always the same.

use std::collections::BTreeMap;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_endpointslice_controller::{ControllerOptions, PlanOptions};
use serde_json::json;

use crate::objects::{name, pod, service};
use crate::world::{World, seconds, server};

/// The page, sorted and folded: a histogram's buckets in one line, and each of its series in one line, if it holds
/// anything. What depends on the machine is replaced by `_`: times of work.
fn readable(page: &str) -> String {
    let mut families: Vec<String> = page.split("\n\n").filter_map(readable_family).collect();
    families.sort_by_key(|family| family.split(' ').nth(2).unwrap_or_default().to_owned());
    families.join("\n\n")
}

fn readable_family(family: &str) -> Option<String> {
    let (comments, samples): (Vec<&str>, Vec<&str>) =
        family.trim().lines().partition(|line| line.starts_with('#'));
    let name = comments.first()?.split(' ').nth(2)?;
    let mut bounds = Vec::new();
    let mut series: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for sample in samples {
        let (key, value) = sample.rsplit_once(' ')?;
        let (suffix, labels) = key.strip_prefix(name)?.split_once('{').unwrap_or((&key[name.len()..], ""));
        let mut labels: Vec<&str> =
            labels.trim_end_matches('}').split(',').filter(|it| !it.is_empty()).collect();
        let bound = labels.pop_if(|label| label.starts_with("le="));
        let line = series.entry(labels.join(",")).or_default();
        let value = if name.starts_with("workqueue_") && name.ends_with("_seconds") { "_" } else { value };
        match (suffix, bound) {
            ("_bucket", Some(bound)) => {
                let bound = bound.trim_start_matches("le=").trim_matches('"').to_owned();
                if !bounds.contains(&bound) {
                    bounds.push(bound);
                }
                line.push(value.to_owned());
            }
            ("_sum", None) => line.push(format!("sum {value}")),
            // It is that of the last bucket.
            ("_count", None) => {}
            ("", None) => line.push(value.to_owned()),
            _ => return Some(format!("cannot be read: {sample}")),
        }
    }
    let mut lines: Vec<String> = comments.into_iter().map(str::to_owned).collect();
    if !bounds.is_empty() {
        lines.push(format!("buckets: {}", bounds.join(" ")));
        series.retain(|_, values| values.iter().any(|value| !matches!(&**value, "0" | "sum 0")));
    }
    lines.extend(series.into_iter().map(|(labels, values)| format!("{{{labels}}} {}", values.join(" "))));
    Some(lines.join("\n"))
}

#[tokio::test(start_paused = true)]
async fn the_page_after_a_scripted_flow() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(2);
    let options = ControllerOptions { plan, ..ControllerOptions::default() };
    let pods = (1..6).map(|number| pod(&format!("p{number}"), number, true));
    let world = World::start(&server(pods), options).await;
    let mut close = service("close");
    close["spec"]["trafficDistribution"] = "PreferClose".into();
    world.create(&service("web")).await;
    world.create(&close).await;
    world.pass(seconds(5)).await;
    // One fails once; one waits for the cache; one slice is deleted by hand, and one for lack of pods.
    world.fault(Fault::Refuse { status: 500, retry_after: None }, "update", 1);
    let mut moved = pod("p1", 1, true);
    moved["metadata"]["labels"] = json!({"app": "other"});
    world.load([moved]);
    world.pass(seconds(5)).await;
    world.hold_up("endpointslices", seconds(2)).await;
    world.load([pod("p6", 6, false)]);
    world.pass(seconds(1)).await;
    world.load([pod("p7", 7, true)]);
    world.pass(seconds(10)).await;
    world.load([pod("p6", 6, true)]);
    world.pass(seconds(10)).await;
    world.delete("endpointslices", name(&world.slices("web")[0])).await;
    world.pass(seconds(10)).await;
    assert_eq!(world.endpoints("web").len(), 6);
    for name in ["p2", "p3", "p4", "p5"] {
        world.delete("pods", name).await;
    }
    world.pass(seconds(10)).await;
    insta::assert_snapshot!(readable(&world.metrics()));
}

/// Pods with an address of each family, and a Service that publishes both.
async fn dual_stack() -> World {
    let pods = (1..4).map(|number: u8| {
        let mut pod = pod(&format!("p{number}"), number, true);
        pod["status"]["podIPs"] =
            json!([{"ip": format!("10.1.0.{number}")}, {"ip": format!("fd00::{number}")}]);
        pod
    });
    let mut both = service("web");
    both["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
    World::with(pods.chain([both])).await
}

#[tokio::test(start_paused = true)]
async fn both_families_of_a_dual_stack_service_are_counted() {
    let world = dual_stack().await;
    let metric = |name: &str| world.metric(&format!("endpoint_slice_controller_{name}"));
    assert_eq!(metric("endpoints_desired"), 6.0);
    assert_eq!(metric("num_endpoint_slices"), 2.0);
    assert_eq!(metric("desired_endpoint_slices"), 2.0);
    assert_eq!(metric("endpoints_added_per_sync_count"), 2.0);
    world.delete("services", "web").await;
    world.pass(seconds(1)).await;
    assert_eq!(metric("endpoints_desired"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_family_that_is_given_up_count_as_changes() {
    let world = dual_stack().await;
    let changes = || world.metric("endpoint_slice_controller_changes");
    assert_eq!(changes(), 2.0);
    let mut single = world.get("services", "web").unwrap();
    single["spec"]["ipFamilies"] = json!(["IPv4"]);
    world.load([single]);
    world.pass(seconds(1)).await;
    assert_eq!(world.slice("web")["addressType"], "IPv4");
    assert_eq!(changes(), 3.0);
    let counted = world.metric("endpoint_slice_controller_endpointslices_changed_per_sync_count");
    assert_eq!(counted, 3.0, "for the family that is left only");
}

#[tokio::test(start_paused = true)]
async fn services_are_counted_by_the_traffic_distribution_that_is_in_force() {
    let world = World::with([pod("a", 1, true), service("web")]).await;
    let counted = |value: &str| {
        let line = format!(
            "endpoint_slice_controller_services_count_by_traffic_distribution{{traffic_distribution=\"{value}\"}} "
        );
        let page = world.metrics();
        page.lines().find_map(|it| it.strip_prefix(&line)).unwrap().parse::<f64>().unwrap()
    };
    let set = |spec: serde_json::Value, annotations: serde_json::Value| {
        world.patch("services", "web", json!({"spec": spec, "metadata": {"annotations": annotations}}))
    };
    for value in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
        set(json!({"trafficDistribution": value}), json!({})).await;
        world.moment().await;
        for other in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
            assert_eq!(counted(other), f64::from(u8::from(other == value)), "{other} of {value}");
        }
    }
    set(json!({}), json!({"service.kubernetes.io/topology-mode": "Auto"})).await;
    world.moment().await;
    assert_eq!(counted("PreferSameNode"), 0.0, "the annotation wins");
}
