//! The trait that a controller implements.

use std::fmt;
use std::time::Duration;

use kube_endpoint_api_writer::{EventSubject, FailedWrite};
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Endpoints, Lease, Node, ObjectKey, PlannedEvent, Service,
};
use kube_endpoint_informer::{Change, Kinds, PodEvent};
use kube_endpoint_workqueue::{Attempt, MaxOfRateLimiter, SyncOutcome};

use crate::{Output, Runtime, RuntimeOptions, Spacing};

/// The settings of a controller's queue, workers and writes.
pub struct Config {
    /// The name of the queue in metrics.
    pub queue_name: &'static str,
    /// Decides how long a failed key waits for its retry.
    pub rate_limiter: MaxOfRateLimiter<ObjectKey>,
    /// How many keys the controller syncs at once.
    pub workers: usize,
    /// True if the runtime carries out safe updates and deletes after a failed create. Otherwise
    /// the plan ends there, as upstream's does.
    pub writes_after_failed_create: bool,
    /// The time between two writes for a Service with many pods, unless
    /// [`RuntimeOptions::write_spacing`] is off.
    pub spacing: Spacing,
    /// Options that all controllers share.
    pub options: RuntimeOptions,
}

impl Config {
    /// Creates a config with safe writes after a failed create, and without spacing.
    pub fn new(
        queue_name: &'static str,
        rate_limiter: MaxOfRateLimiter<ObjectKey>,
        workers: usize,
        options: RuntimeOptions,
    ) -> Self {
        Self {
            queue_name,
            rate_limiter,
            workers,
            options,
            writes_after_failed_create: true,
            spacing: Spacing::NONE,
        }
    }

    /// Sets [`Self::writes_after_failed_create`], which is true by default.
    pub fn with_writes_after_failed_create(mut self, on: bool) -> Self {
        self.writes_after_failed_create = on;
        self
    }

    /// Sets [`Self::spacing`], which is [`Spacing::NONE`] by default.
    pub fn with_spacing(mut self, spacing: Spacing) -> Self {
        self.spacing = spacing;
        self
    }
}

/// The part that differs between controllers: the changes that start a sync, and the sync itself.
/// The [crate](crate#example) has an example.
///
/// The runtime calls the `on_` methods as the cluster calls those of
/// [`Handler`](kube_endpoint_informer::Handler): in order for each kind, and without a lock. The
/// watch waits for them, so they should only queue keys. The calls begin when
/// [`Controller::run`](crate::Controller::run) finds the caches synced. It then also queues all
/// keys once.
pub trait Reconciler: Sized + Send + Sync + 'static {
    /// The kind of object that the controller writes.
    type Output: Output;
    /// The state that the controller keeps for each key, in addition to the runtime's. The default
    /// value stands for no state.
    type State: Default + PartialEq + Send;
    /// Options that a user sets.
    type Options;

    /// Creates the reconciler. Register metrics here, with the recorder that is current.
    fn new(options: Self::Options) -> Self;

    /// Returns the kinds that the controller reads. It waits for lists of these kinds only. Without
    /// pods among them, the cluster need not call [`Self::on_pod`] for complete lists.
    fn kinds() -> Kinds;

    /// Returns the settings of the controller.
    fn config(&self) -> Config;

    /// Returns true if this controller maintains the object; other controllers may write the same
    /// kind.
    fn manages(&self, output: &Self::Output) -> bool;

    /// Prepares the first sync. [`Controller::run`](crate::Controller::run) calls this once, when
    /// the caches of [`Self::kinds`] are synced, apart from namespaces that cannot be read.
    fn start(&self, _runtime: &Runtime<Self>) {}

    /// Prepares the first sync in a namespace that could not be read at the start. The runtime then
    /// queues the keys of the namespace.
    fn start_in(&self, _runtime: &Runtime<Self>, _namespace: &str) {}

    /// Runs beside the workers. The runtime drops it when they end.
    fn background(&self, _runtime: &Runtime<Self>) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// A pod changed.
    fn on_pod(&self, _runtime: &Runtime<Self>, _event: &PodEvent) {}

    /// A selected Service changed. The runtime itself queues a Service that joins or leaves the
    /// selection.
    fn on_service(&self, _runtime: &Runtime<Self>, _change: &Change<Service>) {}

    /// An EndpointSelector changed. These Services name it; their pods may be others now.
    fn on_endpoint_selector(
        &self,
        _runtime: &Runtime<Self>,
        _change: &Change<EndpointSelector>,
        _services: &[ObjectKey],
    ) {
    }

    /// A Lease changed that is in a namespace where an EndpointSelector names one.
    fn on_lease(&self, _runtime: &Runtime<Self>, _change: &Change<Lease>) {}

    /// The cluster applied a complete list of Leases, which shows that others do not exist.
    fn on_leases_listed(&self, _runtime: &Runtime<Self>) {}

    /// A node changed.
    fn on_node(&self, _runtime: &Runtime<Self>, _change: &Change<Node>) {}

    /// An EndpointSlice changed. If slices are the output, the runtime has compared the change with
    /// own writes before.
    fn on_endpoint_slice(&self, _runtime: &Runtime<Self>, _change: &Change<EndpointSlice>) {}

    /// An Endpoints object changed. If Endpoints are the output, the runtime has compared the
    /// change with own writes before.
    fn on_endpoints(&self, _runtime: &Runtime<Self>, _change: &Change<Endpoints>) {}

    /// Returns the delay of the sync after another client wrote an output of a selected Service;
    /// `None` if this write needs no sync. With [`RuntimeOptions::foreign_write_backoff`] the
    /// runtime makes the delay longer.
    fn foreign_write_delay(&self, runtime: &Runtime<Self>, write: ForeignWrite) -> Option<Duration>;

    /// Brings the outputs of one key up to date. The runtime never runs two syncs of a key at the
    /// same time.
    ///
    /// # Errors
    ///
    /// The runtime records the event of an error and retries the key with backoff. It turns an
    /// error into an [`Outcome`] if its failed writes only ask to try later.
    fn sync(
        &self,
        runtime: &Runtime<Self>,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Outcome, SyncError>> + Send;

    /// Drops the state of a key whose Service left the selection. The outputs stay as they are:
    /// another process syncs the Service. The default keeps the writes that the cache does not show
    /// yet, in case the Service comes back.
    fn release(&self, runtime: &Runtime<Self>, key: &ObjectKey) {
        runtime.forget_state(key);
    }

    /// A sync has ended. Record metrics here.
    fn observe(&self, _attempt: &Attempt<'_, ObjectKey, Outcome, SyncError>) {}
}

/// The kinds of writes of outputs by other clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForeignWrite {
    /// A client created or changed an object.
    Applied,
    Deleted,
    /// A client changed or deleted an object while an own write of it was in flight.
    DuringOwnWrite,
    /// A client deleted an object that this controller created, before the cache showed it.
    DeletedUnseen,
}

