//! Services without Endpoints: deletes those that a controller made, and reports what stays.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::{Deleted, FailedWrite, Operation, WriteError};
use kube_endpoint_controller_runtime::{Cause, KeyGauge, Outcome, Runtime, SyncError};
use kube_endpoint_core_model::maker::Maker;
use kube_endpoint_core_model::retirement::{ServerVersion, Wanted};
use kube_endpoint_core_model::well_known::{ANNOTATION_ENDPOINTS, ANNOTATION_LEADER};
use kube_endpoint_core_model::{Endpoints, ObjectKey, PlannedEvent, Service, Text, Timestamp};
use metrics::gauge;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::EndpointsReconciler;
use super::sync::{Deletion, Why};

type Cx = Runtime<EndpointsReconciler>;

/// The gauge of retired Services.
const RETIRED: &str = "endpoints_controller_retired_services";
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
}

impl Retired {
    /// Returns true if the controller writes no Endpoints for the Service.
    pub(super) fn is_retired(&self) -> bool {
        self.situation.is_retired()
    }
}

/// The situation of a Service, as the last sync found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Situation {
    /// It has Endpoints, as by default.
    #[default]
    Published,
    /// It has Endpoints, because nobody can tell what its annotation asks for.
    Invalid { value: Text },
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
        !matches!(self, Self::Published | Self::Invalid { .. } | Self::Refused { .. })
    }

    /// Returns true if the Service is to have no Endpoints, and has some.
    fn stays(&self) -> bool {
        !matches!(self, Self::Published | Self::Invalid { .. } | Self::Retired)
    }

    /// Returns the event that reports it.
    fn event(&self) -> Option<PlannedEvent> {
        Some(match self {
            Self::Published | Self::Retired => return None,
            Self::Invalid { value } => PlannedEvent::warning(
                "EndpointsAnnotationInvalid",
                format!(
                    "the annotation {ANNOTATION_ENDPOINTS} has the value \"{}\", and counts as absent; write retired, \
                     retired-until=TIME with a time such as 2026-12-24T18:00:00Z, or published",
                    kube_endpoint_core_model::harmless(value, 60)
                ),
            ),
            Self::Refused { why } => PlannedEvent::warning(
                "EndpointsNotRetired",
                format!(
                    "the Endpoints stay: {why}; if nothing needs those of this Service, start the manager with \
                     --endpoints-retired-accept=REASON"
                ),
            ),
            Self::CameBack => PlannedEvent::warning(
                "EndpointsCameBack",
                "another client created the Endpoints again within ten minutes, so they stay and nobody updates them \
                 here; find it by their managedFields, which may be those of a second endpoints controller"
                    .to_owned(),
            ),
            Self::Kept { by } => PlannedEvent::warning(
                "EndpointsKept",
                format!(
                    "{by} wrote the Endpoints, so they stay; delete them if nothing reads them"
                ),
            ),
            Self::Lock => PlannedEvent::warning(
                "EndpointsKept",
                "the Endpoints are the lock of a leader election, so they stay".to_owned(),
            ),
        })
    }
}

/// The gauges about retired Services, and what the controller knows of the API server.
pub(super) struct Retirement {
    retired: KeyGauge,
    kept: KeyGauge,
    version: Mutex<Option<(Instant, ServerVersion)>>,
}

