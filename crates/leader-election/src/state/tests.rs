//! One candidate, `a`, step by step: what happens, and what the candidate does next.

use kube_endpoint_core_model::ResourceVersion;
use serde_json::{Value, json};

use super::*;
use crate::leadership::LAST_WRITES_ANNOTATION;

/// An input of the state machine. Each Lease with a new record gets the next version.
#[derive(Clone)]
enum Input {
    /// The candidate begins, or time passes: now it is this many milliseconds after the beginning.
    At(u64),
    /// The answer to a write: the server has carried it out.
    Done,
    /// The answer to a read: a Lease with this record. The same record is the same version of the
    /// Lease.
    Reads(&'static str),
    /// The answer to a read, with a version that is lower than all others.
    ReadsOlder(&'static str),
    NotFound,
    Conflict,
    /// There is no answer.
    Lost,
    /// A watch shows this record.
    Shows(&'static str),
    ShowsDeleted,
    /// A watch shows a version that is older than what is known.
    ShowsOlder(&'static str),
    Stop,
    /// A proof that the process `b` has ended.
    BHasEnded,
}

mod leader;
mod standby;

use Input::*;

struct Script {
    election: Election,
    start: Instant,
    now: Instant,
    version: u64,
    last_read: &'static str,
    sent: Option<Lease>,
}

/// Returns a Lease with the record `holder seconds transitions`; `-` is an absent field and `''` an
/// empty one.
fn lease(record: &str, version: u64) -> Lease {
    let mut spec = json!({"renewTime": format!("2026-01-01T00:00:00.{version:06}Z")});
    let mut metadata = json!({"name": "l", "resourceVersion": version.to_string()});
    let words: Vec<&str> = record.split(' ').collect();
    for (field, word) in ["holderIdentity", "leaseDurationSeconds", "leaseTransitions"].iter().zip(&words) {
        match (*field, *word) {
            (_, "-") => {}
            ("holderIdentity", "''") => spec[field] = "".into(),
            ("holderIdentity", holder) => spec[field] = holder.into(),
            (_, number) => spec[field] = number.parse::<i64>().unwrap().into(),
        }
    }
    if words.contains(&"annotated") {
        let left = json!({"released": spec["renewTime"], "versions": {"endpointslices": "77"}});
        metadata["annotations"] = json!({LAST_WRITES_ANNOTATION: left.to_string()});
    }
    Lease::from_json(json!({"kind": "Lease", "metadata": metadata, "spec": spec})).unwrap()
}

impl Script {
    fn new(reserve_for: Duration) -> Self {
        let start = Instant::now();
        let options = ElectorOptions { reserve_for, ..ElectorOptions::new("kube-system", "l", "a") };
        let election = Election::new(options, 1, start);
        Self { election, start, now: start, version: 100, last_read: "", sent: None }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn happen(&mut self, input: Input) {
        let failed = |why: &str, may_be_applied| Answer::Failed { why: why.into(), may_be_applied };
        match input {
            At(ms) => self.now = self.start + Duration::from_millis(ms),
            Done => {
                let mut stored: Value = self.sent.take().expect("a write was sent").as_json().clone();
                stored["metadata"]["resourceVersion"] = self.next_version().to_string().into();
                self.election.answered(Answer::Lease(Lease::from_json(stored).unwrap()), self.now);
            }
            Reads(record) => {
                if record != self.last_read {
                    self.next_version();
                }
                self.last_read = record;
                self.election.answered(Answer::Lease(lease(record, self.version)), self.now);
            }
            ReadsOlder(record) => self.election.answered(Answer::Lease(lease(record, 1)), self.now),
            NotFound => self.election.answered(Answer::NotFound("not found".into()), self.now),
            Conflict => self.election.answered(Answer::Conflict("conflict".into()), self.now),
            Lost => self.election.answered(failed("lost", true), self.now),
            Shows(record) => {
                self.last_read = record;
                let event = Event::Applied(lease(record, self.next_version()));
                self.election.event(event, self.now);
            }
            ShowsDeleted => {
                let event = Event::Deleted(lease("x 1 1", self.next_version()));
                self.election.event(event, self.now);
            }
            ShowsOlder(record) => self.election.event(Event::Applied(lease(record, 1)), self.now),
            BHasEnded => self.election.take_back_from("b".into()),
            Stop => {
                let last_writes = [("endpointslices", ResourceVersion(99))].into_iter().collect();
                self.election.stop(Some(last_writes), self.now);
            }
        }
    }

    /// Describes the candidate's next action, and its leadership: `after 77 at 5` says that the
    /// leader before left the version 77, and wrote nothing after the time 5.
    fn does(&mut self) -> String {
        let wall_clock: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let action = self.election.next(self.now, wall_clock + (self.now - self.start));
        let mut text = match action {
            Action::Send { request: Request::Get, .. } => "get".to_owned(),
            Action::Send { request: Request::Create(lease), .. } => self.written("create", lease),
            Action::Send { request: Request::Update(lease), slow_path: false, .. } => {
                self.written("update", lease)
            }
            Action::Send { request: Request::Update(lease), .. } => self.written("slow update", lease),
            Action::Wait(None) => "wait".to_owned(),
            Action::Wait(Some(at)) => {
                let is_standby = matches!(self.election.phase, Phase::Standby);
                if is_standby && self.election.observed.free_at() != Some(at) {
                    // After a retry period with jitter.
                    assert!(at - self.now <= Duration::from_millis(4400));
                    "wait for the next poll".to_owned()
                } else {
                    format!("wait until {}", self.ms(at))
                }
            }
            Action::End(Ok(ended)) => format!("end {ended:?}"),
            Action::End(Err(error)) => format!("error {error}"),
        };
        if let Leadership::Leading { until, predecessor } = self.election.leadership() {
            text += &format!(", leads until {}", self.ms(until));
            if let Some(Predecessor { wrote_until, was_killed, last_writes }) = predecessor {
                let version = last_writes.get("endpointslices");
                let version = version.map_or_else(|| "?".to_owned(), |version| version.to_string());
                let killed = if was_killed { ", taken back" } else { "" };
                text += &format!(" after {version} at {}{killed}", self.ms(wrote_until));
            }
        }
        if let Leadership::Contested { holder } = self.election.leadership() {
            text += &format!(", contested by {holder}");
        }
        text
    }

    fn written(&mut self, verb: &str, lease: Lease) -> String {
        let spec = &lease.as_json()["spec"];
        let text = format!(
            "{verb} {} {} {}",
            spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]
        );
        self.sent = Some(lease);
        text.replace("\"\"", "''").replace('"', "")
    }

    fn ms(&self, at: Instant) -> u128 {
        (at - self.start).as_millis()
    }
}

/// Plays the inputs, and compares what the candidate does after each of them.
fn check(steps: &[(Input, &str)]) {
    check_reserving(Duration::ZERO, steps);
}

/// The same with a candidate that reserves a Lease which does not exist.
fn check_reserving(reserve_for: Duration, steps: &[(Input, &str)]) {
    let mut script = Script::new(reserve_for);
    let mut before = Vec::new();
    for (input, want) in steps {
        script.happen(input.clone());
        let does = script.does();
        assert_eq!(does, *want, "after {before:#?}");
        before.push(does);
    }
}

/// `a` leads since the time 0.
fn check_leader(steps: &[(Input, &str)]) {
    let leads = [(At(0), "get"), (NotFound, "create a 15 0"), (Done, "wait until 2000, leads until 10000")];
    check(&[&leads[..], steps].concat());
}
