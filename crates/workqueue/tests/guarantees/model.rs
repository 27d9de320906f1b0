//! Properties: any sequence of calls has the same effect on the queue as on a much simpler model,
//! and workers process every key that is added.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_workqueue::{RetryPolicy, run_workers};
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::{Instant, advance, sleep};

use crate::guarantees::{millis, queue, secs, take};

type TestKey = u8;

#[derive(Debug, Clone)]
enum Op {
    Add(TestKey),
    AddAfter(TestKey, u64),
    AddRateLimited(TestKey),
    Forget(TestKey),
    Take,
    /// Finishes the key with this index among those being processed.
    Done(usize),
    Advance(u64),
    ShutDown,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0_u8..6;
    prop_oneof![
        6 => key.clone().prop_map(Op::Add),
        6 => (key.clone(), 0_u64..4000).prop_map(|(key, delay)| Op::AddAfter(key, delay)),
        3 => key.clone().prop_map(Op::AddRateLimited),
        1 => key.prop_map(Op::Forget),
        8 => Just(Op::Take),
        6 => (0_usize..6).prop_map(Op::Done),
        6 => (1_u64..2000).prop_map(Op::Advance),
        1 => Just(Op::ShutDown),
    ]
}

/// A queue of lists that are searched linearly. Times are in milliseconds.
#[derive(Debug, Default)]
struct Model {
    now: u64,
    queued: Vec<TestKey>,
    in_work: Vec<TestKey>,
    added_in_work: Vec<TestKey>,
    /// Keys and times, in the order of the calls.
    delayed: Vec<(TestKey, u64)>,
    failures: BTreeMap<TestKey, u32>,
    shut_down: bool,
}

impl Model {
    fn add(&mut self, key: TestKey) {
        if self.shut_down {
            return;
        }
        let list = if self.in_work.contains(&key) { &mut self.added_in_work } else { &mut self.queued };
        if !list.contains(&key) {
            list.push(key);
        }
    }

    fn add_after(&mut self, key: TestKey, delay: u64) {
        if self.shut_down {
            return;
        }
        if delay == 0 {
            return self.add(key);
        }
        let at = self.now + delay;
        if self.delayed.iter().any(|(other, time)| *other == key && *time <= at) {
            return;
        }
        self.delayed.retain(|(other, _)| *other != key);
        self.delayed.push((key, at));
    }

    fn advance(&mut self, by: u64) {
        for _ in 0..by {
            self.now += 1;
            let now = self.now;
            let ready: Vec<_> =
                self.delayed.iter().filter(|(_, at)| *at == now).map(|(key, _)| *key).collect();
            self.delayed.retain(|(_, at)| *at != now);
            ready.into_iter().for_each(|key| self.add(key));
        }
    }

    fn take(&mut self) -> Option<TestKey> {
        if self.queued.is_empty() {
            return None;
        }
        let key = self.queued.remove(0);
        self.in_work.push(key);
        Some(key)
    }

    fn done(&mut self, key: TestKey) {
        self.in_work.retain(|other| *other != key);
        if self.added_in_work.contains(&key) {
            self.added_in_work.retain(|other| *other != key);
            self.queued.push(key);
        }
    }
}

fn paused(future: impl Future<Output = Result<(), TestCaseError>>) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.map_err(|error| TestCaseError::fail(error.to_string()))?.block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_its_model_does(ops in prop::collection::vec(op(), 1..80)) {
        paused(async {
            let queue = queue::<TestKey>();
            let mut model = Model::default();
            for op in ops {
                match op {
                    Op::Add(key) => {
                        queue.add(key);
                        model.add(key);
                    }
                    Op::AddAfter(key, delay) => {
                        queue.add_after(key, millis(delay));
                        model.add_after(key, delay);
                    }
                    Op::AddRateLimited(key) => {
                        queue.add_rate_limited(key);
                        let failures = model.failures.entry(key).or_default();
                        let delay = 60_000.min(1000 << (*failures).min(10));
                        *failures += 1;
                        model.add_after(key, delay);
                    }
                    Op::Forget(key) => {
                        queue.forget(&key);
                        model.failures.remove(&key);
                    }
                    Op::Take => {
                        let taken = take(&queue);
                        let in_work = model.in_work.clone();
                        prop_assert!(taken.is_none_or(|key| !in_work.contains(&key)), "twice at once");
                        prop_assert_eq!(taken, model.take());
                    }
                    Op::Done(nth) => {
                        if let Some(key) = model.in_work.get(nth).copied() {
                            queue.done(&key);
                            model.done(key);
                        }
                    }
                    Op::Advance(by) => {
                        advance(millis(by)).await;
                        model.advance(by);
                    }
                    Op::ShutDown => {
                        queue.shut_down();
                        model.shut_down = true;
                        model.delayed.clear();
                    }
                }
                prop_assert_eq!(queue.len(), model.queued.len());
                prop_assert_eq!(queue.waiting_len(), model.delayed.len());
                prop_assert_eq!(queue.in_flight_len(), model.in_work.len());
                let outstanding = model.queued.len() + model.delayed.len() + model.in_work.len();
                prop_assert_eq!(queue.outstanding(), outstanding);
                prop_assert_eq!(queue.is_shutting_down(), model.shut_down);
                for key in 0..6 {
                    prop_assert_eq!(queue.num_requeues(&key), model.failures.get(&key).copied().unwrap_or(0));
                }
            }
            Ok(())
        })?;
    }

    /// After every add, a sync of its key begins; and no two syncs of a key overlap.
    #[test]
    fn workers_lose_no_add(
        concurrency in 1_usize..5,
        calls in prop::collection::vec((0_u8..5, 0_u64..40, prop::option::of(0_u64..60)), 1..60),
    ) {
        paused(async {
            let queue = queue::<TestKey>();
            let start = Instant::now();
            let syncs = Arc::new(Mutex::new(Vec::<(TestKey, Duration, Option<Duration>)>::new()));
            let workers = tokio::spawn(run_workers(queue.clone(), RetryPolicy::default(), concurrency, {
                let syncs = Arc::clone(&syncs);
                move |key: TestKey| {
                    let syncs = Arc::clone(&syncs);
                    async move {
                        let index = {
                            let mut syncs = syncs.lock();
                            syncs.push((key, start.elapsed(), None));
                            syncs.len() - 1
                        };
                        sleep(millis(7 * u64::from(key))).await;
                        let mut syncs = syncs.lock();
                        if let Some(sync) = syncs.get_mut(index) {
                            sync.2 = Some(start.elapsed());
                        }
                        Ok::<(), String>(())
                    }
                }
            }));
            let mut due = Vec::new();
            for (key, pause, delay) in calls {
                sleep(millis(pause)).await;
                match delay {
                    None => queue.add(key),
                    Some(delay) => queue.add_after(key, millis(delay)),
                }
                due.push((key, start.elapsed()));
            }
            sleep(secs(60)).await;
            queue.shut_down();
            let ended = workers.await;
            prop_assert!(ended.is_ok());
            let syncs = syncs.lock();
            for (key, at) in due {
                prop_assert!(
                    syncs.iter().any(|(synced, begin, _)| *synced == key && *begin >= at),
                    "nothing came of the add of {} at {:?}: {:?}", key, at, syncs
                );
            }
            for (index, (key, _, end)) in syncs.iter().enumerate() {
                let next = syncs.iter().skip(index + 1).find(|(other, _, _)| other == key);
                prop_assert!(next.is_none_or(|(_, begin, _)| end.is_some_and(|end| *begin >= end)), "{:?}", syncs);
            }
            Ok(())
        })?;
    }
}