impl Retirement {
    pub(super) fn new() -> Self {
        Self {
            retired: KeyGauge::new(
                RETIRED,
                "Services for which the controller writes no Endpoints, because an annotation or a flag retires them",
            ),
            kept: KeyGauge::new(
                "endpoints_controller_retired_services_with_endpoints",
                "Services that an annotation or a flag retires and whose Endpoints stay: they came back, somebody else wrote them, or the API server needs them",
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

    /// Counts no Service any more that is to have no Endpoints and has some.
    pub(super) fn keep_none(&self) {
        self.kept.clear();
    }

    /// Counts a Service that is to have no Endpoints and has some, or no longer.
    pub(super) fn keep(&self, key: &ObjectKey, has_endpoints: bool) {
        self.kept.put(key, has_endpoints);
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
    pub(super) async fn wanted(&self, runtime: &Cx, service: &Service) -> Result<Wanted, SyncError> {
        let options = &self.options.retirement;
        let wanted = options.namespaces.wanted(service, runtime.clock().now());
        if wanted == Wanted::Published {
            let invalid = || service.annotations.get(ANNOTATION_ENDPOINTS).cloned().unwrap_or_default();
            let situation = match service.endpoints_setting() {
                Ok(_) => Situation::Published,
                Err(_) => Situation::Invalid { value: invalid() },
            };
            self.found(runtime, service, situation);
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

    /// Returns the version of the API server, which it told at most ten minutes ago unless it has
    /// not answered since.
    async fn server_version(&self, runtime: &Cx) -> Result<ServerVersion, WriteError> {
        let known = *self.retirement.version.lock();
        if let Some((at, version)) = known
            && at.elapsed() < VERSION_COUNTS
        {
            return Ok(version);
        }
        match (runtime.writer().writer().server_version().await, known) {
            (Ok(version), _) => {
                *self.retirement.version.lock() = Some((Instant::now(), version));
                Ok(version)
            }
            (Err(_), Some((_, version))) => Ok(version),
            (Err(error), None) => Err(error),
        }
    }

    /// Deletes the Endpoints of a Service that is to have none, if a controller made them.
    pub(super) async fn retire(
        &self,
        runtime: &Cx,
        service: &Service,
        existing: Option<Arc<Endpoints>>,
        until: Option<Timestamp>,
    ) -> Result<Outcome, SyncError> {
        let key = &service.key;
        runtime.with_state(key, |state| state.kept = None);
        let existing = existing.filter(|existing| existing.metadata.deletion_timestamp.is_none());
        let situation = match &existing {
            Some(existing) if existing.metadata.annotations.contains_key(ANNOTATION_LEADER) => {
                Situation::Lock
            }
            Some(existing) if self.came_back(runtime, key, existing) => Situation::CameBack,
            _ => match self.delete_retired(runtime, service, existing).await? {
                Some(situation) => situation,
                // The cache will show a change of the Service.
                None => return Ok(Outcome::Done),
            },
        };
        self.found(runtime, service, situation);
        if let Some(until) = until {
            let left = until.duration_since(runtime.clock().now());
            // A time that has passed is none.
            let left = left.try_into().unwrap_or(Duration::ZERO);
            runtime.add_after(key.clone(), LONGEST_NAP.min(left), Cause::Service);
        }
        Ok(Outcome::Done)
    }

    /// Returns true if another client made these Endpoints soon after the controller deleted some.
    fn came_back(&self, runtime: &Cx, key: &ObjectKey, existing: &Endpoints) -> bool {
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

    /// Returns the situation afterwards, or `None` if the Service has changed on the API server.
    async fn delete_retired(
        &self,
        runtime: &Cx,
        service: &Service,
        existing: Option<Arc<Endpoints>>,
    ) -> Result<Option<Situation>, FailedWrite> {
        let key = &service.key;
        Ok(Some(match self.delete_endpoints(runtime, key, existing, Why::Retired(service)).await? {
            Deletion::None => Situation::Retired,
            Deletion::OwnerChanged => return Ok(None),
            Deletion::Kept(maker) => Situation::Kept {
                by: match maker {
                    Maker::Controller(by) | Maker::SomebodyElse(by) => by.to_string(),
                    Maker::Unknown => "an unknown client".to_owned(),
                },
            },
            Deletion::Deleted(deleted) => {
                if matches!(deleted, Deleted::Now | Deleted::Recorded) {
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
    fn found(&self, runtime: &Cx, service: &Service, situation: Situation) {
        let key = &service.key;
        let before = runtime.with_state(key, |state| {
            if situation == Situation::Published {
                return state.retired.take().map(|retired| retired.situation);
            }
            let retired = state.retired.get_or_insert_default();
            if !situation.is_retired() {
                (retired.deleted, retired.came_back) = (None, None);
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

/// Returns the failure of a delete of Endpoints.
pub(super) fn failed_delete(key: &ObjectKey, error: WriteError) -> FailedWrite {
    FailedWrite { operation: Operation::Delete, object: key.clone(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_say_what_stays_and_what_to_do() {
        let situations = [
            Situation::Invalid { value: "retired\ntomorrow".into() },
            Situation::Invalid { value: "x".repeat(100_000).into() },
            Situation::Refused { why: ServerVersion { major: 1, minor: 33 }.needs_endpoints(false).unwrap() },
            Situation::CameBack,
            Situation::Kept { by: "kubectl-create".into() },
            Situation::Lock,
        ];
        let events = situations.iter().filter_map(Situation::event).map(|event| event.to_string());
        insta::assert_snapshot!(events.collect::<Vec<_>>().join("\n"));
        for quiet in [Situation::Published, Situation::Retired] {
            assert_eq!(quiet.event(), None);
        }
    }
}
