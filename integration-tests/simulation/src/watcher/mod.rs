//! Watches a run: every change of the server's store and every request, as they happen. It keeps the rules that hold all the
//! time, the transcript, and the counts of what happened.

mod kept;
mod positions;
mod rates;
mod rules;
mod transcript;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{ChangeKind, EmbeddedApiServer, LoggedRequest, StoreChange};
use kube_endpoint_manager_core::ManagerHandle;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::text;
use crate::history::{Action, Change, Fault, Manager, Setup, Step, sender};
use crate::statistics::Statistics;
use positions::{Position, Positions, Recorder};
use rates::Rates;
use rules::Write;
use transcript::Transcript;
pub use transcript::{Line, LineKind};
pub(crate) use world::{Endpoints, FROM_PODS, MIRRORED, managed_by, service_of};
use world::{Since, Slice, World};

/// How long after the server was set back rules may be broken that hold only for one order of versions.
const CALM: Duration = Duration::from_secs(20 * 60);
/// The same, after lists showed an older state: watches have brought the caches up to date.
const AGED: Duration = Duration::from_secs(2 * 60);
/// How long writes may be under way that were planned before a process has read everything.
const MARGIN: Duration = Duration::from_secs(60);

/// No fault makes a request later than this.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// So many of the latest writes are kept.
const MOST_WRITES: usize = 1000;
/// The user agent of a client that undoes what controllers write. Its changes are no cause of more writes.
pub(crate) const FIGHTER: &str = "fighter";

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When.
    pub at: Duration,
    /// Which rule.
    pub rule: &'static str,
    /// The object, or the process; empty if it is about the whole.
    pub object: String,
    /// What was found.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, rule, object, detail } = self;
        write!(f, "{} {rule}: {object}: {detail}", crate::text::Field::write(at))
    }
}

/// A change whose author is not known yet: the request that made it is logged right after it.
struct PendingChange {
    at: Duration,
    plural: &'static str,
    key: String,
    version: u64,
    kind: ChangeKind,
    object: Value,
    previous: Option<Value>,
}

/// Watches a run.
pub(crate) struct Watcher {
    began: Instant,
    slice_limit: usize,
    most_refused: usize,
    /// How long after the last trouble the slices are right.
    recovery: Duration,
    /// When a fault last ended, or something happened to a process or to the storage.
    troubled: Duration,
    pub(crate) statistics: Statistics,
    pub(crate) transcript: Transcript,
    violation: Option<Violation>,
    world: World,
    rates: Rates,
    pending: Option<PendingChange>,
    positions: BTreeMap<Manager, Arc<Mutex<Positions>>>,
    /// When the slices of a Service were last written by hand.
    edited: BTreeMap<String, Duration>,
    /// When writes of two processes may last have overlapped, or the server was set back.
    disturbed: Option<Duration>,
    /// When the server was last set back.
    set_back: Option<Duration>,
    /// When lists last showed an older state.
    aged: Option<Duration>,
    /// Faults that are active, of them those that refuse requests as invalid, those that keep controllers from removing
    /// endpoints, and those that show older states.
    active: usize,
    refusing: usize,
    hindering: usize,
    aging: usize,
    /// Faults that undo updates, and when the last one ended. What a plan has moved to another slice may be gone then.
    undoing: usize,
    undone: Option<Duration>,
    /// Faults with `Retry-After`, and whether there was one since the last check of the requests.
    pausing: usize,
    was_pausing: bool,
    /// Whether the server was set back while faults were active, which may keep processes from noticing.
    is_restore_hidden: bool,
    /// When something last kept controllers from removing endpoints.
    hindered: Duration,
    /// The holder of the Lease; empty if there is none.
    holder: String,
    has_lease: bool,
    /// Since when it has been the holder.
    held_since: Duration,
    /// When the server was last set back.
    restored: Option<Duration>,
    /// The processes that created slices, and when, by slice.
    creators: BTreeMap<String, (String, Duration)>,
    /// When the last one of those ended. Requests that were late meanwhile are refused after it.
    refused_until: Option<Duration>,
    /// Requests of managers, without those for Leases.
    requests: usize,
    /// The latest writes, for the checks at the end.
    last_writes: Vec<String>,
    /// How many Services and Endpoints there were at most.
    owners: usize,
    /// The Services with an event that says why slices made from pods are kept beside mirrored ones. An event stays one
    /// that was sent, though a restore of the server undoes it.
    reported: BTreeSet<String>,
}

