//! Carries out what the [caretaker](crate::caretaker) decides. These writes take dead addresses
//! away from clients, so they are urgent, unlike the reads and deletions of a take-over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::{FailedWrite, Operation, WriteError};
use kube_endpoint_controller_runtime::{Cause, Outcome, SyncError};
use kube_endpoint_core_model::maker::{Content, Keep, Provenance};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectKey, Service, Text, Writes};
use kube_endpoint_informer::Kind;
use kube_endpoint_tracker::Verb;
use serde_json::{Value, from_value};

use super::events::Situations;
use super::leftovers::{MadeBy, endpoints_failed, yielding};
use super::sync::both;
use super::{Runtime, SelectorReconciler};
use crate::caretaker::{Care, Facts, Unmaintained, care_for, care_for_endpoints};
use crate::hand_over::{PodLookup, Slices};

/// A cache of pods that is older than a slice is looked at again after this time.
const OLD_CACHE_RETRY: Duration = Duration::from_secs(1);

/// The slices of a Service that nobody maintains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Those of the other controllers: the selector of the Service was taken out.
    Others,
    /// Own ones: the Service has a selector again.
    Own,
    /// All: nobody selects pods.
    All,
}

impl SelectorReconciler {
    /// Takes dead endpoints out of slices that nobody maintains, and out of the Endpoints from
    /// which some of them are mirrored.
    pub(super) async fn care(
        &self,
        runtime: &Runtime,
        service: &Arc<Service>,
        whose: Whose,
        found: &mut Situations,
    ) -> Result<Outcome, SyncError> {
        let key = &service.key;
        let all = match runtime.read_outputs(key) {
            Ok(all) => all,
            Err(outcome) => return Ok(outcome),
        };
        let slices = self.unmaintained(runtime, service, &all, whose, found);
        // The pods come first: one that changes after this starts another sync.
        self.list_pods(runtime, key, slices.all());
        let known = self.known_pods(runtime, key, &slices);
        let Care { update, delete, endpoints, waits } =
            care_for(&slices, &self.facts(runtime, service, |uid: &Text| known.contains(uid)));
        if waits {
            runtime.add_after(key.clone(), OLD_CACHE_RETRY, Cause::StaleCache.since(None).urgent(true));
        }
        let is_urgent = !update.is_empty() || endpoints;
        if !is_urgent && delete.is_empty() {
            return Ok(Outcome::Done);
        }
        // Nobody uses a slice without endpoints.
        let writer = if is_urgent { runtime.writer().writer().clone() } else { yielding(runtime) };
        if !self.is_unchanged(&writer, service).await? {
            return Ok(Outcome::Done);
        }
        let (update, foreign, failed) = self.made_by_controllers(runtime, key, update).await;
        // The refusal of one write keeps no other from being sent.
        let writes = update.into_iter().map(|slice| Writes { update: vec![slice], ..Writes::default() });
        let writes: Vec<Writes<EndpointSlice>> = writes.collect();
        let mut updated = if failed.is_empty() { Ok(Outcome::Done) } else { Err(failed.into()) };
        if !writes.is_empty() {
            let written = runtime.carry_out(key, None, writes, |_| ()).await;
            updated = both(written.map(|_| Outcome::Done).map_err(SyncError::from), updated);
        }
        let deleted = self.delete_slices_of_controllers(runtime, &writer, key, &delete).await;
        let deleted = deleted.map(|(_, kept)| {
            for (slice, by) in foreign.iter().chain(&kept) {
                self.keep_slice(runtime, key, slice, by.clone(), found);
            }
            Outcome::Done
        });
        let mut cared = Ok(Outcome::Done);
        if endpoints {
            cared = self.care_for_endpoints(runtime, service, &slices.mirrored, &known, found).await;
        }
        both(updated, both(deleted, cared))
    }

    /// Returns the slices of a Service that nobody maintains, without those that somebody else
    /// made.
    fn unmaintained(
        &self,
        runtime: &Runtime,
        service: &Service,
        all: &[Arc<EndpointSlice>],
        whose: Whose,
        found: &mut Situations,
    ) -> Unmaintained {
        let Slices { own, mut of_pods, mut mirrored, .. } =
            Slices::of(service, all, &self.options.plan.manager);
        runtime.with_state(&service.key, |state| {
            state.keep_only(all.iter());
            if whose != Whose::Own {
                state.makers.values().flatten().for_each(|why| found.add(why.clone()));
            }
            for others in [&mut of_pods, &mut mirrored] {
                others.retain(|slice| !state.is_of_somebody_else(slice));
            }
        });
        match whose {
            Whose::Others => Unmaintained { of_pods, mirrored, ..Unmaintained::default() },
            Whose::Own => Unmaintained { own, ..Unmaintained::default() },
            Whose::All => Unmaintained { own, of_pods, mirrored },
        }
    }

