//! Measures the time from the arrival of a change's event until the change is written.
//!
//! The queue keeps the arrival with the key
//! ([`Reason::since`](kube_endpoint_workqueue::Reason::since)). A sync that writes something and
//! succeeds has published all changes that had arrived when it began. It counts once, from the
//! first of them to its last answered write. Changes in a complete list, or from before this
//! process led, have no arrival and do not count.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use crate::{Outcome, SyncError};

/// The name of the histogram. Its label `name` is the name of the controller's queue.
pub(crate) const EVENT_TO_WRITE: &str = "event_to_write_seconds";

/// Upper bounds in seconds: a write takes a millisecond at least, and spacing, batches and rate
/// limits take up to seconds.
const BUCKETS: [f64; 15] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

tokio::task_local! {
    /// The time of the last answer to a write of the current task's sync.
    static LAST_WRITE: Cell<Option<Instant>>;
}

/// Returns the histograms of this crate, with the buckets that an exporter has to set.
pub fn buckets() -> Vec<(&'static str, Vec<f64>)> {
    vec![(EVENT_TO_WRITE, BUCKETS.to_vec())]
}

/// Records an answer to a write of the current sync.
pub(crate) fn wrote() {
    // This fails outside of a sync, and in a sync without an arrival; neither is measured.
    let _ = LAST_WRITE.try_with(|last| last.set(Some(Instant::now())));
}

/// Runs one sync. If it succeeds and has written something, calls `published` with the time from
/// `since`, the arrival of the first change, to the last answered write.
pub(crate) async fn measured(
    sync: impl Future<Output = Result<Outcome, SyncError>>,
    since: Option<Instant>,
    published: impl FnOnce(Duration),
) -> Result<Outcome, SyncError> {
    let Some(since) = since else { return sync.await };
    let measured = async {
        let result = sync.await;
        (result, LAST_WRITE.with(Cell::take))
    };
    let (result, last_write) = LAST_WRITE.scope(Cell::new(None), measured).await;
    if let (Ok(Outcome::Done), Some(at)) = (&result, last_write) {
        published(at.saturating_duration_since(since));
    }
    result
}
