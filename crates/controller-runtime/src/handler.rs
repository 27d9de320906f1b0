//! Receives changes from the watches, compares them with own writes, and passes them on to the
//! reconciler.

use std::any::Any;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use kube_endpoint_api_writer::Writable;
use kube_endpoint_core_model::{
    Admission, EndpointSelector, EndpointSlice, Endpoints, Lease, Node, ObjectKey, PlannedEvent, Service,
};
use kube_endpoint_informer::{Change, Handler, Kind, PodEvent, Scope};
use kube_endpoint_tracker::Observation;
use tokio::time::Instant;

use crate::all_keys::AllKeys;
use crate::holds::{Hold, LONGEST_WAIT};
use crate::log_lines::Line;
use crate::selection::Membership;
use crate::{Cause, ForeignWrite, Output, Reconciler, Runtime};

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

    fn on_endpoint_selector(&self, change: &Change<EndpointSelector>, services: &[ObjectKey]) {
        if !self.has_begun() {
            return;
        }
        self.reconciler.on_endpoint_selector(self, change, services);
    }

    fn on_lease(&self, change: &Change<Lease>) {
        if !self.has_begun() {
            return;
        }
        self.reconciler.on_lease(self, change);
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

    fn on_first_listed(&self, kind: Kind, namespace: &str) {
        if self.has_begun() && R::kinds().contains(kind) && self.cluster().covers(R::kinds(), namespace) {
            self.begin_in(namespace);
        }
    }

    fn on_relisted(&self, kind: Kind, scope: &Scope) {
        if !self.has_begun() {
            return;
        }
        if kind == Kind::Leases {
            self.reconciler.on_leases_listed(self);
        }
        if kind == R::Output::INFORMER_KIND {
            // If one list covers all namespaces, they have the same position.
            let position = self.position(scope.namespace().unwrap_or_default());
            let is_listed = |namespace: &str| scope.contains(namespace);
            for key in self.writer.tracker().unseen_creates(is_listed, position) {
                self.on_foreign_write(&key, ForeignWrite::DeletedUnseen, &[]);
            }
        }
    }
}

impl<R: Reconciler> Runtime<R> {
    /// Begins to sync the keys of a namespace that could not be read when the controller began.
    fn begin_in(&self, namespace: &str) {
        tracing::info!(
            queue = self.queue.name(),
            namespace,
            "the namespace can be read; its Services are synced"
        );
        self.reconciler.start_in(self, namespace);
        for key in AllKeys::in_namespace(self.cluster(), namespace) {
            self.add(key, Cause::Start);
        }
    }

