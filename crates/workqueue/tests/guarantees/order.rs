//! Deduplication, order, and which getter is woken.

use kube_endpoint_workqueue::Reason;
use tokio::time::Instant;

use crate::guarantees::{queue, secs, settle, take, take_all};

#[tokio::test(start_paused = true)]
async fn done_for_a_key_that_is_not_being_processed_does_nothing() {
    let queue = queue();
    queue.done(&"a");
    queue.add("a");
    queue.done(&"a");
    assert_eq!(take_all(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn clones_are_one_queue() {
    let queue = queue();
    let other = queue.clone();
    queue.add("a");
    assert_eq!(take(&other), Some("a"));
    assert_eq!(other.name(), "test");
}

#[tokio::test(start_paused = true)]
async fn a_getter_waits_for_a_key() {
    let queue = queue();
    let start = Instant::now();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { (queue.get().await, start.elapsed()) }
    });
    tokio::time::sleep(secs(3)).await;
    queue.add("a");
    assert_eq!(getter.await.unwrap(), (Some("a"), secs(3)));
}

#[tokio::test(start_paused = true)]
async fn every_waiting_getter_receives_one_key() {
    let queue = queue();
    let getters: Vec<_> = (0..5)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await })
        })
        .collect();
    settle().await;
    for key in 0..5 {
        queue.add(key);
    }
    let mut taken = Vec::new();
    for getter in getters {
        taken.push(getter.await.unwrap().unwrap());
    }
    taken.sort_unstable();
    assert_eq!(taken, [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn done_wakes_a_getter_for_the_key_that_was_added_meanwhile() {
    let queue = queue();
    queue.add("a");
    assert_eq!(take(&queue), Some("a"));
    queue.add("a");
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await }
    });
    settle().await;
    assert!(!getter.is_finished());
    queue.done(&"a");
    assert_eq!(getter.await.unwrap(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_getter_that_is_dropped_after_its_wake_up_wakes_another() {
    let queue = queue();
    let mut first = Box::pin(queue.get());
    let mut second = Box::pin(queue.get());
    assert!(futures::poll!(&mut first).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    queue.add("a");
    drop(first);
    assert_eq!(second.await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn dropping_a_getter_loses_no_key() {
    let queue = queue();
    let mut getter = Box::pin(queue.get());
    assert!(futures::poll!(&mut getter).is_pending());
    drop(getter);
    queue.add("a");
    assert_eq!(queue.get().await, Some("a"));
}

#[tokio::test(start_paused = true)]
async fn urgent_keys_and_others_are_taken_in_turn() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    for key in ["u", "v", "w", "x"] {
        queue.add_for(key, Reason::default().urgent(true));
    }
    assert_eq!(take_all(&queue), ["u", "a", "v", "b", "w", "c", "x"]);
}

#[tokio::test(start_paused = true)]
async fn a_queued_key_becomes_urgent_once() {
    let queue = queue();
    for key in ["a", "b", "c"] {
        queue.add(key);
    }
    queue.add_for("c", Reason::default().urgent(true));
    queue.add("c");
    assert_eq!(queue.len(), 3);
    assert_eq!(take_all(&queue), ["c", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_becomes_urgent_while_it_is_processed_is_urgent_afterwards() {
    let queue = queue();
    queue.add("a");
    assert_eq!(take(&queue), Some("a"));
    queue.add_for("a", Reason::default().urgent(true));
    queue.add("b");
    queue.done(&"a");
    assert_eq!(take_all(&queue), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_wanted_for_an_urgent_key_and_for_a_change_of_its_own() {
    let queue = queue();
    queue.add("a");
    assert_eq!(take(&queue), Some("a"));
    queue.add("b");
    assert!(!queue.is_wanted(&"a"));
    queue.add("a");
    assert!(queue.is_wanted(&"a"));
    queue.done(&"a");
    assert_eq!(take(&queue), Some("b"));
    assert!(!queue.is_wanted(&"b"));
    queue.add_for("c", Reason::default().urgent(true));
    assert!(queue.is_wanted(&"b"));
}

#[tokio::test(start_paused = true)]
async fn an_add_of_a_delayed_key_that_is_urgent_is_urgent() {
    let queue = queue();
    queue.add_after_for("a", secs(1), Reason::default().urgent(true));
    queue.add("b");
    queue.add("a");
    assert_eq!(queue.get_urgent().await.map(|(key, _)| key), Some("a"));
    queue.done(&"a");
    queue.add("a");
    assert_eq!(take_all(&queue), ["b", "a"], "its change is answered");
}

#[tokio::test(start_paused = true)]
async fn a_getter_of_urgent_keys_waits_for_them() {
    let queue = queue();
    let getter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get_urgent().await.map(|(key, reason)| (key, reason.urgent)) }
    });
    settle().await;
    queue.add("a");
    settle().await;
    assert!(!getter.is_finished());
    queue.add_after_for("b", secs(1), Reason::default().urgent(true));
    assert_eq!(getter.await.unwrap(), Some(("b", true)));
    assert_eq!(take_all(&queue), ["a"]);
    queue.shut_down();
    assert_eq!(queue.get_urgent().await, None);
}
