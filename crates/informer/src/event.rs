//! The events that stores apply, and the changes that the cluster calls handlers with.

use std::sync::Arc;

use kube_endpoint_core_model::change::PodChange;
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Endpoints, Lease, Node, ObjectKey, Pod, ResourceVersion, Service,
};
use tokio::time::Instant;

use crate::{Kind, Scope};

/// An event of a list and watch of one kind. A store applies a stream of these, whatever its
/// source.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent<T> {
    /// An object was created or changed.
    Applied(T),
    /// An object was deleted. This is its last state, with the version of the deletion.
    Deleted(T),
    /// An object was deleted, and the reflector could not decode its last state.
    DeletedFinalStateUnknown {
        key: ObjectKey,
        /// The version of the deletion.
        resource_version: ResourceVersion,
    },
    /// The complete state, as a list returns it. Every other object in its scope was deleted while
    /// the watch was down.
    Restarted {
        /// All objects, in any order, each once.
        items: Vec<T>,
        /// Objects that the reflector could not decode when it received them for this list, or when
        /// it last received them before. The store keeps its last views of those that `items`
        /// lacks.
        undecodable: Vec<ObjectKey>,
        resource_version: ResourceVersion,
    },
    /// The server has sent all events up to this version.
    Bookmark(ResourceVersion),
}

impl<T> StreamEvent<T> {
    /// Returns a complete state in which the reflector could decode every object.
    pub fn restarted(items: Vec<T>, resource_version: ResourceVersion) -> Self {
        Self::Restarted { items, undecodable: Vec::new(), resource_version }
    }
}

/// An object before and after a change. A created object has no `old`, a deleted one no `new`.
#[derive(Debug)]
pub struct Change<T> {
    /// The previous view, or `None` if the object was created.
    pub old: Option<Arc<T>>,
    /// The current view, or `None` if the object was deleted.
    pub new: Option<Arc<T>>,
    /// When the event of the watch arrived, or `None` if a complete list showed the change, which
    /// may have happened long before.
    pub arrived: Option<Instant>,
}

impl<T> Change<T> {
    /// Returns the current view, or the last one of a deleted object.
    pub fn latest(&self) -> Option<&Arc<T>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone(), arrived: self.arrived }
    }
}

/// The source of an event.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The objects that its list and watch covers.
    pub scope: Scope,
    pub arrived: Instant,
}

/// A pod before and after a change, and the Services that select it. The three lists are sorted. If
/// nothing changed that endpoints depend on ([`PodChange::is_none`]), the store does not look up
/// Services and the lists are empty.
#[derive(Clone, Debug)]
pub struct PodEvent {
    pub change: Change<Pod>,
    /// The parts of the pod that changed: all parts of a created or deleted pod.
    pub changed: PodChange,
    /// Services that selected it before and no longer do.
    pub left: Vec<ObjectKey>,
    /// Services that select it and did not before.
    pub joined: Vec<ObjectKey>,
    /// Services that selected it before and still do.
    pub stayed: Vec<ObjectKey>,
}

impl PodEvent {
    /// Returns the Services to sync (upstream `GetServicesToUpdate`): all of
    /// [`services`](Self::services) if the pod's endpoint may differ, otherwise those that started
    /// or stopped selecting it. A changed hostname or subdomain changes the endpoint as well, which
    /// upstream misses.
    pub fn services_to_sync(&self) -> impl Iterator<Item = &ObjectKey> {
        let renamed = match (&self.change.old, &self.change.new) {
            (Some(old), Some(new)) => old.hostname != new.hostname || old.subdomain != new.subdomain,
            _ => true,
        };
        let stayed = if self.changed.endpoint || renamed { self.stayed.as_slice() } else { &[] };
        self.left.iter().chain(&self.joined).chain(stayed)
    }

    /// Returns all Services that selected the pod before or select it now.
    pub fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        self.left.iter().chain(&self.joined).chain(&self.stayed)
    }
}

/// The cluster calls a handler for each change, after the stores show it; but see
/// [`wants_pods`](Self::wants_pods).
///
/// The cluster makes calls for one kind in order, one at a time, and holds no lock. A call blocks
/// the watch of its kind, so a handler should only add keys to queues. The cluster makes no call
/// for a new version of a pod or a node whose view is unchanged. If the selector of a Service
/// changes, the cluster calls only [`on_service`](Self::on_service), not [`on_pod`](Self::on_pod).
pub trait Handler: Send + Sync {
    /// Returns true if [`on_pod`](Self::on_pod) has an effect now. While no handler wants pods, the
    /// cluster makes no calls for the pods of a complete list, since it would have to look up the
    /// Services of each pod. So a handler that begins to want pods has to look at all of them.
    fn wants_pods(&self) -> bool {
        true
    }
    /// A pod changed.
    fn on_pod(&self, _event: &PodEvent) {}
    /// A Service changed.
    fn on_service(&self, _change: &Change<Service>) {}
    /// An EndpointSelector changed. These Services name it; their pods may be others now.
    fn on_endpoint_selector(&self, _change: &Change<EndpointSelector>, _services: &[ObjectKey]) {}
    /// A node changed.
    fn on_node(&self, _change: &Change<Node>) {}
    /// An EndpointSlice changed.
    fn on_endpoint_slice(&self, _change: &Change<EndpointSlice>) {}
    /// An Endpoints object changed.
    fn on_endpoints(&self, _change: &Change<Endpoints>) {}
    /// A Lease changed. There is a call for each renewal.
    fn on_lease(&self, _change: &Change<Lease>) {}
    /// The cluster applied the first complete list of a kind in a namespace, and called the
    /// handlers for every object in it. There is no such call if one list covers all namespaces.
    fn on_first_listed(&self, _kind: Kind, _namespace: &str) {}
    /// The cluster applied a complete list of nodes, EndpointSlices, Endpoints or Leases, which
    /// covers `scope`, and called the handlers for every change in it. It made no call for an
    /// object that was created and deleted while the watch was down.
    fn on_relisted(&self, _kind: Kind, _scope: &Scope) {}
}
