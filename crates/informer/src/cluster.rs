//! The stores and indexes of all kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Endpoints, Lease, Node, NodeLookup, ObjectKey, Pod, ResourceVersion,
    Service, Text,
};
use kube_endpoint_tracker::WriteLedger;
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::metrics::{KindMetrics, describe};
use crate::reflector::fair_lock::FairLocks;
use crate::reflector::history::StorageWentBack;
use crate::reflector::progress::Progress;
use crate::reflector::status::{KindFailure, KindStatus};
use crate::store::pod_log::PodCursor;
use crate::store::pod_service_index::PodServiceIndex;
use crate::store::serial_queue::SerialQueue;
use crate::store::table::Table;
use crate::store::watched_namespaces::NODE_LEASES;
use crate::{ClusterOptions, Handler, Kind, Kinds, Object, Origin, Scope, StreamEvent, WatchedNamespaces};

/// All stores and indexes. Clones share them.
///
/// Events and lists become visible atomically. A thread that applies a list compares and indexes it
/// in a new table, which then replaces the one that readers see. So readers never wait for longer
/// than one event takes, whatever the size of the cluster.
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
    pub(crate) leases: Store<Lease>,
    pub(crate) progress: Progress,
    pub(crate) watched_namespaces: WatchedNamespaces,
    /// True if the server forbids one watch of all Leases.
    pub(crate) leases_by_namespace: AtomicBool,
    summarizes_endpoints: AtomicBool,
    pub(crate) fair_locks: FairLocks,
    ledgers: [Arc<WriteLedger>; Kind::ALL.len()],
    handlers: RwLock<Arc<[Arc<dyn Handler>]>>,
    metrics: [KindMetrics; Kind::ALL.len()],
}

/// An event for the index that pods, Services and EndpointSelectors share.
pub(crate) enum PodServiceEvent {
    Pod(Origin, StreamEvent<Pod>),
    Service(Origin, StreamEvent<Service>),
    Selector(Origin, StreamEvent<EndpointSelector>),
}

pub(crate) struct Store<T> {
    pub(crate) table: RwLock<Table<T>>,
    pub(crate) queue: SerialQueue<(Origin, StreamEvent<T>)>,
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
    /// Creates empty stores for the whole cluster. They count as synced once reflectors have listed
    /// each of `kinds`.
    pub fn new(kinds: impl Into<Kinds>) -> Self {
        Self::with_options(kinds, ClusterOptions::default())
    }

    /// Creates empty stores. They count as synced once reflectors have listed each of `kinds` in
    /// each of the watched namespaces.
    pub fn with_options(kinds: impl Into<Kinds>, options: ClusterOptions) -> Self {
        describe();
        let ClusterOptions { watched_namespaces, pod_log } = options;
        let kinds = kinds.into();
        Self {
            inner: Arc::new(Inner {
                index: RwLock::new(PodServiceIndex::new(pod_log)),
                pod_service_queue: SerialQueue::default(),
                nodes: Store::default(),
                endpoint_slices: Store::default(),
                endpoints: Store::default(),
                leases: Store::default(),
                progress: Progress::new(kinds, &watched_namespaces),
                watched_namespaces,
                leases_by_namespace: AtomicBool::new(false),
                summarizes_endpoints: AtomicBool::new(false),
                fair_locks: FairLocks::default(),
                ledgers: Default::default(),
                handlers: RwLock::new(Arc::new([])),
                metrics: Kind::ALL.map(|kind| match kind {
                    Kind::EndpointSelectors if !kinds.contains(kind) => KindMetrics::unused(kind),
                    // The program learns at run time if it lists them.
                    Kind::Leases if !kinds.contains(Kind::EndpointSelectors) => KindMetrics::unused(kind),
                    _ => KindMetrics::new(kind),
                }),
            }),
        }
    }

    /// Lets reflectors keep only a summary of the addresses of Endpoints that the endpoints
    /// controller has written. Call it before they start, unless something needs the addresses.
    pub fn summarize_endpoints(&self) {
        self.inner.summarizes_endpoints.store(true, Ordering::Relaxed);
    }

