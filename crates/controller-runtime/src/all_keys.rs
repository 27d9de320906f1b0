//! A walk over all keys.

use std::collections::BTreeSet;

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_informer::Cluster;
use tokio::task::yield_now;

use crate::{Cause, Reconciler, Runtime};

/// The objects of one page of [`queue_all_keys`].
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

/// Visits the keys of all Services, then of all Endpoints, then of the owners of all slices. It
/// visits them in pages, to hold no lock for long.
#[derive(Default)]
pub(crate) struct AllKeys {
    source: Source,
    after: ObjectKey,
    /// True if a key may be on more than one page.
    repeats: bool,
}

#[derive(Clone, Copy, Default)]
enum Source {
    #[default]
    Services,
    Endpoints,
    SliceOwners,
}

impl Source {
    /// Returns at most `limit` keys after a key, sorted.
    fn after(self, cluster: &Cluster, after: &ObjectKey, limit: usize) -> Vec<ObjectKey> {
        match self {
            Self::Services => cluster.services_after(after, limit),
            Self::Endpoints => cluster.endpoints_after(after, limit),
            Self::SliceOwners => cluster.slice_owners_after(after, limit),
        }
    }
}

impl AllKeys {
    /// Visits a key once for each kind that has it, for callers that merge them. [`Self::default`]
    /// visits a key once, but may miss a key whose Service is created during the walk.
    pub(crate) fn with_repeats() -> Self {
        Self { repeats: true, ..Self::default() }
    }

    /// Returns all keys of a namespace, sorted.
    pub(crate) fn in_namespace(cluster: &Cluster, namespace: &str) -> BTreeSet<ObjectKey> {
        let mut keys = BTreeSet::new();
        for source in [Source::Services, Source::Endpoints, Source::SliceOwners] {
            let mut after = ObjectKey::new(namespace, "");
            loop {
                let page = source.after(cluster, &after, PAGE);
                keys.extend(page.iter().filter(|key| *key.namespace == *namespace).cloned());
                match page.last() {
                    Some(last) if *last.namespace == *namespace => after = last.clone(),
                    _ => break,
                }
            }
        }
        keys
    }

    /// Returns the next page, made from at most `limit` objects. It may be empty. Returns `None`
    /// after the last page.
    pub(crate) fn next_page(&mut self, cluster: &Cluster, limit: usize) -> Option<Vec<ObjectKey>> {
        loop {
            let mut keys = self.source.after(cluster, &self.after, limit);
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
