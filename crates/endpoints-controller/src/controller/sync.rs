//! One sync of one Service.

use std::sync::Arc;

use kube_endpoint_api_writer::{EventSubject, FailedWrite, Operation, WriteError};
use kube_endpoint_core_model::publish::UnreadableAnnotation;
use kube_endpoint_core_model::{Endpoints, ObjectKey, PlannedEvent, Service};
use kube_endpoint_informer::Kind;
use kube_endpoint_tracker::CachePosition;

use super::Shared;
use crate::plan::{Plan, PlanInputs, plan};

/// The cache does not show our own last write yet: the sync was put off.
struct Stale;

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
                tracing::info!(service = %key, message, ?pause, "the API server asked for a pause");
                self.put_off.pause(key, pause);
                Ok(())
            }
            synced => synced,
        }
    }

    async fn sync_unpaused(&self, key: &ObjectKey) -> Result<(), FailedWrite> {
        // Taken before the Service is looked up: it may go in between, and is then queued again.
        let gone = self.gone.lock().remove(key);
        match self.cluster.service(key) {
            // An alias gets no endpoints, and without a selector somebody else makes them.
            Some(service) if !service.selects_pods() => Ok(()),
            Some(service) => self.sync_service(&service).await,
            None => {
                self.triggers.forget(key);
                self.warned.lock().remove(key);
                if !gone {
                    self.put_off.forget(key);
                    return Ok(());
                }
                let deleted = self.delete_endpoints(key).await;
                match deleted {
                    Ok(true) => self.put_off.forget(key),
                    Ok(false) | Err(_) => {
                        self.gone.lock().insert(key.clone());
                    }
                }
                deleted.map(drop)
            }
        }
    }

    async fn sync_service(&self, service: &Service) -> Result<(), FailedWrite> {
        let key = &service.key;
        let Ok(existing) = self.current(key) else { return Ok(()) };
        let pods = self.cluster.pods_of(key);
        let trigger_time = self.triggers.compute(service, &pods);
        let plan = plan(
            &PlanInputs::new(service, &pods)
                .with_existing(existing.as_deref())
                .with_trigger_time(trigger_time)
                .with_options(&self.options.plan),
        );
        if let Some(warning) = &plan.warning {
            self.warn_once(service, warning);
        }
        let written = self.carry_out(service, &plan).await;
        if written.is_err() {
            self.triggers.carry_over(key, trigger_time);
        }
        written
    }

    /// Up to where the cache shows Endpoints.
    pub(super) fn position(&self) -> CachePosition {
        let epoch = self.cluster.epoch(Kind::Endpoints);
        CachePosition { epoch, version: self.cluster.position(Kind::Endpoints) }
    }

    /// The Service's Endpoints as the cache shows them, unless it does not show our own last write yet: the sync is then
    /// put off.
    ///
    /// A cache that has read up to the version that our last write was answered with is not stale. So an update that
    /// changed nothing, and was answered with the version that the object had before, keeps nobody waiting.
    fn current(&self, key: &ObjectKey) -> Result<Option<Arc<Endpoints>>, Stale> {
        // The position is read first: the object is then at least as new.
        let position = self.position();
        let endpoints = self.cluster.endpoints(key);
        let metadata = endpoints.iter().map(|endpoints| &endpoints.metadata);
        let uids = metadata.filter(|metadata| metadata.deletion_timestamp.is_none()).map(|it| &it.uid);
        if self.writer.tracker().is_stale(key, position, uids) {
            self.put_off.put_off(key);
            return Err(Stale);
        }
        self.put_off.caught_up(key);
        Ok(endpoints)
    }

    async fn carry_out(&self, service: &Service, plan: &Plan) -> Result<(), FailedWrite> {
        let key = &service.key;
        let (written, object) = match (plan.writes.create.first(), plan.writes.update.first()) {
            (Some(object), _) => (self.writer.create(key, object, || self.position()).await, object),
            (None, Some(object)) => (self.writer.update(key, object, || self.position()).await, object),
            (None, None) => return Ok(()),
        };
        match written {
            Ok((_, changed_meanwhile)) => {
                tracing::debug!(
                    service = %key, ready = plan.ready, not_ready = plan.not_ready, truncated = plan.truncated,
                    "wrote Endpoints"
                );
                if changed_meanwhile {
                    self.queue.add(key.clone());
                }
                Ok(())
            }
            // Creates will fail for as long as the namespace exists: there is nothing to be done here any more.
            Err(FailedWrite {
                operation: Operation::Create,
                error: WriteError::NamespaceTerminating(_),
                ..
            }) => Ok(()),
            Err(failed) => {
                // A server that asks for a pause will get it: nothing has failed yet.
                if !matches!(failed.error, WriteError::Busy { retry_after: Some(_), .. }) {
                    self.events.record(EventSubject::from(object), &failure_event(key, &failed));
                }
                Err(failed)
            }
        }
    }

    /// Deletes the Endpoints of a Service that is gone, but no others that have taken their name. Returns whether that
    /// is done; false if it was put off.
    async fn delete_endpoints(&self, key: &ObjectKey) -> Result<bool, FailedWrite> {
        let Ok(existing) = self.current(key) else { return Ok(false) };
        let existing = existing.filter(|existing| existing.metadata.deletion_timestamp.is_none());
        let tracker = self.writer.tracker();
        // We may have made some, and do not know. That is the one case in which the cache is not asked.
        let unresolved = existing.is_none() && tracker.take_unresolved(key).is_some();
        if existing.is_none() && !unresolved {
            return Ok(true);
        }
        let failed = |error| {
            if unresolved {
                tracker.create_unresolved(key, key);
            }
            FailedWrite { operation: Operation::Delete, object: key.clone(), error }
        };
        // The stores of different kinds are read at different times: there may be such a Service again, or at the start
        // still, and the Endpoints may be what somebody made for it. If so the cache will show it.
        if self.writer.writer().service(key).await.map_err(failed)?.is_some() {
            return Ok(true);
        }
        match existing {
            Some(endpoints) => self.writer.delete::<Endpoints>(key, key, &endpoints.metadata.uid).await?,
            None => match self.writer.writer().delete::<Endpoints>(key, None).await {
                Ok(()) | Err(WriteError::NotFound(_)) => {}
                Err(error) => return Err(failed(error)),
            },
        }
        Ok(true)
    }

    /// Logs a warning about a Service, once for each of its versions.
    fn warn_once(&self, service: &Service, warning: &UnreadableAnnotation) {
        let version = service.resource_version;
        if self.warned.lock().insert(service.key.clone(), version) != Some(version) {
            tracing::warn!(service = %service.key, "{warning}");
        }
    }
}

/// The event about a failed write, in upstream's words.
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
