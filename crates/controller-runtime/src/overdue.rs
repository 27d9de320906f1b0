//! Writes that the cache never shows.

use std::collections::BTreeMap;

use kube_endpoint_api_writer::WriteError;
use kube_endpoint_core_model::{ObjectKey, Text};
use kube_endpoint_tracker::CachePosition;
use tokio::time::sleep;

use crate::holds::LONGEST_WAIT;
use crate::{Cause, Output, Reconciler, Runtime};

/// The most objects about which the server is asked in a minute.
const MOST_QUESTIONS: usize = 100;

/// Looks after writes that the cache never shows: an event was lost, or the server's storage
/// was set back to a state from before the write and has passed its version since. No event may
/// ever come that starts a sync then.
pub(crate) async fn check_overdue_writes<R: Reconciler>(runtime: &Runtime<R>) {
    let mut missed = BTreeMap::new();
    let mut positions = BTreeMap::new();
    loop {
        sleep(LONGEST_WAIT).await;
        sync_overdue(runtime, &mut positions);
        missed.extend(runtime.writer.tracker().take_missed());
        ask_about(runtime, &mut missed).await;
    }
}

/// Syncs keys with writes that the cache does not show although it has read on. `before` are
/// the positions in the namespaces of these keys a minute ago. A cache that has read nothing
/// since is behind, and has lost nothing.
fn sync_overdue<R: Reconciler>(runtime: &Runtime<R>, before: &mut BTreeMap<Text, CachePosition>) {
    let overdue = runtime.writer.tracker().overdue();
    let namespaces = overdue.iter().map(|key| &key.namespace);
    let now: BTreeMap<Text, CachePosition> =
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

/// Asks the server about objects whose last write the cache has read past without showing it.
/// If one exists as written, the cache is that of another state of the server's storage, and
/// everything is listed again. Objects that cannot be judged yet stay in `missed`.
async fn ask_about<R: Reconciler>(runtime: &Runtime<R>, missed: &mut BTreeMap<ObjectKey, CachePosition>) {
    let is_current = |object: &ObjectKey, written: &mut CachePosition| {
        written.epoch == runtime.position(&object.namespace).epoch
    };
    missed.retain(is_current);
    let asked: Vec<ObjectKey> = missed.keys().take(MOST_QUESTIONS).cloned().collect();
    for object in asked {
        // The position is read first: the cache is then at least as new.
        let position = runtime.position(&object.namespace);
        let cached = R::Output::cached_version(runtime.cluster(), &object);
        let version = match runtime.writer.writer().get::<R::Output>(&object).await {
            Ok(found) => Some(found.version()),
            Err(WriteError::NotFound(_)) => None,
            // Another time.
            Err(_) => return,
        };
        let Some(version) = version.filter(|it| *it <= position.version && cached != Some(*it)) else {
            missed.remove(&object);
            continue;
        };
        if runtime.cluster().report_set_back() {
            tracing::warn!(
                queue = runtime.queue.name(), %object, %version, position = %position.version,
                "the API server has an object in a version that the watch should have shown: its storage was set \
                 back, so all kinds are listed again"
            );
        }
        return;
    }
}
