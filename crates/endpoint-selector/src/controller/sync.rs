//! One sync of one Service.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::{ApiWriter, Deleted, FailedWrite, Operation, WriteError};
use kube_endpoint_controller_runtime::{Cause, Outcome, Runtime, SyncError};
use kube_endpoint_core_model::maker::{Content, Keep, Provenance};
use kube_endpoint_core_model::publish::publish_not_ready;
use kube_endpoint_core_model::well_known::LABEL_SKIP_MIRROR;
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Endpoints, ObjectKey, Pod, ReadyPods, ResourceVersion, Service, Text,
    Writes,
};
use kube_endpoint_informer::Kind;
use kube_endpoint_tracker::{Verb, WriteTracker};
use tokio::time::Instant;

use super::care::Whose;
use super::events::{self, Situation, Situations};
use super::leader::{Choice, Leadership};
use super::{SelectorReconciler, ServiceState, selector_of};
use crate::hand_over::{Slices, TakeOver, can_hand_back, is_published, take_over};

pub(super) type Cx = Runtime<SelectorReconciler>;

/// Endpoints that the API server does not let the controller delete, and that are not mirrored, are
/// looked at again after this time.
const LEFT_ENDPOINTS_RETRY: Duration = Duration::from_secs(300);

/// The result of a take-over that did not fail.
enum TakenOver {
    /// Nothing of the others stays, or the cache will show another state.
    Done,
    /// Slices of others stay.
    Stays,
    /// The sync has to end with this outcome.
    Ends(Outcome),
}

/// The Endpoints of a Service that is attached, by what its syncs know.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum LeftEndpoints {
    /// No sync has asked.
    #[default]
    NotAsked,
    /// There are none that a controller made.
    Settled,
    /// The API server has refused to tell or to delete them, at this time.
    Refused(Instant),
}

/// The result of an attempt to delete the Endpoints of a Service.
pub(super) enum Attempt {
    Deleted,
    /// There are none.
    Gone,
    /// They stay.
    Kept(Keep),
}

/// The maker of a slice, as the API server knows it.
pub(super) enum MadeBy {
    Controller,
    Other(Keep),
    /// The API server has another version of the slice than the cache, or none.
    Changed,
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

impl ServiceState {
    /// Forgets who made slices that no longer exist in this version.
    pub(super) fn keep_only<'a>(&mut self, slices: impl Iterator<Item = &'a Arc<EndpointSlice>> + Clone) {
        self.makers.retain(|version, _| slices.clone().any(|slice| *version == version_of(slice)));
    }

    /// Returns true if an earlier sync has found that somebody else made a slice.
    pub(super) fn is_of_somebody_else(&self, slice: &EndpointSlice) -> bool {
        matches!(self.makers.get(&version_of(slice)), Some(Some(_)))
    }
}

/// Returns the writer for the requests of a hand-over. Those that change who gets traffic go first.
fn yielding(runtime: &Cx) -> ApiWriter {
    runtime.writer().writer().yielding()
}

impl SelectorReconciler {
    pub(super) async fn sync_key(&self, runtime: &Cx, key: &ObjectKey) -> Result<Outcome, SyncError> {
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
        if let Some(found) = found {
            self.found(runtime, &service, found);
        }
        synced
    }

    /// Forgets a Service, with the state that the runtime kept of it.
    pub(super) fn forgotten(&self, key: &ObjectKey, state: ServiceState) {
        self.slices.forgotten(state.slices);
        self.listed_pods.remove(key);
        if let Some(selector) = self.problems.remove(key) {
            self.statuses.add(selector);
        }
        self.metrics.found(key, &Situations::default());
        self.metrics.leads(key, &Leadership::Unsaid);
    }

