//! What the controller counts, under upstream's names.

use kube_endpoint_mirroring::{ControllerOptions, buckets};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use serde_json::json;

use crate::world::{World, endpoints, server, service};

#[tokio::test(start_paused = true)]
async fn syncs_and_their_writes_are_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let guard = metrics::set_default_local_recorder(&recorder);
    let objects = [service("web"), endpoints("web", &["192.0.2.1", "192.0.2.2"])];
    let world = World::start(&server(objects), ControllerOptions::default()).await;
    world.put("endpoints", &endpoints("web", &["192.0.2.1", "192.0.2.3"])).await;
    world.moment().await;
    world.patch("endpoints", "web", json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.moment().await;
    drop(guard);
    let prefix = "endpoint_slice_mirroring_controller_";
    let mut lines: Vec<String> = snapshotter
        .snapshot()
        .into_vec()
        .into_iter()
        .filter_map(|(key, _, _, value)| {
            let name = key.key().name().strip_prefix(prefix)?;
            let labels: String =
                key.key().labels().map(|label| format!("{{{}={}}}", label.key(), label.value())).collect();
            let value = match value {
                DebugValue::Counter(value) => value.to_string(),
                DebugValue::Gauge(value) => value.to_string(),
                DebugValue::Histogram(values) => {
                    format!("{:?}", values.iter().map(|value| value.0).collect::<Vec<_>>())
                }
            };
            Some(format!("{name}{labels} {value}"))
        })
        .collect();
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"), @r"
    addresses_skipped_per_sync [0.0, 0.0, 0.0]
    changes{operation=create} 1
    changes{operation=delete} 0
    changes{operation=update} 2
    desired_endpoint_slices 1
    endpoints_added_per_sync [2.0, 1.0, 0.0]
    endpoints_desired 2
    endpoints_removed_per_sync [0.0, 1.0, 0.0]
    endpoints_sync_duration [0.0, 0.0, 0.0]
    endpoints_updated_per_sync [0.0, 0.0, 0.0]
    num_endpoint_slices 1
    ");
    let named = |name: &str| lines.iter().any(|line| line.starts_with(name));
    assert!(buckets().iter().all(|(name, _)| named(name.strip_prefix(prefix).unwrap())));
}
