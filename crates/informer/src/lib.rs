//! One list and watch per kind, or per kind and namespace; indexed stores, and an index from pods to the Services that select them.
//!
//! [`run`] lists and watches one kind and applies what it receives to a [`Cluster`]; so does [`feed`] with any stream of
//! [`StreamEvent`]s. Controllers read the [`Cluster`] and register a [`Handler`] to be notified of changes.

mod apply;
mod apply_pods_and_services;
mod backoff;
mod cluster;
mod decode;
mod doubts;
mod echo;
mod error;
mod event;
mod frame_splitter;
#[cfg(test)]
mod index_model_tests;
mod line_splitter;
mod list_builder;
mod list_parts;
mod list_splitter;
mod long_work;
pub mod metrics;
mod namespace;
mod object;
mod options;
mod pieces;
mod pod_list;
mod pod_log;
mod pod_service_index;
mod progress;
mod protobuf_list;
mod protobuf_watch;
mod reflector;
mod request;
mod run;
mod selector_index;
mod serial_queue;
mod shard;
mod shared_strings;
mod state;
mod status;
mod table;
mod turns;
mod undecodable;
mod version_check;
mod view;

pub use backoff::Backoff;
pub use cluster::Cluster;
pub use event::{Change, Handler, Origin, PodEvent, StreamEvent};
pub use long_work::long_work;
pub use object::{Kind, Kinds, Object, Resource};
pub use options::ReflectorOptions;
pub use pod_log::PodCursor;
pub use progress::Position;
pub use run::run;
pub use shard::{InvalidShard, Shard};
pub use status::{KindFailure, KindStatus, ListWatchVerb};
pub use version_check::server_version_of;
pub use view::{Scope, View};

use futures::{Stream, StreamExt};
use kube_endpoint_api_client::ApiClient;

/// Applies a stream of events of one kind to a cluster until the stream ends.
pub async fn feed<T: Object>(cluster: Cluster, events: impl Stream<Item = StreamEvent<T>>) {
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        cluster.apply_in_turn(event).await;
    }
}
