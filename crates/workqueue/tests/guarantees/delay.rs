//! Delayed keys.

use std::time::Duration;

use tokio::time::Instant;

use crate::guarantees::{millis, queue, secs, settle};

#[tokio::test(start_paused = true)]
async fn a_getter_wakes_at_the_time_of_a_delayed_key() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("a", millis(1234));
    assert_eq!(queue.get().await, Some("a"));
    assert_eq!(start.elapsed(), millis(1234));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_getter_wakes_at_an_earlier_time_that_is_added() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("late", secs(10));
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await }
    });
    settle().await;
    queue.add_after("early", secs(1));
    assert_eq!(getter.await.unwrap(), Some("early"));
    assert_eq!(start.elapsed(), secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_time_is_kept_when_the_first_getter_is_dropped() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("late", secs(10));
    let mut first = Box::pin(queue.get());
    let mut second = Box::pin(queue.get());
    assert!(futures::poll!(&mut first).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    queue.add_after("early", secs(1));
    assert!(futures::poll!(&mut first).is_pending());
    drop(first);
    assert_eq!(second.await, Some("early"));
    assert_eq!(start.elapsed(), secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_time_is_kept_when_the_first_getter_gets_other_work() {
    let queue = queue();
    let start = Instant::now();
    let mut first = Box::pin(queue.get());
    let mut second = Box::pin(queue.get());
    assert!(futures::poll!(&mut first).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    queue.add_after("early", secs(1));
    queue.add("now");
    assert_eq!(first.await, Some("now"));
    assert_eq!(second.await, Some("early"));
    assert_eq!(start.elapsed(), secs(1));
}

#[tokio::test(start_paused = true)]
async fn several_getters_share_the_keys_of_one_time() {
    let queue = queue();
    let start = Instant::now();
    let getters: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { (queue.get().await, start.elapsed()) })
        })
        .collect();
    settle().await;
    for key in 0..3 {
        queue.add_after(key, secs(1));
    }
    let mut taken = Vec::new();
    for getter in getters {
        let (key, at) = getter.await.unwrap();
        assert_eq!(at, secs(1));
        taken.extend(key);
    }
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_below_a_millisecond_does_not_make_a_getter_spin() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("a", Duration::from_micros(1500));
    assert_eq!(queue.get().await, Some("a"));
    assert!(start.elapsed() >= Duration::from_micros(1500) && start.elapsed() < millis(3));
}

#[tokio::test(start_paused = true)]
async fn the_longest_delay_does_not_overflow() {
    let queue = queue();
    queue.add_after("never", Duration::MAX);
    queue.add_after("a", secs(1));
    assert_eq!(queue.get().await, Some("a"));
    assert_eq!(queue.waiting_len(), 1);
}
