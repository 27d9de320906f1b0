//! Evidence that the server's storage went back: it shows another history than the one that this
//! process has read, as after a restore from a backup.
//!
//! Evidence is an answer to a consistent read with a lower version than this process has read
//! before, confirmed by a second one a second later, or a complete list that contradicts the store.
//! Without the confirmation the reflectors list, since the server may have passed the version.
//! A watch or a bookmark is no evidence: a server whose watch cache is behind sends old versions
//! too.

use kube_endpoint_api_client::STORAGE_WENT_BACK;
use kube_endpoint_watch_channel as watch;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// The server's storage went back. The objects that this process has read and written may not exist
/// any more, and their versions say nothing, so the process has to start again from nothing: with a
/// new [`Cluster`](crate::Cluster) and new controllers.
///
/// The message names the evidence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{evidence}: {STORAGE_WENT_BACK}")]
pub struct StorageWentBack {
    evidence: String,
}

/// The evidence so far, and the time from which on it counts.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The first evidence.
    evidence: watch::Sender<Option<StorageWentBack>>,
    /// [`History::went_back`] completes at this time at the earliest.
    counts_from: Mutex<Option<Instant>>,
}

impl History {
    /// Defers evidence until `time`.
    pub(crate) fn defer_until(&self, time: Instant) {
        *self.counts_from.lock() = Some(time);
    }

    /// Records evidence.
    pub(crate) fn report(&self, evidence: String) {
        let left = self.counts_from.lock().map(|time| time.saturating_duration_since(Instant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero() && self.evidence.borrow().is_none()) {
            tracing::warn!(
                evidence,
                in_seconds = left.as_secs(),
                "the storage of the API server went back again; the controllers start again later"
            );
        }
        self.evidence.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(StorageWentBack { evidence });
            is_first
        });
    }

    /// Waits for evidence, and until it counts.
    pub(crate) async fn went_back(&self) -> StorageWentBack {
        let mut evidence = self.evidence.subscribe();
        // The sender lives as long as `self`, so waiting cannot fail.
        let first = evidence.wait_for(Option::is_some).await.ok().and_then(|first| first.clone());
        let Some(first) = first else { return std::future::pending().await };
        let counts_from = *self.counts_from.lock();
        if let Some(time) = counts_from {
            sleep_until(time).await;
        }
        first
    }
}
