//! One sync of one Service.

use std::sync::Arc;

use kube_endpoint_controller_runtime::{Outcome, SyncError};
use kube_endpoint_core_model::{EndpointSelector, EndpointSlice, ObjectKey, Pod, ReadyPods, Service, Writes};
use tokio::time::Instant;

use super::care::Whose;
use super::events::{self, Situation, Situations};
use super::leader::{Choice, Leadership};
use super::leftovers::{LEFT_ENDPOINTS_RETRY, skips_mirroring, yielding};
use super::state::LeftEndpoints;
use super::{Runtime, SelectorReconciler, selector_of};
use crate::hand_over::{Slices, TakeOver, can_hand_back, is_published, take_over};

/// The result of a take-over that did not fail.
enum TakenOver {
    /// Nothing of the others stays, or the cache will show another state.
    Done,
    /// Slices of others stay.
    Stays,
    /// These stay until an own endpoint is ready.
    Held(Slices),
    /// The sync has to end with this outcome.
    Ends(Outcome),
}

/// Returns the first error of two results, or else the outcome of the last one that is not done.
pub(super) fn both(
    one: Result<Outcome, SyncError>,
    other: Result<Outcome, SyncError>,
) -> Result<Outcome, SyncError> {
    match (one?, other?) {
        (one, Outcome::Done) => Ok(one),
        (_, other) => Ok(other),
    }
}

impl SelectorReconciler {
    pub(super) async fn sync_key(&self, runtime: &Runtime, key: &ObjectKey) -> Result<Outcome, SyncError> {
        let cluster = runtime.cluster();
        let Some(service) = cluster.service(key) else {
            // The garbage collector deletes its slices.
            self.forgotten(key, runtime.forget(key));
            return Ok(Outcome::Done);
        };
        let mut found = None;
        let synced = match selector_of(&service) {
            Some(selector) if cluster.has_selector(key) => {
                let Some(selector) = cluster.endpoint_selector(&selector) else { return Ok(Outcome::Done) };
                self.sync_attached(runtime, &service, &selector, &mut found).await
            }
            Some(selector) => self.sync_without_selector(runtime, &service, &selector, &mut found).await,
            None => self.leave(runtime, &service, &mut found).await,
        };
        if let Some(mut found) = found {
            let is_failing = found.is_failing();
            if !runtime.with_state(key, |state| state.keeps_failing(is_failing, Instant::now())) {
                found.forgive_failures();
            }
            self.found(runtime, &service, found);
        }
        synced
    }

