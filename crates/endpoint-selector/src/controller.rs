//! The controller: it queues the Services that name an EndpointSelector, and syncs their slices.

mod care;
mod conditions;
mod events;
mod leader;
mod leases;
mod leftovers;
mod listed_pods;
mod metrics;
mod rehearsal;
mod state;
mod status;
mod sync;
mod times;

use std::sync::OnceLock;
use std::time::Duration;

use kube_endpoint_controller_runtime::{
    Cause, Config, Controller, ForeignWrite, Outcome, Reconciler, RuntimeOptions, SyncError,
};
use kube_endpoint_core_model::well_known::{
    ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{
    Endpoint, EndpointSelector, EndpointSlice, Lease, Node, ObjectKey, Pod, Readiness, Service, Text,
};
use kube_endpoint_endpointslice_controller::metric_names;
use kube_endpoint_endpointslice_controller::slices::{
    MetricNames, SliceReconciler, SliceState, SliceSync, SliceSyncOptions,
};
use kube_endpoint_informer::{Change, Cluster, Kind, Kinds, PodEvent};
use kube_endpoint_slice_plan::PlanOptions;
use kube_endpoint_tracker::WriteTracker;
use kube_endpoint_workqueue::{Attempt, endpoint_slice_rate_limiter};
use tokio::sync::Notify;
use tokio::time::Instant;

use leases::Leases;
use listed_pods::ListedPods;
use metrics::Metrics;
use rehearsal::Rehearsals;
pub use state::ServiceState;
use status::Statuses;

use crate::hand_over::{Slices, is_ready, is_usable};

/// Component of the events that this controller records.
pub const EVENT_COMPONENT: &str = "endpoint-selector-controller";
/// Name of its queue in metrics.
pub const QUEUE_NAME: &str = "endpoint_selector";
/// The most objects that are read at once.
const PAGE: usize = 500;
/// A change that another client makes to a slice waits at least this long for others.
const SLICE_CHANGE_DELAY: Duration = Duration::from_secs(1);
const METRICS: MetricNames = metric_names!("endpoint_selector_controller");

type Runtime = kube_endpoint_controller_runtime::Runtime<SelectorReconciler>;

/// The endpoint selector controller. Its keys are those of Services.
pub type SelectorController = Controller<SelectorReconciler>;

/// Options of the controller, including those of its plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerOptions {
    pub plan: PlanOptions,
    /// How many Services the controller syncs at once.
    pub workers: usize,
    /// Delay of syncs that pods cause, to batch changes.
    pub batch_period: Duration,
    /// Options that all controllers share.
    pub runtime: RuntimeOptions,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        let mut plan = PlanOptions::default();
        plan.manager = SELECTOR_CONTROLLER.into();
        Self { plan, workers: 5, batch_period: Duration::ZERO, runtime: RuntimeOptions::default() }
    }
}

/// Syncs Services for the endpoint selector controller; see [`Reconciler`].
pub struct SelectorReconciler {
    options: ControllerOptions,
    slices: SliceSync,
    listed_pods: ListedPods,
    leases: Leases,
    /// When the controller began.
    began: OnceLock<Instant>,
    statuses: Statuses,
    rehearsals: Rehearsals,
    metrics: Metrics,
    /// Tells that a Service has a problem, whose event will be repeated.
    has_problems: Notify,
    /// Its own deletions of Endpoints.
    endpoints: OnceLock<WriteTracker>,
}

/// Returns the histograms of this controller for an exporter.
pub fn buckets() -> Vec<(&'static str, Vec<f64>)> {
    METRICS.buckets()
}

/// Returns the key of the EndpointSelector that a Service names.
fn selector_of(service: &Service) -> Option<ObjectKey> {
    let name: &Text = service.endpoint_selector()?;
    Some(ObjectKey { namespace: service.key.namespace.clone(), name: name.clone() })
}

/// Calls a function with the Services of a namespace, or all, that this process may sync.
fn for_each_service(runtime: &Runtime, namespace: Option<&str>, mut take: impl FnMut(&Service)) {
    let is_in = |key: &ObjectKey| namespace.is_none_or(|namespace| *key.namespace == *namespace);
    let mut after = ObjectKey::new(namespace.unwrap_or_default(), "");
    loop {
        let page = runtime.cluster().services_after(&after, PAGE);
        let selected = page.iter().filter(|key| is_in(key) && runtime.is_selected(key));
        selected.filter_map(|key| runtime.cluster().service(key)).for_each(|service| take(&service));
        let Some(last) = page.last().filter(|last| is_in(last)) else { return };
        after = last.clone();
    }
}

/// Returns true if a Service may choose other pods after a change of one of its pods.
fn may_choose_others(cluster: &Cluster, service: &ObjectKey, old: &Pod, new: &Pod) -> bool {
    let selector = cluster.service(service).and_then(|service| selector_of(&service));
    let selector = selector.and_then(|selector| cluster.endpoint_selector(&selector));
    match selector.as_ref().and_then(|selector| selector.readiness.as_ref()) {
        Some(Readiness::Condition { kind, .. }) => old.condition(kind) != new.condition(kind),
        Some(Readiness::Lease { .. }) => old.started() != new.started(),
        None => false,
    }
}

