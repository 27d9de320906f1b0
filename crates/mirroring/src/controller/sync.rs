//! One sync of one Endpoints object.

use std::sync::Arc;

use kube_endpoint_api_writer::{EventSubject, FailedWrite, SliceWrites, WriteError};
use kube_endpoint_core_model::well_known::MIRRORING_CONTROLLER;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectKey};
use kube_endpoint_informer::Kind;
use kube_endpoint_tracker::CachePosition;

use super::Shared;
use crate::plan::{Plan, PlanInputs, plan};

impl Shared {
    pub(super) async fn sync(&self, key: &ObjectKey) -> Result<(), FailedWrite> {
        // What waits when the controller is shut down is left to whoever comes next.
        if self.queue.is_shutting_down() {
            return Ok(());
        }
        if self.put_off.is_paused(key) {
            return Ok(());
        }
        match self.sync_unpaused(key).await {
            Err(FailedWrite { error: WriteError::Busy { message, retry_after: Some(pause) }, .. }) => {
                tracing::info!(endpoints = %key, message, ?pause, "the API server asked for a pause");
                self.put_off.pause(key, pause);
                Ok(())
            }
            synced => synced,
        }
    }

    async fn sync_unpaused(&self, key: &ObjectKey) -> Result<(), FailedWrite> {
        let Some(slices) = self.current_slices(key) else {
            self.put_off.put_off(key);
            return Ok(());
        };
        self.put_off.caught_up(key);
        let (mirrored, others): (Vec<_>, Vec<_>) =
            slices.into_iter().partition(|slice| slice.is_managed_by(MIRRORING_CONTROLLER));
        let service = self.cluster.service(key);
        let endpoints = self.cluster.endpoints(key);
        let mut plan = plan(
            &PlanInputs::new(service.as_deref(), endpoints.as_deref())
                .with_existing_slices(&mirrored)
                .with_options(&self.options.plan),
        );
        if let Some(endpoints) = &endpoints {
            self.record_news(endpoints, &plan);
        }
        if let Some(reason) = plan.not_mirrored {
            tracing::debug!(endpoints = %key, %reason, slices = plan.writes.delete.len(), "not mirrored");
            self.writer.tracker().forget(key);
            self.metrics.forget(key);
            self.reported.lock().remove(key);
            return self.carry_out(key, &mut plan).await.map(drop);
        }
        self.metrics.planned(key, &plan.stats);
        let creates = !plan.writes.create.is_empty();
        let carried_out = self.carry_out(key, &mut plan).await?;
        let (Some(service), Some(endpoints)) = (service, endpoints) else { return Ok(()) };
        // What is mirrored goes with the Endpoints, and must not take everything else with it.
        if !carried_out || endpoints.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let orphans = self.orphans(&service, &others);
        if orphans.is_empty() {
            return Ok(());
        }
        if creates {
            // They go when the cache shows what was created.
            self.put_off.put_off(key);
            return Ok(());
        }
        let kept =
            mirrored.iter().filter(|slice| !plan.writes.delete.iter().any(|gone| Arc::ptr_eq(gone, slice)));
        let families = kept.map(|slice| slice.address_type).collect();
        self.delete_orphans(&service, orphans, &families).await
    }

    /// Records what a plan has to say of Endpoints, unless it is no news: a sync that writes nothing and says what the last
    /// one said, or is the first one of Endpoints that were there at the start, has been reported by then. (Upstream
    /// repeats it at every sync.)
    fn record_news(&self, endpoints: &Endpoints, plan: &Plan) {
        let metadata = &endpoints.metadata;
        let before = self.reported.lock().insert(endpoints.key(), plan.events.clone());
        let is_news = match before {
            Some(before) => before != plan.events,
            None => self.started_at.get().is_none_or(|start| metadata.resource_version > *start),
        };
        if is_news || !plan.is_empty() {
            for event in &plan.events {
                self.events.record(EventSubject::from(endpoints), event);
            }
        }
    }

    /// Up to where the cache shows slices.
    pub(super) fn position(&self) -> CachePosition {
        let epoch = self.cluster.epoch(Kind::EndpointSlices);
        CachePosition { epoch, version: self.cluster.position(Kind::EndpointSlices) }
    }

    /// All slices of that name, whoever manages them, but those being deleted; none when the cache does not show our own
    /// writes yet.
    fn current_slices(&self, key: &ObjectKey) -> Option<Vec<Arc<EndpointSlice>>> {
        // The position is read first: the slices are then at least as new.
        let position = self.position();
        let mut slices = self.cluster.slices_of(key);
        slices.retain(|slice| slice.metadata.deletion_timestamp.is_none());
        let uids = slices.iter().map(|slice| &slice.metadata.uid);
        (!self.writer.tracker().is_stale(key, position, uids)).then_some(slices)
    }

    /// Returns false if it was dropped, because the namespace is on its way out.
    async fn carry_out(&self, key: &ObjectKey, plan: &mut Plan) -> Result<bool, FailedWrite> {
        let writes = SliceWrites {
            create: std::mem::take(&mut plan.writes.create),
            update: &plan.writes.update,
            delete: &plan.writes.delete,
        };
        let wrote = |operation| self.metrics.wrote(operation);
        match self.writer.carry_out(key, writes, || self.position(), wrote).await {
            Ok(changed_meanwhile) => {
                if changed_meanwhile {
                    self.sync_after_slice_change(Some(key));
                }
                Ok(true)
            }
            // Creates will fail for as long as the namespace exists: there is nothing to be done here any more.
            Err(FailedWrite { error: WriteError::NamespaceTerminating(_), .. }) => Ok(false),
            Err(failed) => Err(failed),
        }
    }
}
