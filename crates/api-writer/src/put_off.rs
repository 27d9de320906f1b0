//! Syncs that have to wait until the cache shows our own writes.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_workqueue::WorkQueue;
use parking_lot::Mutex;

/// How long a sync that was put off waits at most, unless the cache catches up before.
const LONGEST: Duration = Duration::from_secs(1);

/// The owners whose sync found the cache behind our own writes, and was put off. One for each controller.
#[derive(Debug)]
pub struct PutOff {
    queue: WorkQueue<ObjectKey>,
    owners: Mutex<BTreeSet<ObjectKey>>,
}

impl PutOff {
    /// Puts syncs of this queue off.
    pub fn new(queue: WorkQueue<ObjectKey>) -> Self {
        Self { queue, owners: Mutex::default() }
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

    /// Drops what is known of an owner that is gone.
    pub fn forget(&self, owner: &ObjectKey) {
        self.owners.lock().remove(owner);
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
    async fn it_comes_after_a_second_at_the_latest() {
        let queue = WorkQueue::new("test", default_controller_rate_limiter());
        let start = Instant::now();
        PutOff::new(queue.clone()).put_off(&ObjectKey::new("n", "web"));
        queue.get().await.unwrap();
        assert!((1000..1010).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    }
}
