//! A reconciler's tools: caches, queue, writes, and state for each key.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kube_endpoint_api_writer::{
    ApiWriter, Carried, Clock, EventRecorder, EventSubject, FailedWrite, Operation, TrackedWriter, Writable,
    WriteError,
};
use kube_endpoint_core_model::{ObjectKey, PlannedEvent, Pod, Service, Timestamp, Writes};
use kube_endpoint_informer::{Cluster, PodEvent, Position};
use kube_endpoint_tracker::CachePosition;
use kube_endpoint_workqueue::WorkQueue;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::activity::Activity;
use crate::failing::FailingKeys;
use crate::failure_log::FailureLog;
use crate::foreign::CALM;
use crate::key_state::KeyStates;
use crate::latency;
use crate::log_lines::{Line, LogLines};
use crate::metrics::Metrics;
use crate::outages::Member;
use crate::recent_writes::RecentForeignWrites;
use crate::selection::Selection;
use crate::{Cause, ForeignWrite, Outcome, Output, Reconciler, RuntimeOptions, Spacing, StateCounts};

/// The runtime of one controller.
pub struct Runtime<R: Reconciler> {
    pub(crate) reconciler: R,
    pub(crate) queue: WorkQueue<ObjectKey>,
    pub(crate) writer: TrackedWriter,
    pub(crate) stopped: Notify,
    pub(crate) options: RuntimeOptions,
    pub(crate) seed: u64,
    pub(crate) failing: FailingKeys,
    /// Its part in outages; none without slow retries.
    pub(crate) outage: Option<Member>,
    pub(crate) failure_log: FailureLog,
    pub(crate) lines: LogLines,
    pub(crate) selection: Selection,
    pub(crate) metrics: Metrics,
    pub(crate) activity: Activity,
    /// True if changes are looked at.
    pub(crate) has_begun: AtomicBool,
    cluster: Cluster,
    pub(crate) events: EventRecorder,
    clock: Clock,
    pub(crate) keys: KeyStates<R::State>,
    pub(crate) recent_foreign_writes: RecentForeignWrites,
    writes_after_failed_create: bool,
    pub(crate) spacing: Spacing,
    pub(crate) random: Mutex<ChaCha8Rng>,
}

/// How carrying out a plan ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All writes succeeded.
    Complete,
    /// The namespace is being deleted and takes no new objects. The remaining writes were dropped:
    /// they cannot succeed.
    NamespaceTerminating,
    /// The writes were recorded and not sent: this is a dry run.
    Recorded,
}

/// Progress of [`Runtime::carry_out`], for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A write succeeded.
    Wrote(Operation),
    /// All writes of the sub-plan of this index succeeded.
    SubPlan(usize),
}

impl<R: Reconciler> Runtime<R> {
    pub(crate) fn new(
        cluster: Cluster,
        writer: ApiWriter,
        events: EventRecorder,
        clock: Clock,
        reconciler: R,
        seed: u64,
    ) -> Self {
        let config = reconciler.config();
        let spacing = if config.options.write_spacing { config.spacing } else { Spacing::NONE };
        let queue = WorkQueue::new(config.queue_name, config.rate_limiter);
        let metrics = Metrics::register(config.queue_name);
        let outage = Member::new(&config.options, &queue, &metrics);
        let writer = writer.with_sent_objects(cluster.sent_objects(R::Output::INFORMER_KIND).cloned());
        Self {
            queue,
            writer: TrackedWriter::new(writer, seed),
            stopped: Notify::new(),
            selection: Selection::new(config.options.service_selector.clone()),
            has_begun: AtomicBool::new(false),
            options: config.options,
            seed,
            failing: FailingKeys::default(),
            metrics,
            outage,
            failure_log: FailureLog::default(),
            lines: LogLines::default(),
            activity: Activity::default(),
            random: Mutex::new(ChaCha8Rng::seed_from_u64(seed)),
            keys: KeyStates::default(),
            recent_foreign_writes: RecentForeignWrites::default(),
            writes_after_failed_create: config.writes_after_failed_create,
            spacing,
            reconciler,
            cluster,
            events,
            clock,
        }
    }

    /// The caches.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The queue. To start syncs use [`Self::add`], which leaves out Services that are not
    /// selected.
    pub fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    /// Starts syncs of the Services that a change of a pod concerns, after a delay in which more
    /// may come. That of a Service with many pods also waits for the end of
    /// [`Config::spacing`](crate::Config::spacing).
    pub fn add_services_of(&self, event: &PodEvent, delay: Duration) {
        for service in event.services_to_sync() {
            let delay = delay.max(self.left_of_spacing(service));
            self.add_after(service.clone(), delay, Cause::Pod.since(event.change.arrived));
        }
    }

    /// The writer, for requests that no plan makes.
    pub fn writer(&self) -> &TrackedWriter {
        &self.writer
    }

