//! One sync of one Service.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_api_writer::{Deleted, FailedWrite, Operation, WriteError};
use kube_endpoint_controller_runtime::{Cause, Outcome, Runtime, SyncError};
use kube_endpoint_core_model::lease::{self, Named};
use kube_endpoint_core_model::maker::{Content, Maker};
use kube_endpoint_core_model::publish::publish_not_ready;
use kube_endpoint_core_model::readiness::serving_pod_in;
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Endpoints, ObjectKey, Pod, Readiness, ReadyPods, ResourceVersion,
    Service, Text, Writes,
};
use kube_endpoint_informer::Kind;
use kube_endpoint_tracker::Verb;
use tokio::time::Instant;

use super::events::{self, Situation};
use super::leases::{Standing, lease_of};
use super::status::Holder;
use super::{NamedPod, SelectorReconciler, ServiceState, selector_of};
use crate::hand_over::{Slices, can_hand_back, is_published, shrunk, take_over};

type Cx = Runtime<SelectorReconciler>;

/// The part of a sync in which a Service is taken over.
#[derive(Clone, Copy, PartialEq)]
enum Moment {
    BeforeWrites,
    AfterWrites,
}

/// The state of the Endpoints of a Service that names an EndpointSelector, after a sync.
enum LeftEndpoints {
    /// There are none.
    Gone,
    /// This deleted them.
    Deleted,
    /// They stay.
    Stay(Situation),
}

/// Returns the name of the client that made an object, if it is no controller.
fn other_maker(maker: &Maker) -> Option<String> {
    match maker {
        Maker::Controller(_) => None,
        Maker::SomebodyElse(by) => Some(by.to_string()),
        Maker::Unknown => Some("an unknown client".to_owned()),
    }
}

impl SelectorReconciler {
    pub(super) async fn sync_key(&self, runtime: &Cx, key: &ObjectKey) -> Result<Outcome, SyncError> {
        let cluster = runtime.cluster();
        let Some(service) = cluster.service(key) else {
            // The garbage collector deletes its slices.
            self.forgotten(key, runtime.forget(key));
            return Ok(Outcome::Done);
        };
        match selector_of(&service) {
            Some(selector) if cluster.has_selector(key) => {
                let Some(selector) = cluster.endpoint_selector(&selector) else { return Ok(Outcome::Done) };
                self.sync_attached(runtime, &service, &selector).await
            }
            Some(selector) => self.sync_without_selector(runtime, &service, &selector).await,
            None => self.leave(runtime, &service).await,
        }
    }

    /// Forgets a Service, with the state that the runtime kept of it.
    pub(super) fn forgotten(&self, key: &ObjectKey, state: ServiceState) {
        self.slices.forgotten(state.slices);
        self.listed_pods.remove(key);
        self.metrics.found(key, &Situation::Normal);
    }

    /// Writes the slices of a Service, and takes it over from the controllers that had it.
    async fn sync_attached(
        &self,
        runtime: &Cx,
        service: &Arc<Service>,
        selector: &EndpointSelector,
    ) -> Result<Outcome, SyncError> {
        let (ready_pods, error) = self.ready_pods(runtime, service, selector).await;
        let ready_pods = ready_pods.as_ref();
        // While pods change all the time, each sync writes, and the cache shows the writes when the
        // pods have changed again. So a sync begins with a take-over that earlier ones have
        // prepared.
        if Slices::of(service, &runtime.cluster().slices_of(&service.key), &self.options.plan.manager)
            .has_others()
        {
            self.take_over(runtime, service, selector, ready_pods, Moment::BeforeWrites).await?;
        }
        let outcome = match self.slices.sync(runtime, service, ready_pods).await? {
            Outcome::Done => {
                self.take_over(runtime, service, selector, ready_pods, Moment::AfterWrites).await?
            }
            outcome => outcome,
        };
        error.map_or(Ok(outcome), Err)
    }