    /// Writes the slices of a Service, and takes it over from the controllers that had it. Whatever
    /// keeps it from that, what these left is cared for.
    async fn sync_attached(
        &self,
        runtime: &Runtime,
        service: &Arc<Service>,
        selector: &EndpointSelector,
        found: &mut Option<Situations>,
    ) -> Result<Outcome, SyncError> {
        let Choice { ready_pods, leadership, error } = self.choose(runtime, service, selector).await;
        self.leads(runtime, service, leadership);
        let ready_pods = ready_pods.as_ref();
        let mut situations = Situations::default();
        // While pods change all the time, each sync writes, and the cache shows the writes when the
        // pods have changed again. So a sync ends a take-over that earlier ones have prepared. Its
        // requests follow the write, which may take an endpoint away.
        let prepared = self.prepared(runtime, service, ready_pods, &mut situations);
        let published = self.slices.sync(runtime, service, ready_pods).await;
        let taken_over = match (&published, prepared) {
            (Ok(_), Some(slices)) => {
                self.delete_others(runtime, service, selector, slices, &mut situations).await
            }
            (Ok(Outcome::Done), None) => self.take_over(runtime, service, selector, &mut situations).await,
            (Ok(outcome), None) => return error.map_or(Ok(*outcome), Err),
            (Err(_), _) => Ok(TakenOver::Stays),
        };
        let stays = !matches!(taken_over, Ok(TakenOver::Done));
        let mut held = None;
        let taken_over = taken_over.map(|taken_over| match taken_over {
            TakenOver::Done | TakenOver::Stays => Outcome::Done,
            TakenOver::Ends(outcome) => outcome,
            TakenOver::Held(slices) => {
                held = Some(slices);
                Outcome::Done
            }
        });
        let has_others = || {
            let slices = runtime.cluster().slices_of(&service.key);
            Slices::of(service, &slices, &self.options.plan.manager).has_others()
        };
        let mut cared = Ok(Outcome::Done);
        if stays && has_others() && matches!(taken_over, Ok(Outcome::Done) | Err(_)) {
            cared = self.care(runtime, service, Whose::Others, &mut situations).await;
        }
        // Nobody's traffic depends on the answers.
        let mut asked = Ok(Outcome::Done);
        if let Some(slices) = held {
            asked = self.held(runtime, service, selector, slices, &mut situations).await;
        }
        if stays
            && has_others()
            && [&published, &taken_over, &asked]
                .into_iter()
                .flat_map(|it| it.as_ref().err())
                .any(|error| !error.writes().is_empty())
        {
            situations.add(Situation::TakingOver);
        }
        for failed in [&published, &taken_over, &cared, &asked].into_iter().filter_map(|it| it.as_ref().err())
        {
            situations.add_refused(&service.key, failed);
        }
        let is_judged = |it: &Result<Outcome, _>| matches!(it, Ok(Outcome::Done) | Err(_));
        let is_judged = is_judged(&taken_over) && is_judged(&cared);
        *found = is_judged.then_some(situations);
        let outcome = both(published, both(taken_over, both(cared, asked)))?;
        error.map_or(Ok(outcome), Err)
    }

    /// Returns the slices of a Service if its take-over needs no cache that shows the next write.
    fn prepared(
        &self,
        runtime: &Runtime,
        service: &Arc<Service>,
        ready_pods: Option<&ReadyPods>,
        found: &mut Situations,
    ) -> Option<Slices> {
        let key = &service.key;
        let slices = Slices::of(service, &runtime.cluster().slices_of(key), &self.options.plan.manager);
        if self.are_kept(runtime, key, &slices, found) {
            return None;
        }
        let is_refused =
            runtime.with_state(key, |state| matches!(state.endpoints, LeftEndpoints::Refused(_)));
        if slices.of_pods.is_empty() && is_refused || runtime.read_outputs(key).is_err() {
            return None;
        }
        let (mut selected, _) = runtime.cluster().pods_and_cursor(key)?;
        if let Some(ready_pods) = ready_pods {
            // Of the others' ready endpoints, those that are to stay ready have to be published.
            let all = selected.clone();
            let pods: Vec<&Pod> = all.iter().map(|pod| &**pod).collect();
            let chosen = ready_pods.among(&pods, &slices.own);
            selected.retain(|pod| chosen.has(pod));
        }
        is_published(&slices, &selected, service.publish_not_ready_addresses).then_some(slices)
    }

    /// Takes a Service over, if the own slices allow it.
    async fn take_over(
        &self,
        runtime: &Runtime,
        service: &Arc<Service>,
        selector: &EndpointSelector,
        found: &mut Situations,
    ) -> Result<TakenOver, SyncError> {
        let key = &service.key;
        let slices = |all: &[Arc<EndpointSlice>]| Slices::of(service, all, &self.options.plan.manager);
        let others = slices(&runtime.cluster().slices_of(key));
        if !others.has_others() {
            return self.finish_take_over(runtime, service, selector, &others, found).await;
        }
        if self.are_kept(runtime, key, &others, found) {
            self.list_pods(runtime, key, []);
            return Ok(TakenOver::Done);
        }
        // The decision needs a cache that shows the writes of all syncs, this one included.
        let slices = match runtime.read_outputs(key) {
            Ok(all) => slices(&all),
            Err(outcome) => return Ok(TakenOver::Ends(outcome)),
        };
        // Without a selector, which may have gone just now, what the others left stays.
        if !runtime.cluster().has_selector(key) {
            return Ok(TakenOver::Done);
        }
        match take_over(&slices) {
            TakeOver::Complete => Ok(TakenOver::Done),
            TakeOver::Held => Ok(TakenOver::Held(slices)),
            TakeOver::Deletes => self.delete_others(runtime, service, selector, slices, found).await,
        }
    }

