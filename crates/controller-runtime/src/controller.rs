//! Runs a reconciler.

use std::sync::Arc;

use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder};
use kube_endpoint_informer::Cluster;
use kube_endpoint_workqueue::{RetryPolicy, run_workers_observed};

use crate::{Reconciler, Runtime, StateCounts};

/// A controller. Cloning it shares it.
pub struct Controller<R: Reconciler> {
    runtime: Arc<Runtime<R>>,
}

impl<R: Reconciler> Clone for Controller<R> {
    fn clone(&self) -> Self {
        Self { runtime: Arc::clone(&self.runtime) }
    }
}

impl<R: Reconciler> Controller<R> {
    /// Creates a controller and registers it as a handler of `cluster`. It syncs nothing before [`Self::run`]. `seed`
    /// determines the names of new objects.
    pub fn new(
        cluster: Cluster,
        writer: ApiWriter,
        events: EventRecorder,
        clock: Clock,
        options: R::Options,
        seed: u64,
    ) -> Self {
        let runtime = Arc::new(Runtime::new(cluster.clone(), writer, events, clock, R::new(options), seed));
        cluster.add_handler(Arc::clone(&runtime) as _);
        Self { runtime }
    }

    /// Waits until the caches are synced, then syncs keys until [`Self::shut_down`]. Syncs that are in progress then are
    /// finished.
    ///
    /// # Panics
    ///
    /// When a sync panics: a controller must not run on with fewer workers.
    pub async fn run(self) {
        let runtime = self.runtime;
        tokio::select! {
            biased;
            () = runtime.stopped.notified() => return,
            () = runtime.cluster().synced() => {}
        }
        runtime.reconciler.start(&runtime);
        let (syncing, observing) = (Arc::clone(&runtime), Arc::clone(&runtime));
        let workers = run_workers_observed(
            runtime.queue.clone(),
            RetryPolicy::default(),
            runtime.reconciler.config().workers,
            move |key| {
                let runtime = Arc::clone(&syncing);
                async move { runtime.sync(&key).await }
            },
            move |attempt| observing.reconciler.observe(&attempt),
        );
        tokio::select! {
            biased;
            () = workers => {}
            () = runtime.reconciler.background(&runtime) => {}
        }
    }

    /// Takes no more keys. [`Self::run`] returns when the syncs in progress have ended.
    pub fn shut_down(&self) {
        self.runtime.queue.shut_down();
        self.runtime.stopped.notify_one();
    }

    /// How many keys are queued, wait to be queued, or are being synced.
    pub fn pending(&self) -> usize {
        self.runtime.queue.outstanding()
    }

    /// How many keys something is kept for.
    pub fn state_counts(&self) -> StateCounts {
        self.runtime.counts()
    }
}