    /// Writes the slices of a Service, and takes it over from the controllers that had it. Whatever
    /// keeps it from that, what these left is cared for.
    async fn sync_attached(
        &self,
        runtime: &Cx,
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
        let taken_over = taken_over.map(|taken_over| match taken_over {
            TakenOver::Done | TakenOver::Stays => Outcome::Done,
            TakenOver::Ends(outcome) => outcome,
        });
        let has_others = || {
            let slices = runtime.cluster().slices_of(&service.key);
            Slices::of(service, &slices, &self.options.plan.manager).has_others()
        };
        let mut cared = Ok(Outcome::Done);
        if stays && has_others() && matches!(taken_over, Ok(Outcome::Done) | Err(_)) {
            cared = self.care(runtime, service, Whose::Others, &mut situations).await;
        }
        if stays && [&published, &taken_over].into_iter().flat_map(|it| it.as_ref().err()).any(has_writes) {
            situations.add(Situation::TakingOver);
        }
        for failed in [&published, &taken_over, &cared].into_iter().filter_map(|it| it.as_ref().err()) {
            situations.add_refused(&service.key, failed);
        }
        let is_judged = |it: &Result<Outcome, _>| matches!(it, Ok(Outcome::Done) | Err(_));
        let is_judged = is_judged(&taken_over) && is_judged(&cared);
        *found = is_judged.then_some(situations);
        let outcome = both(published, both(taken_over, cared))?;
        error.map_or(Ok(outcome), Err)
    }

    /// Returns the slices of a Service if its take-over needs no cache that shows the next write.
    fn prepared(
        &self,
        runtime: &Cx,
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
        is_published(&slices, &selected, self.publishes_not_ready(service)).then_some(slices)
    }

