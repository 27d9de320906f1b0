//! Publishes the address in the label `example.com/address` of a Service as an EndpointSlice.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_controller_runtime::{
    Cause, Config, Controller, ControllerContext, ForeignWrite, Outcome, Reconciler, Runtime, RuntimeOptions,
    SyncError,
};
use kube_endpoint_core_model::{
    Endpoint, EndpointSlice, ObjectKey, ObjectMeta, OwnerReference, Service, Writes,
};
use kube_endpoint_informer::{
    self as informer, Change, Cluster, Kind, Kinds, ReflectorOptions, StorageWentBack,
};
use kube_endpoint_workqueue::default_controller_rate_limiter;

const ADDRESS: &str = "example.com/address";
const NAME: &str = "address-controller.example.com";

struct AddressReconciler;

impl Reconciler for AddressReconciler {
    type Output = EndpointSlice;
    type State = ();
    type Options = ();

    fn new((): ()) -> Self {
        Self
    }

    fn kinds() -> Kinds {
        [Kind::Services, Kind::EndpointSlices].into()
    }

    fn config(&self) -> Config {
        Config::new("addresses", default_controller_rate_limiter(), 2, RuntimeOptions::default())
    }

    fn manages(&self, slice: &EndpointSlice) -> bool {
        slice.is_managed_by(NAME)
    }

    fn on_service(&self, runtime: &Runtime<Self>, change: &Change<Service>) {
        if let Some(service) = change.latest() {
            runtime.add(service.key.clone(), Cause::Service.since(change.arrived));
        }
    }

    fn foreign_write_delay(&self, _: &Runtime<Self>, _: ForeignWrite) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    async fn sync(&self, runtime: &Runtime<Self>, key: &ObjectKey) -> Result<Outcome, SyncError> {
        let Some(service) = runtime.cluster().service(key) else {
            // The garbage collector deletes the slice of a deleted Service.
            runtime.forget(key);
            return Ok(Outcome::Done);
        };
        // If the cache does not show the last writes yet, the runtime repeats the sync.
        let slices = match runtime.read_outputs(key) {
            Ok(slices) => slices,
            Err(outcome) => return Ok(outcome),
        };
        runtime.carry_out(key, None, [plan(&service, &slices)], |_| ()).await?;
        Ok(Outcome::Done)
    }
}

/// Returns the writes that turn the slices of a Service into the one that it should have.
fn plan(service: &Service, existing: &[Arc<EndpointSlice>]) -> Writes<EndpointSlice> {
    let mut writes = Writes::default();
    let mut own = existing.iter().filter(|slice| slice.is_managed_by(NAME));
    if let Some(wanted) = wanted_slice(service) {
        match own.next() {
            None => writes.create.push(wanted),
            Some(slice) if slice.endpoints == wanted.endpoints => {}
            // The update has the name and the version of the existing slice.
            Some(slice) => {
                writes
                    .update
                    .push(EndpointSlice { endpoints: wanted.endpoints, ..EndpointSlice::clone(slice) });
            }
        }
    }
    writes.delete.extend(own.cloned());
    writes
}

fn wanted_slice(service: &Service) -> Option<EndpointSlice> {
    let address = service.labels.get(ADDRESS)?;
    let ObjectKey { namespace, name } = &service.key;
    let labels = [("kubernetes.io/service-name", &**name), ("endpointslice.kubernetes.io/managed-by", NAME)];
    let metadata = ObjectMeta {
        namespace: namespace.clone(),
        generate_name: format!("{name}-").into(),
        labels: labels.into_iter().collect(),
        owner_references: vec![OwnerReference::controller("v1", "Service", name, &service.uid)],
        ..ObjectMeta::default()
    };
    let endpoint = Endpoint { addresses: vec![address.clone()], ..Endpoint::default() };
    Some(EndpointSlice { metadata, endpoints: vec![endpoint], ..EndpointSlice::default() })
}

/// Runs the controller until the caller drops the future. Pass a random seed in production. If the
/// server's storage went back, this returns an error: call it again to start from nothing.
pub(crate) async fn run(client: ApiClient, clock: Clock, seed: u64) -> Result<(), StorageWentBack> {
    let cluster = Cluster::new(AddressReconciler::kinds());
    let stores = cluster.clone();
    let writer = ApiWriter::new(client.clone(), RequestLimiter::unlimited(), NAME);
    let (events, send_events) = EventRecorder::new(NAME, writer.clone(), clock, seed);
    let context = ControllerContext { cluster: cluster.clone(), writer, events, clock, seed };
    let controller = Controller::<AddressReconciler>::new(context, ());
    let options = ReflectorOptions::new(seed);
    let services = informer::run::<Service>(client.clone(), cluster.clone(), options, pending());
    let slices = informer::run::<EndpointSlice>(client, cluster, options, pending());
    let ended = tokio::select! {
        biased;
        ended = async { tokio::try_join!(services, slices) } => ended.map(|_| ()),
        _ = async { tokio::join!(send_events, controller.run()) } => Ok(()),
    };
    // The stores hold the controller as a handler, and the controller holds the stores.
    stores.remove_handlers();
    ended
}
