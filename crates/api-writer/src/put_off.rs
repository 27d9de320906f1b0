//! Syncs that have to wait: until the cache shows our own writes, or because the server asked to be left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_workqueue::WorkQueue;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a sync that was put off waits at most, unless the cache catches up before.
const LONGEST: Duration = Duration::from_secs(1);
/// How long the server is left alone at most, whatever it asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The owners whose sync was put off, because it found the cache behind our own writes or because the server asked for a
/// pause. One for each controller.
#[derive(Debug)]
pub struct PutOff {
    queue: WorkQueue<ObjectKey>,
    owners: Mutex<BTreeSet<ObjectKey>>,
    /// Until when the server wants to hear nothing of an owner.
    paused: Mutex<BTreeMap<ObjectKey, Instant>>,
}

impl PutOff {
    /// Puts syncs of this queue off.
    pub fn new(queue: WorkQueue<ObjectKey>) -> Self {
        Self { queue, owners: Mutex::default(), paused: Mutex::default() }
    }

    /// Puts the sync of an owner off until [`Self::cache_moved`], or for a second: the event that it waits for may have
    /// come just now, or may never come by itself.
    pub fn put_off(&self, owner: &ObjectKey) {
        self.owners.lock().insert(owner.clone());
        self.queue.add_after(owner.clone(), LONGEST);
    }

    /// Starts the sync of an owner that was put off, now that the cache shows something new of what it owns.
    pub fn cache_moved(&self, owner: &ObjectKey) {
        if self.owners.lock().remove(owner) {
            self.queue.add(owner.clone());
        }
    }

    /// Says that the sync of an owner found the cache as new as our own writes: it waits for nothing any more.
    pub fn caught_up(&self, owner: &ObjectKey) {
        self.owners.lock().remove(owner);
    }

    /// Puts the sync of an owner off for as long as the server asked for (`Retry-After`), five minutes at most.
    pub fn pause(&self, owner: &ObjectKey, retry_after: Duration) {
        let pause = retry_after.min(LONGEST_PAUSE);
        self.paused.lock().insert(owner.clone(), Instant::now() + pause);
        self.queue.add_after(owner.clone(), pause);
    }

    /// Whether a sync comes before the end of the pause that the server asked for. It then comes again by itself, when
    /// the pause is over.
    pub fn is_paused(&self, owner: &ObjectKey) -> bool {
        let mut paused = self.paused.lock();
        let Some(until) = paused.get(owner) else { return false };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            paused.remove(owner);
            return false;
        }
        drop(paused);
        self.queue.add_after(owner.clone(), left);
        true
    }

    /// Drops what is known of an owner that is gone.
    pub fn forget(&self, owner: &ObjectKey) {
        self.owners.lock().remove(owner);
        self.paused.lock().remove(owner);
    }

    /// How many owners wait.
    pub fn len(&self) -> usize {
        self.owners.lock().len() + self.paused.lock().len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_workqueue::default_controller_rate_limiter;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_sync_that_was_put_off_comes_with_the_cache_and_once_only() {
        let queue = WorkQueue::new("test", default_controller_rate_limiter());
        let put_off = PutOff::new(queue.clone());
        let owner = ObjectKey::new("n", "web");
        put_off.cache_moved(&owner);
        assert!(queue.is_empty(), "nothing was put off");
        put_off.put_off(&owner);
        put_off.cache_moved(&owner);
        assert_eq!(queue.len(), 1);
        put_off.put_off(&owner);
        put_off.forget(&owner);
        let key = queue.get().await.unwrap();
        queue.done(&key);
        put_off.cache_moved(&owner);
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_sync_that_finds_the_cache_caught_up_waits_for_nothing_any_more() {
        let queue = WorkQueue::new("test", default_controller_rate_limiter());
        let put_off = PutOff::new(queue.clone());
        let owner = ObjectKey::new("n", "web");
        put_off.put_off(&owner);
        put_off.caught_up(&owner);
        put_off.cache_moved(&owner);
        assert!(queue.is_empty() && put_off.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_whatever_asks_for_a_sync_meanwhile() {
        let queue = WorkQueue::new("test", default_controller_rate_limiter());
        let put_off = PutOff::new(queue.clone());
        let owner = ObjectKey::new("n", "web");
        assert!(!put_off.is_paused(&owner));
        put_off.pause(&owner, Duration::from_secs(7));
        queue.add(owner.clone());
        let start = Instant::now();
        let mut looks = Vec::new();
        loop {
            let key = queue.get().await.unwrap();
            let paused = put_off.is_paused(&key);
            queue.done(&key);
            looks.push(start.elapsed().as_secs());
            if !paused {
                break;
            }
        }
        assert_eq!(looks, [0, 7]);
        assert!(put_off.is_empty());
        put_off.pause(&owner, Duration::MAX);
        tokio::time::advance(LONGEST_PAUSE).await;
        assert!(!put_off.is_paused(&owner), "not for ever");
        put_off.pause(&owner, Duration::from_secs(7));
        put_off.forget(&owner);
        assert!(!put_off.is_paused(&owner), "it is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn it_comes_after_a_second_at_the_latest() {
        let queue = WorkQueue::new("test", default_controller_rate_limiter());
        let start = Instant::now();
        PutOff::new(queue.clone()).put_off(&ObjectKey::new("n", "web"));
        queue.get().await.unwrap();
        assert!((1000..1010).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }
}
