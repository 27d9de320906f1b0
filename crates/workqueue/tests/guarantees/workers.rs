//! The worker loop: retries, dropped keys, concurrency, panics and shutdown.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube_endpoint_workqueue::{
    AfterRetries, Attempt, Causes, Disposition, Key, RetryPolicy, SyncOutcome, WorkQueue,
    default_controller_rate_limiter, run_workers, run_workers_observed,
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::guarantees::{millis, queue, secs, settle};

type Attempts = Arc<Mutex<Vec<(u128, Disposition)>>>;

/// Processes the queue with one worker. Records when each attempt ended, in milliseconds, and the
/// disposition of its key.
fn note_attempts<F>(queue: &WorkQueue<&'static str>, fails: F) -> (JoinHandle<()>, Attempts)
where
    F: Fn(usize) -> bool + Send + Sync + 'static,
{
    let attempts = Attempts::default();
    let (start, count) = (Instant::now(), AtomicUsize::new(0));
    let workers = tokio::spawn(run_workers_observed(
        queue.clone(),
        RetryPolicy::default(),
        1,
        move |_, _| {
            let fails = fails(count.fetch_add(1, Ordering::SeqCst));
            async move { if fails { Err("no") } else { Ok(()) } }
        },
        {
            let attempts = Arc::clone(&attempts);
            move |attempt| attempts.lock().push((start.elapsed().as_millis(), attempt.disposition))
        },
    ));
    (workers, attempts)
}

/// Runs `fut` in every worker and waits until the loop ends after `shut_down`.
fn work<K: Key, F, Fut>(queue: &WorkQueue<K>, concurrency: usize, sync: F) -> JoinHandle<()>
where
    F: Fn(K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), String>> + Send + 'static,
{
    tokio::spawn(run_workers(queue.clone(), RetryPolicy::default(), concurrency, sync))
}

#[tokio::test(start_paused = true)]
async fn a_key_that_keeps_failing_is_retried_15_times_and_then_dropped() {
    let queue = WorkQueue::new("test", default_controller_rate_limiter());
    let (workers, attempts) = note_attempts(&queue, |_| true);
    queue.add("a");
    sleep(secs(600)).await;
    let attempts = std::mem::take(&mut *attempts.lock());
    assert_eq!(attempts.len(), 16);
    // Every delay is twice the one before, so attempt n ends at 5 ms * (2^n - 1).
    for (n, (at, disposition)) in attempts.iter().enumerate() {
        assert_eq!(*at, 5 * ((1 << n) - 1), "attempt {n}");
        let expected = match n {
            15 => Disposition::Dropped,
            _ => Disposition::Retried { requeues: u32::try_from(n).unwrap() + 1 },
        };
        assert_eq!(*disposition, expected, "attempt {n}");
    }
    assert_eq!(queue.num_requeues(&"a"), 0, "its failures are forgotten");
    assert_eq!((queue.len(), queue.waiting_len(), queue.in_flight_len()), (0, 0, 0));
    queue.shut_down();
    workers.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_success_forgets_the_failures() {
    let queue = queue();
    let (workers, attempts) = note_attempts(&queue, |attempt| attempt < 3);
    queue.add("a");
    sleep(secs(60)).await;
    assert_eq!(
        *attempts.lock(),
        [
            (0, Disposition::Retried { requeues: 1 }),
            (1000, Disposition::Retried { requeues: 2 }),
            (3000, Disposition::Retried { requeues: 3 }),
            (7000, Disposition::Forgotten),
        ]
    );
    assert_eq!(queue.num_requeues(&"a"), 0);
    queue.shut_down();
    workers.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_never_dropped_is_retried_slowly_for_as_long_as_it_fails() {
    let run = async |seed| {
        let queue = queue();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let start = Instant::now();
        let observe = {
            let seen = Arc::clone(&seen);
            move |attempt: Attempt<'_, _, (), _>| seen.lock().push((start.elapsed(), attempt.disposition))
        };
        let then = AfterRetries::RetrySlowly { period: secs(300), seed };
        let policy = RetryPolicy { max_retries: 3, then, ..RetryPolicy::default() };
        let workers =
            tokio::spawn(run_workers_observed(queue.clone(), policy, 1, |_, _| async { Err("no") }, observe));
        queue.add("a");
        sleep(secs(24 * 3600)).await;
        queue.shut_down();
        workers.await.unwrap();
        let seen = std::mem::take(&mut *seen.lock());
        let (fast, slow) = seen.split_at(3);
        assert!(fast.iter().all(|(_, it)| matches!(it, Disposition::Retried { .. })), "{fast:?}");
        assert!(slow.iter().all(|(_, it)| *it == Disposition::RetriedSlowly));
        let gaps: Vec<_> = slow.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(gaps.iter().all(|gap| (secs(300)..=secs(360)).contains(gap)), "{gaps:?}");
        assert!(gaps.len() > 200 && gaps.iter().any(|gap| gap != &gaps[0]), "{gaps:?}");
        seen
    };
    let first = run(1).await;
    assert_eq!(run(1).await, first, "one seed, one run");
    assert_ne!(run(2).await, first);
}

/// During an outage, a controller tries keys between their retries.
#[tokio::test(start_paused = true)]
async fn an_extra_sync_that_fails_uses_up_no_retry_and_leaves_the_next_one_where_it_is() {
    const EXTRA: Causes = Causes::number(14);
    let run = async |extra: bool| {
        let queue = queue();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let start = Instant::now();
        let observe = {
            let seen = Arc::clone(&seen);
            move |attempt: Attempt<'_, _, (), _>| seen.lock().push((start.elapsed(), attempt.disposition))
        };
        let then = AfterRetries::RetrySlowly { period: secs(300), seed: 1 };
        let policy = RetryPolicy { then, extra: EXTRA, ..RetryPolicy::default() };
        let workers =
            tokio::spawn(run_workers_observed(queue.clone(), policy, 1, |_, _| async { Err("no") }, observe));
        queue.add("a");
        for _ in 0..600 {
            // The extra syncs never begin at the time of a retry.
            sleep(Duration::from_micros(999_999)).await;
            if extra {
                queue.add_for("a", EXTRA);
            }
        }
        assert_eq!(queue.num_requeues(&"a"), 15);
        queue.shut_down();
        workers.await.unwrap();
        std::mem::take(&mut *seen.lock())
    };
    let (own, all) = (run(false).await, run(true).await);
    assert!(all.len() > own.len() + 500, "{} and {}", own.len(), all.len());
    assert!(own.iter().all(|one| all.contains(one)), "{own:?} {all:?}");
    // The first sync of a key that waits for nothing fails as any other.
    let queue = queue();
    let policy = RetryPolicy { extra: EXTRA, ..RetryPolicy::default() };
    queue.add_for("a", EXTRA);
    let workers = tokio::spawn(run_workers_observed(
        queue.clone(),
        policy,
        1,
        |_, _| async { Err::<(), _>("no") },
        |_| (),
    ));
    sleep(Duration::from_millis(1)).await;
    assert_eq!((queue.num_requeues(&"a"), queue.waiting_len()), (1, 1));
    // With another cause it is no extra one.
    queue.add_for("a", EXTRA.and(Causes::number(1)));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(queue.num_requeues(&"a"), 2);
    queue.shut_down();
    workers.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_retry_waits_longer_than_a_slow_one() {
    let queue = queue();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let observe = {
        let seen = Arc::clone(&seen);
        move |_: Attempt<'_, _, (), _>| seen.lock().push(start.elapsed())
    };
    let then = AfterRetries::RetrySlowly { period: secs(300), seed: 1 };
    let policy = RetryPolicy { then, ..RetryPolicy::default() };
    let workers =
        tokio::spawn(run_workers_observed(queue.clone(), policy, 1, |_, _| async { Err("no") }, observe));
    queue.add("a");
    sleep(secs(4 * 3600)).await;
    queue.shut_down();
    workers.await.unwrap();
    let seen = seen.lock();
    assert!(seen.len() > 30, "{seen:?}");
    assert!(seen.windows(2).all(|pair| pair[1] - pair[0] <= secs(360)), "{seen:?}");
}

/// A sync that was put off.
struct PutOff;

impl SyncOutcome for PutOff {
    fn is_success(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_is_put_off_keeps_the_failures() {
    let queue = queue();
    let count = AtomicUsize::new(0);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observe = {
        let seen = Arc::clone(&seen);
        move |attempt: Attempt<'_, _, PutOff, _>| seen.lock().push(attempt.disposition)
    };
    let again = queue.clone();
    let sync = move |key, _| {
        let puts_off = count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
        if puts_off {
            again.add_after(key, secs(1));
        }
        async move { if puts_off { Ok(PutOff) } else { Err("no") } }
    };
    let workers = tokio::spawn(run_workers_observed(queue.clone(), RetryPolicy::default(), 1, sync, observe));
    queue.add("a");
    sleep(secs(30)).await;
    queue.shut_down();
    workers.await.unwrap();
    let retried = |requeues| Disposition::Retried { requeues };
    let expected =
        [Disposition::PutOff, retried(1), Disposition::PutOff, retried(2), Disposition::PutOff, retried(3)];
    assert_eq!(
        seen.lock()[..6],
        expected,
        "1 s, 2 s and 4 s between them, and 1 s after each that is put off"
    );
    assert_eq!(seen.lock().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn without_retries_the_first_failure_drops_the_key() {
    let queue = queue();
    queue.add("a");
    queue.shut_down();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observe = {
        let seen = Arc::clone(&seen);
        move |attempt: Attempt<'_, _, (), _>| seen.lock().push(attempt.disposition)
    };
    let policy = RetryPolicy { max_retries: 0, ..RetryPolicy::default() };
    run_workers_observed(queue, policy, 1, |_, _| async { Err("no") }, observe).await;
    assert_eq!(*seen.lock(), [Disposition::Dropped]);
}

#[tokio::test(start_paused = true)]
async fn the_observer_sees_key_result_and_time_before_the_key_is_done() {
    let queue = queue();
    queue.add("good");
    queue.add("bad");
    queue.shut_down();
    let seen = Arc::new(Mutex::new(Vec::new()));
    run_workers_observed(
        queue.clone(),
        RetryPolicy::default(),
        1,
        |key, _| async move {
            sleep(millis(20)).await;
            if key == "good" { Ok(()) } else { Err("broken") }
        },
        {
            let seen = Arc::clone(&seen);
            move |attempt| {
                let in_flight = queue.in_flight_len();
                seen.lock().push((*attempt.key, *attempt.result, attempt.elapsed.as_millis(), in_flight));
            }
        },
    )
    .await;
    assert_eq!(*seen.lock(), [("good", Ok(()), 20, 1), ("bad", Err("broken"), 20, 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_during_its_sync_is_synced_again() {
    let queue = queue();
    let count = Arc::new(AtomicUsize::new(0));
    let workers = work(&queue, 3, {
        let count = Arc::clone(&count);
        move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            async {
                sleep(secs(1)).await;
                Ok(())
            }
        }
    });
    queue.add("a");
    sleep(millis(500)).await;
    queue.add("a");
    queue.add("a");
    assert_eq!(count.load(Ordering::SeqCst), 1);
    sleep(secs(10)).await;
    assert_eq!(count.load(Ordering::SeqCst), 2);
    queue.shut_down();
    workers.await.unwrap();
}

/// Processes nine keys for one second each. Checks how many are processed at once and when the last
/// one ends.
async fn check_concurrency(concurrency: usize, at_once: usize, seconds: u64) {
    let queue = queue();
    (0..9).for_each(|key| queue.add(key));
    queue.shut_down();
    let start = Instant::now();
    let running = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let workers = work(&queue, concurrency, {
        let running = Arc::clone(&running);
        move |_| {
            let running = Arc::clone(&running);
            async move {
                let now = running.0.fetch_add(1, Ordering::SeqCst) + 1;
                running.1.fetch_max(now, Ordering::SeqCst);
                sleep(secs(1)).await;
                running.0.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        }
    });
    workers.await.expect("the workers do not panic");
    assert_eq!((running.1.load(Ordering::SeqCst), start.elapsed()), (at_once, secs(seconds)));
}

#[tokio::test(start_paused = true)]
async fn as_many_keys_are_processed_at_once_as_there_are_workers() {
    check_concurrency(1, 1, 9).await;
    check_concurrency(5, 5, 2).await;
    check_concurrency(20, 9, 1).await;
    check_concurrency(0, 1, 9).await;
}

#[tokio::test(start_paused = true)]
async fn the_loop_returns_once_the_queue_is_shut_down_and_empty() {
    let queue = queue();
    let worked = Arc::new(AtomicUsize::new(0));
    let workers = work(&queue, 2, {
        let worked = Arc::clone(&worked);
        move |_| {
            let worked = Arc::clone(&worked);
            async move {
                sleep(secs(1)).await;
                worked.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        }
    });
    (0..7).for_each(|key| queue.add(key));
    settle().await;
    queue.shut_down();
    workers.await.unwrap();
    assert_eq!(worked.load(Ordering::SeqCst), 7);
}

#[tokio::test(start_paused = true)]
async fn a_drain_sees_no_gap_between_the_keys_of_a_worker() {
    let queue = queue();
    let worked = Arc::new(AtomicUsize::new(0));
    let workers = work(&queue, 1, {
        let worked = Arc::clone(&worked);
        move |_| {
            worked.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        }
    });
    (0..1000).for_each(|key| queue.add(key));
    tokio::task::yield_now().await;
    assert_eq!(queue.in_flight_len(), 1);
    queue.shut_down_with_drain().await;
    assert_eq!(worked.load(Ordering::SeqCst), 1000);
    workers.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn syncs_that_never_wait_let_other_tasks_run() {
    let queue = queue();
    let worked = Arc::new(AtomicUsize::new(0));
    let workers = work(&queue, 1, {
        let worked = Arc::clone(&worked);
        move |_| {
            worked.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        }
    });
    (0..1000).for_each(|key| queue.add(key));
    settle().await;
    assert!(worked.load(Ordering::SeqCst) < 100, "this task ran before the queue was empty");
    queue.shut_down();
    workers.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_leaves_no_key_in_flight_and_reaches_the_caller() {
    let queue = queue();
    let workers = work(&queue, 2, |key| async move {
        if key == "boom" {
            sleep(secs(1)).await;
            panic!("boom");
        }
        sleep(secs(60)).await;
        Ok(())
    });
    queue.add("slow");
    queue.add("boom");
    let error = workers.await.unwrap_err();
    assert_eq!(error.into_panic().downcast_ref::<&str>(), Some(&"boom"));
    settle().await;
    assert_eq!(queue.in_flight_len(), 0);
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_loop_leaves_no_key_in_flight() {
    let queue = queue();
    queue.add("a");
    let workers = work(&queue, 1, |_| std::future::pending());
    sleep(secs(1)).await;
    assert_eq!(queue.in_flight_len(), 1);
    workers.abort();
    assert!(workers.await.unwrap_err().is_cancelled());
    settle().await;
    assert_eq!((queue.in_flight_len(), queue.waiting_len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn two_runs_have_equal_times() {
    let mut logs = Vec::new();
    for _ in 0..3 {
        let queue = WorkQueue::new("test", default_controller_rate_limiter());
        let start = Instant::now();
        let log = Arc::new(Mutex::new(Vec::new()));
        let workers = work(&queue, 5, {
            let (log, failures) = (Arc::clone(&log), Arc::new(Mutex::new(HashMap::new())));
            move |key: u64| {
                log.lock().push((start.elapsed().as_millis(), key));
                let mut failures = failures.lock();
                let count = failures.entry(key).or_insert(0_u64);
                *count += 1;
                let fails = *count <= key % 7;
                async move {
                    sleep(millis(key % 13)).await;
                    if fails { Err("no".to_owned()) } else { Ok(()) }
                }
            }
        });
        (0..200).for_each(|key| queue.add(key));
        sleep(secs(600)).await;
        queue.shut_down();
        workers.await.unwrap();
        logs.push(std::mem::take(&mut *log.lock()));
    }
    assert!(logs[0].len() > 700, "{}", logs[0].len());
    assert_eq!(logs[0], logs[1]);
    assert_eq!(logs[1], logs[2]);
}