/// The result of a sync that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The outputs are up to date, or the controller can do no more about them.
    Done,
    /// The cache does not show own writes yet, or shows another state than the server. The runtime
    /// repeats the sync when the cache shows the writes, after a second at the latest. After an
    /// answer that differs from the cache the delay doubles each time, up to a minute.
    Stale,
    /// The API server asked for a pause. The runtime repeats the sync after it.
    Paused,
    /// Changes of pods arrived during a write, and are written together with later ones
    /// ([`RuntimeOptions::write_spacing`]). The runtime repeats the sync.
    Spaced,
    /// The process may not write now. The runtime repeats the sync when it may.
    Fenced,
}

impl Outcome {
    /// Returns the name in traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stale => "stale",
            Self::Paused => "paused",
            Self::Spaced => "spaced",
            Self::Fenced => "fenced",
        }
    }
}

impl SyncOutcome for Outcome {
    fn is_success(&self) -> bool {
        *self == Self::Done
    }
}

/// The error of a sync.
#[derive(Debug)]
pub struct SyncError {
    writes: Vec<FailedWrite>,
    message: String,
    event: Option<Box<(EventSubject, PlannedEvent)>>,
}

impl SyncError {
    /// Creates an error from the writes that failed, if any, and the message for logs.
    pub fn new(writes: Vec<FailedWrite>, message: String) -> Self {
        Self { writes, message, event: None }
    }

    /// Adds an event. The runtime records it unless it turns the error into an [`Outcome`]; see
    /// [`Reconciler::sync`].
    pub fn with_event(mut self, event: Option<(EventSubject, PlannedEvent)>) -> Self {
        self.event = event.map(Box::new);
        self
    }

    /// Returns the writes that failed.
    pub fn writes(&self) -> &[FailedWrite] {
        &self.writes
    }

    pub(crate) fn event(&self) -> Option<&(EventSubject, PlannedEvent)> {
        self.event.as_deref()
    }
}

/// Returns the first ten messages, and a last one with the number of the others. `what` names what
/// they are about. No event or log line then lists thousands.
pub fn first_ten(mut messages: Vec<String>, what: &str) -> Vec<String> {
    let more = messages.len().saturating_sub(10);
    if more > 0 {
        messages.truncate(10);
        messages.push(format!("and {more} more {what}"));
    }
    messages
}

impl From<FailedWrite> for SyncError {
    fn from(failed: FailedWrite) -> Self {
        let message = failed.to_string();
        Self::new(vec![failed], message)
    }
}

impl From<Vec<FailedWrite>> for SyncError {
    fn from(failed: Vec<FailedWrite>) -> Self {
        let messages: Vec<String> = failed.iter().map(ToString::to_string).collect();
        Self::new(failed, first_ten(messages, "writes").join(", "))
    }
}

impl fmt::Display for SyncError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SyncError {}
