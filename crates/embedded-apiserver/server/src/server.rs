//! The server's state and the few operations on it that everything else is made of.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::strategy::ClusterIps;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::faults::Faults;
use crate::random::Random;
use crate::request_log::RequestLog;
use crate::reviews::Reviews;
use crate::store::{Encoded, Store, Stored};

/// What the builder settles once and for all.
#[derive(Debug)]
pub(crate) struct Settings {
    /// How often a watch that allows it gets a bookmark.
    pub(crate) bookmark_interval: Duration,
    /// How long the garbage collector and the namespace controller take to notice something.
    pub(crate) gc_delay: Duration,
    /// Whether there is a garbage collector.
    pub(crate) collects_garbage: bool,
    /// Whether the listener asks for a known token.
    pub(crate) requires_token: bool,
}

/// Everything that the clones of a server share.
pub(crate) struct Inner {
    /// The objects. Held for short, never across an await and never while a list is encoded.
    pub(crate) store: Mutex<Store>,
    /// Cluster IPs. Taken before the store's lock where both are needed.
    pub(crate) cluster_ips: Mutex<ClusterIps>,
    pub(crate) random: Mutex<Random>,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) faults: Faults,
    pub(crate) log: RequestLog,
    pub(crate) reviews: Reviews,
    /// Counts the times that all open watches were told to end.
    pub(crate) watch_epoch: watch::Sender<u64>,
    /// Namespaces that the namespace controller has on its list.
    pub(crate) queued_namespaces: Mutex<BTreeSet<String>>,
    /// A handle for jobs that outlive the request that causes them.
    pub(crate) this: Weak<Inner>,
}

/// Somebody else changed the object in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict;

/// The key of an object.
pub(crate) fn key_of(resource: &Resource, namespace: &str, name: &str) -> String {
    if resource.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
}

impl Inner {
    /// The object as it is now.
    pub(crate) fn current(&self, resource: &Resource, key: &str) -> Option<Arc<Stored>> {
        self.store.lock().table(Store::table_of(resource)).objects.get(key).cloned()
    }

    /// Stores an object if it is still at version `expected`, or still absent for `None`.
    pub(crate) fn commit(
        &self,
        resource: &Resource,
        key: &str,
        expected: Option<u64>,
        object: &Value,
    ) -> Result<Arc<Stored>, Conflict> {
        let encoded = Encoded::of(object);
        let table = Store::table_of(resource);
        let (stored, owner_missing) = {
            let mut store = self.store.lock();
            if store.table(table).objects.get(key).map(|stored| stored.version) != expected {
                return Err(Conflict);
            }
            let meta = store.meta(resource, object);
            let owner_missing = meta.owners.iter().any(|uid| store.by_uid(uid).is_none());
            (store.write(table, key, &encoded, meta), owner_missing)
        };
        if owner_missing {
            self.collect_later((table, stored.key.clone()));
        }
        Ok(stored)
    }

    /// Runs a job after `delay` on the current runtime, or at once where there is none.
    pub(crate) fn later(&self, delay: Duration, job: impl FnOnce(&Inner) + Send + 'static) {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                let this = self.this.clone();
                runtime.spawn(async move {
                    tokio::time::sleep(delay).await;
                    if let Some(inner) = this.upgrade() {
                        job(&inner);
                    }
                });
            }
            Err(_) => job(self),
        }
    }
}