    /// Takes a Service over, if the own slices allow it.
    async fn take_over(
        &self,
        runtime: &Cx,
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
            self.listed_pods.remove(key);
            return Ok(TakenOver::Done);
        }
        // The decision needs a cache that shows the writes of all syncs, this one included.
        let mut slices = match runtime.read_outputs(key) {
            Ok(all) => slices(&all),
            Err(outcome) => return Ok(TakenOver::Ends(outcome)),
        };
        // Without a selector, which may have gone just now, what the others left stays.
        if !runtime.cluster().has_selector(key) {
            return Ok(TakenOver::Done);
        }
        match take_over(&slices) {
            TakeOver::Complete => Ok(TakenOver::Done),
            TakeOver::Held => {
                let asked = self.ask_makers(runtime, key, &slices, found).await;
                runtime.with_state(key, |state| slices.retain(|slice| !state.is_of_somebody_else(slice)));
                let stay = slices.of_pods.len() + slices.mirrored.len();
                if stay > 0 {
                    found.add(Situation::Held { selector: selector.key.name.to_string(), slices: stay });
                }
                asked.map(|()| if stay > 0 { TakenOver::Stays } else { TakenOver::Done })
            }
            TakeOver::Deletes => self.delete_others(runtime, service, selector, slices, found).await,
        }
    }

    /// Returns true if somebody else made all slices of others. An earlier sync has asked the API
    /// server who made them, and they have not changed since. So a change of a pod asks nothing.
    fn are_kept(&self, runtime: &Cx, key: &ObjectKey, others: &Slices, found: &mut Situations) -> bool {
        runtime.with_state(key, |state| {
            let mut all = others.of_pods.iter().chain(&others.mirrored);
            state.keep_only(all.clone());
            state.makers.values().flatten().for_each(|why| found.add(why.clone()));
            all.all(|slice| state.is_of_somebody_else(slice))
        })
    }

    /// Asks the API server who made the slices of others, and the Endpoints of mirrored ones, once
    /// for each version. So the situation does not depend on what earlier syncs did.
    async fn ask_makers(
        &self,
        runtime: &Cx,
        key: &ObjectKey,
        slices: &Slices,
        found: &mut Situations,
    ) -> Result<(), SyncError> {
        let mut unknown = slices.clone();
        runtime.with_state(key, |state| {
            unknown.retain(|slice| !state.makers.contains_key(&version_of(slice)));
        });
        let mut made_by_controllers = Vec::new();
        for slice in unknown.of_pods {
            match self.maker_of(runtime, &yielding(runtime), key, &slice).await? {
                MadeBy::Other(keep) => self.keep_slice(runtime, key, &slice, keep, found),
                MadeBy::Controller => made_by_controllers.push(slice),
                // The cache will show it.
                MadeBy::Changed => {}
            }
        }
        if !unknown.mirrored.is_empty() {
            let writer = yielding(runtime);
            let made = writer.provenance::<Endpoints>(key).await;
            let made = made.map_err(|error| endpoints_failed(key, error, found))?;
            match made.and_then(|made| made.reason_to_keep(Content::Endpoints, &writer.controllers())) {
                Some(keep) if keep != Keep::Lock => {
                    self.keep_mirrored(runtime, key, &unknown.mirrored, keep, found);
                }
                _ => made_by_controllers.append(&mut unknown.mirrored),
            }
        }
        runtime.with_state(key, |state| {
            state.makers.extend(made_by_controllers.iter().map(|slice| (version_of(slice), None)));
        });
        Ok(())
    }

    /// Deletes the slices and the Endpoints that other controllers left.
    async fn delete_others(
        &self,
        runtime: &Cx,
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
        runtime: &Cx,
        service: &Arc<Service>,
        selector: &EndpointSelector,
        slices: &Slices,
        found: &mut Situations,
    ) -> Result<TakenOver, SyncError> {
        let key = &service.key;
        self.listed_pods.remove(key);
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
        runtime: &Cx,
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
        let asked = self.ask_makers(runtime, key, &slices, &mut situations).await;
        if let Err(failed) = &asked {
            situations.add_refused(key, failed);
        }
        let cared = self.care_in(runtime, service, Whose::All, situations, found).await;
        both(asked.map(|()| Outcome::Done), cared)
    }

    /// Cares for slices in a situation, and adds what it finds.
    async fn care_in(
        &self,
        runtime: &Cx,
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
        runtime: &Cx,
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
        let not_ready = self.publishes_not_ready(service);
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

    pub(super) fn publishes_not_ready(&self, service: &Service) -> bool {
        publish_not_ready(service, self.options.plan.tolerate_unready_annotation).0
    }

    pub(super) fn pod(&self, runtime: &Cx, service: &ObjectKey, name: &str) -> Option<Arc<Pod>> {
        runtime.cluster().pod(&ObjectKey { namespace: service.namespace.clone(), name: name.into() })
    }

    /// Records the situation of a Service, and its event if it is new. The event comes again while
    /// it is so.
    fn found(&self, runtime: &Cx, service: &Arc<Service>, found: Situations) {
        self.metrics.found(&service.key, &found);
        if !self.problems.set(service, &found) {
            return;
        }
        if let Some(selector) = selector_of(service) {
            self.statuses.add(selector);
        }
        if let Some(event) = found.event() {
            runtime.record_event(&**service, &event);
        }
    }

    /// Records that a slice stays which somebody else made, until it changes.
    pub(super) fn keep_slice(
        &self,
        runtime: &Cx,
        key: &ObjectKey,
        slice: &EndpointSlice,
        keep: Keep,
        found: &mut Situations,
    ) {
        let why = Situation::Kept { keep, slice: slice.metadata.name.to_string() };
        found.add(why.clone());
        runtime.with_state(key, |state| state.makers.insert(version_of(slice), Some(why)));
    }

    /// Records that mirrored slices stay, since somebody else made the Endpoints.
    pub(super) fn keep_mirrored(
        &self,
        runtime: &Cx,
        key: &ObjectKey,
        mirrored: &[Arc<EndpointSlice>],
        keep: Keep,
        found: &mut Situations,
    ) {
        let why = Situation::Mirrored { keep };
        if !mirrored.is_empty() {
            found.add(why.clone());
        }
        runtime.with_state(key, |state| {
            state.makers.extend(mirrored.iter().map(|slice| (version_of(slice), Some(why.clone()))));
        });
    }

    /// Asks the API server if the Service is the one in the cache, with the same selector and
    /// annotation. If not, the cache will show it and start another sync.
    pub(super) async fn is_unchanged(
        &self,
        writer: &ApiWriter,
        service: &Service,
    ) -> Result<bool, SyncError> {
        let asked = writer.service(&service.key).await;
        let asked = asked.map_err(|error| SyncError::from(FailedWrite::delete(&service.key, error)))?;
        Ok(asked.is_some_and(|asked| {
            asked.uid == service.uid
                && asked.selector == service.selector
                && asked.endpoint_selector() == service.endpoint_selector()
        }))
    }

    /// Returns who made a slice of a Service, in the version of the cache. This asks the API
    /// server, unless an earlier sync has found that a controller did.
    pub(super) async fn maker_of(
        &self,
        runtime: &Cx,
        writer: &ApiWriter,
        key: &ObjectKey,
        slice: &EndpointSlice,
    ) -> Result<MadeBy, FailedWrite> {
        if runtime.with_state(key, |state| state.makers.get(&version_of(slice)) == Some(&None)) {
            return Ok(MadeBy::Controller);
        }
        let made = writer.provenance::<EndpointSlice>(&slice.key()).await;
        let made = made.map_err(|error| FailedWrite::delete(&slice.key(), error))?;
        Ok(match made.filter(|made| made.version() == slice.metadata.resource_version) {
            None => MadeBy::Changed,
            Some(made) => match made.reason_to_keep(Content::Slice, &writer.controllers()) {
                None => MadeBy::Controller,
                Some(keep) => MadeBy::Other(keep),
            },
        })
    }

    /// Deletes those of these slices that a controller made, in the version of the cache. Returns
    /// their number, and the slices that somebody else made or may have made.
    pub(super) async fn delete_slices_of_controllers(
        &self,
        runtime: &Cx,
        writer: &ApiWriter,
        key: &ObjectKey,
        slices: &[Arc<EndpointSlice>],
    ) -> Result<(usize, Vec<(Arc<EndpointSlice>, Keep)>), SyncError> {
        let (mut deleted, mut kept, mut failed) = (0, Vec::new(), Vec::new());
        for slice in slices {
            match self.maker_of(runtime, writer, key, slice).await {
                Ok(MadeBy::Controller) => {}
                // The cache will show it.
                Ok(MadeBy::Changed) => continue,
                Ok(MadeBy::Other(by)) => {
                    kept.push((Arc::clone(slice), by));
                    continue;
                }
                Err(read) => {
                    failed.push(read);
                    break;
                }
            }
            match runtime.writer().delete_unchanged(key, &**slice).await {
                Ok(Deleted::Now) => {
                    runtime.wrote(Operation::Delete);
                    deleted += 1;
                }
                Ok(Deleted::Recorded) => deleted += 1,
                Ok(Deleted::Before) => {}
                Ok(Deleted::Replaced) => runtime.add(key.clone(), Cause::ForeignWrite),
                Err(delete) => {
                    let ends = delete.error.ends_deletes();
                    failed.push(delete);
                    if ends {
                        break;
                    }
                }
            }
        }
        if failed.is_empty() { Ok((deleted, kept)) } else { Err(failed.into()) }
    }

    /// Deletes the Endpoints of a Service if a controller made them: kube-controller-manager
    /// mirrors what the endpoints controller left. `mirrored` are the slices that it has mirrored.
    /// Returns true if this deleted them.
    ///
    /// The error of a missing right is retried slowly: the right may be granted.
    async fn delete_endpoints(
        &self,
        runtime: &Cx,
        service: &Service,
        mirrored: &[Arc<EndpointSlice>],
        found: &mut Situations,
    ) -> Result<bool, SyncError> {
        let key = &service.key;
        let attempt = self.try_to_delete_endpoints(runtime, key).await;
        runtime.with_state(key, |state| {
            state.endpoints = match attempt {
                Ok(_) => LeftEndpoints::Settled,
                Err(_) => LeftEndpoints::Refused(Instant::now()),
            };
        });
        match attempt {
            Ok(Attempt::Deleted) => return Ok(true),
            // Nobody mirrors a lock.
            Ok(Attempt::Gone | Attempt::Kept(Keep::Lock)) => {}
            Ok(Attempt::Kept(keep)) => self.keep_mirrored(runtime, key, mirrored, keep, found),
            Err(WriteError::Refused { .. }) if mirrored.is_empty() && !skips_mirroring(service) => {
                // Nobody knows if there are any. If they are mirrored, the slices will tell.
                runtime.add_after(key.clone(), LEFT_ENDPOINTS_RETRY, Cause::Retry);
            }
            Err(error) => return Err(endpoints_failed(key, error, found)),
        }
        Ok(false)
    }

    async fn try_to_delete_endpoints(&self, runtime: &Cx, key: &ObjectKey) -> Result<Attempt, WriteError> {
        let writer = yielding(runtime);
        let Some(made) = writer.provenance::<Endpoints>(key).await? else { return Ok(Attempt::Gone) };
        match made.reason_to_keep(Content::Endpoints, &writer.controllers()) {
            Some(keep) => Ok(Attempt::Kept(keep)),
            None => self.delete_endpoints_of_version(runtime, &writer, key, &made).await,
        }
    }

    pub(super) async fn delete_endpoints_of_version(
        &self,
        runtime: &Cx,
        writer: &ApiWriter,
        key: &ObjectKey,
        made: &Provenance,
    ) -> Result<Attempt, WriteError> {
        if let Some(dry_run) = writer.dry_run() {
            dry_run.record_delete::<Endpoints>(key, key);
            return Ok(Attempt::Deleted);
        }
        let tracker = self.tracker_of_endpoints(runtime);
        let mut write = tracker.write(key, key, Verb::Delete, made.version());
        let answer = writer.delete_unchanged(&Endpoints::of_version(key, made), &mut write).await;
        match &answer {
            Ok(()) => drop(write.deleted(made.uid())),
            Err(error) if error.is_refusal() => write.refused(),
            Err(_) => drop(write),
        }
        tracker.forget(key);
        match answer {
            Ok(()) => {
                runtime.wrote(Operation::Delete);
                Ok(Attempt::Deleted)
            }
            Err(WriteError::NotFound(_)) => Ok(Attempt::Gone),
            Err(error) => Err(error),
        }
    }

    /// Returns the tracker of writes to Endpoints. No reflector of Endpoints need run, so nothing
    /// would end the wait for an echo: forget each write once it is answered.
    pub(super) fn tracker_of_endpoints(&self, runtime: &Cx) -> &WriteTracker {
        self.endpoints.get_or_init(|| runtime.cluster().ledger(Kind::Endpoints).tracker())
    }
}

/// Returns the error of a request about the Endpoints of a Service. A refusal is a situation, too.
pub(super) fn endpoints_failed(key: &ObjectKey, error: WriteError, found: &mut Situations) -> SyncError {
    if let WriteError::Refused { message, .. } = &error {
        found.add(Situation::EndpointsForbidden { message: message.clone() });
        // Other requests may be granted, so this is no sign of an outage.
        return SyncError::new(Vec::new(), format!("the Endpoints {key} may be left over: {message}"));
    }
    FailedWrite::delete(key, error).into()
}

/// Returns true if the Endpoints of a Service, which have its labels, are not mirrored.
fn skips_mirroring(service: &Service) -> bool {
    service.labels.get(LABEL_SKIP_MIRROR).is_some_and(|value| **value == *"true")
}

fn has_writes(error: &SyncError) -> bool {
    !error.writes().is_empty()
}

fn version_of(slice: &EndpointSlice) -> (Text, ResourceVersion) {
    (slice.metadata.name.clone(), slice.metadata.resource_version)
}