/// A watcher that the server, the managers and the run share.
#[derive(Clone)]
pub(crate) struct SharedWatcher(Arc<Mutex<Watcher>>);

impl SharedWatcher {
    pub(crate) fn new(setup: &Setup, is_transcript_wanted: bool) -> Self {
        Self(Arc::new(Mutex::new(Watcher {
            began: Instant::now(),
            slice_limit: setup.slice_limit.into(),
            recovery: setup.recovery(),
            troubled: Duration::ZERO,
            most_refused: setup.most_refused.map_or(usize::MAX, usize::from),
            statistics: Statistics::default(),
            transcript: Transcript::new(is_transcript_wanted),
            violation: None,
            world: World::default(),
            rates: Rates::default(),
            pending: None,
            positions: BTreeMap::new(),
            edited: BTreeMap::new(),
            disturbed: None,
            set_back: None,
            aged: None,
            active: 0,
            refusing: 0,
            hindering: 0,
            aging: 0,
            undoing: 0,
            undone: None,
            pausing: 0,
            was_pausing: false,
            is_restore_hidden: false,
            hindered: Duration::ZERO,
            holder: String::new(),
            held_since: Duration::ZERO,
            restored: None,
            has_lease: setup.lease.is_some(),
            creators: BTreeMap::new(),
            refused_until: None,
            requests: 0,
            last_writes: Vec::new(),
            owners: 0,
            reported: BTreeSet::new(),
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Watcher> {
        self.0.lock()
    }
}

impl Watcher {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Records a violation, if it is the first one.
    pub(crate) fn fails(&mut self, rule: &'static str, object: &str, detail: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { at: self.now(), rule, object: object.to_owned(), detail });
        }
    }

    /// Whether an event about a Service has said why slices made from pods are kept beside mirrored ones.
    pub(crate) fn was_reported(&self, service: &str) -> bool {
        self.reported.contains(service)
    }

    /// The first rule that did not hold.
    pub(crate) fn violation(&self) -> Option<Violation> {
        self.violation.clone()
    }

    fn check(&mut self, rule: &'static str, object: &str, outcome: Result<(), String>) {
        if let Err(detail) = outcome {
            self.fails(rule, object, detail);
        }
    }

    /// Records a step of the history.
    pub(crate) fn step(&mut self, step: &Step) {
        self.rates.change();
        let at = self.now();
        if !matches!(step.action, Action::Change(_)) {
            self.troubled = at;
        }
        self.transcript.add(at, LineKind::Step, || step.action.to_string());
    }

    /// Records that a change of the history changed something.
    pub(crate) fn changed(&mut self, change: &Change) {
        *self.statistics.changes.entry(change.word()).or_default() += 1;
    }

    pub(crate) fn fault_begins(&mut self, fault: &Fault) {
        self.active += 1;
        self.refusing += usize::from(refuses(fault));
        self.hindering += usize::from(hinders(fault));
        self.aging += usize::from(ages(fault));
        self.undoing += usize::from(undoes(fault));
        self.pausing += usize::from(names_pause(fault));
        self.was_pausing |= names_pause(fault);
        self.rates.change();
    }

    pub(crate) fn fault_ends(&mut self, fault: &Fault, hits: usize) {
        *self.statistics.faults.entry(fault.word()).or_default() += hits;
        self.active -= 1;
        self.rates.change();
        let at = self.now();
        self.troubled = at;
        if hinders(fault) {
            self.hindering -= 1;
            self.hindered = at;
        }
        if ages(fault) {
            self.aging -= 1;
            self.aged = Some(at);
        }
        if self.is_restore_hidden {
            (self.set_back, self.restored) = (Some(at), Some(at));
            self.is_restore_hidden = self.active > 0;
        }
        self.pausing -= usize::from(names_pause(fault));
        if undoes(fault) {
            self.undoing -= 1;
            self.undone = Some(at);
        }
        if refuses(fault) {
            self.refusing -= 1;
            self.refused_until = Some(at + LONGEST_DELAY);
        }
        self.transcript.add(at, LineKind::Step, || format!("ends after {hits} hits: {fault}"));
    }

    /// Records that the writes of two processes may overlap now.
    pub(crate) fn disturb(&mut self) {
        self.troubled = self.now();
        self.disturbed = Some(self.troubled);
    }

    /// Records that something happened to a process, a clock or the storage.
    pub(crate) fn hinder(&mut self) {
        self.hindered = self.now();
    }

    /// Whether the versions that processes read may be those of another history.
    fn is_set_back(&self, at: Duration) -> bool {
        let is_within = |last: Option<Duration>, time| last.is_some_and(|last| at < last + time);
        self.aging > 0 || is_within(self.aged, AGED) || is_within(self.set_back, CALM)
    }

    /// Whether versions may have started over.
    fn was_restored(&self, at: Duration) -> bool {
        self.restored.is_some_and(|time| at < time + CALM)
    }

    /// A process begins a write of an output.
    pub(crate) fn begins_write(&mut self, manager: Manager, process: &str) {
        let is_free = self.holder.is_empty() || self.holder == process;
        if is_free || !self.has_lease || manager == Manager::C || self.was_restored(self.now()) {
            return;
        }
        let detail = format!("{process} begins a write while {} holds the Lease", self.holder);
        self.fails("only the holder of the Lease writes", "", detail);
    }

    /// Registers a process that has been started.
    pub(crate) fn started(&mut self, manager: Manager, name: &str, handle: &ManagerHandle) {
        let positions = Arc::<Mutex<Positions>>::default();
        let cluster = handle.cluster().clone();
        handle.cluster().add_handler(Arc::new(Recorder {
            cluster,
            began: self.began,
            positions: Arc::clone(&positions),
        }));
        self.positions.insert(manager, positions);
        self.rates.change();
        self.troubled = self.now();
        *self.statistics.processes.entry("started").or_default() += 1;
        let at = self.now();
        self.transcript.add(at, LineKind::Process, || format!("{name} starts"));
    }

    pub(crate) fn ended(&mut self, manager: Manager, why: &str) {
        let at = self.now();
        self.transcript.add(at, LineKind::Process, || format!("{} ended: {why}", manager.word()));
    }

    /// Takes over the state of a server that was set back.
    pub(crate) fn restored(&mut self, server: &EmbeddedApiServer) {
        self.pending = None;
        self.set_back = Some(self.now());
        self.restored = Some(self.now());
        self.is_restore_hidden = self.active > 0;
        self.hinder();
        self.world = World::default();
        self.creators.clear();
        let leases = server.list("leases");
        self.holder = leases.first().map_or_else(String::new, holder_of);
        let since = Since { version: server.resource_version(), at: self.now() };
        for plural in ["nodes", "pods", "services", "endpoints", "endpointslices"] {
            for object in server.list(plural) {
                self.world.apply(plural, &key_of(&object), Some(&object), since);
            }
        }
    }

    /// Observes a change of the store.
    pub(crate) fn change(&mut self, change: &StoreChange<'_>) {
        self.settle_pending(None);
        let plural = change.resource().plural;
        if plural == "leases" {
            let holder = match change.kind() {
                ChangeKind::Deleted => String::new(),
                _ => holder_of(&change.object()),
            };
            if holder != self.holder {
                self.held_since = self.now();
                self.holder = holder;
            }
        }
        if plural == "events" && change.kind() != ChangeKind::Deleted {
            let event = change.object();
            if event["reason"] == "OrphanedEndpointSlicesKept" {
                let field = |field: &str| text(&event, &format!("/involvedObject/{field}")).to_owned();
                self.reported.insert(key(&field("namespace"), &field("name")));
            }
        }
        if plural == "services" && change.kind() == ChangeKind::Deleted {
            self.reported.remove(&key(change.namespace(), change.name()));
        }
        if matches!(plural, "leases" | "events") {
            return;
        }
        self.pending = Some(PendingChange {
            at: self.now(),
            plural,
            key: key(change.namespace(), change.name()),
            version: change.version(),
            kind: change.kind(),
            object: change.object(),
            previous: change.previous(),
        });
    }

    /// Observes a request.
    pub(crate) fn request(&mut self, logged: &LoggedRequest) {
        let request = &logged.request;
        let at = self.now();
        let manager = sender(&request.user_agent);
        let is_done = request.is_write() && (200..300).contains(&logged.status);
        let is_author = self.pending.as_ref().is_some_and(|pending| {
            is_done
                && pending.plural == request.plural()
                && pending.key.starts_with(request.namespace.as_str())
        });
        self.settle_pending(is_author.then_some(request.user_agent.as_str()));
        let kind = if manager.is_some() && request.is_write() && request.plural() != "leases" {
            LineKind::Write
        } else {
            LineKind::Request
        };
        self.transcript.add(at, kind, || {
            let agent = &request.user_agent;
            format!("{agent}: {} {} -> {}", request.verb, request.path, logged.status)
        });
        if manager.is_none() || request.plural() == "leases" {
            return;
        }
        self.requests += 1;
        if request.is_write() {
            if self.last_writes.len() > MOST_WRITES {
                self.last_writes.clear();
            }
            let Self { last_writes, .. } = self;
            last_writes.push(format!(
                "{} {} {} -> {}",
                request.user_agent, request.verb, request.path, logged.status
            ));
        }
        if request.is_write() && matches!(request.plural(), "endpoints" | "endpointslices") {
            *self.statistics.writes.entry(request.verb).or_default() += 1;
            self.statistics.refused += usize::from(logged.status >= 400);
            if self.statistics.refused > self.most_refused {
                let detail = format!("{} was answered with {}", request.verb, logged.status);
                self.fails("no more writes are refused than the setup allows", &request.path, detail);
            }
            // The name of a slice begins with that of its Service.
            let owner = request.name.split('-').next().unwrap_or_default();
            let service = format!("{}/{owner}", request.namespace);
            let slices = self.world.slices_of(&service).count();
            let outcome = self.rates.write(at, &service, slices);
            self.check("writes are bounded", &service, outcome);
        }
        let may_be_refused = self.refusing > 0 || self.refused_until.is_some_and(|until| at < until);
        if !may_be_refused && matches!(logged.status, 400 | 405 | 413 | 415 | 422) {
            let detail = format!("{} was answered with {}", request.verb, logged.status);
            self.fails("requests are valid", &request.path, detail);
        }
    }

    /// Applies the last change. `author` is the user agent of the request that made it; none for the server's own.
    pub(crate) fn settle_pending(&mut self, author: Option<&str>) {
        let Some(change) = self.pending.take() else { return };
        let PendingChange { at, plural, key, version, kind, object, previous } = change;
        let author = author.unwrap_or("server");
        self.transcript
            .add(at, LineKind::Change, || format!("{kind:?} {plural} {key} at {version} by {author}"));
        let manager = sender(author);
        let after = (kind != ChangeKind::Deleted).then_some(&object);
        let slice_before =
            if plural == "endpointslices" { self.world.slices.get(&key).cloned() } else { None };
        self.world.apply(plural, &key, after, Since { version, at });
        self.owners = self.owners.max(self.world.services.len() + self.world.endpoints.len());
        if manager.is_none() && author != FIGHTER {
            self.rates.change();
        }
        let Some(manager) = manager else {
            if plural == "endpointslices" {
                for slice in [Some(&object), previous.as_ref()].into_iter().flatten() {
                    self.edited.insert(service_of(slice), at);
                }
            }
            return;
        };
        if plural == "endpointslices" {
            self.check_twin(at, &key, author, kind);
        }
        let write = Write { plural, user_agent: author, previous: previous.as_ref(), object: after };
        self.check("managers write outputs only", &key, rules::only_outputs(&write));
        // A delete names the uid and no version: what was written by hand since the cache read the slice goes too, as upstream.
        let service = previous.as_ref().map(service_of).unwrap_or_default();
        if after.is_some() || !self.edited.contains_key(&service) {
            self.check("each controller writes its own slices only", &key, rules::own_slices_only(&write));
        }
        self.check("no slice is over its limit", &key, rules::within_limit(&write, self.slice_limit));
        if plural == "endpoints" {
            self.check_endpoints(at, manager, &key, &write);
        }
        if let Some(before) = slice_before {
            self.check_disappearance(at, manager, &key, &before);
        }
    }

    fn is_disturbed(&self, at: Duration) -> bool {
        self.disturbed.is_some() || self.is_set_back(at)
    }

    /// What a process had surely read when it planned a write of now; none if that is not known.
    fn surely_read(&self, at: Duration, manager: Manager) -> Option<Position> {
        self.positions.get(&manager).and_then(|it| it.lock().surely_read(at))
    }

    fn check_twin(&mut self, at: Duration, key: &str, author: &str, kind: ChangeKind) {
        let process = author.split(' ').next().unwrap_or_default();
        match kind {
            ChangeKind::Deleted => drop(self.creators.remove(key)),
            ChangeKind::Added => {
                // A leader knows what the one before has created, too.
                let leads_since = (self.has_lease && self.holder == process).then_some(self.held_since);
                let is_set_back = self.is_set_back(at);
                let is_known = |other: &str| {
                    self.creators.get(other).is_some_and(|(creator, created)| {
                        !is_set_back
                            && (creator == process || leads_since.is_some_and(|since| *created < since))
                    })
                };
                let twin = kept::twin(&self.world, key, is_known).cloned();
                let is_exempt = self.disturbed.is_some() || self.was_restored(at) || self.is_edited(key);
                if let Some(twin) = twin.filter(|_| !is_exempt) {
                    self.fails(
                        "no endpoint is created twice",
                        key,
                        format!("{twin} has one of its endpoints"),
                    );
                }
                self.creators.insert(key.to_owned(), (process.to_owned(), at));
            }
            // Its process may not know of the update.
            ChangeKind::Modified if self.active > 0 => drop(self.creators.remove(key)),
            ChangeKind::Modified => {}
        }
    }

    /// Whether a slice is one of a Service whose slices were written by hand, and not synced since.
    fn is_edited(&self, slice: &str) -> bool {
        self.world.slices.get(slice).is_some_and(|slice| self.edited.contains_key(&slice.service))
    }

    fn check_endpoints(&mut self, at: Duration, manager: Manager, key: &str, write: &Write<'_>) {
        let Some(read) = self.surely_read(at, manager).filter(|_| !self.is_disturbed(at)) else { return };
        self.statistics.endpoints_checked += 1;
        let outcome = kept::endpoints_of_users_untouched(&self.world, write, key, read);
        self.check("Endpoints of users are not written", key, outcome);
        let outcome = kept::no_ready_pod_leaves_endpoints(&self.world, write, key, read);
        self.check("a ready pod never disappears from Endpoints", key, outcome);
    }

    fn check_disappearance(&mut self, at: Duration, manager: Manager, key: &str, before: &Slice) {
        if !self.edited.contains_key(&before.service) && self.disturbed.is_none() && !self.was_restored(at) {
            // The server is asked before all mirrored slices are deleted, so it does not matter what was read.
            let long_ago = at.saturating_sub(positions::LONGEST_PLAN);
            let outcome = kept::not_all_mirrored_slices_deleted(&self.world, before, long_ago);
            self.check("mirrored slices are deleted for a reason", key, outcome);
        }
        let is_undone =
            self.undoing > 0 || self.undone.is_some_and(|time| at < time + positions::LONGEST_PLAN);
        if self.edited.contains_key(&before.service) || self.is_disturbed(at) || is_undone {
            return;
        }
        let Some(read) = self.surely_read(at, manager) else { return };
        self.statistics.disappearances_checked += 1;
        let after = self.world.slices.get(key);
        let pods = rules::no_ready_pod_disappears(&self.world, before, after, read);
        let addresses = kept::no_address_leaves_mirrored_slices(&self.world, before, after, read);
        self.check("a ready pod never disappears", key, pods);
        self.check("a mirrored address never disappears", key, addresses);
    }

    /// Checks that endpoints of pods that were deleted long ago are not ready, unless something keeps controllers from that.
    /// Refused creates do not.
    fn check_dead(&mut self, at: Duration) {
        if self.hindering > 0 || at < self.hindered + self.recovery {
            return;
        }
        self.statistics.dead_checks += 1;
        if let Some(dead) = kept::long_dead(&self.world, at.saturating_sub(self.recovery)) {
            self.fails("dead endpoints are removed", "", dead);
        }
    }

    /// Checks what must hold while a process that writes has nothing to do and has read everything.
    /// Then nothing is left to be done about what was written by hand. `overlap` says whether two processes may write.
    pub(crate) fn check_idle(&mut self, leaders: &[ManagerHandle], overlap: bool) {
        self.settle_pending(None);
        let at = self.now();
        self.check_dead(at);
        let last_slice = self.world.last_slice;
        if leaders.iter().any(|leader| crate::checks::is_idle(leader, last_slice)) {
            self.edited.retain(|_, edited| at < *edited + MARGIN);
            self.disturbed.take_if(|disturbed| !overlap && at >= *disturbed + positions::LONGEST_PLAN);
            if self.is_disturbed(at) {
                return;
            }
            self.statistics.idle_checks += 1;
            let last_service = self.world.last_service;
            let has_read = |it: &ManagerHandle| crate::checks::has_read_services(it, last_service);
            if leaders.iter().filter(|it| crate::checks::is_idle(it, last_slice)).any(has_read)
                && let Some(slice) = self.world.foreign_owner()
            {
                self.fails("after a sync, slices belong to their Services", "", slice);
            }
            if let Some(duplicate) = self.world.duplicates().into_iter().next() {
                self.fails("after a sync, an endpoint is in one slice of a group", "", duplicate);
            }
        }
    }

    /// Checks what must hold once there has been no trouble for some time.
    pub(crate) fn check_published(&mut self) {
        self.settle_pending(None);
        let at = self.now();
        let Some(until) = at.checked_sub(self.recovery) else { return };
        if self.active > 0 || self.troubled > until {
            return;
        }
        for service in self.world.services.keys() {
            if self.edited.get(service).is_some_and(|edited| *edited > until) {
                continue;
            }
            self.statistics.services_checked += 1;
            if let Some(found) = self.world.wrongly_published(service, until).into_iter().next() {
                let service = service.clone();
                self.fails(
                    "after a quiet time, ready pods are published and ended ones are not",
                    &service,
                    found,
                );
                return;
            }
        }
    }

    /// Checks that what controllers keep is bounded by what there is.
    pub(crate) fn check_kept(&mut self, most: usize) {
        self.statistics.most_kept = self.statistics.most_kept.max(most);
        let limit = 50 + 4 * self.owners;
        if most > limit {
            self.fails("memory is bounded", "", format!("{most} keys are kept for {} Services", self.owners));
        }
    }

    /// Checks the requests of an hour.
    pub(crate) fn check_requests(&mut self, requests: usize, is_idle: bool, limit: usize) {
        let most = &mut self.statistics.most_requests[usize::from(!is_idle)];
        *most = (*most).max(requests);
        // The server may ask for a retry of the slices and of the Endpoints of a Service each second.
        let asked_for = if self.was_pausing { 2 * 3600 * self.world.services.len() } else { 0 };
        self.was_pausing = self.pausing > 0;
        let limit = limit + asked_for;
        if requests > limit {
            let detail = format!("{requests} requests of each manager in an hour, more than {limit}");
            self.fails("requests are bounded", "", detail);
        }
    }

    /// Whether faults are active.
    pub(crate) fn has_faults(&self) -> bool {
        self.active > 0
    }

    /// The writes of managers since the last call.
    pub(crate) fn take_writes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.last_writes)
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&mut self) -> usize {
        std::mem::take(&mut self.requests)
    }
}

/// Whether a fault may keep controllers from removing endpoints. A refused create must not.
fn hinders(fault: &Fault) -> bool {
    use crate::history::{Kind, Verb};
    !matches!(
        fault,
        Fault::Refused {
            verb: Some(Verb::Create),
            kind: Some(Kind::EndpointSlices | Kind::Endpoints),
            status: 400..429,
            ..
        }
    )
}

/// Whether processes read older states.
fn ages(fault: &Fault) -> bool {
    matches!(fault, Fault::OlderLists { .. })
}

/// Whether updates are accepted and undone.
fn undoes(fault: &Fault) -> bool {
    matches!(fault, Fault::UpdatesUndone { .. })
}

/// Whether answers name the pause before a retry.
fn names_pause(fault: &Fault) -> bool {
    matches!(fault, Fault::Refused { retry_after: Some(_), .. })
}

/// Who holds a Lease.
fn holder_of(lease: &Value) -> String {
    crate::cluster::text(lease, "/spec/holderIdentity").to_owned()
}

/// Whether requests are refused as if they were invalid.
fn refuses(fault: &Fault) -> bool {
    matches!(fault, Fault::Refused { .. } | Fault::ContinueRefused { .. } | Fault::OlderLists { .. })
}

fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn key_of(object: &Value) -> String {
    let text = |path| crate::cluster::text(object, path);
    key(text("/metadata/namespace"), text("/metadata/name"))
}
