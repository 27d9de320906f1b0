//! Takes the place of the controller where no Service is to have Endpoints: deletes those that
//! controllers made, once.
//!
//! It lists their metadata, in pages. Before it deletes an object it reads the Service: a Service
//! without a selector may have nothing but the slices mirrored from them. It lists again after a
//! failure, and after a change that came between.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube_endpoint_api_writer::{
    Deleted, EventRecorder, FailedWrite, MetadataPage, TrackedWriter, WriteError,
};
use kube_endpoint_controller_runtime::ControllerContext;
use kube_endpoint_core_model::maker::{Content, Provenance};
use kube_endpoint_core_model::retirement::EndpointsSetting;
use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINTS;
use kube_endpoint_core_model::{
    Backoff, Endpoints, LabelSelector, ObjectKey, PlannedEvent, Service, StringMap, Text,
};
use kube_endpoint_informer::{Cluster, Kind};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::retired::{Retirement, Situation, invalid};

/// The most objects in a page.
const PAGE: usize = 500;
/// The pauses between two lists, if the first left something to do.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));
/// How often the gauge of retired Services follows the cache.
const COUNTED: Duration = Duration::from_secs(60);

/// Deletes the Endpoints that controllers made. Clones share it.
#[derive(Clone)]
pub struct RetireAll(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    writer: TrackedWriter,
    events: EventRecorder,
    /// True if somebody has decided that it does not matter if the API server reads Endpoints.
    is_accepted: bool,
    /// The Services of this process, if others have a part.
    service_selector: Option<LabelSelector>,
    gauges: Retirement,
    /// The Services whose Endpoints were deleted, once all of them are.
    done: OnceLock<BTreeSet<ObjectKey>>,
    stopped: Notify,
}

/// The metadata of Endpoints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    namespace: Text,
    #[serde(default)]
    deletion_timestamp: Option<Text>,
    /// All other fields: serde hands it none that stand above.
    #[serde(flatten)]
    provenance: Provenance,
}

/// The result of one list.
#[derive(Debug, Default)]
struct Pass {
    /// The Services whose Endpoints this and earlier lists have deleted.
    done: BTreeSet<ObjectKey>,
    /// Objects that a controller made and that stay, because their Service has no selector.
    kept: usize,
    /// Objects that another list has to look at again.
    left: usize,
    /// True if the API server does not need Endpoints itself.
    is_allowed: bool,
}

/// The reason why a list ended early.
#[derive(Debug)]
enum Stopped {
    /// The API server needs Endpoints itself, for this reason.
    Refused(String),
    Failed(WriteError),
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => {
                write!(f, "{why}; set --endpoints-default=published, or --endpoints-retired-accept=REASON")
            }
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl From<WriteError> for Stopped {
    fn from(error: WriteError) -> Self {
        Self::Failed(error)
    }
}

impl RetireAll {
    /// Takes the place of a controller with this context. Events and writes are as those of the
    /// controller. `is_accepted` is
    /// [`RetirementOptions::is_accepted`](crate::RetirementOptions::is_accepted).
    pub fn new(
        context: ControllerContext,
        is_accepted: bool,
        service_selector: Option<LabelSelector>,
    ) -> Self {
        let ControllerContext { cluster, writer, events, clock: _, seed } = context;
        let tracker = cluster.ledger(Kind::Endpoints).tracker();
        let writer = TrackedWriter::new(writer, tracker, seed);
        let gauges = Retirement::new();
        Self(Arc::new(Inner {
            cluster,
            writer,
            events,
            is_accepted,
            service_selector,
            gauges,
            done: OnceLock::new(),
            stopped: Notify::new(),
        }))
    }

    /// Lets [`Self::run`] return.
    pub fn shut_down(&self) {
        self.0.stopped.notify_one();
    }