impl SelectorReconciler {
    /// Syncs the Services of these EndpointSelectors, because of a Lease.
    fn add_services_of(&self, runtime: &Runtime, selectors: &[ObjectKey], arrived: Option<Instant>) {
        for selector in selectors {
            for service in runtime.cluster().services_of_selector(selector) {
                runtime.add(service, Cause::Lease.since(arrived).urgent(true));
            }
        }
    }

    /// Returns true if changes of the Leases of a namespace prove that holders live.
    fn is_settled(&self, cluster: &Cluster, namespace: &str) -> bool {
        self.began.get().is_some_and(|began| cluster.is_listed_since(Kind::Leases, namespace, *began))
    }

    /// Begins with the Services that nobody maintains: a pod of theirs may end before the first
    /// sync, and those with one that has ended while no process ran come first.
    fn begin_care(&self, runtime: &Runtime, namespace: Option<&str>) {
        for_each_service(runtime, namespace, |service| {
            let key = &service.key;
            let slices = runtime.cluster().slices_of(key);
            let sorted = Slices::of(service, &slices, &self.options.plan.manager);
            let is_maintained = match service.endpoint_selector() {
                Some(_) => !sorted.has_others() && runtime.cluster().has_selector(key),
                None => sorted.own.is_empty(),
            };
            if is_maintained {
                return;
            }
            self.list_pods(runtime, key, &slices);
            if slices.iter().any(|slice| self.publishes_the_dead(runtime, service, slice)) {
                runtime.add(key.clone(), Cause::Service.since(None).urgent(true));
            }
        });
    }

    /// Returns true if a slice publishes a pod as ready that is not well.
    fn publishes_the_dead(&self, runtime: &Runtime, service: &Service, slice: &EndpointSlice) -> bool {
        let pods = |name: &str| self.pod(runtime, &service.key, name);
        let publish = service.publish_not_ready_addresses;
        let is_dead =
            |it: &Endpoint| is_ready(it) && it.target_ref.is_some() && !is_usable(it, &pods, publish);
        slice.endpoints.iter().any(is_dead)
    }

    fn is_own(&self, slice: &EndpointSlice) -> bool {
        slice.is_managed_by(&self.options.plan.manager)
    }

    /// Returns true if a Service names an EndpointSelector, or has slices of this controller.
    fn concerns(&self, cluster: &Cluster, key: &ObjectKey) -> bool {
        cluster.service(key).is_some_and(|service| service.endpoint_selector().is_some())
            || cluster.slices_of(key).iter().any(|slice| self.is_own(slice))
    }
}

impl Reconciler for SelectorReconciler {
    type Output = EndpointSlice;
    type State = ServiceState;
    type Options = ControllerOptions;

    fn new(options: ControllerOptions) -> Self {
        let slices = SliceSync::new(SliceSyncOptions {
            plan: options.plan.clone(),
            batch_period: options.batch_period,
            node_zone_resync: true,
            missing_node_resync: true,
            metrics: METRICS,
        });
        Self {
            options,
            slices,
            listed_pods: ListedPods::default(),
            leases: Leases::default(),
            began: OnceLock::new(),
            statuses: Statuses::default(),
            rehearsals: Rehearsals::default(),
            metrics: Metrics::new(),
            has_problems: Notify::new(),
            endpoints: OnceLock::new(),
        }
    }

    fn kinds() -> Kinds {
        [Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices, Kind::EndpointSelectors].into()
    }

    fn config(&self) -> Config {
        Config::new(
            QUEUE_NAME,
            endpoint_slice_rate_limiter(),
            self.options.workers,
            self.options.runtime.clone(),
        )
    }

    fn manages(&self, slice: &EndpointSlice) -> bool {
        self.is_own(slice)
    }

    fn start(&self, runtime: &Runtime) {
        self.slices.start(runtime);
        self.metrics.start();
        for selector in runtime.cluster().endpoint_selectors() {
            self.statuses.add(selector.key.clone());
            self.leases.selector_changed(runtime.cluster(), None, Some(&selector), Instant::now());
        }
        self.begin_rehearsals(runtime);
        self.begin_care(runtime, None);
    }

    fn start_in(&self, runtime: &Runtime, namespace: &str) {
        for selector in runtime.cluster().endpoint_selectors() {
            if *selector.key.namespace == *namespace {
                self.statuses.add(selector.key.clone());
            }
        }
        self.begin_care(runtime, Some(namespace));
    }

    async fn background(&self, runtime: &Runtime) {
        let overdue = async {
            loop {
                let selectors = self.leases.overdue().await;
                self.add_services_of(runtime, &selectors, None);
            }
        };
        // The changes of a namespace's Leases count when such a list has shown it.
        let began = *self.began.get_or_init(Instant::now);
        let listed = runtime.cluster().relist(Kind::Leases, began);
        tokio::join!(
            listed,
            self.slices.background(runtime),
            self.write_statuses(runtime),
            self.rehearse(runtime),
            self.repeat_events(runtime),
            overdue
        );
    }

