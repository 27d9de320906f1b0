//! The stores of all kinds, as controllers read them.

use std::sync::Arc;

use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, Node, NodeLookup, ObjectKey, Pod, ResourceVersion, Service,
};
use parking_lot::RwLock;

use crate::metrics::{KindMetrics, describe};
use crate::pod_service_index::PodServiceIndex;
use crate::progress::Progress;
use crate::serial_queue::SerialQueue;
use crate::table::Table;
use crate::{Handler, Kind, Kinds, Object, StreamEvent};

/// All stores and indexes; a clone is another handle on the same ones.
///
/// Every read sees one state: the work of an event, and of a whole list, becomes visible at once. A list is compared and
/// indexed beside the state that readers see, which is then exchanged; so no lock is held for longer than a single event
/// takes, whatever the size of the cluster.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) index: RwLock<PodServiceIndex>,
    pub(crate) pod_service_queue: SerialQueue<PodServiceEvent>,
    pub(crate) nodes: Store<Node>,
    pub(crate) endpoint_slices: Store<EndpointSlice>,
    pub(crate) endpoints: Store<Endpoints>,
    pub(crate) progress: Progress,
    handlers: RwLock<Arc<[Arc<dyn Handler>]>>,
    metrics: [KindMetrics; Kind::ALL.len()],
}

/// Pods and Services share an index, hence a queue.
pub(crate) enum PodServiceEvent {
    Pod(StreamEvent<Pod>),
    Service(StreamEvent<Service>),
}

pub(crate) struct Store<T> {
    pub(crate) table: RwLock<Table<T>>,
    pub(crate) queue: SerialQueue<StreamEvent<T>>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { table: RwLock::default(), queue: SerialQueue::default() }
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Cluster");
        for kind in Kind::ALL {
            out.field(kind.name(), &(self.count(kind), self.position(kind)));
        }
        out.field("has_synced", &self.has_synced()).finish()
    }
}

impl Cluster {
    /// Empty stores that count as synced once each of `kinds` has had a complete list.
    pub fn new(kinds: impl Into<Kinds>) -> Self {
        describe();
        Self {
            inner: Arc::new(Inner {
                index: RwLock::default(),
                pod_service_queue: SerialQueue::default(),
                nodes: Store::default(),
                endpoint_slices: Store::default(),
                endpoints: Store::default(),
                progress: Progress::new(kinds.into()),
                handlers: RwLock::new(Arc::new([])),
                metrics: Kind::ALL.map(KindMetrics::new),
            }),
        }
    }

    /// Adds a handler, which hears of every change from now on. Add all of them before the first event.
    pub fn add_handler(&self, handler: Arc<dyn Handler>) {
        let mut handlers = self.inner.handlers.write();
        *handlers = handlers.iter().cloned().chain([handler]).collect();
    }

    /// Drops all handlers, which usually hold the cluster themselves: without this the two would keep each other alive.
    pub fn remove_handlers(&self) {
        *self.inner.handlers.write() = Arc::new([]);
    }

    pub(crate) fn handlers(&self) -> Arc<[Arc<dyn Handler>]> {
        Arc::clone(&self.inner.handlers.read())
    }

    pub(crate) fn metrics(&self, kind: Kind) -> &KindMetrics {
        let [pods, services, nodes, endpoint_slices, endpoints] = &self.inner.metrics;
        match kind {
            Kind::Pods => pods,
            Kind::Services => services,
            Kind::Nodes => nodes,
            Kind::EndpointSlices => endpoint_slices,
            Kind::Endpoints => endpoints,
        }
    }

    /// A pod.
    pub fn pod(&self, key: &ObjectKey) -> Option<Arc<Pod>> {
        self.inner.index.read().pod(key).cloned()
    }

    /// A Service.
    pub fn service(&self, key: &ObjectKey) -> Option<Arc<Service>> {
        self.inner.index.read().service(key).cloned()
    }

