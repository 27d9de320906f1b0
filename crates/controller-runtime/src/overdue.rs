//! Writes that the cache never shows.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{ObjectKey, ResourceVersion, Text};
use tokio::time::sleep;

use crate::holds::LONGEST_WAIT;
use crate::{Cause, Reconciler, Runtime};

/// Starts syncs of keys whose writes the cache never shows: an event was lost, or the server's
/// storage went back to a state from before the write and has passed its version since. Perhaps no
/// event ever starts such a sync.
pub(crate) async fn check_overdue_writes<R: Reconciler>(runtime: &Runtime<R>) {
    let mut positions = BTreeMap::new();
    loop {
        sleep(LONGEST_WAIT).await;
        sync_overdue(runtime, &mut positions);
        // Another client deleted them between two lists, or the cache shows another history.
        let missed = runtime.writer.tracker().take_missed();
        for namespace in missed.into_iter().map(|object| object.namespace).collect::<BTreeSet<_>>() {
            runtime.compare_outputs(&namespace);
        }
    }
}

/// Syncs keys with writes that the cache does not show although it has read on. `before` holds the
/// positions in the namespaces of these keys a minute ago. A cache that has read nothing since then
/// is behind, and has lost nothing.
fn sync_overdue<R: Reconciler>(runtime: &Runtime<R>, before: &mut BTreeMap<Text, ResourceVersion>) {
    let overdue = runtime.writer.tracker().overdue();
    let namespaces = overdue.iter().map(|key| &key.namespace);
    let now: BTreeMap<Text, ResourceVersion> =
        namespaces.map(|namespace| (namespace.clone(), runtime.position(namespace))).collect();
    let has_read_on = |key: &&ObjectKey| {
        before.get(&key.namespace).is_some_and(|position| now.get(&key.namespace) != Some(position))
    };
    let keys: Vec<&ObjectKey> = overdue.iter().filter(has_read_on).collect();
    *before = now;
    if let Some(first) = keys.first() {
        tracing::warn!(
            queue = runtime.queue.name(), keys = keys.len(), %first,
            "the cache does not show writes of these keys, so they are synced again"
        );
    }
    for key in keys {
        runtime.add(key.clone(), Cause::StaleCache);
    }
}
