//! A reconciler's tools: caches, queue, writes, and state for each key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube_endpoint_api_writer::{
    Clock, EventRecorder, EventSubject, Operation, SyncContext, SyncDetails, TrackedWriter, Writable,
};
use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::{
    ObjectKey, PlannedEvent, Pod, ResourceVersion, Service, StringMap, Timestamp,
};
use kube_endpoint_informer::{Cluster, PodEvent, long_work};
use kube_endpoint_tracker::NeedsAllPods;
use kube_endpoint_workqueue::{Reason, WorkQueue};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::activity::Activity;
use crate::failing::FailingKeys;
use crate::failure_log::FailureLog;
use crate::foreign::CALM;
use crate::holds::Hold;
use crate::key_state::KeyStates;
use crate::latency;
use crate::log_lines::{Line, LogLines};
use crate::metrics::Metrics;
use crate::outages::Member;
use crate::recent_writes::RecentForeignWrites;
use crate::selection::Selection;
use crate::{
    Cause, ControllerContext, KeptPlan, Outcome, Output, Planned, Reconciler, RuntimeOptions, Spacing,
    StateCounts,
};

/// A plan from this many pods or more takes milliseconds.
const MANY_PODS: usize = 1000;

/// The runtime of one controller: what its reconciler uses during a sync. The
/// [crate](crate#example) has an example.
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
    pub(crate) writes_after_failed_create: bool,
    pub(crate) spacing: Spacing,
    pub(crate) random: Mutex<ChaCha8Rng>,
}

impl<R: Reconciler> Runtime<R> {
    pub(crate) fn new(context: ControllerContext, reconciler: R) -> Self {
        let ControllerContext { cluster, writer, events, clock, seed } = context;
        let config = reconciler.config();
        let spacing = if config.options.write_spacing { config.spacing } else { Spacing::NONE };
        let queue = WorkQueue::new(config.queue_name, config.rate_limiter);
        let metrics = Metrics::register(config.queue_name);
        let outage = Member::new(&config.options, &queue, &metrics);
        let tracker = cluster.ledger(R::Output::INFORMER_KIND).tracker();
        Self {
            queue,
            writer: TrackedWriter::new(writer, tracker, seed),
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

    /// Starts the sync of a key, unless its Service is outside the selection.
    pub fn add(&self, key: ObjectKey, reason: impl Into<Reason>) {
        if self.is_selected(&key) {
            self.queue.add_for(key, reason);
        }
    }

    /// As [`Self::add`], after a delay in which more may come.
    pub fn add_after(&self, key: ObjectKey, delay: Duration, reason: impl Into<Reason>) {
        if self.is_selected(&key) {
            self.queue.add_after_for(key, delay, reason);
        }
    }

    /// Returns true if a key may be synced: its Service is selected, or does not exist, which
    /// [`Self::owns_leftover`] is about.
    pub fn is_selected(&self, key: &ObjectKey) -> bool {
        self.selection.selector.is_none()
            || self.cluster().service(key).is_none_or(|service| self.selection.selects(&service.labels))
    }

    /// Returns true if this process cleans up what is left of a Service that does not exist.
    /// `labels` are those of what is left.
    pub fn owns_leftover(&self, key: &ObjectKey, labels: &StringMap) -> bool {
        if self.selection.selector.is_none() {
            return true;
        }
        let known = self.selection.deleted.lock().get(key).copied();
        known.unwrap_or_else(|| self.selection.selects(labels))
    }

    /// Returns true if changes are looked at. Before, another process may write the outputs. When
    /// the controller begins, it syncs all keys, since changes before were not looked at.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
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
    pub fn position(&self, namespace: &str) -> ResourceVersion {
        self.cluster.position_in(R::Output::INFORMER_KIND, namespace)
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
            return Err(self.requeue_when_cache_changes(key));
        }
        self.keys.with_kept_rare(key, |state| state.holds.clear(Hold::OwnWrites));
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

    /// Plans a sync that writes outputs of a Service: from the pods that have changed since the
    /// sync that left `kept`, or from all pods, if nothing is kept, it is not known which pods have
    /// changed, or `from_changed` returns none. `from_all` is told whether it is worth while to
    /// return a state; it is not if there are few pods.
    pub fn plan<T, P>(
        &self,
        service: &Service,
        kept: Option<KeptPlan<P>>,
        from_changed: impl FnOnce(P, &[ChangedPod], Option<Timestamp>) -> Option<(T, P)>,
        from_all: impl FnOnce(&[Arc<Pod>], Option<Timestamp>, bool) -> (T, Option<P>),
    ) -> Planned<T, P> {
        let key = &service.key;
        if let Some(KeptPlan { cursor, state }) = kept
            && let Some((changed, cursor)) = self.cluster().changed_pods(key, &cursor)
            && let Ok(trigger_time) = self.trigger_time_of_changed(service, &changed)
        {
            if let Some((plan, state)) = from_changed(*state, &changed, trigger_time) {
                let kept = Some(KeptPlan { cursor, state: Box::new(state) });
                return Planned { plan, trigger_time, kept };
            }
            // It is computed again from all pods.
            self.keys.with(key, |state| state.trigger_time.carry_over(trigger_time));
        }
        let (pods, cursor) = self.cluster().pods_and_cursor(key);
        let trigger_time = self.trigger_time(service, &pods);
        let make = || from_all(&pods, trigger_time, cursor.is_some());
        let (plan, state) = if pods.len() < MANY_PODS { make() } else { long_work(make) };
        let kept = cursor.zip(state).map(|(cursor, state)| KeptPlan { cursor, state: Box::new(state) });
        Planned { plan, trigger_time, kept }
    }

    /// As [`Self::trigger_time`], if only these pods have changed since the last call.
    fn trigger_time_of_changed(
        &self,
        service: &Service,
        changed: &[ChangedPod],
    ) -> Result<Option<Timestamp>, NeedsAllPods> {
        let mut state = self.keys.with(&service.key, |state| std::mem::take(&mut state.trigger_time));
        let trigger_time = state.compute_changed(service, changed);
        self.keys.with(&service.key, |kept| kept.trigger_time = state);
        self.note(|details| {
            details.pods = Some(self.cluster().pod_count_of(&service.key));
            details.trigger_time = trigger_time.unwrap_or(None);
        });
        trigger_time
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

    /// Counts a write that succeeded, which may end an outage. [`Self::carry_out`] does so by
    /// itself.
    pub fn wrote(&self, operation: Operation) {
        self.activity.wrote();
        latency::wrote();
        if let Some(outage) = &self.outage {
            outage.wrote(operation, Instant::now());
        }
    }

    /// Records that a sync has published changes this long after the first of them arrived.
    pub(crate) fn published(&self, took: Duration) {
        self.metrics.event_to_write.record(took);
        self.activity.published(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
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

    /// Adds to what is recorded of the current sync, if anything is.
    pub fn note(&self, change: impl FnOnce(&mut SyncDetails)) {
        SyncContext::note(change);
    }

    /// Returns none if a line is left out. Otherwise returns how many lines of its kind were left
    /// out before it, for its field `left_out`; see
    /// [`LogLimit::admit`](kube_endpoint_core_model::LogLimit::admit).
    pub fn admits(&self, line: Line) -> Option<Option<u64>> {
        self.lines.limit(line).admit(Instant::now().into_std())
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
