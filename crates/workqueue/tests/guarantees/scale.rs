//! Many keys, many calls, many threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kube_endpoint_workqueue::{
    AfterRetries, RetryPolicy, default_controller_rate_limiter, endpoint_slice_rate_limiter, run_workers,
};
use parking_lot::Mutex;
use tokio::time::{Instant, advance, sleep};

use crate::guarantees::{WorkQueue, millis, queue, secs, take, take_all};

const KEYS: u32 = 10_000;

#[tokio::test(start_paused = true)]
async fn repeated_adds_of_the_same_keys_use_no_more_memory() {
    let queue = queue();
    for call in 0..150_000_u32 {
        let key = call.wrapping_mul(7919) % KEYS;
        queue.add(key);
        // Each call asks for an earlier time than the one before, so that it replaces the entry.
        queue.add_after(key, secs(3600) - millis(u64::from(call)));
    }
    assert_eq!((queue.len(), queue.waiting_len()), (KEYS as usize, KEYS as usize));
    assert_eq!(take_all(&queue).len(), KEYS as usize);
    advance(secs(3600)).await;
    assert_eq!((queue.len(), queue.waiting_len()), (KEYS as usize, 0));
    let mut keys = take_all(&queue);
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..KEYS));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_failing_keys_come_back_at_the_rate_of_the_bucket() {
    let queue = WorkQueue::new("test", default_controller_rate_limiter());
    let start = Instant::now();
    for key in 0..KEYS {
        queue.add_rate_limited(key);
    }
    advance(millis(5)).await;
    assert_eq!(queue.len(), 100, "the burst, after the 5 ms of a first failure");
    while let Some(key) = queue.get().await {
        queue.done(&key);
        if key == KEYS - 1 {
            queue.shut_down();
        }
    }
    assert_eq!(start.elapsed(), millis(u64::from(KEYS - 100) * 100));
    assert_eq!(take(&queue), None);
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_failures_does_not_delay_those_that_come_later() {
    let queue = WorkQueue::new("test", endpoint_slice_rate_limiter());
    let policy = RetryPolicy {
        then: AfterRetries::RetrySlowly { period: secs(300), seed: 1 },
        ..RetryPolicy::default()
    };
    let start = Instant::now();
    let (failures, attempts_of_late) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
    let sync = {
        let (failures, attempts_of_late) = (Arc::clone(&failures), Arc::clone(&attempts_of_late));
        move |key: u32| {
            let is_late = key == KEYS;
            let mut attempts = attempts_of_late.lock();
            if is_late {
                attempts.push(start.elapsed());
            }
            let fails = if is_late { attempts.len() == 1 } else { start.elapsed() < secs(3600) };
            failures.fetch_add(u32::from(fails), Ordering::Relaxed);
            async move { if fails { Err("no") } else { Ok(()) } }
        }
    };
    let workers = tokio::spawn(run_workers(queue.clone(), policy, 5, sync));
    for key in 0..KEYS {
        queue.add(key);
    }
    sleep(secs(3600 + 900)).await;
    let failed = failures.load(Ordering::Relaxed);
    assert!(failed > 10 * KEYS, "each key failed often: {failed}");
    queue.add(KEYS);
    sleep(secs(900)).await;
    let attempts = std::mem::take(&mut *attempts_of_late.lock());
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[1] - attempts[0], secs(1), "the delay of a first failure");
    queue.shut_down();
    workers.await.unwrap();
}

/// This runs with real threads and real time. After a lost wake-up, keys would stay in the queue
/// and the test would not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_wake_up_is_lost_between_threads() {
    const ADDERS: u32 = 4;
    const PER_ADDER: u32 = 2500;
    let queue = queue::<u32>();
    let in_work = Arc::new((0..KEYS).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
    let worked = Arc::new((0..KEYS).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
    let workers = tokio::spawn(run_workers(queue.clone(), RetryPolicy::default(), 8, {
        let (in_work, worked) = (Arc::clone(&in_work), Arc::clone(&worked));
        move |key: u32| {
            let (in_work, worked) = (Arc::clone(&in_work), Arc::clone(&worked));
            async move {
                assert_eq!(in_work[key as usize].fetch_add(1, Ordering::SeqCst), 0, "twice at once: {key}");
                tokio::task::yield_now().await;
                in_work[key as usize].fetch_sub(1, Ordering::SeqCst);
                worked[key as usize].fetch_add(1, Ordering::SeqCst);
                Ok::<(), String>(())
            }
        }
    }));
    let adders: Vec<_> = (0..ADDERS)
        .map(|adder| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for key in adder * PER_ADDER..(adder + 1) * PER_ADDER {
                    match key % 3 {
                        0 => queue.add(key),
                        1 => queue.add_after(key, Duration::from_micros(u64::from(key % 5000))),
                        _ => {
                            queue.add(key);
                            tokio::task::yield_now().await;
                            queue.add(key);
                        }
                    }
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.unwrap();
    }
    tokio::time::timeout(secs(60), async {
        while worked.iter().any(|count| count.load(Ordering::SeqCst) == 0) {
            tokio::time::sleep(millis(5)).await;
        }
        queue.shut_down_with_drain().await;
        workers.await.unwrap();
    })
    .await
    .unwrap();
}