    fn on_service(&self, runtime: &Runtime, change: &Change<Service>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let (before, now) = (old.and_then(selector_of), new.and_then(selector_of));
        if before != now {
            // The statuses count the Services.
            for selector in before.iter().chain(&now) {
                self.statuses.add(selector.clone());
            }
        }
        self.service_rehearses(runtime, change);
        let Some(service) = change.latest() else { return };
        if before.is_some() || self.concerns(runtime.cluster(), &service.key) {
            runtime.add(service.key.clone(), Cause::Service.since(change.arrived));
        }
    }

    fn on_endpoint_selector(
        &self,
        runtime: &Runtime,
        change: &Change<EndpointSelector>,
        services: &[ObjectKey],
    ) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(selector) = change.latest() {
            self.statuses.add(selector.key.clone());
        }
        self.leases.selector_changed(runtime.cluster(), old, new, Instant::now());
        let spec = |selector: &EndpointSelector| (selector.selector.clone(), selector.readiness.clone());
        // A new status changes no endpoints.
        if old.map(spec) != new.map(spec) {
            if let Some(selector) = change.latest() {
                self.rehearsals.again(&selector.key, Instant::now());
            }
            for service in services {
                runtime.add(service.clone(), Cause::EndpointSelector.since(change.arrived));
            }
        }
    }

    fn on_pod(&self, runtime: &Runtime, event: &PodEvent) {
        let cluster = runtime.cluster();
        runtime.add_services_of(event, self.options.batch_period, |service| self.concerns(cluster, service));
        if let (true, Some(old), Some(new)) = (event.changed.choice, &event.change.old, &event.change.new) {
            for service in &event.stayed {
                if may_choose_others(cluster, service, old, new) {
                    let reason = runtime.reason_of(event, service);
                    runtime.add_after(service.clone(), self.options.batch_period, reason);
                }
            }
        }
        if let Some(pod) = event.change.latest() {
            for service in self.listed_pods.services_of(&pod.key) {
                let reason = runtime.reason_of(event, &service);
                runtime.add_after(service, self.options.batch_period, reason);
            }
        }
    }

    fn on_lease(&self, runtime: &Runtime, change: &Change<Lease>) {
        if let Some(lease) = &change.new {
            let is_settled = self.is_settled(runtime.cluster(), &lease.key.namespace);
            let selectors = self.leases.see(lease, is_settled, Instant::now());
            self.add_services_of(runtime, &selectors, change.arrived);
        }
    }

    fn on_leases_listed(&self, runtime: &Runtime) {
        self.leases.listed(runtime.cluster(), Instant::now());
    }

    fn on_node(&self, runtime: &Runtime, change: &Change<Node>) {
        self.slices.on_node(runtime, change);
    }

    /// A hand-over waits for slices: for own ones that the cache does not show yet, and for those
    /// of the other controller.
    fn on_endpoint_slice(&self, runtime: &Runtime, change: &Change<EndpointSlice>) {
        self.slices.on_endpoint_slice(runtime, change);
        let Some(key) = change.latest().and_then(|slice| slice.service_key()) else { return };
        let cluster = runtime.cluster();
        let slices = cluster.slices_of(&key);
        let service = cluster.service(&key);
        let is_attached = service.as_ref().is_some_and(|it| it.endpoint_selector().is_some());
        // With slices of one side only nobody waits, except for the last slice of the other. Slices
        // of users take no part in a hand-over.
        let is_other = |it: &EndpointSlice| {
            it.is_managed_by(ENDPOINTSLICE_CONTROLLER) || it.is_managed_by(MIRRORING_CONTROLLER)
        };
        let waits = change.latest().into_iter().chain(&slices).any(|it| is_other(it));
        if waits && (is_attached || slices.iter().any(|it| self.is_own(it))) {
            let is_urgent = service.zip(change.new.as_ref()).is_some_and(|(service, slice)| {
                is_other(slice) && self.publishes_the_dead(runtime, &service, slice)
            });
            runtime.add(key, Cause::EndpointSlice.since(change.arrived).urgent(is_urgent));
        }
    }

    fn foreign_write_delay(&self, _: &Runtime, _: ForeignWrite) -> Option<Duration> {
        Some(self.options.batch_period.max(SLICE_CHANGE_DELAY))
    }

    async fn sync(&self, runtime: &Runtime, key: &ObjectKey) -> Result<Outcome, SyncError> {
        self.sync_key(runtime, key).await
    }

    fn release(&self, runtime: &Runtime, key: &ObjectKey) {
        self.forgotten(key, runtime.forget_state(key));
    }

    fn observe(&self, attempt: &Attempt<'_, ObjectKey, Outcome, SyncError>) {
        self.slices.observe(attempt);
    }
}

impl SliceReconciler for SelectorReconciler {
    fn slices(state: &ServiceState) -> &SliceState {
        &state.slices
    }

    fn slices_mut(state: &mut ServiceState) -> &mut SliceState {
        &mut state.slices
    }
}
