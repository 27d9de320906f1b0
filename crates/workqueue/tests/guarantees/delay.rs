//! Delayed keys.

use std::time::Duration;

use tokio::time::{Instant, advance};

use crate::guarantees::{advance_to, millis, queue, secs, settle, take, take_all};

#[tokio::test(start_paused = true)]
async fn a_delayed_key_is_queued_at_its_time_and_not_before() {
    let queue = queue();
    queue.add_after("a", millis(50));
    advance(millis(49)).await;
    assert_eq!(take(&queue), None);
    advance(millis(1)).await;
    assert_eq!(take(&queue), Some("a"));
    assert_eq!(queue.waiting_len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_getter_wakes_at_the_time_of_a_delayed_key() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("a", millis(1234));
    assert_eq!(queue.get().await, Some("a"));
    assert_eq!(start.elapsed(), millis(1234));
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_zero_is_an_add() {
    let queue = queue();
    queue.add_after("a", Duration::ZERO);
    assert_eq!((queue.len(), queue.waiting_len()), (1, 0));
}

/// Adds one key with these delays, one after the other. It must be queued once, at `expected`. All
/// in milliseconds.
async fn check_delays(delays: &[u64], expected: u64) {
    let queue = queue();
    let start = Instant::now();
    for delay in delays {
        queue.add_after("a", millis(*delay));
        assert_eq!(queue.waiting_len(), 1);
    }
    assert_eq!(queue.get().await, Some("a"));
    assert_eq!(start.elapsed(), millis(expected), "{delays:?}");
    queue.done(&"a");
    advance(secs(3600)).await;
    assert_eq!(take(&queue), None, "{delays:?}");
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_two_delays_applies() {
    check_delays(&[50, 1000], 50).await;
    check_delays(&[1000, 50], 50).await;
    check_delays(&[300, 200, 400, 100, 500], 100).await;
}

#[tokio::test(start_paused = true)]
async fn the_times_are_compared_and_not_the_delays() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after("a", millis(100));
    advance(millis(80)).await;
    queue.add_after("a", millis(50));
    assert_eq!(queue.get().await, Some("a"));
    assert_eq!(start.elapsed(), millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_that_is_added_is_queued_now_and_stays_delayed() {
    let queue = queue();
    queue.add_after("a", secs(1));
    queue.add("a");
    assert_eq!((queue.len(), queue.waiting_len()), (1, 1));
    assert_eq!(take_all(&queue), ["a"]);
    advance(secs(1)).await;
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_that_is_ready_while_queued_is_processed_once() {
    let queue = queue();
    queue.add_after("a", secs(1));
    queue.add("a");
    advance(secs(1)).await;
    assert_eq!((queue.len(), queue.waiting_len()), (1, 0));
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_that_is_ready_during_processing_is_queued_after_done() {
    let queue = queue();
    queue.add("a");
    assert_eq!(take(&queue), Some("a"));
    queue.add_after("a", secs(1));
    advance(secs(2)).await;
    assert_eq!(take(&queue), None);
    queue.done(&"a");
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn delayed_keys_are_queued_in_the_order_of_their_times() {
    let queue = queue();
    for (key, delay) in [("late", 30), ("first", 10), ("second", 10), ("middle", 20)] {
        queue.add_after(key, millis(delay));
    }
    advance(millis(30)).await;
    assert_eq!(take_all(&queue), ["first", "second", "middle", "late"]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_that_was_ready_comes_before_one_added_later() {
    let queue = queue();
    queue.add_after("delayed", millis(10));
    advance(millis(20)).await;
    queue.add("added");
    assert_eq!(take_all(&queue), ["delayed", "added"]);
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

#[tokio::test(start_paused = true)]
async fn a_rate_limited_key_waits_longer_after_each_failure_until_forgotten() {
    let queue = queue();
    let mut waits = Vec::new();
    for round in 0..5 {
        if round == 3 {
            queue.forget(&"a");
        }
        let start = Instant::now();
        queue.add_rate_limited("a");
        assert_eq!(queue.get().await, Some("a"));
        queue.done(&"a");
        waits.push((start.elapsed().as_secs(), queue.num_requeues(&"a")));
    }
    assert_eq!(waits, [(1, 1), (2, 2), (4, 3), (1, 1), (2, 2)]);
}

#[tokio::test(start_paused = true)]
async fn forgetting_a_key_does_not_change_its_delay() {
    let queue = queue();
    let start = Instant::now();
    queue.add_rate_limited("a");
    queue.forget(&"a");
    assert_eq!((queue.num_requeues(&"a"), queue.waiting_len()), (0, 1));
    advance_to(start, secs(1)).await;
    assert_eq!(take(&queue), Some("a"));
}
