//! What the controller counts: the metrics page after a flow that is always the same.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_mirroring::{ControllerOptions, PlanOptions, buckets};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use serde_json::json;

use crate::world::{World, endpoints, server, service};

/// The page, sorted and folded: a histogram's buckets in one line, and each of its series in one line, if it holds
/// anything; without what the stores count. What depends on the machine is replaced by `_`: times of work.
fn readable(page: &str) -> String {
    let own = |family: &&str| !family.trim_start().starts_with("# HELP informer_");
    let mut families: Vec<String> = page.split("\n\n").filter(own).filter_map(readable_family).collect();
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
    let recorder = buckets()
        .into_iter()
        .chain(
            kube_endpoint_workqueue::HISTOGRAM_NAMES
                .map(|name| (name, kube_endpoint_workqueue::HISTOGRAM_BUCKETS.to_vec())),
        )
        .fold(PrometheusBuilder::new(), |builder, (name, bounds)| {
            builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &bounds).unwrap()
        })
        .build_recorder();
    let guard = metrics::set_default_local_recorder(&recorder);
    let plan = PlanOptions::default().with_max_endpoints_per_subset(3);
    let options = ControllerOptions { plan, ..ControllerOptions::default() };
    let objects =
        [service("web"), endpoints("web", &["192.0.2.1", "192.0.2.2"]), endpoints("alone", &["192.0.2.9"])];
    let world = World::start(&server(objects), options).await;
    world.put("endpoints", &endpoints("web", &["192.0.2.1", "192.0.2.3"])).await;
    world.pass(Duration::from_secs(1)).await;
    world.patch("endpoints", "web", json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.pass(Duration::from_secs(1)).await;
    // Two do not fit; the first try fails.
    world.fault(Fault::Refuse { status: 500, retry_after: None }, "update", 1);
    let many = ["192.0.2.1", "192.0.2.3", "192.0.2.4", "192.0.2.5", "2001:db8::1"];
    world.put("endpoints", &endpoints("web", &many)).await;
    world.pass(Duration::from_secs(10)).await;
    world.create(&service("other")).await;
    world.create(&endpoints("other", &["2001:db8::7", "192.0.2.7"])).await;
    world.pass(Duration::from_secs(1)).await;
    world.delete("services", "web").await;
    world.pass(Duration::from_secs(10)).await;
    drop(guard);
    recorder.handle().run_upkeep();
    insta::assert_snapshot!(readable(&recorder.handle().render()));
}
