//! What a controller implements.

use std::fmt;
use std::time::Duration;

use kube_endpoint_api_writer::{EventSubject, FailedWrite};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, ObjectKey, PlannedEvent, Service};
use kube_endpoint_informer::{Change, Kinds, PodEvent};
use kube_endpoint_workqueue::{Attempt, MaxOfRateLimiter, SyncOutcome};

use crate::{Output, Runtime, RuntimeOptions, Spacing};

/// How a controller is run.
pub struct Config {
    /// Name of the queue in metrics.
    pub queue_name: &'static str,
    /// How long a key that failed waits for its retry.
    pub rate_limiter: MaxOfRateLimiter<ObjectKey>,
    /// How many keys are synced at once.
    pub workers: usize,
    /// True if the updates and deletes that are safe are carried out after a failed create;
    /// otherwise the plan ends there, as upstream's does.
    pub writes_after_failed_create: bool,
    /// The time between two writes for a Service with many pods, unless
    /// [`RuntimeOptions::write_spacing`] is off.
    pub spacing: Spacing,
    /// Options that all controllers share.
    pub options: RuntimeOptions,
}

impl Config {
    /// With all writes after a failed create that are safe, and without spacing.
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

/// The part of a controller that is its own: what starts a sync, and what a sync does. The
/// [crate](crate#example) has an example.
///
/// The `on_` methods are called as those of [`Handler`](kube_endpoint_informer::Handler): in order
/// for each kind, without a lock, and while the watch waits, so that they only queue keys. They are
/// called once [`Controller::run`](crate::Controller::run) has found the caches synced; then all
/// keys are synced once.
pub trait Reconciler: Sized + Send + Sync + 'static {
    /// The kind of object that it writes.
    type Output: Output;
    /// What it keeps for each key, besides what the runtime keeps. The default value means that
    /// nothing is kept.
    type State: Default + PartialEq + Send;
    /// Options that a user sets.
    type Options;

    /// Builds it. The metrics recorder that is current now is the one to use.
    fn new(options: Self::Options) -> Self;

    /// The kinds that it reads. It waits for these to be listed, and for no others. Without pods
    /// among them, [`Self::on_pod`] need not be called for complete lists.
    fn kinds() -> Kinds;

    /// How it is run.
    fn config(&self) -> Config;

    /// Returns true if this controller maintains an output object; other controllers may write the
    /// same kind.
    fn manages(&self, output: &Self::Output) -> bool;

    /// Called once the caches of its kinds are synced, before the first sync. After a take-over it
    /// is called again when the cache of the outputs shows everything that the previous leader has
    /// written.
    fn start(&self, _runtime: &Runtime<Self>) {}

    /// Runs beside the workers, and is dropped when they end.
    fn background(&self, _runtime: &Runtime<Self>) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// A pod changed.
    fn on_pod(&self, _runtime: &Runtime<Self>, _event: &PodEvent) {}

    /// A Service that is selected changed. One that joins or leaves the selection is synced in any
    /// case.
    fn on_service(&self, _runtime: &Runtime<Self>, _change: &Change<Service>) {}

    /// A node changed.
    fn on_node(&self, _runtime: &Runtime<Self>, _change: &Change<Node>) {}

    /// An EndpointSlice changed. If slices are the output, the change has been compared with the
    /// own writes before.
    fn on_endpoint_slice(&self, _runtime: &Runtime<Self>, _change: &Change<EndpointSlice>) {}

    /// An Endpoints object changed. If Endpoints are the output, the change has been compared with
    /// the own writes before.
    fn on_endpoints(&self, _runtime: &Runtime<Self>, _change: &Change<Endpoints>) {}

    /// Another client wrote an output object of a Service that is selected. Returns the delay after
    /// which its key is to be synced, none if this write needs no sync. With
    /// [`RuntimeOptions::foreign_write_backoff`] the runtime makes the delay longer.
    fn foreign_write_delay(&self, runtime: &Runtime<Self>, write: ForeignWrite) -> Option<Duration>;

    /// Brings the outputs of one key up to date. A key is never synced twice at the same time.
    ///
    /// # Errors
    ///
    /// An error records its event, and the key is retried with backoff. Failed writes that say no
    /// more than "later" are an [`Outcome`] instead; the runtime converts them.
    fn sync(
        &self,
        runtime: &Runtime<Self>,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Outcome, SyncError>> + Send;

    /// Drops what is kept for a key whose Service left the selection. Its outputs stay as they are:
    /// another process syncs it. The writes that the cache does not show yet are kept, should the
    /// Service come back.
    fn release(&self, runtime: &Runtime<Self>, key: &ObjectKey) {
        runtime.forget_state(key);
    }

    /// A sync has ended; for metrics.
    fn observe(&self, _attempt: &Attempt<'_, ObjectKey, Outcome, SyncError>) {}
}

/// What another client did to an output object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForeignWrite {
    /// It was created or changed.
    Applied,
    Deleted,
    /// It was changed or deleted while a write of our own was in flight.
    DuringOwnWrite,
    /// An object that we created was deleted before the cache showed it.
    DeletedUnseen,
}

/// How a sync ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The outputs are up to date, or nothing more can be done about them.
    Done,
    /// The cache does not show our own writes yet, or not what the server has answered. The sync is
    /// repeated when it shows our writes, after a second at the latest; after an answer, ever
    /// later, a minute at most.
    Stale,
    /// The API server asked for a pause. The sync is repeated after it.
    Paused,
    /// The process may not write now. The sync is repeated when it may.
    Fenced,
}

impl Outcome {
    /// The name in traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stale => "stale",
            Self::Paused => "paused",
            Self::Fenced => "fenced",
        }
    }
}

impl SyncOutcome for Outcome {
    fn is_success(&self) -> bool {
        *self == Self::Done
    }
}

/// Why a sync failed.
#[derive(Debug)]
pub struct SyncError {
    writes: Vec<FailedWrite>,
    message: String,
    event: Option<Box<(EventSubject, PlannedEvent)>>,
}

impl SyncError {
    /// The writes that failed, if any, and the message for logs.
    pub fn new(writes: Vec<FailedWrite>, message: String) -> Self {
        Self { writes, message, event: None }
    }

    /// Adds an event, which is recorded unless the writes failed in a way that is no error; see
    /// [`Reconciler::sync`].
    pub fn with_event(mut self, event: Option<(EventSubject, PlannedEvent)>) -> Self {
        self.event = event.map(Box::new);
        self
    }

    /// The writes that failed.
    pub fn writes(&self) -> &[FailedWrite] {
        &self.writes
    }

    pub(crate) fn event(&self) -> Option<&(EventSubject, PlannedEvent)> {
        self.event.as_deref()
    }
}

/// The first ten messages, and how many more there are of what they are about, so that no event or
/// log line lists thousands.
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
