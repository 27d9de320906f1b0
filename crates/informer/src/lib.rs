//! One list and watch per kind, indexed stores, and the index that finds a pod's Services.
//!
//! [`run`] lists and watches one kind and feeds a [`Cluster`]; anything else that yields [`StreamEvent`]s can feed it as
//! well ([`feed`]). Controllers read the [`Cluster`] and hear of changes as [`Handler`]s.

mod apply;
mod apply_membership;
mod backoff;
mod client;
pub mod client_metrics;
mod cluster;
mod collected;
mod decode;
mod event;
mod failure;
mod lane;
mod lines;
mod membership;
pub mod metrics;
#[cfg(test)]
mod model_tests;
mod namespace;
mod object;
mod pod_list;
mod progress;
mod reflector;
mod request;
mod run;
mod selection;
mod table;

pub use backoff::Backoff;
pub use client::client_from_config;
pub use cluster::Cluster;
pub use event::{Change, Handler, PodEvent, StreamEvent};
pub use object::{Kind, Kinds, Object, Resource};
pub use reflector::ReflectorOptions;
pub use run::run;

use futures::{Stream, StreamExt};

/// Feeds a cluster with a stream of events about one kind until it ends.
pub async fn feed<T: Object>(cluster: Cluster, events: impl Stream<Item = StreamEvent<T>>) {
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        cluster.apply(event);
    }
}