    fn observe_if_output<T: 'static>(&self, change: &Change<T>) {
        if let Some(change) = (change as &dyn Any).downcast_ref::<Change<R::Output>>() {
            self.observe(change);
        }
    }

    /// Compares a change of an output with own writes. Syncs the owner of a foreign write, and both
    /// owners of an object whose owner changed. Resumes a sync that waits for the cache.
    fn observe(&self, change: &Change<R::Output>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(latest) = new.or(old) else { return };
        let (owner, metadata) = (latest.owner(), latest.metadata());
        let (tracker, object) = (self.writer.tracker(), metadata.key());
        let observed = if new.is_some() {
            tracker.observe_applied(owner.as_ref(), &object, &metadata.uid, metadata.resource_version)
        } else {
            let position = self.position(&object.namespace);
            tracker.observe_deleted(owner.as_ref(), &object, &metadata.uid, position)
        };
        let managed = |output: Option<&R::Output>| {
            output.filter(|output| self.reconciler.manages(output)).and_then(Output::owner)
        };
        let (before, now) = (managed(old), managed(new));
        let changed_hands = old.is_some() && new.is_some() && before != now;
        let foreign = matches!(observed, Observation::Foreign | Observation::Overtaken { .. });
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
        if let Observation::Overtaken { owner } = &observed
            && before.as_ref() != Some(owner)
            && now.as_ref() != Some(owner)
        {
            // The cache has never shown that the object was this owner's.
            sync(owner);
        }
        if let Some(owner) = &owner {
            self.outputs_changed(owner);
        }
    }

    /// Passes a change of a Service on to the reconciler if the Service is selected. Adds its key
    /// if the Service joins or leaves the selection.
    pub(crate) fn service_changed(&self, change: &Change<Service>) {
        let Some(latest) = change.latest() else { return };
        if self.selection.selector.is_none() {
            return self.reconciler.on_service(self, change);
        }
        let key = &latest.key;
        let membership = self.selection.membership(change.old.as_deref(), change.new.as_deref());
        if change.new.is_some() {
            self.selection.deleted.lock().remove(key);
        } else if self.has_leftovers(key) {
            self.selection.deleted.lock().insert(key.clone(), membership == Membership::Selected);
        }
        match membership {
            Membership::Outside => {}
            Membership::Selected => self.reconciler.on_service(self, change),
            // A Service that left needs a sync too: the worker drops its state, so this cannot
            // happen during another sync.
            Membership::Joined | Membership::Left => {
                if let Admission::Write { left_out } = self.admits(Line::Selection) {
                    tracing::info!(
                        queue = self.queue.name(), service = %key, ?membership, left_out,
                        "the labels of a Service have changed, and whether it is selected"
                    );
                }
                self.queue.add_for(key.clone(), Cause::Service.since(change.arrived));
            }
        }
    }

    /// Forgets a deleted Service once it has no outputs or Endpoints left.
    pub(crate) fn leftover_deleted(&self, key: &ObjectKey) {
        if self.selection.selector.is_some() && !self.has_leftovers(key) {
            self.selection.deleted.lock().remove(key);
        }
    }

    fn has_leftovers(&self, key: &ObjectKey) -> bool {
        self.cluster().endpoints(key).is_some() || !R::Output::of_owner(self.cluster(), key).is_empty()
    }

    /// Starts a sync because another client wrote outputs of the key.
    pub(crate) fn on_foreign_write(&self, key: &ObjectKey, write: ForeignWrite, outputs: &[&R::Output]) {
        // Another process syncs the Service, and these are its writes.
        if !self.is_selected(key) {
            return;
        }
        // The other kinds of writes do not name the object.
        if matches!(write, ForeignWrite::Applied | ForeignWrite::Deleted) {
            for output in outputs {
                self.recent_foreign_writes.seen(output.metadata().key(), self.clock().now());
            }
        }
        let Some(delay) = self.reconciler.foreign_write_delay(self, write) else { return };
        if !self.options.foreign_write_backoff {
            self.add_after(key.clone(), delay, Cause::ForeignWrite);
            return;
        }
        let mut hasher = DefaultHasher::new();
        write.hash(&mut hasher);
        for output in outputs {
            output.content_hash().hash(&mut hasher);
        }
        let content = hasher.finish();
        let answer = self.keys.with_trouble(key, |state| state.foreign.seen(content, Instant::now()));
        if answer.came_back {
            self.metrics.foreign_write_conflicts.increment(1);
        }
        // The Service may have no outputs after a deletion, so the first one gets no longer delay.
        let deleted = matches!(write, ForeignWrite::Deleted | ForeignWrite::DeletedUnseen);
        let delay = if deleted && answer.is_new { delay } else { delay.max(answer.delay) };
        if answer.report {
            self.report_conflict(key, delay);
        }
        if deleted && answer.delay >= LONGEST_WAIT {
            // The garbage collector may delete it, because the owner exists only in the cache.
            self.compare_all(&key.namespace);
        }
        self.hold(key, Hold::ForeignWrite, delay);
    }

    fn report_conflict(&self, key: &ObjectKey, delay: Duration) {
        let kind = R::Output::KIND;
        if let Admission::Write { left_out } = self.admits(Line::ForeignConflict) {
            tracing::warn!(
                queue = self.queue.name(), %key, kind, ?delay, left_out,
                "another client repeats a change that was corrected; the next corrections wait longer"
            );
        }
        if let Some(service) = self.cluster().service(key) {
            let message = format!(
                "Another client repeats a change of the {kind} objects of Service {key} that was corrected; \
                 the next corrections wait longer, up to 5 minutes"
            );
            self.events.record((&*service).into(), &PlannedEvent::warning("ForeignWriteConflict", message));
        }
    }
}
