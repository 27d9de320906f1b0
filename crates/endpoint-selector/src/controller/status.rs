//! Writes the status of EndpointSelectors when it is outdated.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_endpoint_controller_runtime::Reconciler;
use kube_endpoint_core_model::well_known::SELECTOR_GROUP;
use kube_endpoint_core_model::{Backoff, EndpointSelector, ObjectKey};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::conditions::{HolderFinding, Wanted, accepted, published, rehearsed, status_patch};
use super::{Runtime, SelectorReconciler};

/// The delays between attempts to write the statuses that could not be written.
const DELAYS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// The selectors whose status may be outdated.
#[derive(Debug, Default)]
pub(super) struct Statuses {
    outdated: Mutex<BTreeSet<ObjectKey>>,
    added: Notify,
    /// The findings of syncs about the holders of Leases, with the generation of the selector.
    holders: Mutex<BTreeMap<ObjectKey, (i64, HolderFinding)>>,
}

impl Statuses {
    /// Lets the status of a selector be compared, and written if it differs.
    pub(super) fn add(&self, selector: ObjectKey) {
        self.outdated.lock().insert(selector);
        self.added.notify_one();
    }

    /// Takes what a sync has found out about the Lease that a selector names.
    pub(super) fn found(&self, selector: &EndpointSelector, finding: HolderFinding) {
        {
            let mut holders = self.holders.lock();
            let before =
                holders.get(&selector.key).filter(|(generation, _)| *generation >= selector.generation);
            let (generation, before) =
                before.cloned().unwrap_or((selector.generation, HolderFinding::default()));
            let found = before.then(finding);
            if generation > selector.generation || found == before {
                return;
            }
            holders.insert(selector.key.clone(), (generation, found));
        }
        self.add(selector.key.clone());
    }

    fn holder(&self, selector: &EndpointSelector) -> Option<HolderFinding> {
        let holders = self.holders.lock();
        let (_, found) =
            holders.get(&selector.key).filter(|(generation, _)| *generation == selector.generation)?;
        Some(found.clone())
    }
}

impl SelectorReconciler {
    /// Compares and writes statuses, one after the other.
    pub(super) async fn write_statuses(&self, runtime: &Runtime) {
        let Statuses { outdated, added, .. } = &self.statuses;
        if runtime.writer().writer().dry_run().is_some() {
            return std::future::pending().await;
        }
        // The statuses of this round that could not be written, and the time of the next round. One
        // that the server refuses delays no other.
        let (mut failed, mut next_round, mut rounds) = (BTreeSet::new(), None, 0);
        loop {
            let next = outdated.lock().pop_first();
            let Some(key) = next else {
                let Some(at) = next_round else {
                    rounds = 0;
                    added.notified().await;
                    continue;
                };
                tokio::select! {
                    biased;
                    () = sleep_until(at) => {
                        next_round = None;
                        outdated.lock().append(&mut failed);
                    }
                    () = added.notified() => {}
                }
                continue;
            };
            failed.remove(&key);
            let Some(patch) = self.patch_of(runtime, &key) else { continue };
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

    /// Returns the patch that brings the status of a selector up to date, or `None` if it is.
    fn patch_of(&self, runtime: &Runtime, key: &ObjectKey) -> Option<Value> {
        let Some(selector) = runtime.cluster().endpoint_selector(key) else {
            self.metrics.selector(key, false);
            self.statuses.holders.lock().remove(key);
            return None;
        };
        // Otherwise the number of Services is not known.
        if !runtime.cluster().covers(Self::kinds(), &key.namespace) {
            return None;
        }
        let accepted = accepted(&selector, self.statuses.holder(&selector));
        self.metrics.selector(key, !accepted.is_true());
        let mut services = runtime.cluster().services_of_selector(key);
        let count = services.len() as i64;
        // Other processes sync the others.
        services.retain(|service| runtime.is_selected(service));
        let published = match &services[..] {
            [] => None,
            services => published(&selector, self.problems_of(runtime, key, services)),
        };
        let rehearsed = rehearsed(&selector, self.rehearsals.of(key));
        let wanted: Vec<Wanted> = [Some(accepted), published, rehearsed].into_iter().flatten().collect();
        status_patch(&selector, count, &wanted, runtime.clock().now())
    }
}
