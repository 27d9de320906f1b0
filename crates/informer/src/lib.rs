//! One list and watch per kind, or per kind and namespace; indexed stores, and an index from pods
//! to the Services that select them.
//!
//! [`run`] lists and watches one kind and applies the events to a [`Cluster`]; [`feed`] applies any
//! stream of [`StreamEvent`]s. Controllers read the [`Cluster`], and register a [`Handler`] that it
//! calls for each change.

mod cluster;
mod error;
mod event;
pub mod metrics;
mod object;
mod options;
mod reflector;
mod shard;
mod store;
mod wire;

pub use cluster::Cluster;
pub use event::{Change, Handler, Origin, PodEvent, StreamEvent};
pub use object::{Kind, Kinds, Object, Resource};
pub use options::{ClusterOptions, ReflectorOptions};
pub use reflector::history::StorageWentBack;
pub use reflector::run::run;
pub use reflector::status::{KindFailure, KindStatus, ListWatchVerb};
pub use reflector::version_check::server_version_of;
pub use shard::{InvalidShard, Shard};
pub use store::long_work::long_work;
pub use store::pod_log::{PodCursor, PodLogOptions};
pub use store::watched_namespaces::{Scope, WatchedNamespaces};

use futures::{Stream, StreamExt};
use kube_endpoint_api_client::ApiClient;

/// Applies a stream of events of one kind to a cluster until the stream ends.
pub async fn feed<T: Object>(cluster: Cluster, events: impl Stream<Item = StreamEvent<T>>) {
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        cluster.apply_locked(event).await;
    }
}