    /// The wall clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Up to where the cache of the outputs has read in a namespace.
    pub fn position(&self, namespace: &str) -> CachePosition {
        let Position { epoch, version } = self.cluster.position_in(R::Output::INFORMER_KIND, namespace);
        CachePosition { epoch, version }
    }

    /// The cached outputs of a key, of all managers, including those being deleted.
    ///
    /// # Errors
    ///
    /// [`Outcome::Paused`] while the API server wants to be left alone, [`Outcome::Stale`] if the
    /// cache does not show the key's own writes yet. The sync has to end with it; it is repeated by
    /// itself. A cache that has read up to the version of the last write is not stale, so an update
    /// that changed nothing delays no sync.
    pub fn read_outputs(&self, key: &ObjectKey) -> Result<Vec<Arc<R::Output>>, Outcome> {
        if self.is_paused(key) {
            return Err(Outcome::Paused);
        }
        let (outputs, stale) = self.outputs(key);
        self.note(|details| details.outputs = Some(outputs.len()));
        if stale {
            self.check_long_wait(key);
            return Err(self.defer(key));
        }
        self.keys.with_kept_rare(key, |state| {
            state.deferred = false;
            state.stale_since = None;
        });
        self.writer.tracker().settle_updates(key, |object| {
            let mut metadata = outputs.iter().map(|output| output.metadata());
            metadata.find(|it| it.key() == *object).map(|it| it.resource_version)
        });
        Ok(outputs)
    }

    /// The cached outputs of a key, and whether the cache does not show all of the key's own
    /// writes.
    pub(crate) fn outputs(&self, key: &ObjectKey) -> (Vec<Arc<R::Output>>, bool) {
        // The position is read first: the objects are then at least as new.
        let position = self.position(&key.namespace);
        let outputs = R::Output::of_owner(&self.cluster, key);
        let metadata = outputs.iter().map(|output| output.metadata());
        let uids = metadata.filter(|it| it.deletion_timestamp.is_none()).map(|it| &it.uid);
        let stale = self.writer.tracker().is_stale(key, position, uids);
        (outputs, stale)
    }

    /// The trigger time of a sync that writes outputs of a Service.
    pub fn trigger_time(&self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        // The state is taken out, so that no lock is held over work that grows with the Service.
        let mut state = self.keys.with(&service.key, |state| std::mem::take(&mut state.trigger_time));
        let trigger_time = state.compute(service, pods);
        self.keys.with(&service.key, |kept| kept.trigger_time = state);
        self.note(|details| {
            details.pods = Some(pods.len());
            details.trigger_time = trigger_time;
        });
        trigger_time
    }

    /// Carries out sub-plans in order, each as [`TrackedWriter::carry_out`] does. If a sub-plan
    /// fails, the others are still carried out, as upstream does, unless the API server is too
    /// busy: that ends all. After a failure the trigger time is kept for the retry.
    ///
    /// # Errors
    ///
    /// The writes that failed.
    pub async fn carry_out(
        &self,
        key: &ObjectKey,
        trigger_time: Option<Timestamp>,
        sub_plans: impl IntoIterator<Item = Writes<R::Output>, IntoIter: Send> + Send,
        progress: impl Fn(Progress) + Send + Sync,
    ) -> Result<Completion, Vec<FailedWrite>> {
        let sub_plans: Vec<_> = sub_plans.into_iter().collect();
        if self.writer.record(key, &sub_plans, || R::Output::of_owner(&self.cluster, key)) {
            return Ok(Completion::Recorded);
        }
        let mut failures = Vec::new();
        let (mut answered, mut busy) = (false, false);
        for (index, writes) in sub_plans.into_iter().enumerate() {
            if !(busy || answered || writes.is_empty()) {
                // Before the first write: another client may be faster than its answer.
                self.keys.with_kept_rare(key, |state| state.foreign.answered(Instant::now()));
                self.space_writes(key);
                answered = true;
            }
            self.note(|details| details.plans(&writes));
            if busy {
                continue;
            }
            let wrote = |operation| {
                self.wrote(operation);
                progress(Progress::Wrote(operation));
            };
            let without = self.writes_after_failed_create.then_some(|missing: Vec<R::Output>, rest| {
                R::Output::writes_without(&R::Output::of_owner(&self.cluster, key), rest, &missing)
            });
            let Carried { changed_meanwhile, cache_behind, unchanged, failed } =
                self.writer.carry_out(key, writes, || self.position(&key.namespace), wrote, without).await;
            if self.writer.tracker().take_set_back()
                && self.cluster.versions_went_back(R::Output::INFORMER_KIND, &key.namespace)
            {
                tracing::warn!(
                    queue = self.queue.name(), %key,
                    "the API server answered a write with a version that the watch had reached before: its storage was set \
                     back, so all kinds are listed again"
                );
            }
            if failed.is_empty() {
                progress(Progress::SubPlan(index));
            }
            if changed_meanwhile {
                // The cache shows what the other client wrote.
                let outputs = R::Output::of_owner(&self.cluster, key);
                let managed: Vec<&R::Output> =
                    outputs.iter().map(|it| &**it).filter(|it| self.reconciler.manages(it)).collect();
                self.on_foreign_write(key, ForeignWrite::DuringOwnWrite, &managed);
            }
            self.repeat_undone(key, &unchanged);
            if cache_behind {
                self.wait_for_deletion(key);
            }
            if failed.iter().any(|failed| matches!(failed.error, WriteError::NamespaceTerminating(_))) {
                return Ok(Completion::NamespaceTerminating);
            }
            busy = failed.iter().any(|failed| matches!(failed.error, WriteError::Busy { .. }));
            failures.extend(failed);
        }
        self.count_conflicts(key, &failures);
        if failures.is_empty() {
            return Ok(Completion::Complete);
        }
        self.keys.with(key, |state| state.trigger_time.carry_over(trigger_time));
        Err(failures)
    }