    /// The node of a name.
    pub fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.inner.nodes.table.read().get("", name).cloned()
    }

    /// An EndpointSlice.
    pub fn endpoint_slice(&self, key: &ObjectKey) -> Option<Arc<EndpointSlice>> {
        self.inner.endpoint_slices.table.read().get(&key.namespace, &key.name).cloned()
    }

    /// An Endpoints object.
    pub fn endpoints(&self, key: &ObjectKey) -> Option<Arc<Endpoints>> {
        self.inner.endpoints.table.read().get(&key.namespace, &key.name).cloned()
    }

    /// The pods that a Service selects, sorted by name. None for a Service that is not known, has no selector or is an
    /// ExternalName; an empty selector selects all pods of its namespace.
    pub fn pods_of(&self, service: &ObjectKey) -> Vec<Arc<Pod>> {
        let list = self.inner.index.read().pods_of(service);
        // Only now, with no lock held, is each pod's pointer copied.
        let mut pods = Vec::with_capacity(list.len());
        pods.extend(list.iter().cloned());
        pods
    }

    /// The Services that select a pod, sorted.
    pub fn services_of_pod(&self, pod: &ObjectKey) -> Vec<ObjectKey> {
        self.inner.index.read().services_of_pod(pod)
    }

    /// The Services that select a pod on a node, sorted: those that a change of the node may touch.
    pub fn services_on_node(&self, node: &str) -> Vec<ObjectKey> {
        self.inner.index.read().services_on_node(node)
    }

    /// The EndpointSlices whose label names a Service, whoever manages them, sorted by name. The Service need not exist.
    pub fn slices_of(&self, service: &ObjectKey) -> Vec<Arc<EndpointSlice>> {
        self.inner.endpoint_slices.table.read().owned_by(service).cloned().collect()
    }

    /// All Services, sorted.
    pub fn services(&self) -> Vec<ObjectKey> {
        self.inner.index.read().services().map(|service| service.key.clone()).collect()
    }

    /// All Endpoints objects, sorted.
    pub fn endpoints_keys(&self) -> Vec<ObjectKey> {
        self.inner.endpoints.table.read().iter().map(|endpoints| endpoints.key()).collect()
    }

    /// All nodes, sorted by name.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.inner.nodes.table.read().iter().cloned().collect()
    }

    /// How many objects of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Pods => self.inner.index.read().pod_count(),
            Kind::Services => self.inner.index.read().service_count(),
            Kind::Nodes => self.inner.nodes.table.read().len(),
            Kind::EndpointSlices => self.inner.endpoint_slices.table.read().len(),
            Kind::Endpoints => self.inner.endpoints.table.read().len(),
        }
    }

    /// The version up to which the store of a kind shows the cluster: that of the last event, bookmark or list. Whoever
    /// reads it first and the store then sees a state at least as new.
    pub fn position(&self, kind: Kind) -> ResourceVersion {
        self.inner.progress.position(kind)
    }

    /// How often a list of a kind came with a lower version than the store had read up to. Positions of different epochs
    /// do not compare.
    pub fn epoch(&self, kind: Kind) -> u64 {
        self.inner.progress.epoch(kind)
    }

    /// Whether each kind that is waited for has had a complete list, and handlers have heard of all of it. It never turns
    /// false again.
    pub fn has_synced(&self) -> bool {
        self.inner.progress.has_synced()
    }

    /// Waits until [`Cluster::has_synced`].
    pub async fn synced(&self) {
        self.inner.progress.synced().await;
    }

    /// Takes an event. When this returns, the stores show it and handlers have heard of it, unless another thread is
    /// handing in events of this kind at the same time, which then does the work.
    pub fn apply<T: Object>(&self, event: StreamEvent<T>) {
        T::apply(self, event);
    }
}

impl NodeLookup for Cluster {
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        Cluster::node(self, name)
    }
}
