//! What goes into the stores, and what comes out to handlers.

use std::sync::Arc;

use kube_endpoint_core_model::change::PodChange;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, ObjectKey, Pod, ResourceVersion, Service};

use crate::Kind;

/// What a list and watch says about one kind. A store takes a stream of these, wherever it comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent<T> {
    /// An object is new or has changed.
    Applied(T),
    /// An object is gone; this is its last state, at the version of its deletion.
    Deleted(T),
    /// An object is gone whose last state could not be decoded.
    DeletedFinalStateUnknown {
        /// Which one.
        key: ObjectKey,
        /// The version of its deletion.
        resource_version: ResourceVersion,
    },
    /// The complete state. Whatever the store holds beyond it has been deleted while nobody watched.
    Restarted {
        /// All objects, in any order, each once.
        items: Vec<T>,
        /// Objects that exist but could not be decoded: the store keeps the last view that it has of them.
        undecodable: Vec<ObjectKey>,
        /// The version of the list.
        resource_version: ResourceVersion,
    },
    /// Nothing happened up to this version.
    Bookmark(ResourceVersion),
}

impl<T> StreamEvent<T> {
    /// The complete state, all of which could be decoded.
    pub fn restarted(items: Vec<T>, resource_version: ResourceVersion) -> Self {
        Self::Restarted { items, undecodable: Vec::new(), resource_version }
    }
}

/// An object before and after. Created objects have no `old`, deleted ones no `new`.
#[derive(Debug)]
pub struct Change<T> {
    /// As the store held it before.
    pub old: Option<Arc<T>>,
    /// As the store holds it now.
    pub new: Option<Arc<T>>,
}

impl<T> Change<T> {
    /// The object: as it is now, or as it last was.
    pub fn latest(&self) -> Option<&Arc<T>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self { old: self.old.clone(), new: self.new.clone() }
    }
}

/// A pod before and after, and the Services that select it. Where nothing changed that endpoints depend on
/// ([`PodChange::is_none`]) the Services are not looked up and the three lists are empty. Each list is sorted.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The pod.
    pub change: Change<Pod>,
    /// What kind of change it is; for a created or deleted pod, everything changed.
    pub changed: PodChange,
    /// Services that selected it before and do not any more.
    pub left: Vec<ObjectKey>,
    /// Services that select it and did not before.
    pub joined: Vec<ObjectKey>,
    /// Services that selected it before and still do.
    pub stayed: Vec<ObjectKey>,
}

impl PodEvent {
    /// The Services that have to be synced for it (upstream `GetServicesToUpdate`): all that it touches when its endpoint
    /// may look different; else those that began or ceased to select it. A changed hostname also concerns the Services
    /// that selected it all along, which upstream forgets.
    pub fn services_to_sync(&self) -> impl Iterator<Item = &ObjectKey> {
        let renamed = match (&self.change.old, &self.change.new) {
            (Some(old), Some(new)) => old.hostname != new.hostname || old.subdomain != new.subdomain,
            _ => true,
        };
        let stayed = if self.changed.endpoint || renamed { self.stayed.as_slice() } else { &[] };
        self.left.iter().chain(&self.joined).chain(stayed)
    }

    /// All Services whose endpoints the change may touch.
    pub fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        self.left.iter().chain(&self.joined).chain(&self.stayed)
    }
}

/// Hears of changes, after the stores show them. Calls come in order per kind, one at a time, with no lock held; they
/// hold up the watch, so that a handler does no more than put keys into queues. A version of a pod or a node that
/// changed nothing in its view is not heard of. When a Service begins or ceases to select pods, only `on_service` is
/// called.
pub trait Handler: Send + Sync {
    /// A pod changed.
    fn on_pod(&self, _event: &PodEvent) {}
    /// A Service changed.
    fn on_service(&self, _change: &Change<Service>) {}
    /// A node changed.
    fn on_node(&self, _change: &Change<Node>) {}
    /// An EndpointSlice changed.
    fn on_endpoint_slice(&self, _change: &Change<EndpointSlice>) {}
    /// An Endpoints object changed.
    fn on_endpoints(&self, _change: &Change<Endpoints>) {}
    /// A complete state of nodes, EndpointSlices or Endpoints has come, and all that it changed has been told. Of an object
    /// that was made and went since the last event nobody hears.
    fn on_relisted(&self, _kind: Kind) {}
}
