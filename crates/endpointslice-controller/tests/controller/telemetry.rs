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
    let plan = PlanOptions { max_endpoints_per_slice: 2, ..PlanOptions::default() };
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
