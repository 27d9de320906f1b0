//! Reflectors take turns to apply events, so that many expensive events of one kind do not hold up
//! another.
//!
//! An event of a pod that 2,000 Services select calls handlers with 2,000 keys. If such events
//! arrive faster than they are applied, their reflector must not keep its thread, and must not make
//! the reflector of the Services apply them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, MutexGuard};

use crate::{Cluster, Kind, Object, StreamEvent};

/// After this many keys were handed to handlers, a reflector lets the other tasks of its thread
/// run.
const MAX_KEYS_BEFORE_YIELD: usize = 1000;

/// The turns of the reflectors of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Held while one event of a pod or a Service is applied. Tokio's mutex is fair: who waits gets
    /// the next turn.
    pods_and_services: Mutex<()>,
    /// Keys that were handed to handlers since a reflector last yielded.
    keys: AtomicUsize,
}

impl Turns {
    /// Counts keys that are handed to handlers.
    pub(crate) fn count(&self, keys: usize) {
        self.keys.fetch_add(keys, Ordering::Relaxed);
    }
}

impl Cluster {
    /// Waits for the turn of a kind to apply one event. Drop the guard before the next await.
    pub(crate) async fn turn(&self, kind: Kind) -> Option<MutexGuard<'_, ()>> {
        match kind {
            Kind::Pods | Kind::Services => Some(self.inner.turns.pods_and_services.lock().await),
            Kind::Nodes | Kind::EndpointSlices | Kind::Endpoints => None,
        }
    }

    /// Lets other tasks run if much has been done since the last call. Call it after a turn.
    pub(crate) async fn yield_after_work(&self) {
        let keys = &self.inner.turns.keys;
        if keys.load(Ordering::Relaxed) >= MAX_KEYS_BEFORE_YIELD {
            keys.store(0, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    }

    /// Applies an event when it is the turn of its kind.
    pub(crate) async fn apply_in_turn<T: Object>(&self, event: StreamEvent<T>) {
        let turn = self.turn(T::KIND).await;
        self.apply(event);
        drop(turn);
        self.yield_after_work().await;
    }
}
