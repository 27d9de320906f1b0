//! The resync: a sync of all keys from time to time.
//!
//! Upstream's informers resync too (`--min-resync-period`, `ResyncPeriod` in
//! `cmd/kube-controller-manager/app`).

use std::time::Duration;

use kube_endpoint_informer::Kind;
use tokio::time::sleep;

use crate::all_keys::AllKeys;
use crate::{Cause, Reconciler, Runtime};

/// A resync visits all Services and Endpoints in this many steps of one second: ten minutes. It
/// then visits the owners of slices at the same rate, and skips those that it has visited already.
const RESYNC_STEPS: usize = 600;
const RESYNC_STEP: Duration = Duration::from_secs(1);

/// Resyncs at random times, one to two periods apart.
pub(crate) async fn resync_periodically<R: Reconciler>(runtime: &Runtime<R>) {
    let period = runtime.options.min_resync_period;
    if period.is_zero() {
        return std::future::pending().await;
    }
    loop {
        sleep(runtime.jittered(period, 1.0)).await;
        resync(runtime).await;
    }
}

/// Queues all selected keys, a few each second.
async fn resync<R: Reconciler>(runtime: &Runtime<R>) {
    let cluster = runtime.cluster();
    let keys = cluster.count(Kind::Services) + cluster.count(Kind::Endpoints);
    tracing::info!(queue = runtime.queue.name(), keys, "resync");
    let mut all = AllKeys::default();
    while let Some(mut keys) = all.next_page(cluster, keys.div_ceil(RESYNC_STEPS).max(1)) {
        keys.retain(|key| runtime.is_selected(key));
        runtime.metrics.resynced_keys.increment(keys.len() as u64);
        for key in keys {
            runtime.add(key, Cause::Resync);
        }
        sleep(RESYNC_STEP).await;
    }
}