    /// Deletes the Endpoints, and then only counts Services, until [`Self::shut_down`].
    pub async fn run(self) {
        let inner = &*self.0;
        inner.gauges.start();
        tokio::select! {
            biased;
            () = inner.stopped.notified() => {}
            () = inner.delete_all() => {}
            () = inner.count() => {}
        }
    }
}

impl Inner {
    /// Lists until nothing is left to do, and then waits for ever.
    ///
    /// It deletes the Endpoints of one Service once: those that come back have another writer.
    async fn delete_all(&self) {
        let is_dry_run = self.writer.writer().dry_run().is_some();
        let mut done = BTreeSet::new();
        for attempt in 0.. {
            self.writer.writer().fence().opened().await;
            let is_allowed = self.is_accepted || is_dry_run;
            let mut pass = Pass { is_allowed, done, ..Pass::default() };
            let listed = self.list(&mut pass).await;
            let (left, without_selector) = (pass.left, pass.kept);
            done = pass.done;
            match listed {
                Ok(()) if left == 0 && is_dry_run => {
                    tracing::info!(
                        endpoints = done.len(),
                        without_selector,
                        "these Endpoints would be deleted"
                    );
                    break;
                }
                Ok(()) if left == 0 => {
                    tracing::info!(
                        deleted = done.len(),
                        without_selector,
                        "deleted the Endpoints of controllers, apart from those of Services without a selector"
                    );
                    let _ = self.done.set(done);
                    break;
                }
                Ok(()) => {}
                Err(error @ Stopped::Refused(_)) => tracing::error!(%error, "the Endpoints stay"),
                Err(error) => {
                    tracing::warn!(%error, "Endpoints that are to be deleted may be left; trying again");
                }
            }
            sleep(PAUSES.delay(attempt)).await;
        }
        std::future::pending::<()>().await;
    }

    /// Keeps the gauges up to date, and reports Services that get something other than they ask
    /// for, or have Endpoints. If mirroring runs, the cache has these.
    async fn count(&self) {
        self.cluster.synced_kinds([Kind::Services]).await;
        let mut reported = BTreeSet::new();
        loop {
            let services = self.cluster.services();
            let services = services.iter().filter_map(|key| self.cluster.service(key));
            let retired: Vec<Arc<Service>> = services
                .filter(|service| service.selects_pods() && self.is_selected(&service.labels))
                .filter(|service| !service.is_of_the_api_server())
                .collect();
            self.gauges.set_retired(retired.len());
            for service in &retired {
                self.report_annotation(service, &mut reported);
            }
            if self.cluster.has_synced_kinds([Kind::Endpoints]) {
                let with = retired.iter().filter(|service| self.report_endpoints(service, &mut reported));
                self.gauges.set_kept(with.count());
            }
            sleep(COUNTED).await;
        }
    }

    /// Returns true if a Service has Endpoints. Once all were deleted, it records an event about
    /// them.
    fn report_endpoints(&self, service: &Service, reported: &mut BTreeSet<(Text, Text)>) -> bool {
        let Some(endpoints) = self.cluster.endpoints(&service.key) else { return false };
        let metadata = &endpoints.metadata;
        if metadata.deletion_timestamp.is_some() {
            return false;
        }
        let Some(done) = self.done.get() else { return true };
        let found = if endpoints.is_lock() {
            Situation::Lock
        } else if done.contains(&service.key) {
            Situation::CameBack
        } else {
            Situation::Kept { by: "another client".to_owned() }
        };
        if reported.insert((service.uid.clone(), metadata.uid.clone()))
            && let Some(event) = found.event()
        {
            self.events.record(service.into(), &event);
        }
        true
    }

