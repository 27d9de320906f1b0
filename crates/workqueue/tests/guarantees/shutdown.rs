//! Shutdown, with and without waiting for keys that are being processed.

use futures::FutureExt;

use crate::guarantees::{queue, secs, settle, take};

#[tokio::test(start_paused = true)]
async fn a_shut_down_wakes_every_getter() {
    let queue = queue::<&str>();
    queue.add_after("later", secs(60));
    let getters: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await })
        })
        .collect();
    settle().await;
    queue.shut_down();
    for getter in getters {
        assert_eq!(getter.await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_until_everything_in_flight_is_done() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    assert_eq!((take(&queue), take(&queue)), (Some("a"), Some("b")));
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.shut_down_with_drain().await }
    });
    settle().await;
    assert!(queue.is_shutting_down());
    queue.done(&"a");
    settle().await;
    assert!(!drain.is_finished(), "b is being worked");
    queue.done(&"b");
    drain.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_a_key_that_was_added_during_processing_and_taken_again() {
    let queue = queue();
    queue.add("a");
    assert_eq!(take(&queue), Some("a"));
    queue.add("a");
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!(futures::poll!(&mut drain).is_pending());
    queue.done(&"a");
    assert_eq!(take(&queue), Some("a"));
    assert!(futures::poll!(&mut drain).is_pending());
    queue.done(&"a");
    drain.await;
    assert_eq!(queue.get().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_drain_with_nothing_in_flight_returns_at_once() {
    let queue = queue();
    queue.add("queued");
    assert!(queue.shut_down_with_drain().now_or_never().is_some());
    assert_eq!(queue.get().await, Some("queued"));
}

#[tokio::test(start_paused = true)]
async fn a_shut_down_ends_a_drain() {
    let queue = queue();
    queue.add("a");
    assert_eq!(take(&queue), Some("a"));
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!(futures::poll!(&mut drain).is_pending());
    queue.shut_down();
    drain.await;
    assert_eq!(queue.in_flight_len(), 1);
}

#[tokio::test(start_paused = true)]
async fn several_callers_may_drain_and_shut_down_may_be_called_again() {
    let queue = queue();
    queue.add("a");
    assert_eq!(take(&queue), Some("a"));
    let mut first = Box::pin(queue.shut_down_with_drain());
    let mut second = Box::pin(queue.shut_down_with_drain());
    assert!(futures::poll!(&mut first).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    queue.done(&"a");
    first.await;
    second.await;
    queue.shut_down();
    queue.shut_down_with_drain().await;
}
