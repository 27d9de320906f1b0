//! The context of a running sync, for traces and for the record of its writes.

use std::sync::Arc;

use kube_endpoint_core_model::{ObjectKey, Timestamp, Writes};
use parking_lot::Mutex;

tokio::task_local! {
    static CURRENT: Arc<SyncContext>;
}

/// The sync that the current task runs. It exists only if the sync is traced or a
/// [`WriteObserver`](crate::WriteObserver) observes writes.
#[derive(Debug)]
pub struct SyncContext {
    /// Name of the controller's queue.
    pub queue: Arc<str>,
    pub key: ObjectKey,
    pub causes: Vec<&'static str>,
    details: Mutex<SyncDetails>,
}

/// The facts that a sync finds out about its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncDetails {
    /// When the change happened that the sync publishes.
    pub trigger_time: Option<Timestamp>,
    /// Number of pods that the Service selects.
    pub pods: Option<usize>,
    /// Number of output objects in the cache, of all managers.
    pub outputs: Option<usize>,
    /// Number of endpoints in the plan.
    pub endpoints: Option<usize>,
    /// Number of objects that the plan creates.
    pub creates: usize,
    /// Number of objects that the plan updates.
    pub updates: usize,
    /// Number of objects that the plan deletes.
    pub deletes: usize,
}

impl SyncDetails {
    /// Counts the writes of a plan.
    pub fn plans<T>(&mut self, writes: &Writes<T>) {
        self.creates += writes.create.len();
        self.updates += writes.update.len();
        self.deletes += writes.delete.len();
    }
}

impl SyncContext {
    /// The context of a sync that begins.
    pub fn new(queue: Arc<str>, key: ObjectKey, causes: Vec<&'static str>) -> Arc<Self> {
        Arc::new(Self { queue, key, causes, details: Mutex::default() })
    }

    /// Runs a sync in this context.
    pub async fn scope<T>(self: &Arc<Self>, sync: impl Future<Output = T>) -> T {
        CURRENT.scope(Arc::clone(self), sync).await
    }

    /// The context of the sync that the current task runs, if one was made.
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Adds to the details of the current sync. Does nothing without a context.
    pub fn note(change: impl FnOnce(&mut SyncDetails)) {
        let _ = CURRENT.try_with(|context| change(&mut context.details.lock()));
    }

    /// Returns the facts that the sync has found out so far.
    pub fn details(&self) -> SyncDetails {
        *self.details.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn details_are_noted_in_the_context_of_the_sync_that_finds_them_out() {
        SyncContext::note(|_| unreachable!("there is no context"));
        let context =
            |name: &str| SyncContext::new("endpoint".into(), ObjectKey::new("shop", name), vec!["pod"]);
        let (one, other) = (context("one"), context("other"));
        let sync = |pods| async move {
            SyncContext::note(|details| details.pods = Some(pods));
            tokio::task::yield_now().await;
            SyncContext::current().unwrap().key.name.to_string()
        };
        let names = tokio::join!(one.scope(sync(1)), other.scope(sync(2)));
        assert_eq!(names, ("one".to_owned(), "other".to_owned()));
        assert_eq!((one.details().pods, other.details().pods), (Some(1), Some(2)));
        assert!(SyncContext::current().is_none());
    }
}
