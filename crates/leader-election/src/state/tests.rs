//! One candidate, `a`, step by step: what happens, and what the candidate does next.

use kube_endpoint_core_model::ResourceVersion;
use serde_json::{Value, json};

use super::*;
use crate::leadership::LAST_WRITES_ANNOTATION;

/// What happens. Versions of Leases count up by themselves.
#[derive(Clone)]
enum Input {
    /// The candidate begins, or time has passed: up to this many milliseconds since the beginning.
    At(u64),
    /// The answer to a write: it is carried out.
    Done,
    /// The answer to a read: a Lease with this record. The same record is the same version of the Lease.
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
}

use Input::*;

struct Script {
    election: Election,
    start: Instant,
    now: Instant,
    version: u64,
    last_read: &'static str,
    sent: Option<Lease>,
}

/// A Lease with a record that is written as `holder seconds transitions`; `-` is an absent field and `''` an empty one.
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
    fn new() -> Self {
        let start = Instant::now();
        let election = Election::new(ElectorOptions::new("kube-system", "l", "a"), 1, start);
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
            Conflict => self.election.answered(failed("conflict", false), self.now),
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
            Stop => {
                let last_writes = [("endpointslices", ResourceVersion(99))].into_iter().collect();
                self.election.stop(Some(last_writes), self.now);
            }
        }
    }

    /// What the candidate does now, and whether it leads.
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
        if let Leadership::Leading { until, last_writes } = self.election.leadership() {
            text += &format!(", leads until {}", self.ms(until));
            if let Some(version) = last_writes.and_then(|last| last.get("endpointslices")) {
                text += &format!(" after {version}");
            }
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

/// Plays what happens, and compares what the candidate does after each step.
fn check(steps: &[(Input, &str)]) {
    let mut script = Script::new();
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

#[test]
fn a_lease_that_does_not_exist_is_created() {
    check(&[
        (At(0), "get"),
        (At(40), "wait"),
        (NotFound, "create a 15 0"),
        (At(90), "wait"),
        // The time counts from the request.
        (Done, "wait until 2040, leads until 10040"),
        (At(2040), "update a 15 0, leads until 10040"),
        (At(3000), "wait until 10040, leads until 10040"),
        (Done, "wait until 4040, leads until 12040"),
        // The answer is later than the next renewal would be.
        (At(4040), "update a 15 0, leads until 12040"),
        (At(7000), "wait until 12040, leads until 12040"),
        (Done, "update a 15 0, leads until 14040"),
    ]);
}

#[test]
fn a_lease_of_another_holder_is_taken_when_its_record_has_not_changed_for_its_duration() {
    check(&[
        (At(0), "get"),
        (At(10), "wait"),
        (Reads("b 15 4"), "wait for the next poll"),
        (At(5000), "get"),
        (Reads("b 15 4"), "wait for the next poll"),
        (At(14_000), "get"),
        // Sooner than the next poll.
        (Reads("b 15 4"), "wait until 15010"),
        (At(15_010), "get"),
        (Reads("b 15 4"), "update a 15 5"),
        (Done, "wait until 17010, leads until 25010"),
    ]);
    // A renewal, read or shown, begins the time anew. Metadata is no renewal: the script changes versions with records only.
    check(&[
        (At(0), "get"),
        (Reads("b 15 4"), "wait for the next poll"),
        (At(1000), "wait for the next poll"),
        (Shows("b 15 4"), "wait for the next poll"),
        (At(15_500), "get"),
        (Reads("b 15 4"), "wait until 16000"),
    ]);
}

#[test]
fn a_released_lease_is_taken_at_once() {
    check(&[
        (At(0), "get"),
        (Reads("'' 1 4 annotated"), "update a 15 5"),
        (Done, "wait until 2000, leads until 10000 after 77"),
    ]);
    check(&[
        (At(0), "get"),
        (Reads("b 15 4"), "wait for the next poll"),
        (At(1000), "wait for the next poll"),
        (Shows("'' 1 4 annotated"), "get"),
        (Reads("'' 1 4 annotated"), "update a 15 5"),
        (Done, "wait until 3000, leads until 11000 after 77"),
    ]);
    // Another candidate was quicker.
    check(&[
        (At(0), "get"),
        (Reads("'' 1 4"), "update a 15 5"),
        (Conflict, "get"),
        (Reads("b 15 5"), "wait for the next poll"),
    ]);
    // As other libraries release it.
    check(&[(At(0), "get"), (Reads("- - 4"), "update a 15 5")]);
}

#[test]
fn a_lease_that_is_deleted_or_emptied_by_hand_is_left_to_its_holder_for_its_duration() {
    for (vanishes, takes) in [(ShowsDeleted, "create a 15 0"), (Shows("'' 15 4"), "update a 15 5")] {
        let reads = || if takes == "create a 15 0" { NotFound } else { Reads("'' 15 4") };
        check(&[
            (At(0), "get"),
            (Reads("b 15 4"), "wait for the next poll"),
            (At(1000), "wait for the next poll"),
            (vanishes, "wait for the next poll"),
            (At(14_000), "get"),
            (reads(), "wait until 15000"),
            (At(15_000), "get"),
            (reads(), takes),
        ]);
    }
    // The holder puts it right.
    check(&[
        (At(0), "get"),
        (Reads("b 15 4"), "wait for the next poll"),
        (ShowsDeleted, "wait for the next poll"),
        (At(14_000), "get"),
        (NotFound, "wait until 15000"),
        (Shows("b 15 0"), "wait for the next poll"),
    ]);
}

#[test]
fn an_answer_is_older_than_an_event_that_overtook_it_and_newer_than_any_before() {
    check(&[
        (At(0), "get"),
        (Shows("b 15 4"), "wait"),
        (ReadsOlder("'' 1 3"), "wait for the next poll"),
        // The server was restored from a backup.
        (At(5000), "get"),
        (ReadsOlder("'' 1 3"), "update a 15 4"),
    ]);
}

#[test]
fn odd_records_are_waited_for() {
    // An absent or negative duration counts as this candidate's.
    for odd in ["b - 4", "b -5 4", "b 0 -"] {
        check(&[
            (At(0), "get"),
            (Reads(odd), "wait for the next poll"),
            (At(14_000), "get"),
            (Reads(odd), "wait until 15000"),
            (At(15_000), "get"),
        ]);
    }
    // Nobody gave it this identity, so another process has it.
    check(&[
        (At(0), "get"),
        (Reads("a 15 4"), "wait for the next poll"),
        (At(15_000), "get"),
        (Reads("a 15 4"), "update a 15 5"),
    ]);
    check(&[(At(0), "get"), (Reads("- -1 -1"), "update a 15 1")]);
}

#[test]
fn a_lost_answer_to_an_acquisition_is_read_back() {
    check(&[
        (At(0), "get"),
        (Reads("'' 1 4 annotated"), "update a 15 5"),
        (At(5000), "wait"),
        (Lost, "get"),
        // It was carried out. It is renewed, so that the time counts from now.
        (Reads("a 15 5"), "update a 15 5"),
        (Done, "wait until 7000, leads until 15000 after 77"),
    ]);
    check(&[
        (At(0), "get"),
        (NotFound, "create a 15 0"),
        (Lost, "get"),
        (NotFound, "create a 15 0"),
        (Conflict, "wait for the next poll"),
        (At(5000), "get"),
        (Reads("a 15 0"), "update a 15 0"),
    ]);
}

#[test]
fn a_leader_reads_the_lease_when_a_renewal_fails() {
    for failure in [Conflict, Lost, NotFound] {
        check_leader(&[
            (At(2000), "update a 15 0, leads until 10000"),
            (failure.clone(), "get, leads until 10000"),
            (Reads("a 15 0"), "slow update a 15 0, leads until 10000"),
            (At(2100), "wait until 10000, leads until 10000"),
            (Done, "wait until 4000, leads until 12000"),
        ]);
        check_leader(&[
            (At(2000), "update a 15 0, leads until 10000"),
            (failure, "get, leads until 10000"),
            (Lost, "wait until 4000, leads until 10000"),
        ]);
    }
    // Each attempt reads twice at most.
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (Conflict, "get, leads until 10000"),
        (Reads("a 15 0"), "slow update a 15 0, leads until 10000"),
        (Conflict, "get, leads until 10000"),
        (Reads("a 15 1"), "slow update a 15 1, leads until 10000"),
        (Conflict, "wait until 4000, leads until 10000"),
    ]);
}

