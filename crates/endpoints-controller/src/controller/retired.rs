//! Services without Endpoints: deletes those that a controller made, and reports what stays.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::{Deleted, FailedWrite, WriteError};
use kube_endpoint_controller_runtime::{Cause, KeyGauge, Outcome, Runtime, SyncError};
use kube_endpoint_core_model::maker::Keep;
use kube_endpoint_core_model::retirement::{ServerVersion, Wanted};
use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINTS;
use kube_endpoint_core_model::{
    Endpoints, ObjectKey, PlannedEvent, ResourceVersion, Service, Text, Timestamp, harmless,
};
use metrics::gauge;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::EndpointsReconciler;
use super::sync::{Deletion, Why};

/// The gauge of retired Services.
const RETIRED: &str = "endpoints_controller_retired_services";
/// The gauge of those whose Endpoints stay.
const KEPT: &str = "endpoints_controller_retired_services_with_endpoints";
/// Endpoints that come back this soon after the controller deleted them have another writer, such
/// as the endpoints controller of kube-controller-manager. They stay.
const CAME_BACK: Duration = Duration::from_secs(600);
/// How long the controller relies on what the API server said of its version.
const VERSION_COUNTS: Duration = Duration::from_secs(600);
/// The longest time after which the controller looks again if the time of a Service has come. The
/// clock may be set, and a machine may be suspended.
const LONGEST_NAP: Duration = Duration::from_secs(3600);

/// The state of a Service that is, or was to be, without Endpoints.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Retired {
    situation: Situation,
    /// When the controller deleted Endpoints of the Service.
    deleted: Option<Instant>,
    /// The uid of the Endpoints that came back.
    came_back: Option<Text>,
    /// A version of the Endpoints. No controller made them, as the API server has told.
    kept: Option<ResourceVersion>,
    /// The value of the annotation, if it means nothing.
    invalid: Option<Text>,
}

impl Retired {
    /// Returns true if the controller writes no Endpoints for the Service.
    pub(super) fn is_retired(&self) -> bool {
        self.situation.is_retired()
    }
}

/// The situation of a Service, as the last sync found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Situation {
    /// It has Endpoints, as by default.
    #[default]
    Published,
    /// It has Endpoints, because the API server needs them.
    Refused { why: String },
    /// It has no Endpoints.
    Retired,
    /// It has Endpoints that came back soon after they were deleted.
    CameBack,
    /// It has Endpoints that no controller made.
    Kept { by: String },
    /// Its Endpoints are the lock of a leader election.
    Lock,
}

impl Situation {
    /// Returns true if the controller writes no Endpoints for the Service.
    fn is_retired(&self) -> bool {
        !matches!(self, Self::Published | Self::Refused { .. })
    }

    /// Returns true if the Service is to have no Endpoints, and has some.
    fn stays(&self) -> bool {
        !matches!(self, Self::Published | Self::Retired)
    }

    /// Returns the event that reports it.
    pub(super) fn event(&self) -> Option<PlannedEvent> {
        Some(match self {
            Self::Published | Self::Retired => return None,
            Self::Refused { why } => PlannedEvent::warning(
                "EndpointsNotRetired",
                format!(
                    "the Endpoints stay: {why}; if nothing needs those of this Service, start the manager with \
                     --endpoints-retired-accept=REASON"
                ),
            ),
            Self::CameBack => PlannedEvent::warning(
                "EndpointsCameBack",
                "another client created the Endpoints again, so they stay and nobody updates them here; find it by \
                 their managedFields, which may be those of a second endpoints controller"
                    .to_owned(),
            ),
            Self::Kept { by } => PlannedEvent::warning(
                "EndpointsKept",
                format!("{by} wrote the Endpoints, so they stay; delete them if nothing reads them"),
            ),
            Self::Lock => PlannedEvent::warning(
                "EndpointsKept",
                "the Endpoints are the lock of a leader election, so they stay".to_owned(),
            ),
        })
    }
}

/// Returns the event about an annotation that means nothing.
pub(super) fn invalid(value: &Text) -> PlannedEvent {
    PlannedEvent::warning(
        "EndpointsAnnotationInvalid",
        format!(
            "the annotation {ANNOTATION_ENDPOINTS} has the value \"{}\", and counts as absent; write retired, \
             retired-until=TIME with a time such as 2026-12-24T18:00:00Z, or published",
            harmless(value, 60)
        ),
    )
}

/// The gauges about retired Services, and what the controller knows of the API server.
pub(super) struct Retirement {
    retired: KeyGauge,
    kept: KeyGauge,
    version: Mutex<Option<(Instant, Result<ServerVersion, WriteError>)>>,
}

