//! Writes the status of EndpointSelectors: accepted or not, and how many Services name it. It holds
//! no numbers of pods, so a change of a pod costs no second write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_endpoint_controller_runtime::{Reconciler, Runtime};
use kube_endpoint_core_model::endpoint_selector::Condition;
use kube_endpoint_core_model::lease::Named;
use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_core_model::well_known::SELECTOR_GROUP;
use kube_endpoint_core_model::{Backoff, EndpointSelector, ObjectKey, Timestamp, harmless};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::SelectorReconciler;
use super::metrics::Metrics;

/// The condition that says if the controller uses a selector.
const ACCEPTED: &str = "Accepted";
/// The reasons of the condition for a selector that names a Lease.
const RECOGNISED: &str = "HolderRecognised";
const NOT_RECOGNISED: &str = "HolderNotRecognised";
/// The most characters of an identity in a message.
const LONGEST_IDENTITY: usize = 100;
/// The most characters of a message. The API server refuses one of more than 32,768 bytes.
const LONGEST_MESSAGE: usize = 1000;
/// The delays between attempts to write the statuses that could not be written.
const DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// The selectors whose status may be outdated.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    outdated: Mutex<BTreeSet<ObjectKey>>,
    added: Notify,
    /// The findings of syncs about the holders of Leases, with the generation of the selector.
    holders: Mutex<BTreeMap<ObjectKey, (i64, Holder)>>,
}

/// The holder of the Lease that a selector names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Its identity has named a pod.
    Recognised,
    /// There is none now, and none has named a pod so far.
    Absent,
    /// No identity has named a pod so far. This is the current one.
    NotRecognised { identity: String, names_several: bool },
}

impl Holder {
    pub(super) fn of(identity: &str, named: Named<'_>) -> Self {
        match named {
            Named::Pod(_) => Self::Recognised,
            Named::Nobody | Named::Several => Self::NotRecognised {
                identity: harmless(identity, LONGEST_IDENTITY).into_owned(),
                names_several: named == Named::Several,
            },
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Recognised | Self::Absent => String::new(),
            Self::NotRecognised { identity, names_several } => {
                let names = if *names_several { "more than one pod" } else { "no pod" };
                format!(
                    "the Lease has the holder \"{identity}\", which names {names} of those that the selector selects, so \
                     no endpoint is ready; the name, hostname, uid or an address of the pod has to be a part of the \
                     identity, as in \"POD-NAME_SUFFIX\""
                )
            }
        }
    }
}

impl Statuses {
    /// Lets the status of a selector be compared, and written if it differs.
    pub(super) fn add(&self, selector: ObjectKey) {
        self.outdated.lock().insert(selector);
        self.added.notify_one();
    }

    /// Takes what a sync has found out about the holder of the Lease that a selector names.
    pub(super) fn found(&self, selector: &EndpointSelector, holder: Holder) {
        let found = (selector.generation, holder);
        {
            let mut holders = self.holders.lock();
            let before = holders.get(&selector.key);
            // A holder that leaves later is none that was never recognised.
            let is_older = before.is_some_and(|(generation, _)| *generation > selector.generation);
            if is_older
                || before == Some(&found)
                || before == Some(&(selector.generation, Holder::Recognised))
            {
                return;
            }
            holders.insert(selector.key.clone(), found);
        }
        self.add(selector.key.clone());
    }

    fn holder(&self, selector: &EndpointSelector) -> Option<Holder> {
        let holders = self.holders.lock();
        let (_, holder) =
            holders.get(&selector.key).filter(|(generation, _)| *generation == selector.generation)?;
        Some(holder.clone())
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
                self.holders.lock().remove(&key);
                continue;
            };
            // Otherwise the number of Services is not known.
            if !runtime.cluster().covers(SelectorReconciler::kinds(), &key.namespace) {
                continue;
            }
            let accepted = Accepted::of(&selector, self.holder(&selector));
            metrics.selector(&key, !accepted.is_true);
            let services = runtime.cluster().services_of_selector(&selector.key).len() as i64;
            let Some(patch) = status_patch(&selector, services, &accepted, runtime.clock().now()) else {
                continue;
            };
            let path = format!(
                "/apis/{SELECTOR_GROUP}/v1alpha1/namespaces/{}/endpointselectors/{}/status",
                key.namespace, key.name
            );
            match runtime.writer().writer().merge_patch("endpointselectors", &path, &patch).await {
                Ok(()) => {}
                // Its deletion comes as an event.
                Err(error) if error.code() == Some(404) => {}
                Err(error) => {
                    if next_round.is_none() {
                        let delay = DELAYS.delay(rounds);
                        // A conflict is usual when the selector has changed. The event of the new
                        // version may have come before the answer, so this waits for no event.
                        if error.code() != Some(409) {
                            tracing::warn!(
                                selector = %key, %error, retry_in = ?delay,
                                "cannot write the status of an EndpointSelector"
                            );
                        }
                        next_round = Some(Instant::now() + delay);
                        rounds += 1;
                    }
                    failed.insert(key);
                }
            }
        }
    }
}

