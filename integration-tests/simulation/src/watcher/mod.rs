//! Watches a run: every change of the server's store and every request, as they happen. It keeps
//! the transcript and the counts, and checks the rules for all times.
//!
//! - `rules`, `kept`: the rules about single writes, as functions of the write and of the state
//!   before it (`world`, `positions`).
//! - `writes`, `states`: check the rules at their times, with the exemptions.
//! - `trouble`, `edits`, `authors`: the reasons for exemptions: faults, edits of others, and the
//!   knowledge of processes.
//! - `consumers`: the rules about the effects on clients of Services.
//! - `beside`: the rules for kube-controller-manager and an add-on beside it, instead of `kept` and
//!   `consumers`.
//! - `rates`, `traffic`: bounds on writes and on other requests.

mod authors;
mod beside;
mod consumers;
mod edits;
mod kept;
mod positions;
mod rates;
mod rules;
mod states;
mod traffic;
mod transcript;
mod trouble;
mod world;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{ChangeKind, EmbeddedApiServer, LoggedRequest, StoreChange};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::{MANAGERS, text};
use crate::history::{Action, Change, Fault, Manager, Process, Setup, Step, sender};
use crate::statistics::Statistics;
use authors::Authors;
use beside::Beside;
pub use beside::{Led, Tested};
use consumers::Inputs;
use edits::Edits;
pub(crate) use positions::Recorder;
use positions::{Position, Positions};
use rules::Write;
pub(crate) use rules::writer_of_user;
use traffic::{Questions, Traffic, asked_about, service_in};
use transcript::Transcript;
pub use transcript::{Line, LineKind};
use trouble::Trouble;
pub(crate) use world::{Endpoints, FROM_PODS, MIRRORED, managed_by, service_of};
use world::{Since, Slice, World};
use writes::ManagerWrite;

/// The user agent of a client that undoes what controllers write. Its changes are no cause of more
/// writes.
pub(crate) const FIGHTER: &str = "fighter";

/// A rule that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub at: Duration,
    pub rule: &'static str,
    /// The object or the process, or empty if the rule is about the whole.
    pub object: String,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, rule, object, detail } = self;
        write!(f, "{} {rule}: {object}: {detail}", crate::text::Field::write(at))
    }
}

