//! One sync of one Endpoints object.

use std::sync::Arc;

use kube_endpoint_controller_runtime::{Completion, Line, Outcome, Progress, Runtime, SyncError};
use kube_endpoint_core_model::well_known::MIRRORING_CONTROLLER;
use kube_endpoint_core_model::{Admission, EndpointSlice, Endpoints, ObjectKey, Service, Writes};

use super::{MirroringReconciler, confirm, content};
use crate::plan::{NotMirrored, OrphanInputs, PlanInputs, lacks_content, plan};

impl MirroringReconciler {
    pub(super) async fn sync_key(
        &self,
        runtime: &Runtime<Self>,
        key: &ObjectKey,
    ) -> Result<Outcome, SyncError> {
        let mut slices = match runtime.read_outputs(key) {
            Ok(slices) => slices,
            Err(outcome) => return Ok(outcome),
        };
        slices.retain(|slice| slice.metadata.deletion_timestamp.is_none());
        let (mut mirrored, others): (Vec<_>, Vec<_>) =
            slices.into_iter().partition(|slice| slice.is_managed_by(MIRRORING_CONTROLLER));
        let service = runtime.cluster().service(key);
        let endpoints = endpoints(runtime, key, service.as_deref()).await?;
        if service.is_none() {
            // Another process may be responsible for the leftovers of a deleted Service.
            let labels = endpoints.as_ref().map(|endpoints| &endpoints.metadata.labels);
            mirrored.retain(|slice| runtime.owns_leftover(key, labels.unwrap_or(&slice.metadata.labels)));
        }
        let mut plan = plan(
            &PlanInputs::new(service.as_deref(), endpoints.as_deref())
                .with_existing_slices(&mirrored)
                .with_options(&self.options.plan),
        );
        if let Some(endpoints) = &endpoints {
            // The process before has reported Endpoints that are older than this one.
            let is_new =
                self.started_at.get().is_none_or(|start| endpoints.metadata.resource_version > *start);
            let events = std::mem::take(&mut plan.events);
            runtime.record_events(key, &**endpoints, events, !plan.is_empty(), is_new);
        }
        runtime.note(|details| details.endpoints = Some(plan.stats.endpoints_desired));
        if let Some(reason) = plan.not_mirrored
            && !plan.writes.is_empty()
        {
            confirm::check_not_mirrored(runtime, key, reason).await?;
        }
        match plan.not_mirrored {
            Some(reason) => self.not_mirrored(runtime, key, reason, &plan.writes.delete),
            None => {
                let share = self.metrics.planned(&plan.stats);
                let before = runtime.with_state(key, |state| state.share.replace(share));
                self.metrics.replace(before, Some(share));
            }
        }
        let changes = changes_endpoints(&plan.writes, &mirrored);
        let is_mirrored = plan.not_mirrored.is_none();
        let skipped = plan.stats.skipped;
        let deletes = plan.writes.delete.clone();
        let progress = |progress| {
            // Upstream does not count deletes of slices whose Endpoints are not mirrored
            // (`deleteEndpoints`).
            if let Progress::Wrote(operation) = progress
                && is_mirrored
            {
                self.metrics.wrote(operation);
            }
        };
        let completion = runtime.carry_out(key, None, [plan.writes], progress).await?;
        let (Some(service), Some(endpoints), true) = (service, endpoints, is_mirrored) else {
            return Ok(Outcome::Done);
        };
        // The garbage collector deletes mirrored slices with the Endpoints, so the other slices
        // must stay.
        if completion == Completion::NamespaceTerminating || endpoints.metadata.deletion_timestamp.is_some() {
            return Ok(Outcome::Done);
        }
        let orphans = self.orphans(&service, &others);
        if orphans.is_empty() {
            runtime.with_state(key, |state| {
                state.kept_orphans.clear();
                state.made_by.clear();
            });
            return Ok(Outcome::Done);
        }
        if changes {
            // The verdicts depend on the cached slices, so they wait until the cache shows the
            // writes.
            return Ok(if completion == Completion::Recorded {
                Outcome::Done
            } else {
                runtime.requeue_after_writes(key)
            });
        }
        let is_deleted = |slice: &Arc<_>| deletes.iter().any(|deleted| Arc::ptr_eq(deleted, slice));
        let mirrored: Vec<_> = mirrored.into_iter().filter(|slice| !is_deleted(slice)).collect();
        let inputs = OrphanInputs {
            orphans: &orphans,
            endpoints: &endpoints,
            mirrored: &mirrored,
            skipped,
            writer: None,
        };
        self.clean_up(runtime, &service, inputs).await?;
        Ok(Outcome::Done)
    }

    /// Forgets Endpoints that are not mirrored, before these slices are deleted.
    fn not_mirrored(
        &self,
        runtime: &Runtime<Self>,
        key: &ObjectKey,
        reason: NotMirrored,
        delete: &[Arc<EndpointSlice>],
    ) {
        tracing::debug!(endpoints = %key, %reason, slices = delete.len(), "not mirrored");
        // This also forgets the names of creates whose answers were lost: the sync creates nothing
        // any more.
        runtime.writer().tracker().forget(key);
        let keeps_changes = !delete.is_empty();
        let forgotten =
            if keeps_changes { runtime.forget_before_writes(key) } else { runtime.forget_state(key) };
        let before = forgotten.share;
        self.metrics.replace(before, None);
        // A user may have made them, with a copied label.
        if keeps_changes
            && before.is_none()
            && let Admission::Write { left_out } = runtime.admits(Line::NotMirrored)
        {
            tracing::info!(
                endpoints = %key, %reason, slices = delete.len(),
                first = delete.first().map(|slice| &*slice.metadata.name), left_out,
                "deleting slices with the label of the mirroring controller whose Endpoints are not mirrored"
            );
        }
    }
}

/// Returns the Endpoints. If the cache has only a part of them, they come from the server.
async fn endpoints(
    runtime: &Runtime<MirroringReconciler>,
    key: &ObjectKey,
    service: Option<&Service>,
) -> Result<Option<Arc<Endpoints>>, SyncError> {
    let cached = runtime.cluster().endpoints(key);
    let inputs = PlanInputs::new(service, cached.as_deref());
    match cached.as_deref().filter(|_| lacks_content(&inputs)) {
        Some(part) => match content::read(runtime, key, part).await {
            Ok(endpoints) => Ok(Some(endpoints)),
            Err(error) => Err(vec![error].into()),
        },
        None => Ok(cached),
    }
}

/// Returns true if these writes change endpoints or ports, on which the verdicts on orphans depend.
/// Labels and annotations do not count: a webhook may undo an update of these each time.
fn changes_endpoints(writes: &Writes<EndpointSlice>, cached: &[Arc<EndpointSlice>]) -> bool {
    let is_same = |update: &EndpointSlice| {
        let cached = cached.iter().find(|cached| cached.metadata.name == update.metadata.name);
        cached.is_some_and(|cached| cached.endpoints == update.endpoints && cached.ports == update.ports)
    };
    !writes.create.is_empty() || !writes.update.iter().all(is_same)
}
