//! All keys that a sync may have something to do for.

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_informer::Cluster;
use tokio::task::yield_now;

use crate::{Cause, Reconciler, Runtime};

/// Objects of one page when all keys are queued.
const PAGE: usize = 1000;

/// Queues all keys.
pub(crate) async fn queue_all_keys<R: Reconciler>(runtime: &Runtime<R>) {
    let mut all = AllKeys::with_repeats();
    while let Some(keys) = all.next_page(runtime.cluster(), PAGE) {
        for key in keys {
            runtime.add(key, Cause::Start);
        }
        yield_now().await;
    }
}

/// Visits the keys of all Services, then those of Endpoints, then those of slices, in pages, so
/// that no lock is held for long.
#[derive(Default)]
pub(crate) struct AllKeys {
    source: Source,
    after: ObjectKey,
    /// True if a key may come more than once.
    repeats: bool,
}

#[derive(Clone, Copy, Default)]
enum Source {
    #[default]
    Services,
    Endpoints,
    SliceOwners,
}

impl AllKeys {
    /// A key comes once for each kind that has it, for callers that merge them: without repeats,
    /// one whose Service is created during the visit may come not at all.
    pub(crate) fn with_repeats() -> Self {
        Self { repeats: true, ..Self::default() }
    }

    /// The next page, which may be empty; none after the last. It is made from `limit` objects at
    /// most.
    pub(crate) fn next_page(&mut self, cluster: &Cluster, limit: usize) -> Option<Vec<ObjectKey>> {
        loop {
            let mut keys = match self.source {
                Source::Services => cluster.services_after(&self.after, limit),
                Source::Endpoints => cluster.endpoints_after(&self.after, limit),
                Source::SliceOwners => cluster.slice_owners_after(&self.after, limit),
            };
            if let Some(last) = keys.last() {
                self.after = last.clone();
                keys.retain(|key| self.repeats || self.is_first_visit(cluster, key));
                return Some(keys);
            }
            self.after = ObjectKey::default();
            self.source = match self.source {
                Source::Services => Source::Endpoints,
                Source::Endpoints => Source::SliceOwners,
                Source::SliceOwners => return None,
            };
        }
    }

    fn is_first_visit(&self, cluster: &Cluster, key: &ObjectKey) -> bool {
        match self.source {
            Source::Services => true,
            Source::Endpoints => cluster.service(key).is_none(),
            Source::SliceOwners => cluster.service(key).is_none() && cluster.endpoints(key).is_none(),
        }
    }
}