/// The condition that the status is to have.
struct Accepted {
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl Accepted {
    /// Returns the condition of a selector. `holder` is what syncs of this process have found out.
    fn of(selector: &EndpointSelector, holder: Option<Holder>) -> Self {
        let accepted = |reason| Self { is_true: true, reason, message: String::new() };
        let refused = |reason, message| Self { is_true: false, reason, message };
        if let Err(error) = &selector.selector {
            // A key of a label may have any length.
            return refused("InvalidSelector", harmless(&error.to_string(), LONGEST_MESSAGE).into_owned());
        }
        if !selector.names_lease() {
            return accepted("Accepted");
        }
        let is_observed = selector.status.observed_generation == Some(selector.generation);
        let before = accepted_condition(selector).filter(|_| is_observed);
        let was = |reason: &str| before.is_some_and(|before| *before.reason == *reason);
        match holder {
            Some(Holder::Recognised) => accepted(RECOGNISED),
            _ if was(RECOGNISED) => accepted(RECOGNISED),
            Some(holder @ Holder::NotRecognised { .. }) => refused(NOT_RECOGNISED, holder.message()),
            Some(Holder::Absent) => accepted("Accepted"),
            // A process before this one has found it out.
            None => match before.filter(|_| was(NOT_RECOGNISED)) {
                Some(before) => refused(NOT_RECOGNISED, before.message.to_string()),
                None => accepted("Accepted"),
            },
        }
    }
}

fn accepted_condition(selector: &EndpointSelector) -> Option<&Condition> {
    selector.status.conditions.iter().find(|condition| *condition.kind == *ACCEPTED)
}

/// Returns the merge patch that brings a status up to date, or `None` if it is.
fn status_patch(
    selector: &EndpointSelector,
    services: i64,
    accepted: &Accepted,
    now: Timestamp,
) -> Option<Value> {
    let Accepted { is_true, reason, message } = accepted;
    let status = if *is_true { "True" } else { "False" };
    let before = accepted_condition(selector);
    let is_current = |condition: &Condition| {
        *condition.status == *status && *condition.reason == **reason && *condition.message == **message
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

    /// The patch of a selector about whose Lease nothing is known.
    fn patched(selector: &EndpointSelector, services: i64, now: Timestamp) -> Option<Value> {
        status_patch(selector, services, &Accepted::of(selector, None), now)
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
        let first = patched(&selector(valid(), Value::Null), 1, now).unwrap();
        insta::assert_json_snapshot!(first);
        let written = |services| {
            let selector = selector(valid(), first["status"].clone());
            patched(&selector, services, time("2026-01-02T04:00:00Z"))
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
        let accepted = patched(&selector(valid(), Value::Null), 1, time("2026-01-01T00:00:00Z")).unwrap();
        let patch = patched(&selector(json!({}), accepted["status"].clone()), 0, now).unwrap();
        insta::assert_json_snapshot!(patch["status"]);
    }

    #[test]
    fn a_new_generation_is_observed() {
        let now = time("2026-01-02T03:04:05Z");
        let mut status = patched(&selector(valid(), Value::Null), 1, now).unwrap()["status"].clone();
        status["observedGeneration"] = json!(1);
        let patch = patched(&selector(valid(), status), 1, time("2026-01-03T00:00:00Z")).unwrap();
        assert_eq!(patch["status"]["observedGeneration"], 2);
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z");
    }

    #[test]
    fn the_holder_of_a_lease_is_recognised_once() {
        let now = time("2026-01-02T03:04:05Z");
        let spec =
            || json!({"selector": {"matchLabels": {"app": "web"}}, "readiness": {"lease": {"name": "web"}}});
        let unknown = || Holder::of("host-7_6bb9", Named::Nobody);
        let reason = |status: &Value, holder: Option<Holder>| {
            Accepted::of(&selector(spec(), status.clone()), holder).reason
        };
        assert_eq!(reason(&Value::Null, None), "Accepted");
        let refused = {
            let selector = selector(spec(), Value::Null);
            let accepted = Accepted::of(&selector, Some(unknown()));
            status_patch(&selector, 1, &accepted, now).unwrap()["status"].clone()
        };
        insta::assert_json_snapshot!(refused);
        // After a restart, until a sync has seen the holder.
        assert_eq!(reason(&refused, None), "HolderNotRecognised");
        assert_eq!(reason(&refused, Some(Holder::Absent)), "Accepted", "it has left");
        assert_eq!(reason(&refused, Some(Holder::Recognised)), "HolderRecognised");
        let mut recognised = refused;
        recognised["conditions"][0]["reason"] = json!("HolderRecognised");
        assert_eq!(reason(&recognised, Some(unknown())), "HolderRecognised");
        // Another generation may name another Lease.
        recognised["observedGeneration"] = json!(1);
        assert_eq!(reason(&recognised, Some(unknown())), "HolderNotRecognised");
        let several = Accepted::of(&selector(spec(), Value::Null), Some(Holder::of("a_b", Named::Several)));
        assert!(several.message.contains("more than one pod"), "{}", several.message);
    }

    #[test]
    fn a_long_identity_is_shortened() {
        let holder = Holder::of(&"x\n".repeat(300_000), Named::Nobody);
        assert!(holder.message().len() < 600, "{}", holder.message().len());
    }
}