/// A change whose author is not known yet: the log has its request right after it.
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
    /// How long after the last trouble the slices must be right.
    recovery: Duration,
    /// How long an endpoint may stay ready without trouble after its pod is gone.
    promptness: Duration,
    pub(crate) statistics: Statistics,
    /// The steps that had no effect.
    pub(crate) without_effect: Vec<String>,
    pub(crate) transcript: Transcript,
    violation: Option<Violation>,
    world: World,
    inputs: Inputs,
    pending: Option<PendingChange>,
    positions: BTreeMap<Manager, Arc<Mutex<Positions>>>,
    /// True once a step has set a storage back, or made servers answer as if it were.
    may_read_older: bool,
    trouble: Trouble,
    /// When a fault last began or ended.
    last_fault: Option<Duration>,
    edits: Edits,
    authors: Authors,
    traffic: Traffic,
    questions: Questions,
    /// The maximum numbers of Services and Endpoints, and of slices, since controllers last had
    /// nothing to do.
    owners: usize,
    slices: usize,
    /// The time of the last reset of these numbers.
    counted: Duration,
    /// The Services with an event that says why the controller keeps slices made from pods beside
    /// mirrored ones. An event counts as sent even if a restore of the server undoes it.
    reported: BTreeSet<String>,
    /// The rules for kube-controller-manager and an add-on, if both run.
    beside: Option<Beside>,
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
            promptness: setup.promptness(),
            most_refused: setup.most_refused.map_or(usize::MAX, usize::from),
            statistics: Statistics::default(),
            without_effect: Vec::new(),
            transcript: Transcript::new(is_transcript_wanted),
            violation: None,
            world: World::new(setup.retired),
            inputs: Inputs::default(),
            pending: None,
            positions: BTreeMap::new(),
            may_read_older: false,
            trouble: Trouble::new(setup.silence()),
            last_fault: None,
            edits: Edits::default(),
            authors: Authors::new(setup.lease.map(|seconds| Duration::from_secs(seconds.into()))),
            traffic: Traffic::default(),
            questions: Questions::default(),
            owners: 0,
            slices: 0,
            counted: Duration::ZERO,
            reported: BTreeSet::new(),
            beside: setup.beside.then(Beside::default),
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

    /// Returns true if an event about a Service has said why the controller keeps slices made from
    /// pods beside mirrored ones.
    pub(crate) fn was_reported(&self, service: &str) -> bool {
        self.reported.contains(service)
    }

    /// Returns the first rule that did not hold.
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
        self.traffic.rates.change();
        let at = self.now();
        if !matches!(step.action, Action::Change(_)) {
            self.trouble.happens(at);
        }
        self.transcript.add(at, LineKind::Step, || step.action.to_string());
        self.may_read_older |= matches!(
            step.action,
            Action::Fault(_, Fault::OlderLists { .. } | Fault::OtherStorage { .. })
                | Action::Process(Process::Restore { .. })
        );
    }

    /// Records that the caches of a process show an older state than before.
    fn reads_older(&mut self, manager: Manager, before: Position, now: Position) {
        if !self.may_read_older {
            let detail = format!("{now:?} after {before:?}");
            self.fails("the caches of a process never go back", manager.word(), detail);
        }
    }

    /// Records that a change of the history had an effect.
    pub(crate) fn changed(&mut self, change: &Change) {
        *self.statistics.changes.entry(change.word()).or_default() += 1;
        self.statistics.most_pods = self.statistics.most_pods.max(self.world.pods.len());
    }

    pub(crate) fn fault_begins(&mut self, fault: &Fault) {
        self.trouble.fault_begins(self.now(), fault);
        self.last_fault = Some(self.now());
        self.traffic.rates.change();
    }

    pub(crate) fn fault_ends(&mut self, fault: &Fault, hits: usize, lasted: Duration) {
        self.statistics.fault(fault, hits, lasted);
        if hits == 0 {
            self.without_effect.push(fault.to_string());
        }
        self.traffic.rates.change();
        let at = self.now();
        self.trouble.fault_ends(at, fault);
        self.last_fault = Some(at);
        self.transcript.add(at, LineKind::Step, || format!("ends after {hits} hits: {fault}"));
    }

    /// Records that the writes of two processes may overlap now.
    pub(crate) fn disturb(&mut self) {
        self.trouble.disturb(self.now());
    }

    /// Records an action on a process, a clock or the storage.
    pub(crate) fn hinder(&mut self) {
        self.trouble.hinder(self.now());
    }

    /// Records that a fault is injected at a single request.
    pub(crate) fn request_fault(&mut self, what: &str) {
        self.traffic.rates.change();
        let at = self.now();
        self.trouble.happens(at);
        self.trouble.hinder(at);
        self.transcript.add(at, LineKind::Step, || format!("fault: {what}"));
    }

    /// Records that the server refuses an event about a Service. As in client-go, nobody sends it
    /// again, so it counts as sent.
    pub(crate) fn event_is_refused(&mut self, service: &str) {
        self.reported.insert(service.to_owned());
    }

    /// Records that such a fault has changed something.
    pub(crate) fn fault_had_effect(&mut self) {
        *self.statistics.processes.entry(Process::AT_REQUEST).or_default() += 1;
    }

    /// Records a suspension of processes that ends now.
    pub(crate) fn suspended(&mut self) {
        self.trouble.suspended(self.now());
    }

    /// Notes that a process begins a write of an output.
    pub(crate) fn begins_write(&mut self, manager: Manager, process: &str) {
        let at = self.now();
        if self.authors.is_displaced(at, process) {
            self.trouble.disturb(at);
        } else if !self.trouble.was_restored(at) {
            let outcome = self.authors.may_write(manager, process);
            self.check("only the holder of the Lease writes", "", outcome);
        }
    }

    /// Notes that a user is about to delete the Lease or to remove its holder.
    pub(crate) fn lease_is_edited(&mut self) {
        self.authors.lease_is_edited(self.now());
    }

    /// When the run began.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Registers a process that has been started. Returns where its positions are recorded.
    pub(crate) fn started(&mut self, manager: Manager, name: &str) -> Arc<Mutex<Positions>> {
        let positions = Arc::<Mutex<Positions>>::default();
        self.positions.insert(manager, Arc::clone(&positions));
        self.traffic.rates.change();
        let at = self.now();
        self.trouble.happens(at);
        *self.statistics.processes.entry("started").or_default() += 1;
        self.transcript.add(at, LineKind::Process, || format!("{name} starts"));
        positions
    }

    /// The controllers of a process start again, in the same process.
    pub(crate) fn starts_again(&mut self, manager: Manager) {
        let at = self.now();
        self.traffic.rates.change();
        *self.statistics.processes.entry("started-again").or_default() += 1;
        self.transcript.add(at, LineKind::Process, || format!("{} starts again", manager.word()));
        let outcome = self.trouble.starts_again(at);
        self.trouble.happens(at);
        self.check("controllers start again only if the storage went back", manager.word(), outcome);
    }

    pub(crate) fn ended(&mut self, manager: Manager, why: &str) {
        let at = self.now();
        self.trouble.happens(at);
        self.trouble.hinder(at);
        self.transcript.add(at, LineKind::Process, || format!("{} ended: {why}", manager.word()));
    }

    /// Records that a process lost the Lease.
    pub(crate) fn loses_lease(&mut self) {
        self.traffic.lost += 1;
    }

    /// Takes over the state of a restored server.
    pub(crate) fn restored(&mut self, server: &EmbeddedApiServer) {
        self.pending = None;
        self.trouble.restored(self.now());
        self.world = self.world.emptied();
        self.inputs.set_back();
        let lease = server.get("leases", MANAGERS, "kube-endpoint-manager");
        self.authors.restored(lease.as_ref().map_or_else(String::new, holder_of));
        let since = Since { version: server.resource_version(), at: self.now() };
        if let Some(beside) = &mut self.beside {
            *beside = Beside::default();
        }
        for plural in ["nodes", "pods", "services", "endpoints", "endpointslices", "endpointselectors"] {
            for object in server.list(plural) {
                let key = key_of(&object);
                self.world.apply(plural, &key, Some(&object), since);
                if let Some(beside) = &mut self.beside {
                    beside.apply(plural, &key, Some(&object), since);
                }
                self.inputs.apply(plural, &key, Some(&object), since, false);
            }
        }
    }

    /// Observes a change of the store.
    pub(crate) fn change(&mut self, change: &StoreChange<'_>) {
        self.settle_pending(None);
        let plural = change.resource().plural;
        if plural == "leases" {
            let at = self.now();
            let lease = (change.kind() != ChangeKind::Deleted).then(|| change.object());
            if change.namespace() == MANAGERS {
                let taken = self.authors.holds(at, lease.as_ref().map_or_else(String::new, holder_of));
                *self.statistics.processes.entry("took-back").or_default() += usize::from(taken == Ok(true));
                if !self.trouble.was_restored(at) && !self.trouble.has_other_storage() {
                    self.check(
                        "a valid Lease is taken only after a crash, in the same place",
                        "",
                        taken.map(drop),
                    );
                }
            } else if let (Some(beside), Some(lease)) = (&mut self.beside, &lease) {
                beside.lease_changed(at, &key(change.namespace(), change.name()), lease);
            }
        }
        if plural == "events" && change.kind() != ChangeKind::Deleted {
            let event = change.object();
            if event["reason"] == "OrphanedEndpointSlicesKept" {
                let field = |field: &str| text(&event, &format!("/involvedObject/{field}")).to_owned();
                self.reported.insert(key(&field("namespace"), &field("name")));
            }
        }
        if plural == "events"
            && change.kind() != ChangeKind::Deleted
            && let Some(beside) = &mut self.beside
        {
            let event = change.object();
            let field = |field: &str| text(&event, &format!("/involvedObject/{field}")).to_owned();
            beside.event(key(&field("namespace"), &field("name")), text(&event, "/reason"));
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
        if request.plural() == "leases" && request.namespace == MANAGERS {
            // The answer may be lost while there are faults.
            if !self.trouble.is_active()
                && let Some(process) = request.user_agent.split(' ').next()
            {
                self.authors.reads_lease(process);
            }
            return;
        }
        if manager.is_none() {
            return;
        }
        self.traffic.add(logged);
        if let Some(beside) = &mut self.beside
            && (request.verb, request.plural(), logged.status) == ("get", "services", 200)
        {
            let process = request.user_agent.split(' ').next().unwrap_or_default();
            beside.asked(at, process, key(&request.namespace, &request.name));
        }
        if self.trouble.is_settled(at, self.authors.since())
            && let Some(service) = asked_about(logged)
        {
            self.statistics.questions += 1;
            let outcome = self.questions.ask(at, &service);
            self.check("questions are bounded", &service, outcome);
        }
        if request.is_write() && matches!(request.plural(), "endpoints" | "endpointslices") {
            *self.statistics.writes.entry(request.verb).or_default() += 1;
            self.statistics.refused += usize::from(logged.status >= 400);
            let process = request.user_agent.split(' ').next().unwrap_or_default();
            if is_done
                && manager.is_some_and(|it| matches!(it, Manager::A | Manager::B))
                && self.authors.is_late(process)
            {
                *self.statistics.processes.entry("late-writes").or_default() += 1;
            }
            if self.statistics.refused > self.most_refused {
                let detail = format!("{} was answered with {}", request.verb, logged.status);
                self.fails("no more writes are refused than the setup allows", &request.path, detail);
            }
            let owner = service_in(&request.name);
            let service = format!("{}/{owner}", request.namespace);
            if logged.status == 404 {
                self.questions.not_found(at, &service);
            }
            // A create has no name, so this counts all creates of a namespace together.
            let slices = match owner {
                "" => self.world.slices_in(&request.namespace),
                _ => self.world.slices_of(&service).count(),
            };
            let outcome = self.traffic.rates.write(at, &service, slices);
            self.check("writes are bounded", &service, outcome);
        }
        let is_invalid = matches!(logged.status, 400 | 405 | 413 | 415 | 422);
        if is_invalid && !self.trouble.explains(at, request, logged.status) {
            let detail = format!("{} was answered with {}", request.verb, logged.status);
            self.fails("requests are valid", &request.path, detail);
        }
    }

    /// Applies the last change. `author` is the user agent of the request that made it, or `None`
    /// for the server's own.
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
        let since = Since { version, at };
        self.world.apply(plural, &key, after, since);
        let replaced = self.inputs.apply(plural, &key, after, since, manager.is_none());
        let before = self.beside.as_mut().and_then(|it| it.apply(plural, &key, after, since));
        if plural == "endpointslices"
            && let Some(beside) = &mut self.beside
        {
            let outcome = beside.track(&key, before.as_ref(), manager);
            self.check(beside::TRACKED, &key, outcome);
            // A write of either side is a reason for the other to ask.
            if let Some(slice) = self.world.slices.get(&key).or(slice_before.as_ref()) {
                self.questions.change(at, &slice.service);
            }
        }
        self.owners = self.owners.max(self.world.owners());
        self.slices = self.slices.max(self.world.slices.len());
        let Some(manager) = manager else {
            if author != FIGHTER {
                self.traffic.rates.change();
            }
            self.changed_by_others(at, plural, &key, slice_before.as_ref());
            return;
        };
        let write = Write { plural, user_agent: author, previous: previous.as_ref(), object: after };
        let made = ManagerWrite { at, manager, key: &key, kind, write, slice_before };
        if self.beside.is_some() {
            self.check_write_beside(&made, before.as_ref());
            return;
        }
        self.check_write(&made);
        if plural == "endpointslices" {
            self.judge_write(&made, replaced.as_ref());
        }
    }

    /// Notes a change of an object by another client than a manager.
    fn changed_by_others(&mut self, at: Duration, plural: &str, key: &str, before: Option<&Slice>) {
        match plural {
            "services" | "endpoints" => self.questions.change(at, key),
            "endpointselectors" => {
                self.world.services.keys().for_each(|service| self.questions.change(at, service));
            }
            "endpointslices" => {
                let states = [before, self.world.slices.get(key)];
                self.edits.add(at, key, states);
                for slice in states.into_iter().flatten() {
                    self.questions.change(at, &slice.service);
                }
            }
            _ => {}
        }
    }

    /// Returns true if faults are active.
    pub(crate) fn has_faults(&self) -> bool {
        self.trouble.is_active()
    }

    /// Returns the writes of managers since the last call.
    pub(crate) fn take_writes(&mut self) -> Vec<String> {
        self.traffic.take_writes()
    }

    /// Begins to count requests for [`Self::check_quiet_span`].
    pub(crate) fn take_span(&mut self) -> usize {
        self.traffic.take_span()
    }
}

/// Returns the holder of a Lease.
fn holder_of(lease: &Value) -> String {
    crate::cluster::text(lease, "/spec/holderIdentity").to_owned()
}

fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn key_of(object: &Value) -> String {
    let text = |path| crate::cluster::text(object, path);
    key(text("/metadata/namespace"), text("/metadata/name"))
}