impl Retirement {
    pub(super) fn new() -> Self {
        Self {
            retired: KeyGauge::new(
                RETIRED,
                "Services for which the controller writes no Endpoints, because an annotation or a flag retires them",
            ),
            kept: KeyGauge::new(
                KEPT,
                "Services that an annotation or a flag retires and whose Endpoints stay: they came back, somebody else \
                 wrote them, or the API server needs them",
            ),
            version: Mutex::default(),
        }
    }

    pub(super) fn start(&self) {
        self.retired.start();
        self.kept.start();
    }

    /// Sets the number of retired Services, if all of them are.
    pub(super) fn set_retired(&self, services: usize) {
        gauge!(RETIRED).set(services as f64);
    }

    /// Sets the number of those that have Endpoints, if all are retired.
    pub(super) fn set_kept(&self, services: usize) {
        gauge!(KEPT).set(services as f64);
    }

    /// Counts a Service in no gauge.
    pub(super) fn forgotten(&self, key: &ObjectKey) {
        self.count(key, &Situation::Published);
    }

    fn count(&self, key: &ObjectKey, situation: &Situation) {
        self.retired.put(key, situation.is_retired());
        self.kept.put(key, situation.stays());
    }
}

impl EndpointsReconciler {
    /// Says if the controller writes Endpoints for a Service now.
    ///
    /// # Errors
    ///
    /// If the API server has never told its version.
    pub(super) async fn wanted(
        &self,
        runtime: &Runtime<Self>,
        service: &Service,
    ) -> Result<Wanted, SyncError> {
        let options = &self.options.retirement;
        let wanted = options.namespaces.wanted(service, runtime.clock().now());
        self.report_invalid(runtime, service);
        if wanted == Wanted::Published {
            self.found(runtime, service, Situation::Published);
            return Ok(wanted);
        }
        if options.is_accepted {
            return Ok(wanted);
        }
        let refused = match self.server_version(runtime).await {
            Ok(version) => version.needs_endpoints(false),
            Err(WriteError::Refused { message, .. }) => {
                Some(format!("the API server does not tell its version: {message}"))
            }
            Err(error) => {
                return Err(SyncError::new(
                    Vec::new(),
                    format!("cannot read the version of the API server: {error}"),
                ));
            }
        };
        let Some(why) = refused else { return Ok(wanted) };
        self.found(runtime, service, Situation::Refused { why });
        Ok(Wanted::Published)
    }

    /// Records an event about an annotation that means nothing, once for each value.
    fn report_invalid(&self, runtime: &Runtime<Self>, service: &Service) {
        let value = match service.endpoints_setting() {
            Ok(_) => None,
            Err(_) => service.annotations.get(ANNOTATION_ENDPOINTS).cloned(),
        };
        let is_new = runtime.with_state(&service.key, |state| match (&value, &mut state.retired) {
            (None, None) => false,
            (None, Some(retired)) => {
                retired.invalid = None;
                false
            }
            (Some(_), retired) => {
                let retired = retired.get_or_insert_default();
                std::mem::replace(&mut retired.invalid, value.clone()) != value
            }
        });
        if let Some(value) = value.filter(|_| is_new) {
            runtime.record_event(service, &invalid(&value));
        }
    }

    /// Returns the version of the API server, which it told at most ten minutes ago unless it has
    /// not answered since.
    async fn server_version(&self, runtime: &Runtime<Self>) -> Result<ServerVersion, WriteError> {
        let known = self.retirement.version.lock().clone();
        if let Some((at, answer)) = &known
            && at.elapsed() < VERSION_COUNTS
        {
            return answer.clone();
        }
        let answer = runtime.writer().writer().server_version().await;
        match (&answer, known) {
            // A refusal is an answer, too.
            (Ok(_) | Err(WriteError::Refused { .. }), _) => {
                *self.retirement.version.lock() = Some((Instant::now(), answer.clone()));
                answer
            }
            (Err(_), Some((_, before))) => before,
            (Err(_), None) => answer,
        }
    }

    /// Deletes the Endpoints of a Service that is to have none, if a controller made them.
    pub(super) async fn retire(
        &self,
        runtime: &Runtime<Self>,
        service: &Service,
        existing: Option<Arc<Endpoints>>,
        until: Option<Timestamp>,
    ) -> Result<Outcome, SyncError> {
        let key = &service.key;
        let existing = existing.filter(|existing| existing.metadata.deletion_timestamp.is_none());
        let situation = match &existing {
            Some(existing) if existing.is_lock() => Some(Situation::Lock),
            Some(existing) if self.came_back(runtime, key, existing) => Some(Situation::CameBack),
            // Each change of a pod starts a sync, and nobody has to be asked again.
            Some(existing) if self.is_kept(runtime, key, existing) => None,
            _ => self.delete_retired(runtime, service, existing).await?,
        };
        if let Some(situation) = situation {
            self.found(runtime, service, situation);
        }
        if let Some(until) = until {
            let left = until.duration_since(runtime.clock().now());
            // The time may have passed during this sync.
            let left = left.try_into().unwrap_or(Duration::ZERO);
            runtime.add_after(key.clone(), LONGEST_NAP.min(left), Cause::Service);
        }
        Ok(Outcome::Done)
    }

