//! Deletes the slices that the endpointslice controller made from pods, for a Service that has no
//! selector any more.
//!
//! [`judge_orphans`] decides. This asks the API server
//!
//! - who wrote the Endpoints, once for each of their versions;
//! - who made a slice that it would delete, once for each of its versions;
//! - before the first delete, if the Service still lacks a selector. The cache of Services may lag
//!   behind that of slices, and versions of different kinds need not compare. A delete names the
//!   version that the cache shows: the Service may have got a selector back, and the endpointslice
//!   controller may have written the slice for it.

use std::sync::Arc;

use kube_endpoint_api_writer::{Deleted, FailedWrite, Operation, WriteError};
use kube_endpoint_controller_runtime::{Cause, Line, Runtime};
use kube_endpoint_core_model::maker::{Content, Maker};
use kube_endpoint_core_model::well_known::ENDPOINTSLICE_CONTROLLER;
use kube_endpoint_core_model::{Admission, EndpointSlice, Endpoints, ObjectKey, Service};

use super::MirroringReconciler;
use super::content::differs;
use crate::plan::{KeptOrphans, OrphanInputs, OrphanVerdict, judge_orphans, kept_events};

/// Returns true if a slice is the endpointslice controller's.
pub(super) fn is_made_of_pods(slice: &EndpointSlice) -> bool {
    slice.is_managed_by(ENDPOINTSLICE_CONTROLLER)
}

impl MirroringReconciler {
    /// Returns those of a Service's slices that were made from pods, if it has no selector any
    /// more.
    pub(super) fn orphans(
        &self,
        service: &Service,
        slices: &[Arc<EndpointSlice>],
    ) -> Vec<Arc<EndpointSlice>> {
        if !self.options.orphaned_slice_cleanup || service.selector.is_some() {
            return Vec::new();
        }
        let orphaned = |slice: &&Arc<EndpointSlice>| is_made_of_pods(slice) && slice.is_owned_by(service);
        slices.iter().filter(orphaned).cloned().collect()
    }

