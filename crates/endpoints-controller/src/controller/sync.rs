//! One sync of one Service.

use std::sync::Arc;

use kube_endpoint_api_writer::{Deleted, EventSubject, FailedWrite, Operation};
use kube_endpoint_controller_runtime::{Cause, Completion, Outcome, Runtime, SyncError};
use kube_endpoint_core_model::maker::{Content, Keep};
use kube_endpoint_core_model::retirement::Wanted;
use kube_endpoint_core_model::{Endpoints, ObjectKey, PlannedEvent, Service};
use tokio::task::yield_now;

use super::{EndpointsReconciler, Leftover};
use crate::plan::{PlanInputs, plan};

impl EndpointsReconciler {
    pub(super) async fn sync_key(
        &self,
        runtime: &Runtime<Self>,
        key: &ObjectKey,
    ) -> Result<Outcome, SyncError> {
        // An event wakes this controller and that of EndpointSlices at once, and etcd persists one
        // write after the other. Clients wait for the slices, so these go first.
        yield_now().await;
        let existing = match runtime.read_outputs(key) {
            Ok(mut endpoints) => endpoints.pop(),
            Err(outcome) => return Ok(outcome),
        };
        // The sync takes this before it looks the Service up. If somebody deletes the Service in
        // between, its key is queued again.
        let leftover = runtime.with_state(key, |state| std::mem::take(&mut state.leftover));
        match runtime.cluster().service(key) {
            // An ExternalName gets no endpoints, and without a selector another client makes them.
            Some(service) if !service.selects_pods() => {
                runtime.with_state(key, |state| state.retired = None);
                self.retirement.forgotten(key);
                Ok(Outcome::Done)
            }
            Some(service) => match self.wanted(runtime, &service).await? {
                Wanted::Published => self.sync_service(runtime, &service, existing).await,
                Wanted::Retired { until } => self.retire(runtime, &service, existing, until).await,
            },
            None => {
                let forgotten = runtime.forget_state(key);
                self.retirement.forgotten(key);
                let leftover = leftover.max(forgotten.leftover);
                if leftover == Leftover::No {
                    return Ok(Outcome::Done);
                }
                let result = self.delete_endpoints(runtime, key, existing, Why::Leftover(leftover)).await;
                // A failed delete leaves the Endpoints to the next sync, and so does a delete after
                // which there are others.
                if matches!(result, Err(_) | Ok(Deletion::Deleted(Deleted::Replaced | Deleted::Recorded))) {
                    runtime.with_state(key, |state| state.leftover = leftover.max(state.leftover));
                }
                Ok(result.map(|_| Outcome::Done)?)
            }
        }
    }

    async fn sync_service(
        &self,
        runtime: &Runtime<Self>,
        service: &Service,
        existing: Option<Arc<Endpoints>>,
    ) -> Result<Outcome, SyncError> {
        let key = &service.key;
        let inputs =
            PlanInputs::new(service, &[]).with_existing(existing.as_deref()).with_options(&self.options.plan);
        let planned = runtime.plan_from_all(service, |pods, trigger_time| {
            plan(&inputs.with_pods(pods).with_trigger_time(trigger_time))
        });
        let Some((plan, trigger_time)) = planned else { return Ok(Outcome::Done) };
        runtime.note(|details| details.endpoints = Some(plan.ready + plan.not_ready));
        let Some(subject) = plan.writes.create.first().or(plan.writes.update.first()).map(EventSubject::from)
        else {
            return Ok(Outcome::Done);
        };
        match runtime.carry_out(key, trigger_time, [plan.writes], |_| ()).await {
            Ok(Completion::Complete) => {
                tracing::debug!(
                    service = %key, ready = plan.ready, not_ready = plan.not_ready, truncated = plan.truncated,
                    "wrote Endpoints"
                );
                Ok(Outcome::Done)
            }
            Ok(Completion::NamespaceTerminating | Completion::Recorded) => Ok(Outcome::Done),
            Err(failed) => {
                let event = failed.first().map(|failed| (subject, failure_event(key, failed)));
                Err(SyncError::from(failed).with_event(event))
            }
        }
    }

