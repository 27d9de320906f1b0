//! Tests of the rules, with times in seconds.

use kube_endpoint_api_writer::Operation::{Create, Delete, Update};

use super::*;

/// The state, and the time at which it began.
struct Bed {
    state: State,
    start: Instant,
}

fn id(member: usize, number: usize) -> Id {
    Id { member, key: ObjectKey::new("default", format!("web-{number:05}")) }
}

fn unknown() -> WriteError {
    WriteError::Unknown("the connection broke".into())
}

fn refused(code: u16) -> WriteError {
    WriteError::Refused { code, message: "no".into() }
}

fn busy(seconds: u64) -> WriteError {
    WriteError::Busy { code: 503, message: "no".into(), retry_after: Some(Duration::from_secs(seconds)) }
}

impl Bed {
    fn new() -> Self {
        Self { state: State::default(), start: Instant::now() }
    }

    fn at(&self, seconds: f64) -> Instant {
        self.start + Duration::from_secs_f64(seconds)
    }

    fn fails(&mut self, seconds: f64, id: Id, operation: Operation, error: WriteError) {
        let now = self.at(seconds);
        let object = id.key.clone();
        self.state.failed(id, &[FailedWrite { operation, object, error }], now);
    }

    /// Returns the keys that are woken until then, each with its time and cause.
    fn run(&mut self, until: f64) -> Vec<(f64, Id, Cause)> {
        let mut all = Vec::new();
        let mut now = self.start;
        loop {
            let (woken, next) = self.state.step(now);
            let seconds = ((now - self.start).as_secs_f64() * 10.0).round() / 10.0;
            all.extend(woken.into_iter().map(|(id, cause)| (seconds, id, cause)));
            match next {
                Some(next) if next <= self.at(until) => now = next.max(now),
                _ => return all,
            }
        }
    }
}

#[test]
fn a_verb_that_fails_is_tried_every_20_seconds_with_one_key_of_all_controllers_in_turn() {
    let mut bed = Bed::new();
    for number in 0..100 {
        for member in 0..2 {
            bed.fails(0.0, id(member, number), Update, unknown());
        }
    }
    let mut tried = Vec::new();
    for period in 1..=10 {
        let seconds = 20.0 * f64::from(period);
        let woken = bed.run(seconds);
        assert_eq!(woken.len(), 1, "{woken:?}");
        let (at, id, cause) = woken[0].clone();
        assert_eq!((at, cause), (seconds, Cause::Probe));
        bed.fails(seconds, id.clone(), Update, unknown());
        tried.push(id);
    }
    let expected: Vec<Id> = (0..5).flat_map(|number| [id(0, number), id(1, number)]).collect();
    assert_eq!(tried, expected);
}

#[test]
fn a_key_that_fails_for_a_reason_of_its_own_waits_for_nothing() {
    let check = |operation, error: WriteError, waits: bool| {
        let mut bed = Bed::new();
        bed.fails(0.0, id(0, 1), operation, error.clone());
        assert_eq!(bed.run(20.0).len(), usize::from(waits), "{operation:?} {error:?}");
    };
    for operation in [Create, Update, Delete] {
        check(operation, unknown(), true);
        for code in [400, 401, 403, 422] {
            check(operation, refused(code), true);
        }
        check(operation, WriteError::Failed { code: 500, message: "no".into() }, true);
        check(operation, WriteError::Busy { code: 429, message: "no".into(), retry_after: None }, true);
        check(operation, refused(413), false);
        check(operation, WriteError::Conflict("no".into()), false);
        check(operation, WriteError::NotFound("no".into()), false);
        check(operation, WriteError::CacheBehind("no".into()), false);
        check(operation, WriteError::Fenced, false);
        // The runtime syncs a paused key at the end of its pause.
        check(operation, busy(1), false);
    }
}

#[test]
fn ten_thousand_keys_are_woken_within_ten_seconds_of_the_first_success_and_each_once() {
    let mut bed = Bed::new();
    for number in 0..5000 {
        bed.fails(0.0, id(0, number), Update, unknown());
        bed.fails(0.0, id(1, number), Update, unknown());
    }
    let mut woken = BTreeMap::<Id, f64>::new();
    let mut most = 0;
    let mut now = bed.at(20.0);
    loop {
        let (keys, next) = bed.state.step(now);
        most = most.max(keys.len());
        let seconds = (now - bed.start).as_secs_f64();
        // The successes of these keys change the time of the next step.
        let has_changed = !keys.is_empty();
        for (id, _) in keys {
            bed.state.succeeded(&id, now);
            assert_eq!(woken.insert(id, seconds), None);
        }
        if !has_changed {
            let Some(next) = next else { break };
            now = next;
        }
    }
    assert_eq!(woken.len(), 10_000);
    assert!(woken.values().all(|at| (20.0..30.5).contains(at)), "{:?}", woken.values().last());
    assert!(most <= 101, "{most} in one step");
    assert!(bed.state.keys.is_empty());
}