    /// Returns the pods that may be ready endpoints, or `None` if all may. Also returns the error
    /// of a read on which that depends: until a retry succeeds, the leader stays.
    async fn ready_pods(
        &self,
        runtime: &Cx,
        service: &Service,
        selector: &EndpointSelector,
    ) -> (Option<ReadyPods>, Option<SyncError>) {
        let lease = match (&selector.readiness, lease_of(selector)) {
            (Some(Readiness::Condition { kind, pick }), _) => {
                return (Some(ReadyPods::Condition { kind: kind.clone(), pick: *pick }), None);
            }
            (Some(Readiness::Lease { .. }), Some(lease)) => lease,
            _ => return (None, None),
        };
        let mut standing = self.leases.standing(&lease, Instant::now());
        let mut error = None;
        if standing == Standing::Overdue {
            match runtime.writer().writer().lease(&lease).await {
                Ok(read) => {
                    let is_settled = self.is_settled(runtime.cluster(), &lease.namespace);
                    let selectors = self.leases.read(&lease, read, is_settled, Instant::now());
                    self.add_services_of(runtime, &selectors, None);
                    standing = self.leases.standing(&lease, Instant::now());
                }
                Err(refused) => {
                    error = Some(SyncError::new(Vec::new(), format!("cannot read Lease {lease}: {refused}")));
                }
            }
        }
        let pods = runtime.cluster().pods_of(&service.key);
        let leader = match &standing {
            Standing::Holder(identity, version) => match self.named(selector, identity, &pods) {
                Named::Pod(pod) => {
                    let leads = runtime.with_state(&service.key, |state| {
                        let first = || NamedPod {
                            identity: identity.clone(),
                            uid: pod.uid.clone(),
                            replaced_at: None,
                        };
                        state.named.get_or_insert_with(first).leads(identity, *version, &pod.uid)
                    });
                    if !leads {
                        self.leases.tell_next_change(&lease);
                    }
                    leads.then(|| pod.key.name.clone())
                }
                Named::Nobody | Named::Several => None,
            },
            Standing::Unknown(identity) => {
                if let Some(identity) = identity {
                    self.named(selector, identity, &pods);
                }
                self.published_leader(runtime, service, &pods)
            }
            Standing::Overdue => self.published_leader(runtime, service, &pods),
            Standing::Nobody => {
                if !self.leases.has_holder(&lease) {
                    self.statuses.found(selector, Holder::Absent);
                }
                None
            }
        };
        (Some(ReadyPods::Leader(leader)), error)
    }

