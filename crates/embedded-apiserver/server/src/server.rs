//! The server's state and the basic operations on it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::strategy::{ClusterIps, Families};
use parking_lot::Mutex;
use serde_json::Value;

use crate::clock::Clock;
use crate::faults::Faults;
use crate::kubelet::Kubelet;
use crate::random::Random;
use crate::request_log::RequestLog;
use crate::reviews::Reviews;
use crate::store::{Encoded, Store, Stored};
use crate::watches::OpenWatches;

/// The settings from the builder.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The interval of bookmarks in watches that allow them.
    pub(crate) bookmark_interval: Duration,
    /// The delay with which the garbage collector, the namespace controller and the kubelet react.
    pub(crate) gc_delay: Duration,
    /// True if the garbage collector runs.
    pub(crate) collects_garbage: bool,
    /// True if the listener requires a known token.
    pub(crate) requires_token: bool,
    /// True if the server keeps managedFields up to date.
    pub(crate) tracks_managers: bool,
    /// The minor version that `/version` names.
    pub(crate) minor_version: u32,
    /// The IP families of Services.
    pub(crate) families: Families,
}

/// The state that the clones of a server share.
pub(crate) struct Inner {
    /// The objects. Nobody holds the lock across an await or while encoding a list.
    pub(crate) store: Mutex<Store>,
    /// Cluster IPs. A task that needs both locks takes this one before the store's.
    pub(crate) cluster_ips: Mutex<ClusterIps>,
    /// The kubelet, if the server plays it. A task that needs both locks takes this one before the
    /// store's.
    pub(crate) kubelet: Option<Mutex<Kubelet>>,
    /// True from a change for which the kubelet has to look at the waiting pods until it does.
    pub(crate) wakes_waiting_pods: AtomicBool,
    pub(crate) random: Mutex<Random>,
    pub(crate) clock: Clock,
    /// The number of seconds by which a test has set the wall clock forward.
    pub(crate) clock_jump: AtomicI64,
    pub(crate) settings: Settings,
    pub(crate) faults: Faults,
    pub(crate) log: RequestLog,
    pub(crate) reviews: Reviews,
    pub(crate) watches: OpenWatches,
    /// Hidden API groups.
    pub(crate) hidden_groups: Mutex<BTreeSet<String>>,
    /// The queue of the namespace controller.
    pub(crate) queued_namespaces: Mutex<BTreeSet<String>>,
    /// A handle for tasks that outlive the request that spawns them.
    pub(crate) this: Weak<Inner>,
}

/// Another request changed the object in the meantime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict;

/// Returns the key of an object.
pub(crate) fn key_of(resource: &Resource, namespace: &str, name: &str) -> String {
    if resource.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
}

impl Inner {
    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        let jump = SignedDuration::from_secs(self.clock_jump.load(Ordering::Relaxed));
        let now = self.clock.now();
        now.saturating_add(jump).unwrap_or(now)
    }

    /// Returns the current state of an object.
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

    /// Runs a job after `delay` on the current runtime, or at once if there is none.
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
