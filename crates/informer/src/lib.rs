//! One list and watch per kind, indexed stores, and the index that finds a pod's Services.
//!
//! [`run`] lists and watches one kind and feeds a [`Cluster`]; anything else that yields [`StreamEvent`]s can feed it as
//! well ([`feed`]). Controllers read the [`Cluster`] and hear of changes as [`Handler`]s.

mod apply;
mod apply_pods_and_services;
mod backoff;
mod client;
pub mod client_metrics;
mod cluster;
mod decode;
mod error;
mod event;
#[cfg(test)]
mod index_model_tests;
mod line_splitter;
mod list_builder;
pub mod metrics;
mod namespace;
mod object;
mod options;
mod pod_list;
mod pod_service_index;
mod progress;
mod reflector;
mod request;
mod run;
mod selector_index;
mod serial_queue;
mod state;
mod table;
mod undecodable;

pub use backoff::Backoff;
pub use client::{ApiClient, client_from_config};
pub use cluster::Cluster;
pub use event::{Change, Handler, PodEvent, StreamEvent};
pub use object::{Kind, Kinds, Object, Resource};
pub use options::ReflectorOptions;
pub use run::run;

use futures::{Stream, StreamExt};

/// Feeds a cluster with a stream of events about one kind until it ends.
pub async fn feed<T: Object>(cluster: Cluster, events: impl Stream<Item = StreamEvent<T>>) {
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        cluster.apply(event);
    }
}