    /// Returns the uids of the pods in these slices that the cache of pods knows: it has the pod,
    /// is as new as the slice, or was so when a slice named the pod before.
    fn known_pods(&self, runtime: &Runtime, key: &ObjectKey, slices: &Unmaintained) -> BTreeSet<Text> {
        let position = runtime.cluster().position_in(Kind::Pods, &key.namespace);
        let mut listed = BTreeSet::new();
        let mut known = BTreeSet::new();
        for slice in slices.all() {
            let is_old = slice.metadata.resource_version <= position;
            for target in slice.endpoints.iter().filter_map(|it| it.target_ref.as_ref()) {
                let is_cached =
                    || self.pod(runtime, key, &target.name).is_some_and(|pod| pod.uid == target.uid);
                if is_old || is_cached() {
                    known.insert(target.uid.clone());
                }
                listed.insert(target.uid.clone());
            }
        }
        runtime.with_state(key, |state| {
            state.known_pods.retain(|uid| listed.contains(uid));
            state.known_pods.extend(known);
            state.known_pods.clone()
        })
    }

    fn facts<K: Fn(&Text) -> bool>(
        &self,
        runtime: &Runtime,
        service: &Service,
        is_known: K,
    ) -> Facts<impl PodLookup, K> {
        let pods = move |name: &str| self.pod(runtime, &service.key, name);
        Facts { pods, is_known, publish_not_ready: service.publish_not_ready_addresses }
    }

    /// Returns those of these slices that a controller made, in the version of the cache, those
    /// that somebody else made, with the name of that client, and the questions that failed.
    async fn made_by_controllers(
        &self,
        runtime: &Runtime,
        key: &ObjectKey,
        slices: Vec<EndpointSlice>,
    ) -> (Vec<EndpointSlice>, Vec<(Arc<EndpointSlice>, Keep)>, Vec<FailedWrite>) {
        let (mut made, mut foreign, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for slice in slices {
            if self.is_own(&slice) {
                made.push(slice);
                continue;
            }
            match self.maker_of(runtime, runtime.writer().writer(), key, &slice).await {
                Ok(MadeBy::Controller) => made.push(slice),
                Ok(MadeBy::Other(keep)) => foreign.push((Arc::new(slice), keep)),
                // The cache will show it.
                Ok(MadeBy::Changed) => {}
                Err(error) => failed.push(error),
            }
        }
        (made, foreign, failed)
    }

    /// Takes dead addresses out of the Endpoints of a Service, if a controller made them. The
    /// mirroring controller then takes them out of its slices.
    async fn care_for_endpoints(
        &self,
        runtime: &Runtime,
        service: &Service,
        mirrored: &[Arc<EndpointSlice>],
        known: &BTreeSet<Text>,
        found: &mut Situations,
    ) -> Result<Outcome, SyncError> {
        let key = &service.key;
        let writer = runtime.writer().writer();
        let read = match writer.read_as::<Endpoints, Value>(key).await {
            Ok(None) => return Ok(Outcome::Done),
            Ok(Some(read)) => read,
            Err(error) => return Err(endpoints_failed(key, error, found)),
        };
        let made = from_value::<Provenance>(read["metadata"].clone());
        let (Ok(made), Ok(endpoints)) = (made, from_value::<Endpoints>(read)) else {
            return Ok(Outcome::Done);
        };
        match made.reason_to_keep(Content::Endpoints, &writer.controllers()) {
            None => {}
            Some(Keep::Lock) => return Ok(Outcome::Done),
            Some(keep) => {
                self.keep_mirrored(runtime, key, mirrored, keep, found);
                return Ok(Outcome::Done);
            }
        }
        let position = runtime.cluster().position_in(Kind::Pods, &key.namespace);
        let is_known = |uid: &Text| known.contains(uid) || made.version() <= position;
        let subsets = endpoints.subsets.listed().unwrap_or_default();
        let Some(subsets) = care_for_endpoints(subsets, &self.facts(runtime, service, is_known)) else {
            return Ok(Outcome::Done);
        };
        let deleted = match subsets.is_empty() {
            true => self.delete_endpoints_of_version(runtime, writer, key, &made).await.map(|_| true),
            false => Ok(false),
        };
        let written = match deleted {
            // Without the right to delete them they can still be emptied.
            Ok(false) | Err(WriteError::Refused { .. }) => {
                self.update_endpoints(runtime, key, Endpoints { subsets: subsets.into(), ..endpoints }).await
            }
            deleted => deleted.map(drop),
        };
        written.map(|()| Outcome::Done).map_err(|error| endpoints_failed(key, error, found))
    }

    /// Replaces the Endpoints of a Service, in the version in which they were read.
    async fn update_endpoints(
        &self,
        runtime: &Runtime,
        key: &ObjectKey,
        endpoints: Endpoints,
    ) -> Result<(), WriteError> {
        let endpoints = Arc::new(endpoints);
        if let Some(dry_run) = runtime.writer().writer().dry_run() {
            dry_run.record(key, Operation::Update, &*endpoints, None);
            return Ok(());
        }
        let version = endpoints.metadata.resource_version;
        let tracker = self.tracker_of_endpoints(runtime);
        let mut write = tracker.write(key, key, Verb::Update(version), version);
        let answer = runtime.writer().writer().update(&endpoints, &mut write).await;
        match &answer {
            Ok(stored) => drop(write.answered(*stored, version)),
            Err(error) if error.is_refusal() => write.refused(),
            Err(_) => drop(write),
        }
        tracker.forget(key);
        answer.map(|_| runtime.wrote(Operation::Update))
    }
}
