//! Runs the endpoint selector controller beside kube-controller-manager, with the cluster and the
//! credentials of the kubeconfig. It elects no leader, so run one of it.
//!
//! `cargo run -p kube-endpoint-selector --example beside`
#![allow(clippy::print_stderr, clippy::disallowed_methods, reason = "a program has a terminal and a clock")]

use std::error::Error;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_controller_runtime::ControllerContext;
use kube_endpoint_core_model::{EndpointSelector, EndpointSlice, Node, Pod, Service};
use kube_endpoint_informer::{Cluster, Kind, Object, ReflectorOptions};
use kube_endpoint_selector::controller::EVENT_COMPONENT;
use kube_endpoint_selector::{ControllerOptions, SelectorController};

const SEED: u64 = 1;

fn watch<T: Object>(client: &ApiClient, cluster: &Cluster) {
    let (client, cluster) = (client.clone(), cluster.clone());
    tokio::spawn(async move {
        let options = ReflectorOptions::new(SEED);
        let ended = kube_endpoint_informer::run::<T>(client, cluster, options, std::future::pending()).await;
        eprintln!("the watch has ended: {ended:?}");
    });
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = kube::Config::infer().await?;
    let client = kube_endpoint_api_client::client_from_config(config).await?;
    let cluster = Cluster::new([
        Kind::Pods,
        Kind::Services,
        Kind::Nodes,
        Kind::EndpointSlices,
        Kind::EndpointSelectors,
    ]);
    let writer =
        ApiWriter::new(client.clone(), RequestLimiter::new(20.0, 30)?, "kube-endpoint-manager/example");
    let clock = Clock::reading(jiff::Timestamp::now);
    let (events, sending) = EventRecorder::new(EVENT_COMPONENT, writer.clone(), clock, SEED);
    tokio::spawn(sending);
    let context = ControllerContext { cluster: cluster.clone(), writer, events, clock, seed: SEED };
    let controller = SelectorController::new(context, ControllerOptions::default());
    watch::<Pod>(&client, &cluster);
    watch::<Service>(&client, &cluster);
    watch::<Node>(&client, &cluster);
    watch::<EndpointSlice>(&client, &cluster);
    watch::<EndpointSelector>(&client, &cluster);
    controller.run().await;
    Ok(())
}
