//! Writes the status of EndpointSelectors: accepted or not, and how many Services name it. It holds
//! no numbers of pods, so a change of a pod costs no second write.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_controller_runtime::Runtime;
use kube_endpoint_core_model::endpoint_selector::Condition;
use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_core_model::well_known::SELECTOR_GROUP;
use kube_endpoint_core_model::{Backoff, EndpointSelector, ObjectKey, Timestamp};
use kube_endpoint_informer::Cluster;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::SelectorReconciler;
use super::metrics::Metrics;

/// The condition that says if the controller uses a selector.
const ACCEPTED: &str = "Accepted";
/// The delays between attempts to write the statuses that could not be written.
const DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// The selectors whose status may be outdated.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    outdated: Mutex<BTreeSet<ObjectKey>>,
    added: Notify,
}

impl Statuses {
    /// Lets the status of a selector be compared, and written if it differs.
    pub(super) fn add(&self, selector: ObjectKey) {
        self.outdated.lock().insert(selector);
        self.added.notify_one();
    }

    /// Compares and writes statuses, one after the other.
    pub(super) async fn write(&self, runtime: &Runtime<SelectorReconciler>, metrics: &Metrics) {
        if runtime.writer().writer().dry_run().is_some() {
            return std::future::pending().await;
        }
        // The statuses of this round that could not be written, and the time of the next round. One
        // that the server refuses delays no other.
        let (mut failed, mut next_round, mut rounds) = (BTreeSet::new(), None, 0);
        loop {
            let next = self.outdated.lock().pop_first();
            let Some(key) = next else {
                let Some(at) = next_round else {
                    rounds = 0;
                    self.added.notified().await;
                    continue;
                };
                tokio::select! {
                    biased;
                    () = sleep_until(at) => {
                        next_round = None;
                        self.outdated.lock().append(&mut failed);
                    }
                    () = self.added.notified() => {}
                }
                continue;
            };
            failed.remove(&key);
            let Some(selector) = runtime.cluster().endpoint_selector(&key) else {
                metrics.selector(&key, false);
                continue;
            };
            metrics.selector(&key, selector.selector.is_err());
            let Some(patch) = patch(&selector, runtime.cluster(), runtime.clock().now()) else { continue };
            let path = format!(
                "/apis/{SELECTOR_GROUP}/v1alpha1/namespaces/{}/endpointselectors/{}/status",
                key.namespace, key.name
            );
            match runtime.writer().writer().merge_patch("endpointselectors", &path, &patch).await {
                Ok(()) => {}
                // A new version of it, or its deletion, comes as an event.
                Err(error) if matches!(error.code(), Some(404 | 409)) => {}
                Err(error) => {
                    if next_round.is_none() {
                        let delay = DELAYS.delay(rounds);
                        tracing::warn!(
                            selector = %key, %error, retry_in = ?delay,
                            "cannot write the status of an EndpointSelector"
                        );
                        next_round = Some(Instant::now() + delay);
                        rounds += 1;
                    }
                    failed.insert(key);
                }
            }
        }
    }
}

/// Returns the merge patch that brings a status up to date, or `None` if it is.
fn patch(selector: &EndpointSelector, cluster: &Cluster, now: Timestamp) -> Option<Value> {
    let services = cluster.services_of_selector(&selector.key).len() as i64;
    status_patch(selector, services, now)
}

fn status_patch(selector: &EndpointSelector, services: i64, now: Timestamp) -> Option<Value> {
    let (status, reason, message) = match &selector.selector {
        Ok(_) => ("True", "Accepted", String::new()),
        Err(error) => ("False", "InvalidSelector", error.to_string()),
    };
    let before = selector.status.conditions.iter().find(|condition| *condition.kind == *ACCEPTED);
    let is_current = |condition: &Condition| {
        *condition.status == *status && *condition.reason == *reason && *condition.message == *message
    };
    let observed = selector.status.observed_generation == Some(selector.generation);
    if observed && selector.status.services == Some(services) && before.is_some_and(is_current) {
        return None;
    }
    let since = before.filter(|condition| *condition.status == *status);
    // The API has whole seconds.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let since = since.and_then(|condition| condition.last_transition_time).unwrap_or(now);
    Some(json!({
        // The answer is a conflict if the selector has changed, as after a new generation.
        "metadata": {"resourceVersion": selector.resource_version.to_string()},
        "status": {
            "observedGeneration": selector.generation,
            "services": services,
            "conditions": [{
                "type": ACCEPTED,
                "status": status,
                "reason": reason,
                "message": message,
                "observedGeneration": selector.generation,
                "lastTransitionTime": rfc3339(since),
            }],
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(spec: Value, status: Value) -> EndpointSelector {
        let metadata =
            json!({"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 2});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn valid() -> Value {
        json!({"selector": {"matchLabels": {"app": "web"}}})
    }

    #[test]
    fn a_status_is_written_once() {
        let now = time("2026-01-02T03:04:05Z");
        let first = status_patch(&selector(valid(), Value::Null), 1, now).unwrap();
        insta::assert_json_snapshot!(first);
        let written = |services| {
            let selector = selector(valid(), first["status"].clone());
            status_patch(&selector, services, time("2026-01-02T04:00:00Z"))
        };
        assert_eq!(written(1), None);
        let second = written(2).unwrap();
        assert_eq!(second["status"]["services"], 2);
        assert_eq!(
            second["status"]["conditions"], first["status"]["conditions"],
            "the condition is as old as before"
        );
    }

    #[test]
    fn an_invalid_selector_is_not_accepted() {
        let now = time("2026-01-02T03:04:05Z");
        let accepted =
            status_patch(&selector(valid(), Value::Null), 1, time("2026-01-01T00:00:00Z")).unwrap();
        let patch = status_patch(&selector(json!({}), accepted["status"].clone()), 0, now).unwrap();
        insta::assert_json_snapshot!(patch["status"]);
    }

    #[test]
    fn a_new_generation_is_observed() {
        let now = time("2026-01-02T03:04:05Z");
        let mut status = status_patch(&selector(valid(), Value::Null), 1, now).unwrap()["status"].clone();
        status["observedGeneration"] = json!(1);
        let patch = status_patch(&selector(valid(), status), 1, time("2026-01-03T00:00:00Z")).unwrap();
        assert_eq!(patch["status"]["observedGeneration"], 2);
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
    }
}
