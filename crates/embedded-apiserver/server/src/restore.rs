//! Restores an older state under a running server.

use kube_endpoint_apiserver_rules::strategy::ClusterIps;

use crate::server::Inner;
use crate::store::{CowMap, Place, Store, resource_of_table};
use crate::watches::Ending;

/// The objects and the resource version of a server at one time; see
/// [`EmbeddedApiServer::checkpoint`](crate::EmbeddedApiServer::checkpoint).
#[derive(Clone, Debug)]
pub struct Checkpoint {
    version: u64,
    tables: Vec<CowMap>,
    cluster_ips: ClusterIps,
}

impl Checkpoint {
    /// Returns the latest resource version when the checkpoint was made.
    pub fn resource_version(&self) -> u64 {
        self.version
    }
}

impl Inner {
    /// Copies the state.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        let cluster_ips = self.cluster_ips.lock();
        let store = self.store.lock();
        let tables = store.tables().iter().map(|table| table.objects.clone()).collect();
        Checkpoint { version: store.version(), tables, cluster_ips: cluster_ips.clone() }
    }

    /// Replaces the state and breaks all watches.
    pub(crate) fn restore(&self, checkpoint: &Checkpoint) {
        let places = {
            let mut cluster_ips = self.cluster_ips.lock();
            let mut store = self.store.lock();
            *cluster_ips = checkpoint.cluster_ips.clone();
            let places = store.restore(checkpoint.version, &checkpoint.tables);
            self.watches.end(Ending::Broken, |_| true);
            places
        };
        for place in places {
            self.resume_deletion(place);
        }
        self.resume_pods();
    }

    /// Continues the unfinished work of the garbage collector and the namespace controller on an
    /// object.
    fn resume_deletion(&self, place: Place) {
        let (stored, owner_missing) = {
            let store = self.store.lock();
            let Some(stored) = store.table(place.0).objects.get(&place.1).cloned() else { return };
            let owner_missing = stored.meta.owners.iter().any(|uid| store.by_uid(uid).is_none());
            (stored, owner_missing)
        };
        if owner_missing {
            self.collect_later(place);
        } else if stored.meta.deleting {
            self.deletion_marked(resource_of_table(place.0), &stored);
        }
    }
}

impl Store {
    /// Replaces all objects and the version, and empties the history. Returns the objects that are
    /// being deleted or lack an owner.
    fn restore(&mut self, version: u64, tables: &[CowMap]) -> Vec<Place> {
        self.reset(version, tables);
        let mut places = Vec::new();
        for (table, objects) in tables.iter().enumerate() {
            for object in objects.cursor("", "") {
                if object.meta.deleting || object.meta.owners.iter().any(|uid| self.by_uid(uid).is_none()) {
                    places.push((table, object.key.clone()));
                }
            }
        }
        places
    }
}