    /// Deletes the orphans that the mirrored slices replace, and reports why it keeps the others.
    pub(super) async fn clean_up(
        &self,
        runtime: &Runtime<Self>,
        service: &Service,
        inputs: OrphanInputs<'_>,
    ) -> Result<(), Vec<FailedWrite>> {
        let OrphanInputs { orphans, endpoints, .. } = inputs;
        let mut verdicts = judge_orphans(&inputs);
        if verdicts.contains(&OrphanVerdict::AskWhoWrote) {
            let writer = self.subsets_writer(runtime, endpoints).await;
            // The cache will show that the Endpoints have changed, unless the answer is wrong.
            let Some(writer) = writer.map_err(|error| failed_delete(orphans, error))? else {
                return Err(failed_delete(orphans, differs("Endpoints")));
            };
            verdicts = judge_orphans(&OrphanInputs { writer: Some(&writer), ..inputs });
        }
        let mut confirmed = Vec::with_capacity(verdicts.len());
        for (orphan, verdict) in orphans.iter().zip(verdicts) {
            confirmed
                .push(self.confirm(runtime, service, orphan, verdict).await.map_err(|failed| vec![failed])?);
        }
        let verdicts = confirmed;
        self.report_kept(runtime, service, orphans.iter().zip(&verdicts));
        let replaced: Vec<_> =
            orphans.iter().zip(verdicts).filter(|(_, verdict)| verdict.deletes()).collect();
        if replaced.is_empty() {
            return Ok(());
        }
        let asked = runtime.writer().writer().service(&service.key).await;
        let asked = asked.map_err(|error| failed_delete(orphans, error))?;
        // The cache will show that the Service has changed, unless the answer is wrong.
        if !asked.is_some_and(|asked| asked.uid == service.uid && asked.selector.is_none()) {
            return Err(failed_delete(orphans, differs("Service")));
        }
        let mut failed = Vec::new();
        for (orphan, verdict) in replaced {
            let reason = match verdict {
                OrphanVerdict::Redirected(user) => format!("{user} wrote other addresses into the Endpoints"),
                _ => "the mirrored slices hold its ready endpoints".to_owned(),
            };
            if let Admission::Write { left_out } = runtime.admits(Line::Orphan) {
                tracing::info!(
                    service = %service.key, slice = %orphan.metadata.name, %reason, left_out,
                    "deleting a slice that was made from pods of a Service that has no selector any more"
                );
            }
            match runtime.writer().delete_unchanged(&service.key, &**orphan).await {
                Ok(Deleted::Now) => {
                    runtime.wrote(Operation::Delete);
                    self.metrics.wrote(Operation::Delete);
                }
                Ok(Deleted::Recorded) => {}
                Ok(Deleted::Replaced) => runtime.add(service.key.clone(), Cause::ForeignWrite),
                Ok(Deleted::Before) => runtime.requeue_after_missing_delete(&service.key),
                // A refusal of one delete does not prevent the others.
                Err(delete) if delete.error.ends_deletes() => {
                    failed.push(delete);
                    return Err(failed);
                }
                Err(delete) => failed.push(delete),
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    /// Asks the API server who made a slice before it is deleted.
    async fn confirm(
        &self,
        runtime: &Runtime<Self>,
        service: &Service,
        orphan: &EndpointSlice,
        verdict: OrphanVerdict,
    ) -> Result<OrphanVerdict, FailedWrite> {
        if !verdict.deletes() {
            return Ok(verdict);
        }
        let (name, version) = (&orphan.metadata.name, orphan.metadata.resource_version);
        let known = runtime.with_state(&service.key, |state| state.made_by.get(name).cloned());
        if let Some((_, maker)) = known.filter(|(known, _)| *known == version) {
            return Ok(verdict.confirmed(&maker));
        }
        let writer = runtime.writer().writer();
        let failed = |error| FailedWrite { operation: Operation::Delete, object: orphan.key(), error };
        // The cache will show what the server has, unless the answer is wrong.
        let found = writer.provenance::<EndpointSlice>(&orphan.key()).await.map_err(failed)?;
        let found = found.filter(|found| found.version() == version);
        let maker = found.ok_or_else(|| failed(differs("EndpointSlice")))?;
        let maker = maker.maker(Content::Slice, &writer.controllers());
        if !maker.is_controller() {
            let made_by = (version, maker.clone());
            runtime.with_state(&service.key, |state| state.made_by.insert(name.clone(), made_by));
        }
        Ok(verdict.confirmed(&maker))
    }

    /// Asks the API server who wrote the addresses of these Endpoints. Returns `None` if the server
    /// has another version by now.
    async fn subsets_writer(
        &self,
        runtime: &Runtime<Self>,
        endpoints: &Endpoints,
    ) -> Result<Option<Maker>, WriteError> {
        let key = endpoints.key();
        let version = endpoints.metadata.resource_version;
        let known = runtime.with_state(&key, |state| state.written_by.clone());
        if let Some((_, writer)) = known.filter(|(known, _)| *known == version) {
            return Ok(Some(writer));
        }
        let writer = runtime.writer().writer();
        let found = writer.provenance::<Endpoints>(&key).await?;
        let Some(found) = found.filter(|found| found.version() == version) else { return Ok(None) };
        let written_by = found.last_writer(Content::Endpoints, &writer.controllers());
        runtime.with_state(&key, |state| state.written_by = Some((version, written_by.clone())));
        Ok(Some(written_by))
    }

    /// Records an event for each reason that is new.
    fn report_kept<'a>(
        &self,
        runtime: &Runtime<Self>,
        service: &Service,
        verdicts: impl Iterator<Item = (&'a Arc<EndpointSlice>, &'a OrphanVerdict)>,
    ) {
        let kept: KeptOrphans = verdicts
            .filter_map(|(orphan, verdict)| match verdict {
                OrphanVerdict::Kept(reason) => Some((orphan.metadata.name.clone(), reason.clone())),
                _ => None,
            })
            .collect();
        let before = runtime.with_state(&service.key, |state| {
            state.made_by.retain(|name, _| kept.contains_key(name));
            std::mem::replace(&mut state.kept_orphans, kept.clone())
        });
        for event in kept_events(&before, &kept) {
            runtime.record_event(service, &event);
        }
    }
}

fn failed_delete(orphans: &[Arc<EndpointSlice>], error: WriteError) -> Vec<FailedWrite> {
    let object = orphans.first().map_or_else(ObjectKey::default, |orphan| orphan.key());
    vec![FailedWrite::delete(&object, error)]
}