#[test]
fn a_success_of_any_controller_has_one_key_tried_at_once_and_again_after_ten_seconds() {
    let mut bed = Bed::new();
    for number in 0..10 {
        bed.fails(0.0, id(0, number), Update, unknown());
    }
    // A write with another verb has no effect.
    bed.state.wrote(0, Create, bed.at(1.0));
    assert!(bed.run(1.0).is_empty());
    let mut at = 1.0;
    for _ in 0..3 {
        bed.state.wrote(0, Update, bed.at(at));
        let woken = bed.run(at + 9.9);
        assert_eq!(woken.len(), 1);
        bed.fails(at, woken[0].1.clone(), Update, unknown());
        at += 10.0;
    }
}

#[test]
fn failures_end_a_pass_that_a_false_success_began() {
    let mut bed = Bed::new();
    for number in 0..1000 {
        bed.fails(0.0, id(0, number), Update, unknown());
    }
    // The Service was deleted, so the sync succeeded without a write.
    bed.state.succeeded(&id(0, 500), bed.at(1.0));
    let mut tried = 0;
    let mut now = bed.at(1.0);
    while now < bed.at(11.0) {
        let (woken, next) = bed.state.step(now);
        for (Id { member, key }, _) in woken {
            tried += 1;
            let failed = FailedWrite { operation: Update, object: key.clone(), error: unknown() };
            bed.state.failed(Id { member, key }, &[failed], now);
        }
        now = next.unwrap();
    }
    assert!((2..20).contains(&tried), "{tried} were tried");
}

#[test]
fn no_key_is_woken_before_the_end_of_a_pause_that_the_server_asked_for() {
    let mut bed = Bed::new();
    bed.fails(0.0, id(0, 1), Update, unknown());
    bed.fails(0.0, id(1, 1), Update, busy(45));
    bed.fails(0.0, id(1, 2), Update, busy(5));
    bed.state.wrote(0, Update, bed.at(1.0));
    assert_eq!(bed.run(100.0), [(45.0, id(0, 1), Cause::Probe)]);
    // The rules shorten the pause of a day to a minute.
    bed.fails(100.0, id(0, 1), Update, busy(86_400));
    bed.fails(100.0, id(0, 2), Update, unknown());
    assert_eq!(bed.run(1000.0), [(160.0, id(0, 2), Cause::Probe)]);
}

#[test]
fn an_answer_other_than_a_common_failure_shows_that_the_verb_works() {
    for answer in [
        refused(413),
        WriteError::Conflict("no".into()),
        WriteError::NotFound("no".into()),
        WriteError::AlreadyExists("no".into()),
    ] {
        let mut bed = Bed::new();
        for number in 0..3 {
            bed.fails(0.0, id(0, number), Update, unknown());
        }
        assert_eq!(bed.run(20.0).len(), 1);
        bed.fails(20.0, id(0, 0), Update, answer.clone());
        let woken = bed.run(20.2);
        assert_eq!(woken.len(), 2, "{answer:?}");
    }
    // A process that may not write learns nothing about the server.
    let mut bed = Bed::new();
    bed.fails(0.0, id(0, 0), Update, unknown());
    bed.fails(0.0, id(0, 1), Update, unknown());
    bed.run(20.0);
    bed.fails(20.0, id(0, 0), Update, WriteError::Fenced);
    assert!(bed.run(30.0).is_empty());
}

#[test]
fn keys_that_fail_while_others_succeed_come_after_those_of_an_outage() {
    let mut bed = Bed::new();
    let (broken, web) = (id(0, 1), id(0, 2));
    bed.fails(0.0, broken.clone(), Update, unknown());
    bed.state.wrote(0, Update, bed.at(1.0));
    bed.run(1.0);
    bed.fails(1.0, broken.clone(), Update, unknown());
    // From now on nothing succeeds.
    bed.fails(1.0, web.clone(), Update, unknown());
    for period in 1..5 {
        let seconds = f64::from(period) * 20.0 + 1.0;
        let woken = bed.run(seconds);
        assert_eq!(woken.len(), 1, "{woken:?}");
        assert_eq!(woken[0].1, web);
        bed.fails(seconds, web.clone(), Update, unknown());
    }
    let woken = bed.run(101.0);
    bed.state.succeeded(&woken[0].1, bed.at(101.0));
    assert_eq!(bed.run(101.1), [(101.0, broken, Cause::OutageEnded)]);
}