    /// Returns the pod that the identity of a holder names, and records for the status of the
    /// selector if there is one.
    fn named<'a>(&self, selector: &EndpointSelector, identity: &str, pods: &'a [Arc<Pod>]) -> Named<'a> {
        let named = lease::named(identity, pods);
        // Without pods, the identity can be right.
        if !identity.is_empty() && !pods.is_empty() {
            self.statuses.found(selector, Holder::of(identity, named));
        }
        named
    }

    /// Returns the pod that own slices show serving, if it still exists.
    fn published_leader(&self, runtime: &Cx, service: &Service, pods: &[Arc<Pod>]) -> Option<Text> {
        let mut own = runtime.cluster().slices_of(&service.key);
        own.retain(|slice| self.is_own(slice));
        let leader = serving_pod_in(&own)?;
        pods.iter().find(|pod| pod.uid == leader.uid).map(|pod| pod.key.name.clone())
    }

    /// Takes a Service over, if the own slices allow it.
    async fn take_over(
        &self,
        runtime: &Cx,
        service: &Arc<Service>,
        selector: &EndpointSelector,
        ready_pods: Option<&ReadyPods>,
        moment: Moment,
    ) -> Result<Outcome, SyncError> {
        let key = &service.key;
        let slices = |all: &[Arc<EndpointSlice>]| Slices::of(service, all, &self.options.plan.manager);
        let others = slices(&runtime.cluster().slices_of(key));
        if !others.has_others() {
            self.listed_pods.remove(key);
            self.found(runtime, service, Situation::Normal);
            return Ok(Outcome::Done);
        }
        // An earlier sync has asked the API server who made these slices, and they have not changed
        // since. So a change of a pod asks nothing.
        let versions = |slices: &Slices| -> BTreeSet<(Text, ResourceVersion)> {
            let others = slices.of_pods.iter().chain(&slices.mirrored).map(|slice| &slice.metadata);
            others.map(|it| (it.name.clone(), it.resource_version)).collect()
        };
        let seen = versions(&others);
        if runtime.with_state(key, |state| seen.is_subset(&state.kept)) {
            return Ok(Outcome::Done);
        }
        // The decision needs a cache that shows the writes of all syncs, this one included.
        let slices = match runtime.read_outputs(key) {
            Ok(all) => slices(&all),
            Err(outcome) => return Ok(outcome),
        };
        // Without a selector, which may have gone just now, what the others left stays.
        let Some((mut selected, _)) = runtime.cluster().pods_and_cursor(key) else {
            return Ok(Outcome::Done);
        };
        if let Some(ready_pods) = ready_pods {
            let pods: Vec<&Pod> = selected.iter().map(|pod| &**pod).collect();
            let chosen = ready_pods.among(&pods, &slices.own);
            let is_chosen: Vec<bool> = pods.iter().map(|pod| chosen.has(pod)).collect();
            let mut is_chosen = is_chosen.into_iter();
            // Of the others' ready endpoints, those that are to stay ready have to be published.
            selected.retain(|_| is_chosen.next().unwrap_or_default());
        }
        let not_ready = self.publishes_not_ready(service);
        if moment == Moment::BeforeWrites && !is_published(&slices, &selected, not_ready) {
            return Ok(Outcome::Done);
        }
        let decision = take_over(&slices, &|name: &str| self.pod(runtime, key, name), not_ready);
        let mut situation = Situation::Normal;
        if decision.held {
            let stay = slices.of_pods.len() + slices.mirrored.len() - decision.delete.len();
            situation = Situation::Held { selector: selector.key.name.to_string(), slices: stay };
            self.listed_pods.set(key, slices.of_pods.iter().map(|slice| &**slice));
        } else {
            self.listed_pods.remove(key);
        }
        let (mut deleted, mut endpoints_deleted) = (0, false);
        if !decision.delete.is_empty() || decision.endpoints {
            if !self.is_unchanged(runtime, service).await? {
                return Ok(Outcome::Done);
            }
            let kept: Vec<_>;
            (deleted, kept) = self.delete_slices_of_controllers(runtime, key, &decision.delete).await?;
            if let Some((slice, by)) = kept.first() {
                situation = Situation::Kept { slice: slice.metadata.name.to_string(), by: by.clone() };
            }
            let kept = kept.into_iter().map(|(slice, _)| slice).collect();
            let mut stay = Slices { of_pods: kept, ..Slices::default() };
            if decision.endpoints {
                match self.delete_endpoints(runtime, key).await? {
                    LeftEndpoints::Gone => {}
                    LeftEndpoints::Deleted => endpoints_deleted = true,
                    LeftEndpoints::Stay(why) => {
                        if !slices.mirrored.is_empty() {
                            situation = why;
                        }
                        stay.mirrored = slices.mirrored;
                    }
                }
                runtime.with_state(key, |state| state.kept = versions(&stay));
            }
        }
        // Otherwise only dead slices have gone.
        if decision.endpoints && (deleted > 0 || endpoints_deleted) {
            runtime.record_event(
                &**service,
                &events::taken_over(&selector.key.name, deleted, endpoints_deleted),
            );
        }
        self.found(runtime, service, situation);
        Ok(Outcome::Done)
    }

    /// Removes endpoints whose pod is gone or not ready. Without a selector nobody can say which to
    /// add, and the slices of other controllers stay.
    async fn sync_without_selector(
        &self,
        runtime: &Cx,
        service: &Arc<Service>,
        selector: &ObjectKey,
    ) -> Result<Outcome, SyncError> {
        let key = &service.key;
        self.slices.forget_plan(runtime, key);
        let mut own = match runtime.read_outputs(key) {
            Ok(slices) => slices,
            Err(outcome) => return Ok(outcome),
        };
        let others_stay = Slices::of(service, &own, &self.options.plan.manager).has_others();
        own.retain(|slice| self.is_own(slice) && slice.metadata.deletion_timestamp.is_none());
        let reason = runtime.cluster().endpoint_selector(selector).map(|it| it.selector.clone().err());
        let name = selector.name.to_string();
        match reason {
            // It has come in the meantime, and its event starts another sync.
            Some(None) => return Ok(Outcome::Done),
            Some(Some(reason)) => {
                let reason = reason.to_string();
                self.found(runtime, service, Situation::Invalid { selector: name, reason, others_stay });
            }
            None => self.found(runtime, service, Situation::NotFound { selector: name, others_stay }),
        }
        self.shrink(runtime, service, &own).await?;
        Ok(Outcome::Done)
    }

    /// Removes endpoints from own slices whose pod is gone or not ready.
    async fn shrink(
        &self,
        runtime: &Cx,
        service: &Arc<Service>,
        own: &[Arc<EndpointSlice>],
    ) -> Result<(), SyncError> {
        let key = &service.key;
        // A take-over that goes on later judges again what it kept.
        runtime.with_state(key, |state| state.kept.clear());
        // The pods come first: one that changes after this starts another sync.
        self.listed_pods.set(key, own.iter().map(|slice| &**slice));
        let not_ready = self.publishes_not_ready(service);
        let update = shrunk(own, &|name: &str| self.pod(runtime, key, name), not_ready);
        if !update.is_empty() {
            runtime.carry_out(key, None, [Writes { update, ..Writes::default() }], |_| ()).await?;
        }
        Ok(())
    }

    /// Deletes the own slices of a Service that names no EndpointSelector. If it has a selector,
    /// this waits for the slices of the endpointslice controller, and until then endpoints only
    /// leave.
    async fn leave(&self, runtime: &Cx, service: &Arc<Service>) -> Result<Outcome, SyncError> {
        let key = &service.key;
        self.slices.forget_plan(runtime, key);
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
        if service.selects_pods() && !can_hand_back(&slices, &runtime.cluster().pods_of(key), not_ready) {
            self.found(runtime, service, Situation::HandingBack);
            self.shrink(runtime, service, &slices.own).await?;
            return Ok(Outcome::Done);
        }
        if !self.is_unchanged(runtime, service).await? {
            return Ok(Outcome::Done);
        }
        let deleted = slices.own.len();
        let writes = Writes { delete: slices.own, ..Writes::default() };
        runtime.carry_out(key, None, [writes], |_| ()).await?;
        if service.selects_pods() {
            runtime.record_event(&**service, &events::handed_back(deleted));
        }
        self.forgotten(key, runtime.forget_state(key));
        Ok(Outcome::Done)
    }

    fn publishes_not_ready(&self, service: &Service) -> bool {
        publish_not_ready(service, self.options.plan.tolerate_unready_annotation).0
    }

    fn pod(&self, runtime: &Cx, service: &ObjectKey, name: &str) -> Option<Arc<Pod>> {
        runtime.cluster().pod(&ObjectKey { namespace: service.namespace.clone(), name: name.into() })
    }

    /// Records the situation of a Service, and its event if it is new.
    fn found(&self, runtime: &Cx, service: &Arc<Service>, situation: Situation) {
        self.metrics.found(&service.key, &situation);
        let before = runtime
            .with_state(&service.key, |state| std::mem::replace(&mut state.situation, situation.clone()));
        if before != situation
            && let Some(event) = situation.event()
        {
            runtime.record_event(&**service, &event);
        }
    }

    /// Asks the API server if the Service is the one in the cache, with the same selector and
    /// annotation. If not, the cache will show it and start another sync.
    async fn is_unchanged(&self, runtime: &Cx, service: &Service) -> Result<bool, SyncError> {
        let asked = runtime.writer().writer().service(&service.key).await;
        let asked = asked.map_err(|error| SyncError::from(FailedWrite::delete(&service.key, error)))?;
        Ok(asked.is_some_and(|asked| {
            asked.uid == service.uid
                && asked.selector == service.selector
                && asked.endpoint_selector() == service.endpoint_selector()
        }))
    }

    /// Deletes those of these slices that a controller made, in the version of the cache. Returns
    /// their number, and the slices that somebody else made, with the name of that client.
    async fn delete_slices_of_controllers(
        &self,
        runtime: &Cx,
        key: &ObjectKey,
        slices: &[Arc<EndpointSlice>],
    ) -> Result<(usize, Vec<(Arc<EndpointSlice>, String)>), SyncError> {
        let writer = runtime.writer().writer();
        let (mut deleted, mut kept, mut failed) = (0, Vec::new(), Vec::new());
        for slice in slices {
            let made = writer.provenance::<EndpointSlice>(&slice.key()).await;
            let made = made.map_err(|error| SyncError::from(FailedWrite::delete(&slice.key(), error)))?;
            // Another version, or none: the cache will show it.
            let Some(made) = made.filter(|made| made.version() == slice.metadata.resource_version) else {
                continue;
            };
            if let Some(by) = other_maker(&made.maker(Content::Slice, &writer.controllers())) {
                kept.push((Arc::clone(slice), by));
                continue;
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
    /// mirrors what the endpoints controller left.
    async fn delete_endpoints(&self, runtime: &Cx, key: &ObjectKey) -> Result<LeftEndpoints, SyncError> {
        let writer = runtime.writer().writer();
        let failed = |error| SyncError::from(FailedWrite::delete(key, error));
        let forbidden = |error: &WriteError| (error.code() == Some(403)).then(|| error.to_string());
        let made = match writer.provenance::<Endpoints>(key).await {
            Ok(None) => return Ok(LeftEndpoints::Gone),
            Ok(Some(made)) => made,
            Err(error) => match forbidden(&error) {
                Some(message) => return Ok(LeftEndpoints::Stay(Situation::EndpointsForbidden { message })),
                None => return Err(failed(error)),
            },
        };
        if let Some(by) = other_maker(&made.maker(Content::Endpoints, &writer.controllers())) {
            return Ok(LeftEndpoints::Stay(Situation::Mirrored { by }));
        }
        if let Some(dry_run) = writer.dry_run() {
            dry_run.record_delete::<Endpoints>(key, key);
            return Ok(LeftEndpoints::Deleted);
        }
        let seen = Endpoints::of_version(key, &made);
        // No reflector of Endpoints need run, so nothing would end the wait for an echo.
        let tracker = self.endpoints.get_or_init(|| runtime.cluster().ledger(Kind::Endpoints).tracker());
        let mut write = tracker.write(key, key, Verb::Delete, made.version());
        let answer = writer.delete_unchanged(&seen, &mut write).await;
        match &answer {
            Ok(()) => drop(write.deleted(made.uid())),
            Err(error) if error.is_refusal() => write.refused(),
            Err(_) => drop(write),
        }
        tracker.forget(key);
        match answer {
            Ok(()) => {
                runtime.wrote(Operation::Delete);
                Ok(LeftEndpoints::Deleted)
            }
            Err(WriteError::NotFound(_)) => Ok(LeftEndpoints::Gone),
            Err(error) => match forbidden(&error) {
                Some(message) => Ok(LeftEndpoints::Stay(Situation::EndpointsForbidden { message })),
                None => Err(failed(error)),
            },
        }
    }
}
