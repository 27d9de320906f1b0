//! One sync of one Service.

use std::fmt;
use std::sync::Arc;

use kube_endpoint_api_writer::{EventSubject, FailedWrite, SliceWrites, WriteError};
use kube_endpoint_core_model::{EndpointSlice, ObjectKey, PlannedEvent, Service, Timestamp};
use kube_endpoint_informer::Kind;
use kube_endpoint_tracker::CachePosition;

use super::Shared;
use crate::plan::{Plan, PlanError, PlanInputs, SubPlan, plan};

/// How a sync ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synced {
    /// Everything is as it shall be.
    Done,
    /// The cache does not show our own writes yet: put off.
    Stale,
    /// The server asked to be left alone for a while: put off.
    Paused,
}

/// Why a sync has to be tried again.
#[derive(Debug)]
pub(super) struct SyncError {
    service: ObjectKey,
    pods_left_out: Vec<PlanError>,
    failed: Vec<FailedWrite>,
}

impl fmt::Display for SyncError {
    /// As upstream's aggregate of errors: one as it is, several in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<String> = self.pods_left_out.iter().map(ToString::to_string).collect();
        for FailedWrite { operation, object, error } in &self.failed {
            let (operation, service) = (operation.as_str(), &self.service);
            all.push(format!(
                "failed to {operation} {} EndpointSlice for Service {service}: {error}",
                object.name
            ));
        }
        all.dedup();
        match all.as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "[{}]", many.join(", ")),
        }
    }
}

impl Shared {
    pub(super) async fn sync(&self, key: &ObjectKey) -> Result<Synced, SyncError> {
        // What waits when the controller is shut down is left to whoever comes next.
        if self.queue.is_shutting_down() {
            return Ok(Synced::Done);
        }
        let Some(service) = self.cluster.service(key) else {
            self.forget(key);
            return Ok(Synced::Done);
        };
        // An ExternalName gets no endpoints, and without a selector somebody else makes them.
        if !service.selects_pods() {
            return Ok(Synced::Done);
        }
        if self.put_off.is_paused(key) {
            return Ok(Synced::Paused);
        }
        let Some(existing) = self.current_slices(key) else {
            self.put_off.put_off(key);
            return Ok(Synced::Stale);
        };
        self.put_off.caught_up(key);
        let pods = self.cluster.pods_of(key);
        let trigger_time = self.triggers.compute(&service, &pods);
        if service.topology_hints_enabled() {
            self.refresh_topology();
        }
        let topology = Arc::clone(&self.topology.read());
        let hinted = self.hinted.lock().get(key).cloned().unwrap_or_default();
        let mut plan = plan(
            &PlanInputs::new(&service, &pods, &self.cluster)
                .with_existing_slices(&existing)
                .with_trigger_time(trigger_time)
                .with_options(&self.options.plan)
                .with_topology(&topology)
                .with_hinted(hinted),
        );
        let wants_writes = !plan.is_empty();
        let failed = self.carry_out(&service, &mut plan, trigger_time).await;
        self.remember_hints(key, std::mem::take(&mut plan.hinted), &topology);
        self.report(&service, plan, wants_writes, failed)
    }

    /// Up to where the cache shows slices.
    pub(super) fn position(&self) -> CachePosition {
        let epoch = self.cluster.epoch(Kind::EndpointSlices);
        CachePosition { epoch, version: self.cluster.position(Kind::EndpointSlices) }
    }

    /// The Service's slices as the cache shows them; none when it does not show our own writes yet.
    fn current_slices(&self, key: &ObjectKey) -> Option<Vec<Arc<EndpointSlice>>> {
        // The position is read first: the slices are then at least as new.
        let position = self.position();
        let mut slices = self.cluster.slices_of(key);
        let manager = &*self.options.plan.manager;
        slices.retain(|slice| slice.is_managed_by(manager) && slice.metadata.deletion_timestamp.is_none());
        let uids = slices.iter().map(|slice| &slice.metadata.uid);
        (!self.writer.tracker().is_stale(key, position, uids)).then_some(slices)
    }