    /// Returns true if another client made these Endpoints soon after the controller deleted some.
    fn came_back(&self, runtime: &Runtime<Self>, key: &ObjectKey, existing: &Endpoints) -> bool {
        let now = Instant::now();
        runtime.with_state(key, |state| {
            let Some(retired) = &mut state.retired else { return false };
            let uid = &existing.metadata.uid;
            let is_new = retired.deleted.is_some_and(|deleted| now < deleted + CAME_BACK);
            if is_new {
                retired.deleted = None;
                retired.came_back = Some(uid.clone());
            }
            retired.came_back.as_ref() == Some(uid)
        })
    }

    /// Returns true if a sync has found out that no controller made these Endpoints.
    fn is_kept(&self, runtime: &Runtime<Self>, key: &ObjectKey, existing: &Endpoints) -> bool {
        let version = Some(existing.metadata.resource_version);
        runtime.with_state(key, |state| state.retired.as_ref().is_some_and(|it| it.kept == version))
    }

    /// Returns the situation afterwards, or `None` if the Service has changed on the API server,
    /// which the cache will show, or its time has come.
    async fn delete_retired(
        &self,
        runtime: &Runtime<Self>,
        service: &Service,
        existing: Option<Arc<Endpoints>>,
    ) -> Result<Option<Situation>, FailedWrite> {
        let key = &service.key;
        let version = existing.as_ref().map(|existing| existing.metadata.resource_version);
        Ok(Some(match self.delete_endpoints(runtime, key, existing, Why::Retired(service)).await? {
            Deletion::None => Situation::Retired,
            Deletion::OwnerChanged => return Ok(None),
            // The cache does not show the lock yet.
            Deletion::Kept(Keep::Lock) => Situation::Lock,
            Deletion::Kept(keep) => {
                runtime.with_state(key, |state| state.retired.get_or_insert_default().kept = version);
                Situation::Kept { by: keep.to_string() }
            }
            Deletion::Deleted(deleted) => {
                if deleted == Deleted::Now {
                    runtime.with_state(key, |state| {
                        let retired = state.retired.get_or_insert_default();
                        (retired.deleted, retired.came_back) = (Some(Instant::now()), None);
                    });
                    let event = PlannedEvent::normal(
                        "EndpointsRetired",
                        "deleted the Endpoints; to publish them again, remove the annotation or the namespace from \
                         the flag that retires them"
                            .to_owned(),
                    );
                    runtime.record_event(service, &event);
                }
                Situation::Retired
            }
        }))
    }

    /// Records the situation of a Service, and an event if it is new.
    fn found(&self, runtime: &Runtime<Self>, service: &Service, situation: Situation) {
        let key = &service.key;
        let before = runtime.with_state(key, |state| {
            if situation == Situation::Published {
                let mut retired = state.retired.take()?;
                let before = std::mem::take(&mut retired.situation);
                if let Some(invalid) = retired.invalid.take() {
                    state.retired = Some(Box::new(Retired { invalid: Some(invalid), ..Retired::default() }));
                }
                return Some(before);
            }
            let retired = state.retired.get_or_insert_default();
            if !situation.is_retired() {
                (retired.deleted, retired.came_back, retired.kept) = (None, None, None);
            }
            Some(std::mem::replace(&mut retired.situation, situation.clone()))
        });
        if before.is_none_or(|before| before == situation) {
            return;
        }
        self.retirement.count(key, &situation);
        if let Some(event) = situation.event() {
            runtime.record_event(service, &event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_say_what_stays_and_what_to_do() {
        let situations = [
            Situation::Refused { why: ServerVersion { major: 1, minor: 33 }.needs_endpoints(false).unwrap() },
            Situation::CameBack,
            Situation::Kept { by: "kubectl-create".into() },
            Situation::Lock,
        ];
        let invalid = ["retired\ntomorrow".into(), "x".repeat(100_000).into()].map(|value| invalid(&value));
        let events = invalid.into_iter().chain(situations.iter().filter_map(Situation::event));
        let events = events.map(|event| event.to_string());
        insta::assert_snapshot!(events.collect::<Vec<_>>().join("\n"));
        for quiet in [Situation::Published, Situation::Retired] {
            assert_eq!(quiet.event(), None);
        }
    }
}
