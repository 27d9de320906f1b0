//! What the watches report, compared with our own writes and passed on to the reconciler.

use std::any::Any;

use kube_endpoint_api_writer::Writable;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, Service};
use kube_endpoint_informer::{Change, Handler, Kind, PodEvent, Scope};
use kube_endpoint_tracker::Observation;

use crate::{ForeignWrite, Output, Reconciler, Runtime};

impl<R: Reconciler> Handler for Runtime<R> {
    fn wants_pods(&self) -> bool {
        R::kinds().contains(Kind::Pods) && self.has_begun()
    }

    fn on_pod(&self, event: &PodEvent) {
        if !self.has_begun() {
            return;
        }
        self.reconciler.on_pod(self, event);
    }

    fn on_service(&self, change: &Change<Service>) {
        if !self.has_begun() {
            return;
        }
        self.service_changed(change);
    }

    fn on_node(&self, change: &Change<Node>) {
        if !self.has_begun() {
            return;
        }
        self.reconciler.on_node(self, change);
    }

    fn on_endpoint_slice(&self, change: &Change<EndpointSlice>) {
        if !self.has_begun() {
            return;
        }
        self.observe_if_output(change);
        self.reconciler.on_endpoint_slice(self, change);
        if change.new.is_none()
            && let Some(owner) = change.old.as_ref().and_then(|slice| slice.service_key())
        {
            self.leftover_deleted(&owner);
        }
    }

    fn on_endpoints(&self, change: &Change<Endpoints>) {
        if !self.has_begun() {
            return;
        }
        self.observe_if_output(change);
        self.reconciler.on_endpoints(self, change);
        if let (Some(old), None) = (&change.old, &change.new) {
            self.leftover_deleted(&old.key());
        }
    }

    fn on_relisted(&self, kind: Kind, scope: &Scope) {
        if !self.has_begun() {
            return;
        }
        if kind == R::Output::INFORMER_KIND {
            // All namespaces have the same position if they are listed together.
            let position = self.position(scope.namespace().unwrap_or_default());
            let is_listed = |namespace: &str| scope.contains(namespace);
            for key in self.writer.tracker().unseen_creates(is_listed, position) {
                self.on_foreign_write(&key, ForeignWrite::DeletedUnseen, &[]);
            }
        }
    }
}

impl<R: Reconciler> Runtime<R> {
    fn observe_if_output<T: 'static>(&self, change: &Change<T>) {
        if let Some(change) = (change as &dyn Any).downcast_ref::<Change<R::Output>>() {
            self.observe(change);
        }
    }

    /// Compares a change of an output with our own writes. Syncs the owner of a foreign write, and
    /// both owners of an object that changed hands; resumes a sync that waited for the cache.
    fn observe(&self, change: &Change<R::Output>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(latest) = new.or(old) else { return };
        let (owner, metadata) = (latest.owner(), latest.metadata());
        let (tracker, object) = (self.writer.tracker(), metadata.key());
        let observed = if new.is_some() {
            tracker.observe_applied(owner.as_ref(), &object, &metadata.uid, metadata.resource_version)
        } else {
            tracker.observe_deleted(owner.as_ref(), &object, &metadata.uid)
        };
        let managed = |output: Option<&R::Output>| {
            output.filter(|output| self.reconciler.manages(output)).and_then(Output::owner)
        };
        let (before, now) = (managed(old), managed(new));
        let changed_hands = old.is_some() && new.is_some() && before != now;
        // The server, or a webhook, has stored something else than was sent.
        let differs = observed == Observation::Own
            && new.is_some()
            && self
                .cluster()
                .sent_objects(R::Output::INFORMER_KIND)
                .is_some_and(|sent| sent.take_difference(&object, metadata.resource_version));
        let foreign = observed == Observation::Foreign || differs;
        let sync = |key| self.on_foreign_write(key, ForeignWrite::Applied, &[latest]);
        if changed_hands && let Some(before) = &before {
            sync(before);
        }
        if new.is_none() {
            if foreign && let Some(before) = &before {
                self.on_foreign_write(before, ForeignWrite::Deleted, &[latest]);
            }
        } else if (foreign || changed_hands)
            && let Some(now) = &now
        {
            sync(now);
        }
        if let Some(owner) = &owner {
            self.resume(owner);
        }
    }
}