    /// Counts a write that succeeded, which may end an outage. [`Self::carry_out`] does so by
    /// itself.
    pub fn wrote(&self, operation: Operation) {
        self.activity.wrote();
        latency::wrote();
        if let Some(outage) = &self.outage {
            outage.wrote(operation, Instant::now());
        }
    }

    /// Records the events of a plan, unless the last sync of the key recorded the same and this one
    /// writes nothing. (Upstream records them at every sync.) `first_is_new` says whether the
    /// events of a first sync that writes nothing are new; otherwise the process before this one
    /// has recorded them.
    pub fn record_events(
        &self,
        key: &ObjectKey,
        subject: impl Into<EventSubject>,
        events: Vec<PlannedEvent>,
        writes: bool,
        first_is_new: bool,
    ) {
        let last = self.keys.with(key, |state| state.last_events.replace(events.clone()));
        if writes || last.map_or(first_is_new, |last| last != events) {
            let subject = subject.into();
            for event in &events {
                self.events.record(subject.clone(), event);
            }
        }
    }

    /// Records an event. The caller takes care that the same one is not recorded at every sync.
    pub fn record_event(&self, subject: impl Into<EventSubject>, event: &PlannedEvent) {
        self.events.record(subject.into(), event);
    }

    /// Reads or changes the controller's own state of a key, under a lock.
    pub fn with_state<T>(&self, key: &ObjectKey, use_state: impl FnOnce(&mut R::State) -> T) -> T {
        self.keys.with(key, |state| use_state(&mut state.own))
    }

    /// Logs a warning about a Service, once for each of its versions.
    pub fn warn_once(&self, service: &Service, warning: &impl std::fmt::Display) {
        let version = Some(service.resource_version);
        let warned = self.keys.with_rare(&service.key, |state| std::mem::replace(&mut state.warned, version));
        if warned != version
            && let Some(left_out) = self.admits(Line::Warning)
        {
            tracing::warn!(service = %service.key, left_out, "{warning}");
        }
    }

    /// The keys whose own state matches, sorted.
    pub fn keys_matching(&self, matches: impl Fn(&R::State) -> bool) -> Vec<ObjectKey> {
        self.keys.matching(matches)
    }

    /// Forgets everything about a key, and returns the controller's own state. Echoes of its last
    /// writes then count as written by another client, which costs a sync that finds nothing to do.
    pub fn forget(&self, key: &ObjectKey) -> R::State {
        self.writer.tracker().forget(key);
        self.forget_state(key)
    }

    /// As [`Self::forget`], but the writes that the cache does not show yet are kept.
    pub fn forget_state(&self, key: &ObjectKey) -> R::State {
        self.keys.remove(key).own
    }

    /// As [`Self::forget_state`], before the last writes of a key, but what other clients changed
    /// is kept, so that the answers to changes that keep coming back take ever longer. A sync after
    /// ten minutes, if no other one does, forgets what is kept.
    pub fn forget_before_writes(&self, key: &ObjectKey) -> R::State {
        let mut forgotten = self.keys.remove(key);
        let foreign = forgotten.rare.with(|rare| std::mem::take(&mut rare.foreign));
        if foreign.len() > 0 {
            self.keys.with_rare(key, |state| state.foreign = foreign);
            // Nothing else may start the sync that forgets them.
            self.add_after(key.clone(), CALM, Cause::ForeignWrite);
        }
        forgotten.own
    }

    pub(crate) fn counts(&self) -> StateCounts {
        let (owners, objects) = self.writer.tracker().len();
        let failing = self.failing.counts().failing;
        let leftovers = self.selection.len();
        StateCounts { outstanding_writes: owners + objects, failing, leftovers, ..self.keys.counts() }
    }
}
