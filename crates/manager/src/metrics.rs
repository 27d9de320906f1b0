//! The Prometheus recorder, with the histogram buckets of upstream's metrics.
//!
//! All crates record through the `metrics` facade, which does next to nothing without a recorder.
//! To serve metrics, install this recorder for the process, or set it as the local recorder as long
//! as a [`Manager`](crate::Manager) runs. The controllers register gauges of objects when they
//! begin to sync, so a standby has none. A client registers metrics of requests when it sends its
//! first ones, and keeps the recorder that is current then, so give each recorder a client of its
//! own.

#[cfg(test)]
#[cfg(all(
    feature = "otlp",
    feature = "endpoints",
    feature = "endpointslice",
    feature = "mirroring",
    feature = "selectors"
))]
mod catalogue;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusRecorder};

/// Returns a recorder with the buckets of all histograms of this build. Its handle renders the
/// metrics page. Call the handle's `run_upkeep` every few seconds; otherwise the samples of
/// histograms accumulate in memory.
///
/// # Errors
///
/// If a histogram has no buckets. All histograms of this workspace have some.
pub fn metrics_recorder() -> Result<PrometheusRecorder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in histograms() {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &buckets)?;
    }
    Ok(builder.build_recorder())
}

/// Returns a page of metrics without samples that are NaN: the exporter cannot forget a gauge whose
/// object is gone.
pub(crate) fn without_removed(page: &str) -> String {
    page.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(" NaN")).collect()
}

/// Returns the names and buckets of the histograms of this build.
fn histograms() -> Vec<(&'static str, Vec<f64>)> {
    let queues = kube_endpoint_workqueue::HISTOGRAM_NAMES
        .map(|name| (name, kube_endpoint_workqueue::HISTOGRAM_BUCKETS.to_vec()));
    [
        queues.to_vec(),
        kube_endpoint_api_client::buckets(),
        #[cfg(feature = "_controllers")]
        kube_endpoint_controller_runtime::buckets(),
        #[cfg(feature = "endpointslice")]
        kube_endpoint_endpointslice_controller::buckets(),
        #[cfg(feature = "mirroring")]
        kube_endpoint_mirroring::buckets(),
        #[cfg(feature = "selectors")]
        kube_endpoint_selector::buckets(),
    ]
    .concat()
}

#[cfg(test)]
#[cfg(all(feature = "endpoints", feature = "endpointslice", feature = "mirroring", feature = "selectors"))]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use kube_endpoint_api_client::{ApiClient, CountRequests};
    use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
    use tower::Layer;

    use super::*;
    use crate::{Manager, Settings};

    /// Returns the metrics page after the controllers have run on the sample cluster for ten
    /// seconds.
    async fn page() -> String {
        let sample: serde_json::Value = serde_json::from_str(include_str!("../sample/shop.json")).unwrap();
        let now = "2026-12-01T00:00:00Z".parse().unwrap();
        let server = EmbeddedApiServer::builder().start_time(now).load([sample]).build().unwrap();
        let recorder = metrics_recorder().unwrap();
        let _current = ::metrics::set_default_local_recorder(&recorder);
        let counted = CountRequests::new("192.0.2.1:6443").layer(server.service());
        let client = ApiClient::for_tests(counted);
        let manager = Manager::new(client, &Settings::default(), now, 1).unwrap();
        manager.run(tokio::time::sleep(Duration::from_secs(10))).await.unwrap();
        recorder.handle().run_upkeep();
        recorder.handle().render()
    }

    /// Returns the help, type, labels and buckets of each metric, sorted, without values.
    fn schema(page: &str) -> String {
        let mut heads: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut series: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut bounds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for line in page.lines().filter(|line| !line.is_empty()) {
            if let Some(head) = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")) {
                let (name, text) = head.split_once(' ').unwrap();
                heads.entry(name).or_default().push(text);
                continue;
            }
            let (key, _) = line.rsplit_once(' ').unwrap();
            let (name, labels) =
                key.split_once('{').map_or((key, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
            if let Some(name) = name.strip_suffix("_bucket") {
                let (labels, bound) = labels.rsplit_once("le=").unwrap();
                series.entry(name).or_default().insert(labels.trim_end_matches(','));
                let bounds = bounds.entry(name).or_default();
                if !bounds.contains(&bound) {
                    bounds.push(bound);
                }
            } else if !heads
                .keys()
                .any(|head| name == format!("{head}_sum") || name == format!("{head}_count"))
            {
                series.entry(name).or_default().insert(labels);
            }
        }
        let mut out = String::new();
        for (name, head) in heads {
            out += &format!("{name}: {}\n", head.join(": "));
            for labels in series.get(name).into_iter().flatten().filter(|labels| !labels.is_empty()) {
                out += &format!("    {{{labels}}}\n");
            }
            if let Some(bounds) = bounds.get(name) {
                out += &format!("    le {}\n", bounds.join(" ").replace('"', ""));
            }
        }
        out
    }

    fn value(page: &str, series: &str) -> f64 {
        let line = page.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("{series}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn names_labels_and_buckets_are_upstreams() {
        let page = page().await;
        insta::assert_snapshot!(schema(&page));
        for queue in ["endpoint", "endpoint_slice", "endpoint_slice_mirroring"] {
            assert!(value(&page, &format!("workqueue_adds_total{{name=\"{queue}\"}}")) > 0.0);
            assert_eq!(value(&page, &format!("workqueue_depth{{name=\"{queue}\"}}")), 0.0);
            assert_eq!(value(&page, &format!("workqueue_dropped_total{{name=\"{queue}\"}}")), 0.0);
        }
        // The exporter turns a histogram without buckets into a summary.
        assert!(!page.contains(" summary"), "{page}");
    }
}
