//! Reflectors take turns to apply events, so that many expensive events of one kind do not hold up
//! another.
//!
//! For one event of a pod that 2,000 Services select, handlers get 2,000 keys. If such events
//! arrive faster than their reflector can apply them, it must not keep its thread, and must not
//! leave them in the queue for the reflector of the Services to apply.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, MutexGuard};

use crate::{Cluster, Kind, Object, StreamEvent};

/// After a reflector has handed this many keys to handlers, it lets the other tasks of its thread
/// run.
const MAX_KEYS_BEFORE_YIELD: usize = 1000;

/// The locks that make the reflectors of a cluster take turns.
#[derive(Debug, Default)]
pub(crate) struct FairLocks {
    /// Held while a reflector applies one event of a pod or a Service. Tokio's mutex is fair: the
    /// task that has waited longest gets the next turn.
    pods_and_services: Mutex<()>,
    /// Keys that reflectors handed to handlers since one of them last yielded.
    keys: AtomicUsize,
}

impl FairLocks {
    /// Counts keys that a reflector hands to handlers.
    pub(crate) fn count(&self, keys: usize) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
    }
}

impl Cluster {
    /// Waits for the lock under which reflectors apply events of a kind. Pods, Services and
    /// EndpointSelectors share one, other kinds have none. Drop the guard before the next await.
    pub(crate) async fn fair_lock(&self, kind: Kind) -> Option<MutexGuard<'_, ()>> {
        match kind {
            Kind::Pods | Kind::Services | Kind::EndpointSelectors => {
                Some(self.inner.fair_locks.pods_and_services.lock().await)
            }
            Kind::Nodes | Kind::EndpointSlices | Kind::Endpoints | Kind::Leases => None,
        }
    }

    /// Lets other tasks run if handlers got many keys since the last yield. Call it without the
    /// lock.
    pub(crate) async fn yield_after_work(&self) {
        let keys = &self.inner.fair_locks.keys;
        if keys.load(Ordering::Relaxed) >= MAX_KEYS_BEFORE_YIELD {
            keys.store(0, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    }

    /// Applies an event under the lock of its kind.
    pub(crate) async fn apply_locked<T: Object>(&self, event: StreamEvent<T>) {
        let lock = self.fair_lock(T::KIND).await;
        self.apply(event);
        drop(lock);
        self.yield_after_work().await;
    }
}
