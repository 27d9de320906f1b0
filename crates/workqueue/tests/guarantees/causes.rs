//! The reasons of adds: their causes, and the time of the first change.

use std::sync::Arc;

use futures::FutureExt;
use kube_endpoint_workqueue::{Causes, Reason, RetryPolicy, SyncOutcome, WorkQueue, run_workers_observed};
use parking_lot::Mutex;
use tokio::time::{Instant, advance, sleep};

use crate::guarantees::{millis, queue};

const POD: Causes = Causes::number(1);
const SERVICE: Causes = Causes::number(2);

fn take_reason(queue: &WorkQueue<&'static str>) -> Option<Reason> {
    queue.get_with_reason().now_or_never().flatten().map(|(_, reason)| reason)
}

fn take(queue: &WorkQueue<&'static str>) -> Option<Causes> {
    take_reason(queue).map(|reason| reason.causes)
}

#[tokio::test(start_paused = true)]
async fn a_worker_learns_the_causes_of_all_adds_that_were_merged() {
    let queue = queue();
    queue.add_after_for("a", millis(100), POD);
    queue.add_after_for("a", millis(50), SERVICE);
    queue.add("a");
    assert_eq!(take(&queue), Some(Causes::NONE), "the delayed adds are not answered yet");
    queue.add_for("a", POD);
    queue.add_for("a", POD);
    queue.done(&"a");
    assert_eq!(take(&queue), Some(POD), "what was added meanwhile");
    queue.done(&"a");
    advance(millis(50)).await;
    assert_eq!(take(&queue), Some(POD.and(SERVICE)), "the delayed adds");
    queue.done(&"a");
    advance(millis(1000)).await;
    assert_eq!(take(&queue), None);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_a_cause() {
    let queue = queue();
    queue.add_for("a", POD);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sync = {
        let seen = Arc::clone(&seen);
        move |_, reason: Reason| {
            seen.lock().push(reason.causes);
            async { Err::<(), _>("no") }
        }
    };
    let workers = tokio::spawn(run_workers_observed(queue, RetryPolicy::default(), 1, sync, |_| {}));
    tokio::time::sleep(millis(3500)).await;
    workers.abort();
    assert_eq!(*seen.lock(), [POD, Causes::RETRY, Causes::RETRY]);
}

/// Returns the reason of a change that arrived now.
fn change() -> Reason {
    Reason { causes: POD, since: Some(Instant::now()), urgent: false }
}

#[tokio::test(start_paused = true)]
async fn a_worker_learns_the_time_of_the_first_change_once() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after_for("a", millis(500), change());
    advance(millis(100)).await;
    queue.add_for("a", change());
    queue.add_for("b", SERVICE);
    let reason = take_reason(&queue).unwrap();
    assert_eq!(
        reason,
        Reason { causes: POD, since: Some(start), urgent: false },
        "also that of a delayed add"
    );
    assert_eq!(take_reason(&queue).unwrap().since, None, "no change");
    queue.add_for("a", change());
    queue.done(&"a");
    assert_eq!(take_reason(&queue).unwrap().since, Some(start + millis(100)), "the next change");
    queue.done(&"a");
    advance(millis(400)).await;
    assert_eq!(take_reason(&queue).unwrap(), Reason::from(POD), "its change is answered");
}

/// The outcome of a sync.
#[derive(Clone, Copy)]
struct PutOff(bool);

impl SyncOutcome for PutOff {
    fn is_success(&self) -> bool {
        !self.0
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_change_stays_with_the_key_until_a_sync_succeeds() {
    let queue = queue();
    let start = Instant::now();
    queue.add_for("a", change());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sync = {
        let (seen, queue) = (Arc::clone(&seen), queue.clone());
        move |key, reason: Reason| {
            let count = {
                let mut seen = seen.lock();
                seen.push((start.elapsed().as_secs(), reason.since.map(|since| (since - start).as_secs())));
                seen.len()
            };
            let queue = queue.clone();
            async move {
                match count {
                    1 => Err("no"),
                    2 => {
                        queue.add_after(key, millis(10_000));
                        // This is not the first change, so its time does not count.
                        queue.add_for(key, change());
                        Ok(PutOff(true))
                    }
                    _ => Ok(PutOff(false)),
                }
            }
        }
    };
    let workers = tokio::spawn(run_workers_observed(queue, RetryPolicy::default(), 1, sync, |_| {}));
    sleep(millis(60_000)).await;
    workers.abort();
    assert_eq!(*seen.lock(), [(0, Some(0)), (1, Some(0)), (1, Some(0)), (11, None)]);
}

#[test]
fn causes_are_a_set_of_sixteen() {
    let all = (0..16).map(Causes::number).fold(Causes::NONE, Causes::and);
    assert!((0..16).all(|number| all.contains(Causes::number(number))));
    assert_eq!(Causes::number(0), Causes::RETRY);
    assert_eq!((Causes::number(32), Causes::number(255)), (Causes::NONE, Causes::NONE));
    assert!(Causes::NONE.is_empty() && !POD.is_empty() && !POD.contains(SERVICE));
}