#[test]
fn a_leader_that_cannot_renew_is_lost_at_the_deadline() {
    let lost = "error leader election lost: lease kube-system/l was not renewed within 10s: ";
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (Lost, "get, leads until 10000"),
        (Lost, "wait until 4000, leads until 10000"),
        (At(9000), "update a 15 0, leads until 10000"),
        (Lost, "get, leads until 10000"),
        (Lost, "wait until 10000, leads until 10000"),
        (At(10_000), &format!("{lost}lost")),
    ]);
    check_leader(&[
        (At(9999), "update a 15 0, leads until 10000"),
        (At(10_000), &format!("{lost}no request was answered in time")),
        (Done, &format!("{lost}no request was answered in time")),
    ]);
    // The process was suspended, and the answer to the renewal waited for it.
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (At(3000), "wait until 10000, leads until 10000"),
        (Done, "wait until 4000, leads until 12000"),
        (At(600_000), &format!("{lost}no request was answered in time")),
    ]);
}

#[test]
fn a_candidate_that_is_suspended_while_it_acquires_the_lease_does_not_lead_on_an_old_answer() {
    let mut script = Script::new();
    for (input, want) in [(At(0), "get"), (NotFound, "create a 15 0")] {
        script.happen(input);
        assert_eq!(script.does(), want);
    }
    script.happen(At(11_000));
    script.happen(Done);
    assert_eq!(script.does(), "get");
    script.happen(Reads("a 15 0"));
    assert_eq!(script.does(), "update a 15 0");
    script.happen(Done);
    assert_eq!(script.does(), "wait until 13000, leads until 21000");
}

