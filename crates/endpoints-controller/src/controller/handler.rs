//! What starts a sync.

use kube_endpoint_core_model::{Endpoints, Service};
use kube_endpoint_informer::{Change, Handler, Kind, PodEvent};
use kube_endpoint_tracker::Observation;

use super::Shared;

impl Handler for Shared {
    fn on_service(&self, change: &Change<Service>) {
        let Some(service) = change.latest() else { return };
        if change.new.is_none() {
            self.gone.lock().insert(service.key.clone());
        }
        self.queue.add(service.key.clone());
    }

    fn on_pod(&self, event: &PodEvent) {
        for service in event.services_to_sync() {
            self.queue.add_after(service.clone(), self.options.batch_period);
        }
    }

    fn on_endpoints(&self, change: &Change<Endpoints>) {
        // The first list needs no syncs of its own: every Service is synced anyway.
        if !self.cluster.has_synced() {
            return;
        }
        let Some(endpoints) = change.latest() else { return };
        let (key, metadata, tracker) = (endpoints.key(), &endpoints.metadata, self.writer.tracker());
        let sync = if change.new.is_some() {
            let version = metadata.resource_version;
            let observed = tracker.observe_applied(Some(&key), &key, &metadata.uid, version);
            self.options.repair && observed == Observation::Foreign
        } else {
            // Upstream makes them anew at once as well.
            tracker.observe_deleted(Some(&key), &key, &metadata.uid) == Observation::Foreign
        };
        self.put_off.cache_moved(&key);
        if sync {
            self.queue.add(key);
        }
    }

    fn on_relisted(&self, kind: Kind) {
        if kind == Kind::Endpoints {
            for key in self.writer.tracker().unseen_creates(self.position()) {
                self.queue.add(key);
            }
        }
    }
}
