//! What starts a sync.

use std::time::Duration;

use kube_endpoint_core_model::{EndpointSlice, Node, ObjectKey, Service};
use kube_endpoint_informer::{Change, Handler, Kind, PodEvent};
use kube_endpoint_tracker::Observation;

use super::{SLICE_CHANGE_DELAY, Shared};

impl Handler for Shared {
    fn on_service(&self, change: &Change<Service>) {
        if let Some(service) = change.latest() {
            self.queue.add(service.key.clone());
        }
    }

    fn on_pod(&self, event: &PodEvent) {
        for service in event.services_to_sync() {
            self.queue.add_after(service.clone(), self.options.batch_period);
        }
    }

    fn on_endpoint_slice(&self, change: &Change<EndpointSlice>) {
        // The first list needs no syncs of its own: every Service is synced anyway.
        if !self.cluster.has_synced() {
            return;
        }
        let manager = &*self.options.plan.manager;
        let managed = |slice: &EndpointSlice| slice.is_managed_by(manager);
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        match (old, new) {
            (_, Some(new)) => {
                let owner = new.service_key();
                let metadata = &new.metadata;
                let observed = self.writer.tracker().observe_applied(
                    owner.as_ref(),
                    &new.key(),
                    &metadata.uid,
                    metadata.resource_version,
                );
                let was = old.filter(|old| managed(old)).and_then(EndpointSlice::service_key);
                let is = owner.filter(|_| managed(new));
                let handed_over = old.is_some() && was != is;
                if handed_over {
                    self.sync_after_slice_change(was.as_ref());
                }
                if handed_over || observed == Observation::Foreign {
                    self.sync_after_slice_change(is.as_ref());
                }
                if let Some(owner) = &is {
                    self.put_off.cache_moved(owner);
                }
            }
            (Some(old), None) => {
                let owner = old.service_key();
                let observed =
                    self.writer.tracker().observe_deleted(owner.as_ref(), &old.key(), &old.metadata.uid);
                if managed(old)
                    && let Some(owner) = &owner
                {
                    if observed == Observation::Foreign {
                        self.sync_after_slice_change(Some(owner));
                    }
                    self.put_off.cache_moved(owner);
                }
            }
            (None, None) => {}
        }
    }

    fn on_node(&self, change: &Change<Node>) {
        self.node_changed(change.old.as_deref(), change.new.as_deref());
    }

    fn on_relisted(&self, kind: Kind) {
        if kind == Kind::EndpointSlices {
            for key in self.writer.tracker().unseen_creates(self.position()) {
                self.sync_after_slice_change(Some(&key));
            }
        }
    }
}

impl Shared {
    /// How long a sync that a slice caused waits for more of the kind.
    fn slice_change_delay(&self) -> Duration {
        self.options.batch_period.max(SLICE_CHANGE_DELAY)
    }

    pub(super) fn sync_after_slice_change(&self, service: Option<&ObjectKey>) {
        if let Some(service) = service {
            self.queue.add_after(service.clone(), self.slice_change_delay());
        }
    }
}