    /// Finds out how many slices of a take-over stay until an own endpoint is ready.
    async fn held(
        &self,
        runtime: &Runtime,
        service: &Service,
        selector: &EndpointSelector,
        mut slices: Slices,
        found: &mut Situations,
    ) -> Result<Outcome, SyncError> {
        let asked = self.ask_makers(runtime, &service.key, &slices, found).await;
        runtime.with_state(&service.key, |state| slices.retain(|slice| !state.is_of_somebody_else(slice)));
        let stay = slices.of_pods.len() + slices.mirrored.len();
        if stay > 0 {
            found.add(Situation::Held { selector: selector.key.name.to_string(), slices: stay });
        }
        asked
    }

    /// Deletes the slices and the Endpoints that other controllers left.
    async fn delete_others(
        &self,
        runtime: &Runtime,
        service: &Arc<Service>,
        selector: &EndpointSelector,
        mut slices: Slices,
        found: &mut Situations,
    ) -> Result<TakenOver, SyncError> {
        let key = &service.key;
        runtime.with_state(key, |state| slices.retain(|slice| !state.is_of_somebody_else(slice)));
        if !self.is_unchanged(&yielding(runtime), service).await? {
            return Ok(TakenOver::Done);
        }
        let yielding = yielding(runtime);
        let slices_left = self.delete_slices_of_controllers(runtime, &yielding, key, &slices.of_pods).await;
        let deleted = slices_left.as_ref().map_or(0, |(deleted, _)| *deleted);
        let endpoints = self.delete_endpoints(runtime, service, &slices.mirrored, found).await;
        let endpoints_deleted = matches!(endpoints, Ok(true));
        if deleted > 0 || endpoints_deleted {
            let event = events::taken_over(&selector.key.name, deleted, endpoints_deleted);
            runtime.record_event(&**service, &event);
        }
        for (slice, keep) in slices_left?.1 {
            self.keep_slice(runtime, key, &slice, keep, found);
        }
        endpoints.map(|_| TakenOver::Done)
    }

    /// Ends the take-over of a Service if others have no slices of it: Endpoints may be left that
    /// nobody mirrors.
    async fn finish_take_over(
        &self,
        runtime: &Runtime,
        service: &Arc<Service>,
        selector: &EndpointSelector,
        slices: &Slices,
        found: &mut Situations,
    ) -> Result<TakenOver, SyncError> {
        let key = &service.key;
        self.list_pods(runtime, key, []);
        let is_left = runtime.with_state(key, |state| {
            state.known_pods.clear();
            state.makers.clear();
            match state.endpoints {
                LeftEndpoints::NotAsked => skips_mirroring(service),
                LeftEndpoints::Settled => false,
                LeftEndpoints::Refused(at) => {
                    skips_mirroring(service) || at.elapsed() >= LEFT_ENDPOINTS_RETRY
                }
            }
        });
        if !is_left || !slices.own_is_ready() || !self.is_unchanged(&yielding(runtime), service).await? {
            return Ok(TakenOver::Done);
        }
        if self.delete_endpoints(runtime, service, &[], found).await? {
            runtime.record_event(&**service, &events::taken_over(&selector.key.name, 0, true));
        }
        Ok(TakenOver::Done)
    }