    pub(crate) fn summarizes_endpoints(&self) -> bool {
        self.inner.summarizes_endpoints.load(Ordering::Relaxed)
    }

    /// Adds a handler, which the cluster calls for every later change. Add all handlers before the
    /// first event.
    pub fn add_handler(&self, handler: Arc<dyn Handler>) {
        let mut handlers = self.inner.handlers.write();
        *handlers = handlers.iter().cloned().chain([handler]).collect();
    }

    /// Drops all handlers. A handler usually holds a clone of the cluster; without this, the two
    /// keep each other alive.
    pub fn remove_handlers(&self) {
        *self.inner.handlers.write() = Arc::new([]);
    }

    pub(crate) fn handlers(&self) -> Arc<[Arc<dyn Handler>]> {
        Arc::clone(&self.inner.handlers.read())
    }

    pub(crate) fn metrics(&self, kind: Kind) -> &KindMetrics {
        let [pods, services, nodes, endpoint_slices, endpoints, endpoint_selectors, leases] =
            &self.inner.metrics;
        match kind {
            Kind::Pods => pods,
            Kind::Services => services,
            Kind::Nodes => nodes,
            Kind::EndpointSlices => endpoint_slices,
            Kind::Endpoints => endpoints,
            Kind::EndpointSelectors => endpoint_selectors,
            Kind::Leases => leases,
        }
    }

    /// Sets the gauges that change with time alone ([`LAG`](crate::metrics::LAG)). Call it before
    /// you read the metrics.
    pub fn update_metrics(&self) {
        for kind in Kind::ALL {
            if let Some(lag) = self.inner.progress.lag(kind) {
                self.metrics(kind).lag.set(lag.as_secs_f64());
            }
        }
    }

    /// Returns the ledger of this process's own writes of a kind. Each writer of the kind takes a
    /// tracker from it.
    pub fn ledger(&self, kind: Kind) -> &Arc<WriteLedger> {
        &self.inner.ledgers[kind as usize]
    }

    /// Returns a pod.
    pub fn pod(&self, key: &ObjectKey) -> Option<Arc<Pod>> {
        self.inner.index.read().pod(key).cloned()
    }

    /// Returns a Service.
    pub fn service(&self, key: &ObjectKey) -> Option<Arc<Service>> {
        self.inner.index.read().service(key).cloned()
    }

    /// Returns an EndpointSelector.
    pub fn endpoint_selector(&self, key: &ObjectKey) -> Option<Arc<EndpointSelector>> {
        self.inner.index.read().endpoint_selector(key).cloned()
    }

    /// Returns all EndpointSelectors, sorted.
    pub fn endpoint_selectors(&self) -> Vec<Arc<EndpointSelector>> {
        self.inner.index.read().endpoint_selectors_in(&Scope::All).cloned().collect()
    }

    /// Returns the Services that name an EndpointSelector, sorted. The selector need not exist.
    pub fn services_of_selector(&self, selector: &ObjectKey) -> Vec<ObjectKey> {
        self.inner.index.read().attached_to(selector)
    }