    /// Deletes Endpoints that are left over or retired. `cached` may be older than the object on
    /// the API server: a sync on an older cache may have made the Endpoints anew after somebody
    /// deleted their Service. So this asks the server about the Service, and who made the Endpoints
    /// that exist now, and deletes only that version of them.
    pub(super) async fn delete_endpoints(
        &self,
        runtime: &Runtime<Self>,
        key: &ObjectKey,
        cached: Option<Arc<Endpoints>>,
        why: Why<'_>,
    ) -> Result<Deletion, FailedWrite> {
        let writer = runtime.writer();
        let cached = cached.filter(|cached| cached.metadata.deletion_timestamp.is_none());
        let tracker = writer.tracker();
        // A create may have succeeded although its response was lost. Only in this case the sync
        // does not trust the cache.
        let unresolved = cached.is_none() && tracker.take_unresolved(key).is_some();
        if cached.is_none() && !unresolved {
            return Ok(Deletion::None);
        }
        let keep_unresolved = || {
            if unresolved {
                tracker.keep_unresolved(key, &key.name);
            }
        };
        let failed = |error| {
            keep_unresolved();
            FailedWrite::delete(key, error)
        };
        // The stores of the two kinds change one after the other: the Service may exist again (or,
        // at the start, still), and the Endpoints may belong to it. In this case the cache will
        // show the Service.
        let asked = writer.writer().service(key).await.map_err(failed)?;
        if !self.is_still(runtime, why, asked.as_ref()) {
            return Ok(Deletion::OwnerChanged);
        }
        let deleted = match (writer.writer().provenance::<Endpoints>(key).await.map_err(failed)?, &cached) {
            (Some(found), _) => {
                let keep = found.reason_to_keep(Content::Endpoints, &writer.writer().controllers());
                if let Some(keep) = keep.filter(|keep| why.keeps(keep)) {
                    tracing::debug!(endpoints = %key, ?keep, ?why, "kept Endpoints that nobody needs here");
                    return Ok(Deletion::Kept(keep));
                }
                let deleted = writer.delete_unchanged(key, &Endpoints::of_version(key, &found)).await;
                deleted.inspect_err(|_| keep_unresolved())?
            }
            // The delete confirms that they are gone.
            (None, Some(cached)) => writer.delete::<Endpoints>(key, &cached.metadata).await?,
            (None, None) => return Ok(Deletion::None),
        };
        if deleted == Deleted::Before {
            runtime.requeue_after_missing_delete(key);
        }
        if deleted == Deleted::Replaced {
            runtime.add(key.clone(), Cause::ForeignWrite);
        }
        if deleted != Deleted::Recorded {
            runtime.wrote(Operation::Delete);
        }
        Ok(Deletion::Deleted(deleted))
    }

    /// Returns true if the reason for a deletion holds for the Service that the API server has.
    fn is_still(&self, runtime: &Runtime<Self>, why: Why<'_>, asked: Option<&Service>) -> bool {
        match why {
            Why::Leftover(_) => asked.is_none(),
            Why::Retired(service) => asked.is_some_and(|asked| {
                let wanted = self.options.retirement.namespaces.wanted(asked, runtime.clock().now());
                asked.uid == service.uid && asked.selects_pods() && wanted != Wanted::Published
            }),
        }
    }
}

/// Why a sync deletes Endpoints.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why<'a> {
    /// Their Service does not exist.
    Leftover(Leftover),
    /// The Service is to have none.
    Retired(&'a Service),
}

impl Why<'_> {
    /// Returns true if Endpoints stay for this reason.
    ///
    /// If the controller saw the deletion of the Service, it also deletes Endpoints that do not
    /// tell their maker: upstream deletes the Endpoints of such a Service whoever made them. At a
    /// start the controller has not seen a Service, so the Endpoints have to prove that a
    /// controller made them.
    fn keeps(self, keep: &Keep) -> bool {
        !matches!((self, keep), (Self::Leftover(Leftover::ServiceDeleted), Keep::Unknown))
    }
}

/// The result of a deletion that did not fail.
pub(super) enum Deletion {
    /// There is nothing to delete.
    None,
    /// The Service has changed on the API server. The cache will show it.
    OwnerChanged,
    /// The Endpoints stay.
    Kept(Keep),
    Deleted(Deleted),
}

/// Returns the event about a failed write, with upstream's text.
fn failure_event(service: &ObjectKey, failed: &FailedWrite) -> PlannedEvent {
    let error = &failed.error;
    match failed.operation {
        Operation::Create => PlannedEvent::warning(
            "FailedToCreateEndpoint",
            format!("Failed to create endpoint for service {service}: {error}"),
        ),
        Operation::Update | Operation::Delete => PlannedEvent::warning(
            "FailedToUpdateEndpoint",
            format!("Failed to update endpoint {service}: {error}"),
        ),
    }
}
