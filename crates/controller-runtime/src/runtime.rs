//! A reconciler's tools: caches, queue, writes, and state for each key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube_endpoint_api_writer::{Clock, EventRecorder, EventSubject, Operation, TrackedWriter, Writable};
use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::{
    Admission, ObjectKey, PlannedEvent, Pod, ResourceVersion, Service, StringMap, Timestamp,
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
use crate::observe::{self, SyncDetails};
use crate::other_controller::OtherController;
use crate::outages::Member;
use crate::recent_writes::RecentForeignWrites;
use crate::selection::Selection;
use crate::{
    Cause, ControllerContext, KeptPlan, Outcome, Output, Planned, Reconciler, RuntimeOptions, Spacing,
    StateCounts,
};

/// A plan from at least this many pods takes milliseconds.
const MANY_PODS: usize = 1000;

/// Runs work that goes over these pods.
fn work_on<T>(pods: &[Arc<Pod>], work: impl FnOnce(&[Arc<Pod>]) -> T) -> T {
    if pods.len() < MANY_PODS { work(pods) } else { long_work(|| work(pods)) }
}

/// The runtime of one controller, which its reconciler uses during a sync. The
/// [crate](crate#example) has an example.
pub struct Runtime<R: Reconciler> {
    pub(crate) reconciler: R,
    pub(crate) queue: WorkQueue<ObjectKey>,
    pub(crate) writer: TrackedWriter,
    pub(crate) stopped: Notify,
    pub(crate) options: RuntimeOptions,
    pub(crate) seed: u64,
    pub(crate) failing: FailingKeys,
    /// The controller's part in [`Outages`](crate::Outages); `None` without slow retries.
    pub(crate) outage: Option<Member>,
    pub(crate) failure_log: FailureLog,
    pub(crate) lines: LogLines,
    pub(crate) selection: Selection,
    pub(crate) metrics: Metrics,
    pub(crate) activity: Activity,
    /// True from the start of the workers on. Before, the runtime ignores all changes.
    pub(crate) has_begun: AtomicBool,
    cluster: Cluster,
    pub(crate) events: EventRecorder,
    clock: Clock,
    pub(crate) keys: KeyStates<R::State>,
    pub(crate) recent_foreign_writes: RecentForeignWrites,
    pub(crate) other_controller: Mutex<Option<OtherController>>,
    pub(crate) writes_after_failed_create: bool,
    /// `None` if the gate `WriteSpacing` is off.
    pub(crate) spacing: Option<Spacing>,
    pub(crate) random: Mutex<ChaCha8Rng>,
}

impl<R: Reconciler> Runtime<R> {
    pub(crate) fn new(context: ControllerContext, reconciler: R) -> Self {
        let ControllerContext { cluster, writer, events, clock, seed } = context;
        let config = reconciler.config();
        let spacing = config.options.write_spacing.then_some(config.spacing);
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
            other_controller: Mutex::default(),
            writes_after_failed_create: config.writes_after_failed_create,
            spacing,
            reconciler,
            cluster,
            events,
            clock,
        }
    }

    /// Returns the caches.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the queue. To start syncs use [`Self::add`], which leaves out Services that are not
    /// selected.
    pub fn queue(&self) -> &WorkQueue<ObjectKey> {
        &self.queue
    }

    /// Starts syncs of the Services that a change of a pod concerns, if they are `wanted`, after a
    /// delay in which more changes may arrive. A sync that is not urgent also waits for the end of
    /// the [spacing](crate::RuntimeOptions::write_spacing) of its Service.
    pub fn add_services_of(&self, event: &PodEvent, delay: Duration, wanted: impl Fn(&ObjectKey) -> bool) {
        for service in event.services_to_sync().filter(|service| wanted(service)) {
            let reason = self.reason_of(event, service);
            let spacing = if reason.urgent { Duration::ZERO } else { self.left_of_spacing(service) };
            self.add_after(service.clone(), delay.max(spacing), reason);
        }
    }

    /// Returns the reason for a sync of a Service that a change of a pod concerns. It is urgent if
    /// clients may lose an endpoint, or if the Service gets its first ready one.
    pub fn reason_of(&self, event: &PodEvent, service: &ObjectKey) -> Reason {
        let becomes_ready = || {
            let is_ready = |pod: &Option<Arc<Pod>>| pod.as_ref().is_some_and(|pod| pod.is_ready());
            is_ready(&event.change.new) && !is_ready(&event.change.old)
        };
        let is_urgent = event.changed.removes
            || becomes_ready() && !R::Output::has_ready_endpoint(&self.cluster, service);
        Cause::Pod.since(event.change.arrived).urgent(is_urgent)
    }

    /// Starts the sync of a key, unless its Service is outside the selection.
    pub fn add(&self, key: ObjectKey, reason: impl Into<Reason>) {
        if self.is_selected(&key) {
            self.queue.add_for(key, reason);
        }
    }

    /// As [`Self::add`], after a delay in which more changes may arrive.
    pub fn add_after(&self, key: ObjectKey, delay: Duration, reason: impl Into<Reason>) {
        if self.is_selected(&key) {
            self.queue.add_after_for(key, delay, reason);
        }
    }

    /// Returns true if this process may sync a key: its Service is selected or does not exist. For
    /// a Service that does not exist, [`Self::owns_leftover`] decides which process cleans up.
    pub fn is_selected(&self, key: &ObjectKey) -> bool {
        self.selection.selector.is_none()
            || self.cluster().service(key).is_none_or(|service| self.selection.selects(&service.labels))
    }

    /// Returns true if this process cleans up the objects that a Service left which does not exist.
    /// `labels` are the labels of these objects.
    pub fn owns_leftover(&self, key: &ObjectKey, labels: &StringMap) -> bool {
        if self.selection.selector.is_none() {
            return true;
        }
        let known = self.selection.deleted.lock().get(key).copied();
        known.unwrap_or_else(|| self.selection.selects(labels))
    }

    /// Returns true if the controller has begun. Until then the runtime ignores changes, since
    /// another process may write the outputs. A controller that begins syncs all keys, which makes
    /// up for the ignored changes.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Returns the writer, for requests that are not part of a plan.
    pub fn writer(&self) -> &TrackedWriter {
        &self.writer
    }

    /// Returns the wall clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the version up to which the cache of the outputs has read in a namespace.
    pub fn position(&self, namespace: &str) -> ResourceVersion {
        self.cluster.position_in(R::Output::INFORMER_KIND, namespace)
    }

    /// Returns the cached outputs of a key: those of all managers, including those being deleted.
    ///
    /// # Errors
    ///
    /// [`Outcome::Paused`] during a pause that the API server asked for, [`Outcome::Stale`] if the
    /// cache does not show the key's own writes yet. The sync must end with this outcome; the
    /// runtime repeats it. A cache that has read up to the version of the last write is not stale,
    /// so an update that changed nothing delays no sync.
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
        self.keys.with_trouble_if_any(key, |state| state.holds.clear(Hold::OwnWrites));
        self.writer.tracker().settle(key, |object| {
            let mut metadata = outputs.iter().map(|output| output.metadata());
            metadata.find(|it| it.key() == *object).map(|it| it.resource_version)
        });
        Ok(outputs)
    }

    /// Returns the cached outputs of a key, and true if the cache does not show all of the key's
    /// own writes.
    pub(crate) fn outputs(&self, key: &ObjectKey) -> (Vec<Arc<R::Output>>, bool) {
        // This reads the position first, so the objects are at least as new.
        let position = self.position(&key.namespace);
        let outputs = R::Output::of_owner(&self.cluster, key);
        let metadata = outputs.iter().map(|output| output.metadata());
        let uids = metadata.filter(|it| it.deletion_timestamp.is_none()).map(|it| &it.uid);
        let stale = self.writer.tracker().is_stale(key, position, uids);
        (outputs, stale)
    }

    /// Plans a sync that writes outputs of a Service. It calls `from_changed` with the pods that
    /// have changed since the sync that left `kept`. It calls `from_all` instead if `kept` is
    /// `None`, the cache does not know which pods have changed, the Service is a new one, or
    /// `from_changed` returns `None`. The last argument of `from_all` is false if there are few
    /// pods: it need not return a state then. `condition` is the type of a condition that the
    /// readiness of the pods also depends on, if any.
    ///
    /// Returns `None` if the Service has lost its selector since the caller read it: an empty list
    /// of pods would mean that its selector selects none. The event about the Service starts
    /// another sync.
    pub fn plan<T, P>(
        &self,
        service: &Service,
        condition: Option<&str>,
        kept: Option<KeptPlan<P>>,
        from_changed: impl FnOnce(P, &[ChangedPod], Option<Timestamp>) -> Option<(T, P)>,
        from_all: impl FnOnce(&[Arc<Pod>], Option<Timestamp>, bool) -> (T, Option<P>),
    ) -> Option<Planned<T, P>> {
        let key = &service.key;
        if let Some(KeptPlan { cursor, state }) = kept
            && let Some((changed, cursor)) = self.cluster().changed_pods(key, &cursor)
            && let Ok(trigger_time) = self.trigger_time_of_changed(service, &changed, condition)
        {
            if let Some((plan, state)) = from_changed(*state, &changed, trigger_time) {
                let kept = Some(KeptPlan { cursor, state: Box::new(state) });
                return Some(Planned { plan, trigger_time, kept });
            }
            // The computation from all pods below finds no new times, so it must return this one.
            self.keys.with(key, |state| state.trigger_time.carry_over(trigger_time));
        }
        let (pods, cursor) = self.cluster().pods_and_cursor(key)?;
        let trigger_time = self.trigger_time(service, &pods, condition);
        let (plan, state) = work_on(&pods, |pods| from_all(pods, trigger_time, cursor.is_some()));
        let kept = cursor.zip(state).map(|(cursor, state)| KeptPlan { cursor, state: Box::new(state) });
        Some(Planned { plan, trigger_time, kept })
    }

    /// As [`Self::plan`], always from all pods. Returns the plan and the trigger time of its
    /// writes.
    pub fn plan_from_all<T>(
        &self,
        service: &Service,
        plan: impl FnOnce(&[Arc<Pod>], Option<Timestamp>) -> T,
    ) -> Option<(T, Option<Timestamp>)> {
        let (pods, _) = self.cluster().pods_and_cursor(&service.key)?;
        let trigger_time = self.trigger_time(service, &pods, None);
        Some((work_on(&pods, |pods| plan(pods, trigger_time)), trigger_time))
    }

    /// As [`Self::trigger_time`], when only these pods have changed since the last call.
    fn trigger_time_of_changed(
        &self,
        service: &Service,
        changed: &[ChangedPod],
        condition: Option<&str>,
    ) -> Result<Option<Timestamp>, NeedsAllPods> {
        let mut state = self.keys.with(&service.key, |state| std::mem::take(&mut state.trigger_time));
        let trigger_time = state.compute_changed(service, changed, condition);
        self.keys.with(&service.key, |kept| kept.trigger_time = state);
        self.note(|details| {
            details.pods = Some(self.cluster().pod_count_of(&service.key));
            details.trigger_time = trigger_time.unwrap_or(None);
        });
        trigger_time
    }

    /// Returns the trigger time of a sync that writes outputs of a Service.
    pub fn trigger_time(
        &self,
        service: &Service,
        pods: &[Arc<Pod>],
        condition: Option<&str>,
    ) -> Option<Timestamp> {
        // This takes the state out, to hold no lock over work that grows with the Service.
        let mut state = self.keys.with(&service.key, |state| std::mem::take(&mut state.trigger_time));
        let trigger_time = state.compute(service, pods, condition);
        self.keys.with(&service.key, |kept| kept.trigger_time = state);
        self.note(|details| {
            details.pods = Some(pods.len());
            details.trigger_time = trigger_time;
        });
        trigger_time
    }

    /// Counts a write that succeeded, which may end an outage. [`Self::carry_out`] calls this
    /// itself.
    pub fn wrote(&self, operation: Operation) {
        self.activity.wrote();
        latency::wrote();
        if let Some(outage) = &self.outage {
            outage.wrote(operation, Instant::now());
        }
    }

    /// Records how long after the arrival of the first change a sync published it.
    pub(crate) fn published(&self, took: Duration) {
        self.metrics.event_to_write.record(took);
        self.activity.published(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    }

    /// Records the events of a plan, unless the last plan of the key had the same events and this
    /// one writes nothing. (Upstream records them at every sync.) Set `first_is_new` if the events
    /// of a first sync that writes nothing are new; otherwise the previous process has recorded
    /// them.
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

    /// Records an event. The caller must not record the same one at every sync.
    pub fn record_event(&self, subject: impl Into<EventSubject>, event: &PlannedEvent) {
        self.events.record(subject.into(), event);
    }

    /// Adds to the details of the current sync, if someone observes it.
    pub fn note(&self, change: impl FnOnce(&mut SyncDetails)) {
        observe::note(change);
    }

    /// Decides if the caller may write a line; see
    /// [`LogLimit::admit`](kube_endpoint_core_model::LogLimit::admit).
    pub fn admits(&self, line: Line) -> Admission {
        self.lines.limit(line).admit(Instant::now().into_std())
    }

    /// Reads or changes the controller's own state of a key, under a lock.
    pub fn with_state<T>(&self, key: &ObjectKey, use_state: impl FnOnce(&mut R::State) -> T) -> T {
        self.keys.with(key, |state| use_state(&mut state.own))
    }

    /// Returns the keys whose own state matches, sorted.
    pub fn keys_matching(&self, matches: impl Fn(&R::State) -> bool) -> Vec<ObjectKey> {
        self.keys.matching(matches)
    }

    /// Forgets everything about a key, and returns the controller's own state. The runtime then
    /// takes the echoes of its last writes for writes of another client: this costs a sync that
    /// finds nothing to do.
    pub fn forget(&self, key: &ObjectKey) -> R::State {
        self.writer.tracker().forget(key);
        self.forget_state(key)
    }

    /// As [`Self::forget`], but keeps the writes that the cache does not show yet.
    pub fn forget_state(&self, key: &ObjectKey) -> R::State {
        self.keys.remove(key).own
    }

    /// As [`Self::forget_state`], for a call before the last writes of a key. It keeps the changes
    /// that other clients made, so that the delay still doubles if these come back. If there are
    /// any, it adds the key after ten minutes: that sync forgets them unless another one has.
    pub fn forget_before_writes(&self, key: &ObjectKey) -> R::State {
        let mut forgotten = self.keys.remove(key);
        let foreign = forgotten.trouble.with(|trouble| std::mem::take(&mut trouble.foreign));
        if foreign.len() > 0 {
            self.keys.with_trouble(key, |state| state.foreign = foreign);
            // Without this, there may be no further sync that forgets them.
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
