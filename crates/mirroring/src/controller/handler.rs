//! What starts a sync.

use kube_endpoint_core_model::well_known::MIRRORING_CONTROLLER;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectKey, Service};
use kube_endpoint_informer::{Change, Handler, Kind};
use kube_endpoint_tracker::Observation;

use super::{Shared, orphans};
use crate::plan::mirrorable;

impl Handler for Shared {
    fn on_service(&self, change: &Change<Service>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let lacks_selector = |service: &Service| service.selector.is_none();
        let matters = match (old, new) {
            // A Service may have been made anew under its name while nobody watched.
            (Some(old), Some(new)) => lacks_selector(old) != lacks_selector(new) || old.uid != new.uid,
            _ => old.or(new).is_some_and(lacks_selector),
        };
        if matters && let Some(service) = change.latest() {
            self.queue.add(service.key.clone());
        }
    }

    fn on_endpoints(&self, change: &Change<Endpoints>) {
        // What is not mirrored, and was not, cannot matter: slices that were left of it start a sync themselves.
        let matters = [&change.old, &change.new].into_iter().flatten().any(|it| mirrorable(it).is_ok());
        if matters && let Some(endpoints) = change.latest() {
            self.queue.add(endpoints.key());
        }
    }

    // Slices of the first list start syncs too: of those whose Endpoints went, or are not mirrored any more, nobody else
    // would tell.
    fn on_endpoint_slice(&self, change: &Change<EndpointSlice>) {
        let mirrored = |slice: &EndpointSlice| slice.is_managed_by(MIRRORING_CONTROLLER);
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(slice) = new.or(old) else { return };
        let (owner, key, metadata) = (slice.service_key(), slice.key(), &slice.metadata);
        let tracker = self.writer.tracker();
        let observed = if new.is_some() {
            tracker.observe_applied(owner.as_ref(), &key, &metadata.uid, metadata.resource_version)
        } else {
            tracker.observe_deleted(owner.as_ref(), &key, &metadata.uid)
        };
        let was = old.filter(|old| mirrored(old)).and_then(EndpointSlice::service_key);
        let is = new.filter(|new| mirrored(new)).and_then(EndpointSlice::service_key);
        if old.is_some() && new.is_some() && was != is {
            self.sync_after_slice_change(was.as_ref());
            self.sync_after_slice_change(is.as_ref());
        } else if observed == Observation::Foreign {
            self.sync_after_slice_change(is.as_ref().or(was.as_ref()));
        }
        let Some(owner) = owner else { return };
        if self.options.orphaned_slice_cleanup
            && new.is_some_and(orphans::is_made_of_pods)
            && self.cluster.service(&owner).is_some_and(|service| service.selector.is_none())
        {
            self.sync_after_slice_change(Some(&owner));
        }
        self.put_off.cache_moved(&owner);
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
    pub(super) fn sync_after_slice_change(&self, endpoints: Option<&ObjectKey>) {
        if let Some(endpoints) = endpoints {
            self.queue.add_after(endpoints.clone(), self.options.batch_period);
        }
    }
}