#[test]
fn a_key_that_waits_for_two_verbs_is_woken_once() {
    let mut bed = Bed::new();
    let now = bed.start;
    let failed = [Create, Delete].map(|operation| {
        let object = id(0, 1).key;
        FailedWrite { operation, object, error: unknown() }
    });
    bed.state.failed(id(0, 1), &failed, now);
    assert_eq!(bed.run(25.0).len(), 1);
    assert!(bed.state.verbs.iter().all(|verb| verb.len() == 0));
    // The key fails with another verb, and waits for all three.
    bed.fails(25.0, id(0, 1), Update, unknown());
    assert_eq!(bed.state.verbs.each_ref().map(Verb::len), [1, 1, 1]);
    bed.state.succeeded(&id(0, 1), bed.at(26.0));
    assert!(bed.state.keys.is_empty() && bed.run(1000.0).is_empty());
}

/// The API server refuses the key for good with a failure that is not common.
#[test]
fn a_key_with_an_error_of_its_own_after_an_outage_is_tried_ten_times_more() {
    let mut bed = Bed::new();
    bed.fails(0.0, id(0, 1), Update, unknown());
    let mut tries = Vec::new();
    loop {
        let Some((seconds, woken, _)) = bed.run(1000.0).pop() else { break };
        tries.push(seconds);
        bed.fails(seconds, woken, Update, refused(413));
    }
    // The first answer shows that updates work again, so the next try comes sooner.
    let expected: Vec<f64> =
        [20.0].into_iter().chain((0..10).map(|count| 30.0 + f64::from(count) * 20.0)).collect();
    assert_eq!(tries, expected);
    assert!(bed.state.keys.is_empty());
}

#[test]
fn refusals_after_an_outage_do_not_have_all_keys_tried_again_and_again() {
    let mut bed = Bed::new();
    for number in 0..1000 {
        bed.fails(0.0, id(0, number), Update, unknown());
    }
    let mut tried = 0;
    let mut now = bed.start;
    while now < bed.at(300.0) {
        let (woken, next) = bed.state.step(now);
        tried += woken.len();
        let has_changed = !woken.is_empty();
        for (Id { member, key }, _) in woken {
            let failed = FailedWrite { operation: Update, object: key.clone(), error: refused(413) };
            bed.state.failed(Id { member, key }, &[failed], now);
        }
        if !has_changed {
            now = next.unwrap();
        }
    }
    assert!((1000..1100).contains(&tried), "{tried} were tried");
}

/// Runs for this number of seconds. Calls `writes` each second, and refuses each woken key.
fn refused_for(seconds: u32, error: &WriteError, mut writes: impl FnMut(&mut Bed, Instant)) -> Vec<f64> {
    let mut bed = Bed::new();
    bed.fails(0.0, id(0, 1), Update, error.clone());
    let mut tries = Vec::new();
    for second in 1..=seconds {
        let second = f64::from(second);
        let now = bed.at(second);
        writes(&mut bed, now);
        for (at, woken, _) in bed.run(second + 0.5) {
            tries.push(at);
            bed.fails(at, woken, Update, error.clone());
        }
        // The key's own retries go on.
        if second % 330.0 == 0.0 {
            bed.fails(second, id(0, 1), Update, error.clone());
        }
    }
    tries
}

#[test]
fn a_key_that_is_refused_while_others_of_its_controller_succeed_is_tried_ten_times() {
    for code in [400, 401, 403, 422] {
        let healthy = |bed: &mut Bed, now| {
            bed.state.wrote(0, Update, now);
        };
        let tries = refused_for(3600, &refused(code), healthy);
        assert!((10..=11).contains(&tries.len()), "{code}: {tries:?}");
        assert!(tries.iter().all(|at| *at < 120.0), "{code}: {tries:?}");
    }
    // A permission, a policy or a webhook may concern one kind: writes of another controller do not
    // count. Neither do those of another verb.
    let other = |bed: &mut Bed, now| {
        bed.state.wrote(1, Update, now);
        bed.state.wrote(0, Create, now);
    };
    assert!(refused_for(3600, &refused(422), other).len() > 300);
    // A server may fail for one object only.
    let healthy = |bed: &mut Bed, now| {
        bed.state.wrote(0, Update, now);
    };
    assert!(refused_for(3600, &unknown(), healthy).len() > 300);
}

#[test]
fn a_key_that_was_refused_takes_part_in_an_outage_afterwards() {
    let mut bed = Bed::new();
    bed.fails(0.0, id(0, 1), Update, refused(422));
    // The only success of another key.
    bed.state.wrote(0, Update, bed.at(0.5));
    for second in 1..20 {
        bed.fails(f64::from(second), id(0, 1), Update, refused(422));
    }
    assert!(bed.run(1000.0).is_empty());
    bed.fails(1000.0, id(0, 1), Update, unknown());
    assert_eq!(bed.run(1020.0).len(), 1);
    bed.state.succeeded(&id(0, 1), bed.at(1021.0));
    assert!(bed.state.keys.is_empty());
    // After its success, the key has failed once.
    bed.fails(1022.0, id(0, 1), Update, refused(422));
    assert_eq!(bed.run(1050.0).len(), 1);
}
