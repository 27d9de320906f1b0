//! Tests which values receivers see, and in which order the channel wakes them.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_endpoint_watch_channel::{Closed, Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

async fn is_pending<T>(future: impl Future<Output = T>) -> bool {
    timeout(Duration::from_secs(1), future).await.is_err()
}

/// This fails with `tokio::sync::watch`, except by chance.
#[tokio::test(start_paused = true)]
async fn receivers_are_woken_in_the_order_in_which_they_began_to_wait() {
    for waits_for in [false, true] {
        let (sender, receiver) = channel(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for number in 0..100 {
            let (order, mut receiver) = (Arc::clone(&order), receiver.clone());
            tasks.spawn(async move {
                if waits_for {
                    let _ = receiver.wait_for(|value| *value == 1).await.unwrap();
                } else {
                    receiver.changed().await.unwrap();
                }
                order.lock().unwrap().push(number);
            });
        }
        sleep(Duration::from_secs(1)).await;
        sender.send_replace(1);
        tasks.join_all().await;
        assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_seen_once() {
    let (sender, mut receiver) = channel('a');
    assert!(is_pending(receiver.changed()).await, "the initial value is seen");
    sender.send_replace('b');
    sender.send_replace('c');
    let mut copy = receiver.clone();
    assert_eq!(*receiver.borrow(), 'c');
    receiver.changed().await.unwrap();
    assert!(is_pending(receiver.changed()).await);
    assert_eq!(*copy.borrow_and_update(), 'c');
    assert!(is_pending(copy.changed()).await);
    assert!(is_pending(sender.subscribe().changed()).await);
    sender.send_replace('d');
    receiver.mark_unchanged();
    assert!(is_pending(receiver.changed()).await);
    copy.changed().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_change_is_notified_if_the_sender_says_so() {
    let (sender, mut receiver) = channel(1);
    assert!(!sender.send_if_modified(|_| false));
    assert!(is_pending(receiver.changed()).await);
    assert!(sender.send_if_modified(|value| std::mem::replace(value, 2) == 1));
    receiver.changed().await.unwrap();
    sender.send_modify(|value| *value += 1);
    assert_eq!(sender.send_replace(7), 3);
    assert_eq!((*receiver.borrow(), *sender.borrow()), (7, 7));
}

#[tokio::test(start_paused = true)]
async fn a_value_is_waited_for() {
    let (sender, mut receiver) = channel(1);
    assert_eq!(*receiver.wait_for(|value| *value == 1).await.unwrap(), 1);
    let task = tokio::spawn(async move {
        let found = *receiver.wait_for(|value| *value >= 3).await.unwrap();
        (found, receiver)
    });
    for value in [2, 4] {
        sleep(Duration::from_secs(1)).await;
        sender.send_replace(value);
    }
    let (found, mut receiver) = task.await.unwrap();
    assert_eq!(found, 4);
    assert!(is_pending(receiver.changed()).await, "what was waited for is seen");
}

#[tokio::test(start_paused = true)]
async fn receivers_learn_that_the_sender_was_dropped() {
    let (sender, mut receiver) = channel(1);
    let (mut behind, mut waiting) = (receiver.clone(), receiver.clone());
    sender.send_replace(2);
    receiver.changed().await.unwrap();
    let waiting =
        tokio::spawn(async move { waiting.wait_for(|value| *value == 3).await.map(|value| *value) });
    sleep(Duration::from_secs(1)).await;
    drop(sender);
    assert_eq!(receiver.changed().await, Err(Closed));
    assert_eq!(waiting.await.unwrap(), Err(Closed));
    assert_eq!((behind.changed().await, behind.changed().await), (Ok(()), Err(Closed)));
    assert_eq!(*behind.wait_for(|value| *value == 2).await.unwrap(), 2);
    assert_eq!(*receiver.borrow(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_change_is_missed_on_several_threads() {
    let sender = Sender::new(0);
    let count = |mut receiver: Receiver<u32>| async move {
        let mut last = 0;
        while receiver.changed().await.is_ok() {
            let value = *receiver.borrow_and_update();
            assert!(value > last, "{value} after {last}");
            last = value;
        }
        last
    };
    let tasks: JoinSet<u32> = (0..8).map(|_| count(sender.subscribe())).collect();
    for value in 1..=10_000 {
        sender.send_replace(value);
        if value % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    drop(sender);
    let ended = timeout(Duration::from_secs(60), tasks.join_all()).await.unwrap();
    assert_eq!(ended, [10_000; 8]);
}