    /// Cares for all slices of a Service: without a selector nobody can say which pods to add.
    async fn sync_without_selector(
        &self,
        runtime: &Runtime,
        service: &Arc<Service>,
        selector: &ObjectKey,
        found: &mut Option<Situations>,
    ) -> Result<Outcome, SyncError> {
        let key = &service.key;
        self.slices.forget_plan(runtime, key);
        self.leads(runtime, service, Some(Leadership::Unsaid));
        let all = runtime.cluster().slices_of(key);
        let slices = Slices::of(service, &all, &self.options.plan.manager);
        let others_stay = slices.has_others();
        let reason = runtime.cluster().endpoint_selector(selector).map(|it| it.selector.clone().err());
        let name = selector.name.to_string();
        let mut situations = Situations::default();
        match reason {
            // It has come in the meantime, and its event starts another sync.
            Some(None) => return Ok(Outcome::Done),
            Some(Some(reason)) => {
                let reason = reason.to_string();
                situations.add(Situation::Invalid { selector: name, reason, others_stay });
            }
            None => situations.add(Situation::NotFound { selector: name, others_stay }),
        }
        let cared = self.care(runtime, service, Whose::All, &mut situations).await;
        let asked = self.ask_makers(runtime, key, &slices, &mut situations).await;
        for failed in [cared.as_ref().err(), asked.as_ref().err()].into_iter().flatten() {
            situations.add_refused(key, failed);
        }
        *found = matches!(cared, Ok(Outcome::Done) | Err(_)).then_some(situations);
        both(cared, asked)
    }

    /// Cares for slices in a situation, and adds what it finds.
    async fn care_in(
        &self,
        runtime: &Runtime,
        service: &Arc<Service>,
        whose: Whose,
        mut situations: Situations,
        found: &mut Option<Situations>,
    ) -> Result<Outcome, SyncError> {
        let cared = self.care(runtime, service, whose, &mut situations).await;
        if let Err(error) = &cared {
            situations.add_refused(&service.key, error);
        }
        *found = Some(situations);
        cared
    }

    /// Deletes the own slices of a Service that names no EndpointSelector. If it has a selector,
    /// this waits for the slices of the endpointslice controller, and cares for its own meanwhile.
    async fn leave(
        &self,
        runtime: &Runtime,
        service: &Arc<Service>,
        found: &mut Option<Situations>,
    ) -> Result<Outcome, SyncError> {
        let key = &service.key;
        self.slices.forget_plan(runtime, key);
        self.leads(runtime, service, Some(Leadership::Unsaid));
        let all = match runtime.read_outputs(key) {
            Ok(all) => all,
            Err(outcome) => return Ok(outcome),
        };
        let slices = Slices::of(service, &all, &self.options.plan.manager);
        if slices.own.is_empty() {
            self.forgotten(key, runtime.forget_state(key));
            return Ok(Outcome::Done);
        }
        let not_ready = service.publish_not_ready_addresses;
        let mut situations = Situations::default();
        if service.selects_pods() && !can_hand_back(&slices, &runtime.cluster().pods_of(key), not_ready) {
            situations.add(Situation::HandingBack);
            return self.care_in(runtime, service, Whose::Own, situations, found).await;
        }
        if !self.is_unchanged(&yielding(runtime), service).await? {
            return Ok(Outcome::Done);
        }
        let deleted = slices.own.len();
        let writes = Writes { delete: slices.own, ..Writes::default() };
        if let Err(failed) = runtime.carry_out(key, None, [writes], |_| ()).await {
            let error = SyncError::from(failed);
            situations.add_refused(key, &error);
            let cared = self.care_in(runtime, service, Whose::Own, situations, found).await;
            return both(Err(error), cared);
        }
        if service.selects_pods() {
            runtime.record_event(&**service, &events::handed_back(deleted));
        }
        self.forgotten(key, runtime.forget_state(key));
        Ok(Outcome::Done)
    }

    pub(super) fn pod(&self, runtime: &Runtime, service: &ObjectKey, name: &str) -> Option<Arc<Pod>> {
        runtime.cluster().pod(&ObjectKey { namespace: service.namespace.clone(), name: name.into() })
    }
}