    /// Records an event about an annotation that asks for something else, or means nothing.
    fn report_annotation(&self, service: &Service, reported: &mut BTreeSet<(Text, Text)>) {
        let Some(value) = service.annotations.get(ANNOTATION_ENDPOINTS) else { return };
        let event = match service.endpoints_setting() {
            Err(_) => invalid(value),
            Ok(Some(EndpointsSetting::Published)) => PlannedEvent::warning(
                "EndpointsNotPublished",
                "the annotation asks for Endpoints, but no Service has any while the manager runs with \
                 --endpoints-default=retired; use --endpoints-retired-namespaces if some are to have them"
                    .to_owned(),
            ),
            Ok(_) => return,
        };
        if reported.insert((service.uid.clone(), value.clone())) {
            self.events.record(service.into(), &event);
        }
    }

    fn is_selected(&self, labels: &StringMap) -> bool {
        self.service_selector.as_ref().is_none_or(|selector| selector.matches(labels))
    }

    async fn list(&self, pass: &mut Pass) -> Result<(), Stopped> {
        let names = self.cluster.watched_namespaces().names();
        if names.len() == 0 {
            return self.list_namespace(None, pass).await;
        }
        let mut refused = None;
        for namespace in names {
            match self.list_namespace(Some(namespace), pass).await {
                // This may be the namespace's alone.
                Err(Stopped::Failed(error)) if error.code() == Some(403) => refused = Some(error),
                listed => listed?,
            }
        }
        refused.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn list_namespace(&self, namespace: Option<&Text>, pass: &mut Pass) -> Result<(), Stopped> {
        let namespace = namespace.map(|name| &**name);
        let mut token = None;
        loop {
            let page =
                self.writer.writer().list_metadata::<Endpoints, Listed>(namespace, PAGE, token.as_deref());
            let MetadataPage { items, next } = page.await?;
            for listed in &items {
                self.delete(listed, pass).await?;
            }
            token = next;
            if token.is_none() {
                return Ok(());
            }
        }
    }

    /// Deletes an object, if it is to be deleted.
    async fn delete(&self, listed: &Listed, pass: &mut Pass) -> Result<(), Stopped> {
        let key = ObjectKey { namespace: listed.namespace.clone(), name: listed.provenance.name().clone() };
        let writer = self.writer.writer();
        let stays = listed.provenance.reason_to_keep(Content::Endpoints, &writer.controllers());
        let is_candidate = !pass.done.contains(&key)
            && stays.is_none()
            && listed.deletion_timestamp.is_none()
            && self.cluster.watched_namespaces().contains(Kind::Endpoints, &key.namespace);
        if !is_candidate {
            return Ok(());
        }
        let service = writer.service(&key).await?;
        if !self.is_selected(service.as_ref().map_or(listed.provenance.labels(), |service| &service.labels)) {
            return Ok(());
        }
        if let Some(service) = &service {
            if service.is_of_the_api_server() {
                return Ok(());
            }
            if !service.selects_pods() {
                pass.kept += 1;
                return Ok(());
            }
        }
        self.delete_listed(&key, listed, pass).await
    }

    /// Deletes the object that a list has shown.
    async fn delete_listed(&self, key: &ObjectKey, listed: &Listed, pass: &mut Pass) -> Result<(), Stopped> {
        if !pass.is_allowed {
            if let Some(why) = self.writer.writer().server_version().await?.needs_endpoints(true) {
                return Err(Stopped::Refused(why));
            }
            pass.is_allowed = true;
        }
        let seen = Endpoints::of_version(key, &listed.provenance);
        let deleted = self.writer.delete_unchanged(key, &seen).await;
        // No sync of the key follows, so nothing would end the wait for an echo.
        self.writer.tracker().forget(key);
        match deleted {
            Ok(Deleted::Now | Deleted::Recorded | Deleted::Before) => {
                pass.done.insert(key.clone());
            }
            Ok(Deleted::Replaced) | Err(FailedWrite { error: WriteError::Conflict(_), .. }) => pass.left += 1,
            Err(FailedWrite { error, .. }) if error.ends_deletes() => return Err(error.into()),
            Err(failed) => {
                tracing::warn!(endpoints = %key, error = %failed.error, "Endpoints could not be deleted");
                pass.left += 1;
            }
        }
        Ok(())
    }
}
