//! Finds the end of an outage, in which all writes of a verb fail.
//!
//! The controllers of one process share their knowledge of outages: a write of one controller shows
//! the others that the API server carries out writes of this verb again. The module `state` has the
//! rules. One of the controllers applies them for all.

mod state;

use std::fmt;
use std::sync::Arc;

use kube_endpoint_api_writer::{FailedWrite, Operation};
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_workqueue::WorkQueue;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::metrics::Metrics;
use crate::{Cause, RuntimeOptions};
use state::{Id, State};

/// Starts a sync of a failed key.
type Wake = Arc<dyn Fn(ObjectKey, Cause) + Send + Sync>;

/// The failed keys of the controllers of one process during outages of the API server. Clones share
/// them.
#[derive(Clone, Default)]
pub struct Outages(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    members: Mutex<Vec<Wake>>,
    changed: Notify,
    /// The only permit, held by the controller that runs [`Member::drive`]. When it ends, another
    /// one takes over.
    driver: Semaphore,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            members: Mutex::default(),
            changed: Notify::new(),
            driver: Semaphore::new(1),
        }
    }
}

impl fmt::Debug for Outages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outages").finish_non_exhaustive()
    }
}

/// A controller among those that share [`Outages`].
pub(crate) struct Member {
    shared: Arc<Shared>,
    number: usize,
}

impl Member {
    /// Adds a controller. Returns `None` without slow retries.
    pub(crate) fn new(
        options: &RuntimeOptions,
        queue: &WorkQueue<ObjectKey>,
        metrics: &Metrics,
    ) -> Option<Self> {
        if !options.slow_retries {
            return None;
        }
        let (queue, woken) = (queue.clone(), metrics.woken_keys.clone());
        let wake = move |key, cause: Cause| {
            woken.increment(1);
            // The key goes on waiting for its retry; see [`Cause::extra`].
            queue.add_for(key, cause);
        };
        let shared = Arc::clone(&options.outages.0);
        let mut members = shared.members.lock();
        let number = members.len();
        members.push(Arc::new(wake));
        drop(members);
        Some(Self { shared, number })
    }

    /// Records that a sync failed with these writes.
    pub(crate) fn failed(&self, key: &ObjectKey, writes: &[FailedWrite], now: Instant) {
        self.shared.state.lock().failed(self.id(key), writes, now);
        self.shared.changed.notify_one();
    }

    /// Records that a sync succeeded. It may have written nothing.
    pub(crate) fn succeeded(&self, key: &ObjectKey, now: Instant) {
        if self.shared.state.lock().succeeded(&self.id(key), now) {
            self.shared.changed.notify_one();
        }
    }

    /// Records that a write succeeded.
    pub(crate) fn wrote(&self, operation: Operation, now: Instant) {
        if self.shared.state.lock().wrote(self.number, operation, now) {
            self.shared.changed.notify_one();
        }
    }

    /// Wakes keys of all controllers at the times that the rules set. Waits while another
    /// controller does this.
    pub(crate) async fn drive(&self) {
        // Nobody closes the semaphore, so this cannot fail.
        let _permit = self.shared.driver.acquire().await;
        loop {
            let (woken, next) = self.shared.state.lock().step(Instant::now());
            for (Id { member, key }, cause) in woken {
                let wake = self.shared.members.lock().get(member).map(Arc::clone);
                if let Some(wake) = wake {
                    wake(key, cause);
                }
            }
            let changed = self.shared.changed.notified();
            match next {
                None => changed.await,
                Some(next) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = sleep_until(next) => {}
                },
            }
        }
    }

    fn id(&self, key: &ObjectKey) -> Id {
        Id { member: self.number, key: key.clone() }
    }
}

/// Tries failed keys in an outage, and syncs all of them after it. Does nothing without slow
/// retries.
pub(crate) async fn drive_outages(member: Option<&Member>) {
    match member {
        Some(member) => member.drive().await,
        None => std::future::pending().await,
    }
}
