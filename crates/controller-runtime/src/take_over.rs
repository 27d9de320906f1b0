//! How a controller begins, maybe after another process was the leader.
//!
//! Before it begins, it keeps nothing for any key: what a leader does meanwhile is none of its own
//! writes, and no foreign write either. When it begins, it syncs all keys. Each Service is then
//! queued once, and not once for each of its pods.

use std::sync::atomic::Ordering;

use tokio::task::yield_now;

use crate::all_keys::AllKeys;
use crate::{Cause, Reconciler, Runtime};

/// Objects of one page when all keys are queued.
const PAGE: usize = 1000;

impl<R: Reconciler> Runtime<R> {
    /// Returns true if changes are looked at. Before, another process may write the outputs.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Looks at changes from now on. [`Self::queue_all_keys`] has to follow, since changes before
    /// were not looked at.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
    }

    /// Queues all keys.
    pub(crate) async fn queue_all_keys(&self) {
        let mut all = AllKeys::with_repeats();
        while let Some(keys) = all.next_page(self.cluster(), PAGE) {
            for key in keys {
                self.add(key, Cause::Start);
            }
            yield_now().await;
        }
    }
}
