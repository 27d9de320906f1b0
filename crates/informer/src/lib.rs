//! One list and watch per kind, or per kind and namespace, for controllers of Services: indexed
//! stores, and an index from pods to the Services that select them.
//!
//! ```
//! use std::future::pending;
//!
//! use kube_endpoint_api_client::ApiClient;
//! use kube_endpoint_core_model::{ObjectKey, Pod, Service};
//! use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
//! use kube_endpoint_informer::{Cluster, Kind, ReflectorOptions, run};
//! use serde_json::json;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "labels": {"app": "web"}},
//!         "spec": {"containers": []}});
//!     let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
//!         "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
//!     let server = EmbeddedApiServer::builder().load([pod, service]).build()?;
//!     // In a cluster, `kube_endpoint_api_client::client_from_config` makes the client.
//!     let client = ApiClient::for_tests(server.service());
//!
//!     let cluster = Cluster::new([Kind::Pods, Kind::Services]);
//!     let options = ReflectorOptions::new(42);
//!     tokio::spawn(run::<Pod>(client.clone(), cluster.clone(), options, pending()));
//!     tokio::spawn(run::<Service>(client, cluster.clone(), options, pending()));
//!     cluster.synced().await;
//!     assert_eq!(cluster.pods_of(&ObjectKey::new("default", "web"))[0].key.name, "web-1");
//!     Ok(())
//! }
//! ```
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
mod store;
mod wire;

pub use cluster::Cluster;
pub use event::{Change, Handler, Origin, PodEvent, StreamEvent};
pub use object::{Kind, Kinds, Object, Resource};
pub use options::{ClusterOptions, ReflectorOptions};
pub use reflector::history::StorageWentBack;
pub use reflector::run::run;
pub use reflector::status::{KindFailure, KindStatus, ListWatchVerb};
pub use reflector::version_check::{VersionUnknown, server_version_of};
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
