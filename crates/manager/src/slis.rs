//! The results of health checks as metrics, for `/metrics/slis`.
//!
//! Names, labels and help texts are those of `metrics/prometheus/slis` in component-base. The
//! metrics have a page of their own because users compute availability from them, and therefore
//! scrape them more often.

use std::sync::Arc;

use metrics::{Recorder, counter, describe_counter, describe_gauge, gauge, with_local_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

use crate::process_metrics::record_start_time;

/// Gauge: 1 if the last run of a check succeeded, otherwise 0; by `name` and `type` (`healthz`,
/// `livez`, `readyz`).
const HEALTHCHECK: &str = "kubernetes_healthcheck";
/// Counter: runs of a check, by `name`, `type` and `status` (`success`, `error`).
const HEALTHCHECKS: &str = "kubernetes_healthchecks_total";

/// The results of health checks. Clones share them.
#[derive(Clone)]
pub struct Slis(Arc<PrometheusRecorder>);

impl std::fmt::Debug for Slis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slis").finish_non_exhaustive()
    }
}

impl Default for Slis {
    fn default() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        with_local_recorder(&recorder, || {
            describe_gauge!(HEALTHCHECK, "[STABLE] This metric records the result of a single healthcheck.");
            describe_counter!(HEALTHCHECKS, "[STABLE] This metric records the results of all healthcheck.");
            record_start_time();
        });
        Self(Arc::new(recorder))
    }
}

impl Slis {
    /// Records the result of a check. `page` is the page that ran it: `healthz`, `livez` or
    /// `readyz`.
    pub fn observe(&self, name: &str, page: &str, healthy: bool) {
        let recorder: &dyn Recorder = &*self.0;
        with_local_recorder(recorder, || {
            let (name, page) = (name.to_owned(), page.to_owned());
            let status = if healthy { "success" } else { "error" };
            gauge!(HEALTHCHECK, "name" => name.clone(), "type" => page.clone()).set(if healthy {
                1.0
            } else {
                0.0
            });
            counter!(HEALTHCHECKS, "name" => name, "type" => page, "status" => status).increment(1);
        });
    }

    /// Returns the page, in Prometheus' text format.
    pub fn render(&self) -> String {
        self.0.handle().render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_has_its_last_result_and_counts_of_all() {
        let slis = Slis::default();
        for healthy in [true, true, false] {
            slis.clone().observe("leader-election", "livez", healthy);
        }
        slis.observe("ping", "readyz", true);
        let page = slis.render();
        let mut lines: Vec<&str> = page.lines().filter(|line| !line.contains("process_start_time")).collect();
        lines.sort_unstable();
        insta::assert_snapshot!(lines.join("\n").trim());
        assert!(page.contains("process_start_time_seconds "));
    }
}