    /// Returns a node, by name.
    pub fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.inner.nodes.table.read().get("", name).cloned()
    }

    /// Returns an EndpointSlice.
    pub fn endpoint_slice(&self, key: &ObjectKey) -> Option<Arc<EndpointSlice>> {
        self.inner.endpoint_slices.table.read().get(&key.namespace, &key.name).cloned()
    }

    /// Returns an Endpoints object.
    pub fn endpoints(&self, key: &ObjectKey) -> Option<Arc<Endpoints>> {
        self.inner.endpoints.table.read().get(&key.namespace, &key.name).cloned()
    }

    /// Returns the pods that a Service selects, sorted by name. The list is empty if the Service
    /// does not exist, has no selector or is of type ExternalName. An empty selector selects all
    /// pods of the namespace. A Service without a selector selects the pods of the EndpointSelector
    /// that it names.
    pub fn pods_of(&self, service: &ObjectKey) -> Vec<Arc<Pod>> {
        self.pods_and_cursor(service).map(|(pods, _)| pods).unwrap_or_default()
    }

    /// Returns the first pod of a Service that `is_wanted`. This copies no list of pods.
    pub fn first_pod_of(&self, service: &ObjectKey, is_wanted: impl Fn(&Pod) -> bool) -> Option<Arc<Pod>> {
        let list = self.inner.index.read().pods_of(service)?.pods().clone();
        list.iter().find(|pod| is_wanted(pod)).cloned()
    }

    /// Returns the pods as [`Self::pods_of`] does, and a cursor for [`Self::changed_pods`]. The
    /// cursor is `None` if the pods are so few that reading all of them again costs no more than
    /// reading the changes. Returns `None` for a Service that has no selector now, so that nobody
    /// takes it for one whose selector selects no pods.
    pub fn pods_and_cursor(&self, service: &ObjectKey) -> Option<(Vec<Arc<Pod>>, Option<PodCursor>)> {
        let (list, cursor) = {
            let index = self.inner.index.read();
            let selected = index.pods_of(service)?;
            (selected.pods().clone(), selected.cursor())
        };
        // The list shares chunks with the index, so this needs no lock to copy the pointers to the
        // pods.
        let mut pods = Vec::with_capacity(list.len());
        pods.extend(list.iter().cloned());
        Some((pods, cursor))
    }

    /// Returns the pods of a Service that have changed since a cursor, sorted by name, and the next
    /// cursor. The work does not grow with the number of pods. Returns `None` if the log does not
    /// hold all changes: too many pods have changed, a relist or a new selector has replaced the
    /// list, or the list has become short.
    pub fn changed_pods(
        &self,
        service: &ObjectKey,
        since: &PodCursor,
    ) -> Option<(Vec<ChangedPod>, PodCursor)> {
        let index = self.inner.index.read();
        let selected = index.pods_of(service)?;
        Some((selected.changes_since(since)?, selected.cursor()?))
    }

    /// Returns true if a Service has a selector: its own, or a valid one of the EndpointSelector
    /// that it names.
    pub fn has_selector(&self, service: &ObjectKey) -> bool {
        self.inner.index.read().pods_of(service).is_some()
    }

    /// Returns the number of pods that a Service selects.
    pub fn pod_count_of(&self, service: &ObjectKey) -> usize {
        self.inner.index.read().pods_of(service).map_or(0, |selected| selected.pods().len())
    }

    /// Returns the Services that select a pod, sorted.
    pub fn services_of_pod(&self, pod: &ObjectKey) -> Vec<ObjectKey> {
        self.inner.index.read().services_of_pod(pod)
    }

    /// Returns the Services that select a pod on a node, sorted. A change of the node may affect
    /// them.
    pub fn services_on_node(&self, node: &str) -> Vec<ObjectKey> {
        self.inner.index.read().services_on_node(node)
    }

    /// Returns the EndpointSlices of all managers whose `kubernetes.io/service-name` label names a
    /// Service, sorted by name. The Service need not exist.
    pub fn slices_of(&self, service: &ObjectKey) -> Vec<Arc<EndpointSlice>> {
        self.inner.endpoint_slices.table.read().by_service(service).cloned().collect()
    }

    /// Returns true if a slice of a Service matches, of any manager. It calls `matches` under a
    /// lock.
    pub fn any_slice_of(&self, service: &ObjectKey, matches: impl Fn(&EndpointSlice) -> bool) -> bool {
        self.inner.endpoint_slices.table.read().by_service(service).any(|slice| matches(slice))
    }

    /// Returns the keys of all Services, sorted.
    pub fn services(&self) -> Vec<ObjectKey> {
        self.inner.index.read().services().map(|service| service.key.clone()).collect()
    }

    /// Returns the keys of at most `limit` Services after a key, sorted. To visit all Services
    /// without holding a lock for long, begin with the default key, and go on after the last key of
    /// each answer until an answer is empty.
    pub fn services_after(&self, after: &ObjectKey, limit: usize) -> Vec<ObjectKey> {
        self.inner.index.read().services_after(after, limit)
    }

    /// Returns the keys of Endpoints, as [`Self::services_after`] does for Services.
    pub fn endpoints_after(&self, after: &ObjectKey, limit: usize) -> Vec<ObjectKey> {
        self.inner.endpoints.table.read().keys_after(after, limit)
    }

    /// Returns the keys of the Services that EndpointSlices belong to, as [`Self::services_after`]
    /// does. These Services need not exist.
    pub fn slice_owners_after(&self, after: &ObjectKey, limit: usize) -> Vec<ObjectKey> {
        self.inner.endpoint_slices.table.read().owners_after(after, limit)
    }

    /// Returns at most `limit` pods after a key, sorted; see [`Self::services_after`].
    pub fn pods_after(&self, after: &ObjectKey, limit: usize) -> Vec<Arc<Pod>> {
        self.inner.index.read().pods_after(after, limit)
    }

    /// Returns EndpointSlices, as [`Self::pods_after`] does for pods.
    pub fn endpoint_slices_after(&self, after: &ObjectKey, limit: usize) -> Vec<Arc<EndpointSlice>> {
        self.inner.endpoint_slices.table.read().objects_after(after, limit)
    }

    /// Returns the keys of all Endpoints objects, sorted.
    pub fn endpoints_keys(&self) -> Vec<ObjectKey> {
        self.inner.endpoints.table.read().iter().map(|endpoints| endpoints.key()).collect()
    }

    /// Returns a Lease.
    pub fn lease(&self, key: &ObjectKey) -> Option<Arc<Lease>> {
        self.inner.leases.table.read().get(&key.namespace, &key.name).cloned()
    }

    /// Returns true if the reflectors have listed the Leases of a namespace.
    pub fn has_listed_leases(&self, namespace: &str) -> bool {
        namespace != NODE_LEASES && self.has_listed(Kind::Leases, namespace)
    }

    /// Returns true if the reflectors have listed a kind in a namespace.
    pub fn has_listed(&self, kind: Kind, namespace: &str) -> bool {
        self.inner.progress.is_covered(kind, namespace)
    }

    /// Returns true if the store shows the objects of a kind in a namespace as of a list that began
    /// at `since` or later.
    pub fn is_listed_since(&self, kind: Kind, namespace: &str, since: Instant) -> bool {
        self.inner.progress.is_listed_since(kind, namespace, since)
    }

    /// Returns true if the stores show the objects of these kinds in a namespace. Kinds for which
    /// [`has_synced`](Self::has_synced) does not wait do not count. If the reflectors list
    /// namespaces one by one, some may not be readable.
    pub fn covers(&self, kinds: impl Into<Kinds>, namespace: &str) -> bool {
        self.inner.progress.covers(kinds.into(), namespace)
    }

    /// Returns all nodes, sorted by name.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        self.inner.nodes.table.read().iter().cloned().collect()
    }

    /// Returns the number of objects of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Pods => self.inner.index.read().pod_count(),
            Kind::Services => self.inner.index.read().service_count(),
            Kind::Nodes => self.inner.nodes.table.read().len(),
            Kind::EndpointSlices => self.inner.endpoint_slices.table.read().len(),
            Kind::Endpoints => self.inner.endpoints.table.read().len(),
            Kind::EndpointSelectors => self.inner.index.read().endpoint_selector_count(),
            Kind::Leases => self.inner.leases.table.read().len(),
        }
    }

    /// Returns the namespaces that the stores hold.
    pub fn watched_namespaces(&self) -> &WatchedNamespaces {
        &self.inner.watched_namespaces
    }

    /// Returns the resource version up to which the store of a kind shows all of its namespaces:
    /// that of the last event, bookmark or list. If reflectors list namespaces one by one, it is
    /// the lowest of their versions. A read of the store after this call returns a state at least
    /// as new.
    pub fn position(&self, kind: Kind) -> ResourceVersion {
        self.inner.progress.lowest_version(kind)
    }

    /// Returns the version of the last object of a kind that a watch reported as changed or deleted
    /// since the last list; bookmarks do not count. A watch of another process has this version
    /// too, once it has reported the same change. Returns `None` if nothing has changed, or if
    /// reflectors list namespaces one by one.
    pub fn last_event(&self, kind: Kind) -> Option<ResourceVersion> {
        self.inner.progress.last_event(kind)
    }

    /// Returns the version up to which the store of a kind shows a namespace. A read of the store
    /// after this call returns a state at least as new. If reflectors list namespaces one by one,
    /// the positions of two namespaces differ.
    pub fn position_in(&self, kind: Kind, namespace: &str) -> ResourceVersion {
        self.inner.progress.position_in(kind, namespace)
    }

    /// Returns true if reflectors have listed each awaited kind and the cluster has called handlers
    /// for its objects; for pods only if a handler wants them ([`Handler::wants_pods`]). Stays true
    /// once it is true. Nobody awaits Leases, since the store of another kind shows which are
    /// needed.
    ///
    /// If the reflectors list namespaces one by one, one in which they cannot list a kind does not
    /// delay the others: [`unreadable`](Self::unreadable) returns it, [`covers`](Self::covers) is
    /// false, and [`Handler::on_first_listed`] tells when they have listed it.
    pub fn has_synced(&self) -> bool {
        self.inner.progress.has_synced()
    }

    /// Returns the kinds that [`has_synced`](Self::has_synced) still waits for.
    pub fn unsynced(&self) -> Kinds {
        self.inner.progress.unsynced()
    }

    /// Waits until [`has_synced`](Self::has_synced) is true.
    pub async fn synced(&self) {
        self.inner.progress.synced().await;
    }

    /// Returns true if these kinds are synced; see [`has_synced`](Self::has_synced). Stays true
    /// once it is true.
    pub fn has_synced_kinds(&self, kinds: impl Into<Kinds>) -> bool {
        self.inner.progress.has_synced_kinds(kinds.into())
    }

    /// Waits until [`has_synced_kinds`](Self::has_synced_kinds) is true. A controller waits only
    /// for the kinds that it reads, so that it starts even if the server refuses to list another
    /// kind.
    pub async fn synced_kinds(&self, kinds: impl Into<Kinds>) {
        self.inner.progress.synced_kinds(kinds.into()).await;
    }

    /// Returns the status of a kind: synced or not, and the failure of its requests.
    pub fn status(&self, kind: Kind) -> KindStatus {
        let synced = self.inner.progress.is_complete(kind);
        KindStatus { synced, failure: self.inner.progress.failure(kind) }
    }

    /// Returns the namespaces in which reflectors keep failing to list or watch a kind, sorted,
    /// with the failures. It is empty if they fail in all namespaces, which is the
    /// [`status`](Self::status) of the kind.
    pub fn unreadable(&self, kind: Kind) -> Vec<(Text, KindFailure)> {
        self.inner.progress.unreadable(kind)
    }

    /// Records a failed request of a list and watch, or `None` when requests succeed again.
    pub(crate) fn record_failure(&self, kind: Kind, scope: &Scope, failure: Option<KindFailure>) {
        if (kind, scope) == (Kind::Leases, &Scope::All)
            && failure.as_ref().is_some_and(KindFailure::is_forbidden)
        {
            // Those of some namespaces may be readable.
            self.inner.leases_by_namespace.store(true, Ordering::Relaxed);
            return self.update_lease_scopes();
        }
        self.inner.progress.set_failure(kind, scope, failure);
        self.update_failure_metrics(kind);
    }

    pub(crate) fn update_failure_metrics(&self, kind: Kind) {
        let (progress, metrics) = (&self.inner.progress, self.metrics(kind));
        metrics.set_failing(progress.failure(kind).map(|failure| failure.reason));
        metrics.unreadable_namespaces.set(progress.unreadable(kind).len() as f64);
        metrics.synced.set(if progress.is_complete(kind) { 1.0 } else { 0.0 });
    }

    /// Replaces the kinds that [`has_synced`](Self::has_synced) and [`synced`](Self::synced) wait
    /// for.
    pub fn await_kinds(&self, kinds: impl Into<Kinds>) {
        self.inner.progress.set_awaited(kinds.into());
    }

    /// Waits until the stores show a list of a kind that began at `since` or later, which takes as
    /// long as the API server refuses lists. The reflectors begin one if they have not yet. Such a
    /// list is consistent: it shows all writes that the server answered before `since`. If the
    /// reflectors list namespaces one by one, this does not wait for those that the server forbids,
    /// unless it forbids all.
    pub async fn relist(&self, kind: Kind, since: Instant) {
        self.inner.progress.relist(kind, since).await;
    }

    /// Asks the reflector of a kind that covers a namespace to compare the server's version with
    /// the position of the store. Call it when the store seems to differ from the server: after
    /// repeated conflicts on an object whose version in the store does not change, or when the
    /// store does not show a write.
    ///
    /// It returns at once. Several requests count as one, and the reflector checks at most once in
    /// ten seconds. If two requested checks within ten minutes find no lower version, the reflector
    /// lists the kind. If that list lacks objects of the store, the reflectors list all kinds. Each
    /// of these relists happens at most once in ten minutes.
    pub fn request_version_check(&self, kind: Kind, namespace: &str) {
        self.inner.progress.request_version_check(kind, namespace);
    }

    /// Makes the reflectors list all kinds again.
    pub fn list_again(&self) {
        self.inner.progress.require_lists();
    }

    /// Makes the reflectors list all kinds again because stores may differ from the server, at most
    /// once in ten minutes. Returns true if they do.
    pub fn list_again_for_doubt(&self) -> bool {
        self.inner.progress.require_lists_for_doubt()
    }

    /// Records evidence that the server's storage went back, as a part of a sentence: "the Lease
    /// has version 3, although 9 was read before". [`Self::storage_went_back`] then completes.
    pub fn report_storage_went_back(&self, evidence: impl Into<String>) {
        self.inner.progress.history.report(evidence.into());
    }

    /// Waits for evidence that the server's storage went back.
    pub async fn storage_went_back(&self) -> StorageWentBack {
        self.inner.progress.history.went_back().await
    }

    /// Sets the gauges to those of empty stores. Call it when these stores replace others that the
    /// process filled before.
    pub fn reset_gauges(&self) {
        for kind in Kind::ALL {
            let metrics = self.metrics(kind);
            metrics.synced.set(0.0);
            metrics.undecodable_objects.set(0.0);
            metrics.unreadable_namespaces.set(0.0);
            metrics.set_failing(None);
        }
    }

    /// Defers evidence: [`Self::storage_went_back`] completes at `time` at the earliest, also if
    /// the evidence is older. Until then the reflectors only list the kinds whose versions went
    /// back. Call it before the first list of a process that has started again, so that API servers
    /// that disagree do not make it start all the time.
    pub fn defer_evidence_until(&self, time: Instant) {
        self.inner.progress.history.defer_until(time);
    }

    /// Applies an event of a list and watch of all namespaces. On return, the stores show the event
    /// and the cluster has called the handlers. But if another thread is applying an event of this
    /// kind, this call returns at once and that thread applies the event later; pods and Services
    /// count as one kind.
    pub fn apply<T: Object>(&self, event: StreamEvent<T>) {
        self.apply_in(&Scope::All, event);
    }

    /// Applies an event of a list and watch of `scope`, as [`Self::apply`] does. An event of a
    /// scope that is not among those of the kind ([`Self::watched_namespaces`]) moves no position.
    pub fn apply_in<T: Object>(&self, scope: &Scope, event: StreamEvent<T>) {
        T::apply(self, Origin { scope: scope.clone(), arrived: Instant::now() }, event);
    }
}

impl NodeLookup for Cluster {
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        Cluster::node(self, name)
    }
}