    /// Carries out the sub-plans in order. A write that fails ends its sub-plan; the others are still carried out, as
    /// upstream does, unless the API server is too busy: that ends the sync.
    async fn carry_out(
        &self,
        service: &Service,
        plan: &mut Plan,
        trigger_time: Option<Timestamp>,
    ) -> Vec<FailedWrite> {
        let key = &service.key;
        self.metrics.planned(key, plan, self.options.plan.max_endpoints_per_slice);
        let wants_writes = !plan.is_empty();
        let mut failures = Vec::new();
        for SubPlan { writes, stats, .. } in std::mem::take(&mut plan.sub_plans) {
            let writes =
                SliceWrites { create: writes.create, update: &writes.update, delete: &writes.delete };
            let wrote = |operation| self.metrics.wrote(operation);
            match self.writer.carry_out(key, writes, || self.position(), wrote).await {
                Ok(changed_meanwhile) => {
                    if let Some(stats) = stats {
                        self.metrics.carried_out(&plan.stats, &stats);
                    }
                    if changed_meanwhile {
                        self.sync_after_slice_change(Some(key));
                    }
                }
                // Creates will fail for as long as the namespace exists: there is nothing to be done here any more.
                Err(FailedWrite { error: WriteError::NamespaceTerminating(_), .. }) => return Vec::new(),
                Err(failed) => {
                    let busy = matches!(failed.error, WriteError::Busy { .. });
                    failures.push(failed);
                    if busy {
                        break;
                    }
                }
            }
        }
        if !failures.is_empty() {
            self.triggers.carry_over(key, trigger_time);
        } else if wants_writes && let Some(trigger_time) = trigger_time {
            let elapsed = self.clock.now().as_millisecond() - trigger_time.as_millisecond();
            self.metrics.trigger_to_write(elapsed.max(0) as f64 / 1000.0);
        }
        failures
    }

    fn report(
        &self,
        service: &Service,
        plan: Plan,
        wants_writes: bool,
        failed: Vec<FailedWrite>,
    ) -> Result<Synced, SyncError> {
        let key = &service.key;
        self.record_news(service, plan.events, wants_writes);
        if failed.is_empty() && plan.errors.is_empty() {
            return Ok(Synced::Done);
        }
        for FailedWrite { error, .. } in &failed {
            if let WriteError::Busy { message, retry_after: Some(pause) } = error {
                tracing::info!(service = %key, message, ?pause, "the API server asked for a pause");
                self.put_off.pause(key, *pause);
                return Ok(Synced::Paused);
            }
        }
        let is_there = |failed: &FailedWrite| matches!(failed.error, WriteError::AlreadyExists(_));
        if !failed.is_empty() && failed.iter().all(is_there) {
            // Nothing has failed: the object is there, made by the try whose answer was lost, and the cache will show it.
            tracing::info!(service = %key, "found a slice there whose creation had not been answered");
            self.put_off.put_off(key);
            return Ok(Synced::Stale);
        }
        let error = SyncError { service: key.clone(), pods_left_out: plan.errors, failed };
        let message = format!("Error updating Endpoint Slices for Service {key}: {error}");
        let event = PlannedEvent::warning("FailedToUpdateEndpointSlices", message);
        self.events.record(EventSubject::from(service), &event);
        Err(error)
    }

    /// Records what a plan has to say of hints, unless it is no news: a sync that writes nothing and says what the last
    /// one said, or that is the first since the start and finds all as it shall be, has been reported by then. (Upstream
    /// repeats it at every sync.)
    fn record_news(&self, service: &Service, events: Vec<PlannedEvent>, wants_writes: bool) {
        let before = self.reported.lock().insert(service.key.clone(), events.clone());
        if wants_writes || before.is_some_and(|before| before != events) {
            for event in &events {
                self.events.record(EventSubject::from(service), event);
            }
        }
    }

    fn forget(&self, key: &ObjectKey) {
        self.reported.lock().remove(key);
        self.triggers.forget(key);
        self.writer.tracker().forget(key);
        self.hinted.lock().remove(key);
        self.put_off.forget(key);
        self.metrics.forget(key);
    }
}