#[test]
fn a_leader_whose_lease_has_another_holder_is_lost_at_once() {
    let lost = "error leader election lost: lease kube-system/l is held by b";
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (Conflict, "get, leads until 10000"),
        (Reads("b 15 1"), lost),
    ]);
    check_leader(&[(At(1000), "wait until 2000, leads until 10000"), (Shows("b 15 1"), lost)]);
    check_leader(&[(At(2000), "update a 15 0, leads until 10000"), (Shows("b 15 1"), lost)]);
    check_leader(&[
        (At(1000), "wait until 2000, leads until 10000"),
        (ShowsOlder("b 15 1"), "wait until 2000, leads until 10000"),
    ]);
}

#[test]
fn a_leader_puts_a_lease_right_that_somebody_else_deletes_or_edits() {
    check_leader(&[
        (At(1000), "wait until 2000, leads until 10000"),
        (ShowsDeleted, "get, leads until 10000"),
        (NotFound, "create a 15 0, leads until 10000"),
        (Done, "wait until 3000, leads until 11000"),
    ]);
    check_leader(&[
        (At(1000), "wait until 2000, leads until 10000"),
        (Shows("'' 15 3"), "get, leads until 10000"),
        (Reads("'' 15 3"), "update a 15 4, leads until 10000"),
        (Done, "wait until 3000, leads until 11000"),
    ]);
    check_leader(&[
        (At(1000), "wait until 2000, leads until 10000"),
        (Shows("a 1 0"), "update a 15 0, leads until 10000"),
        (Done, "wait until 3000, leads until 11000"),
        // At most every tenth of a second.
        (At(1010), "wait until 3000, leads until 11000"),
        (Shows("a - 0"), "wait until 1100, leads until 11000"),
    ]);
}

#[test]
fn a_standby_that_stops_ends_at_once() {
    check(&[(At(0), "get"), (Stop, "end Standby")]);
    check(&[(At(0), "get"), (Reads("b 15 4"), "wait for the next poll"), (Stop, "end Standby")]);
    // It may have acquired the Lease just now.
    check(&[
        (At(0), "get"),
        (NotFound, "create a 15 0"),
        (Stop, "get"),
        (Reads("a 15 0"), "update '' 1 0"),
        (Done, "end Standby"),
    ]);
    check(&[(At(0), "get"), (NotFound, "create a 15 0"), (Stop, "get"), (NotFound, "end Standby")]);
}

#[test]
fn a_leader_that_stops_releases_the_lease() {
    check_leader(&[
        (At(500), "wait until 2000, leads until 10000"),
        (Stop, "update '' 1 0"),
        (Done, "end Released"),
    ]);
    // A renewal was under way.
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (Stop, "get"),
        (Reads("a 15 0"), "update '' 1 0"),
        (Conflict, "get"),
        (Reads("a 15 0"), "update '' 1 0"),
        (Lost, "wait until 2100"),
        (At(2100), "get"),
        (Reads("'' 1 0"), "end Released"),
    ]);
    check_leader(&[
        (Stop, "update '' 1 0"),
        (Conflict, "get"),
        (Reads("b 15 1"), r#"end NotReleased { why: "it is held by b" }"#),
    ]);
    check_leader(&[
        (Stop, "update '' 1 0"),
        (Lost, "get"),
        (Lost, "wait until 100"),
        (At(4999), "get"),
        (At(5000), r#"end NotReleased { why: "lost" }"#),
    ]);
}

#[test]
fn a_release_leaves_the_last_writes() {
    let mut script = Script::new();
    for input in [At(0), NotFound, Done, Stop] {
        script.happen(input);
        script.does();
    }
    let released = script.sent.unwrap();
    assert_eq!(released.last_writes().unwrap().get("endpointslices"), Some(ResourceVersion(99)));
}

#[test]
fn requests_end_before_the_leadership_does() {
    let timeout = |at: u64| {
        let mut script = Script::new();
        for input in [At(0), NotFound, Done] {
            script.happen(input);
            script.does();
        }
        let now = script.start + Duration::from_millis(at);
        match script.election.next(now, "2026-01-01T00:00:00Z".parse().unwrap()) {
            Action::Send { timeout, .. } => timeout.as_millis(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([timeout(2000), timeout(5000), timeout(9000)], [5000, 5000, 1000]);
}
