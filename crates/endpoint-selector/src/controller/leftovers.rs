//! Slices and Endpoints that other controllers left: requests about who made them, and deletion.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::{ApiWriter, Deleted, FailedWrite, Operation, WriteError};
use kube_endpoint_controller_runtime::{Cause, Outcome, SyncError};
use kube_endpoint_core_model::maker::{Content, Keep, Provenance};
use kube_endpoint_core_model::well_known::LABEL_SKIP_MIRROR;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectKey, Service};
use kube_endpoint_informer::Kind;
use kube_endpoint_tracker::{Verb, WriteTracker};
use tokio::time::{Instant, sleep};

use super::events::{Situation, Situations};
use super::state::{LeftEndpoints, version_of};
use super::{Runtime, SelectorReconciler};
use crate::hand_over::Slices;

/// Endpoints that the API server does not let the controller delete, and that are not mirrored, are
/// looked at again after this time.
pub(super) const LEFT_ENDPOINTS_RETRY: Duration = Duration::from_secs(300);

/// The time between two checks if the worker of a sync that asks who made slices is wanted.
const WANTED_PERIOD: Duration = Duration::from_millis(50);
/// The questions that gave way to other work are asked after this time.
const ASK_LATER: Duration = Duration::from_secs(1);

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

/// Returns the writer for the requests of a hand-over. Those that change who gets traffic go first.
pub(super) fn yielding(runtime: &Runtime) -> ApiWriter {
    runtime.writer().writer().yielding()
}

impl SelectorReconciler {
    /// Returns true if somebody else made all slices of others. An earlier sync has asked the API
    /// server who made them, and they have not changed since. So a change of a pod asks nothing.
    pub(super) fn are_kept(
        &self,
        runtime: &Runtime,
        key: &ObjectKey,
        others: &Slices,
        found: &mut Situations,
    ) -> bool {
        runtime.with_state(key, |state| {
            let mut all = others.of_pods.iter().chain(&others.mirrored);
            state.keep_only(all.clone());
            state.makers.values().flatten().for_each(|why| found.add(why.clone()));
            all.all(|slice| state.is_of_somebody_else(slice))
        })
    }

    /// Asks the API server who made the slices of others, and the Endpoints of mirrored ones, once
    /// for each version. So the situation does not depend on what earlier syncs did.
    ///
    /// This gives way to urgent keys, and to a change of this one. A later sync asks for the rest.
    pub(super) async fn ask_makers(
        &self,
        runtime: &Runtime,
        key: &ObjectKey,
        slices: &Slices,
        found: &mut Situations,
    ) -> Result<Outcome, SyncError> {
        let mut unknown = slices.clone();
        runtime.with_state(key, |state| {
            unknown.retain(|slice| !state.makers.contains_key(&version_of(slice)));
        });
        if !unknown.has_others() {
            return Ok(Outcome::Done);
        }
        let is_wanted = async {
            while !runtime.queue().is_wanted(key) {
                sleep(WANTED_PERIOD).await;
            }
        };
        tokio::select! {
            biased;
            () = is_wanted => {
                runtime.add_after(key.clone(), ASK_LATER, Cause::Retry);
                Ok(Outcome::Done)
            }
            asked = self.ask_makers_of(runtime, key, unknown, found) => asked.map(|()| Outcome::Done),
        }
    }

    async fn ask_makers_of(
        &self,
        runtime: &Runtime,
        key: &ObjectKey,
        unknown: Slices,
        found: &mut Situations,
    ) -> Result<(), SyncError> {
        let made_by_controllers = |slices: &[Arc<EndpointSlice>]| {
            let slices = slices.iter().map(|slice| (version_of(slice), None));
            runtime.with_state(key, |state| state.makers.extend(slices));
        };
        for slice in &unknown.of_pods {
            match self.maker_of(runtime, &yielding(runtime), key, slice).await? {
                MadeBy::Other(keep) => self.keep_slice(runtime, key, slice, keep, found),
                MadeBy::Controller => made_by_controllers(std::slice::from_ref(slice)),
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
                _ => made_by_controllers(&unknown.mirrored),
            }
        }
        Ok(())
    }

    /// Records that a slice stays which somebody else made, until it changes.
    pub(super) fn keep_slice(
        &self,
        runtime: &Runtime,
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
        runtime: &Runtime,
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
        runtime: &Runtime,
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
        runtime: &Runtime,
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
    pub(super) async fn delete_endpoints(
        &self,
        runtime: &Runtime,
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

    async fn try_to_delete_endpoints(
        &self,
        runtime: &Runtime,
        key: &ObjectKey,
    ) -> Result<Attempt, WriteError> {
        let writer = yielding(runtime);
        let Some(made) = writer.provenance::<Endpoints>(key).await? else { return Ok(Attempt::Gone) };
        match made.reason_to_keep(Content::Endpoints, &writer.controllers()) {
            Some(keep) => Ok(Attempt::Kept(keep)),
            None => self.delete_endpoints_of_version(runtime, &writer, key, &made).await,
        }
    }

    pub(super) async fn delete_endpoints_of_version(
        &self,
        runtime: &Runtime,
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
    pub(super) fn tracker_of_endpoints(&self, runtime: &Runtime) -> &WriteTracker {
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
pub(super) fn skips_mirroring(service: &Service) -> bool {
    service.labels.get(LABEL_SKIP_MIRROR).is_some_and(|value| **value == *"true")
}
