//! An in-memory Kubernetes API server that speaks the real protocol, in process or on loopback, for
//! tests of controllers and of other clients.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::{Api, Client};
//! use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
//! use serde_json::json;
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let web = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": []}});
//!     let server = EmbeddedApiServer::builder().seed(42).load([web]).build()?;
//!     let pods: Api<Pod> = Api::default_namespaced(Client::new(server.service(), "default"));
//!     assert!(pods.get("web").await?.metadata.uid.is_some());
//!
//!     // The next deletion is carried out, but its answer is lost on the way.
//!     server.add_fault(FaultRule::on(Fault::ApplyAndLoseAnswer, "delete", "pods").times(1));
//!     assert!(pods.delete("web", &Default::default()).await.is_err());
//!     assert_eq!(server.count("pods"), 0);
//!
//!     // The log knows who asked for what, and the answers.
//!     let log = server.request_log();
//!     let asked: Vec<_> = log.iter().map(|logged| (logged.request.verb, logged.status)).collect();
//!     assert_eq!(asked, [("get", 200), ("delete", 200)]);
//!     Ok(())
//! }
//! ```
//!
//! It serves the resources that matter to endpoints (Namespaces, Nodes, Pods, Services, Endpoints,
//! EndpointSlices, Events, Leases, and reviews of tokens and access) as a kube-apiserver does: the
//! same paths, lists, watches, patches, deletions and error messages. Clients see no difference;
//! kubectl works. The last section lists what is not supported.
//!
//! # As a fixture
//!
//! The server is a tower service, so a `kube::Client` can use it without a socket, and a test can
//! run under tokio's paused clock: an hour of bookmarks, grace periods and retries takes
//! milliseconds. The seed and the order of requests determine everything, including uids and
//! generated names.
//!
//! A controller must also survive faults that no single request shows: a half-open connection
//! ([`silence_watches`](EmbeddedApiServer::silence_watches)), an outage of one kind or verb
//! ([`FaultRule::during`]), refusals by admission ([`refusals`]), and an etcd that somebody
//! restored from a backup:
//!
//! ```
//! # use k8s_openapi::api::core::v1::Pod;
//! # use kube::{Api, Client};
//! # use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
//! # use serde_json::json;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = EmbeddedApiServer::builder().build()?;
//! # let pods: Api<Pod> = Api::default_namespaced(Client::new(server.service(), "default"));
//! let pod = |name| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": []}});
//! server.load([pod("web-1")])?;
//! let backup = server.checkpoint();
//! server.load([pod("web-2")])?;
//! let seen = pods.list(&Default::default()).await?.metadata.resource_version;
//!
//! server.restore(&backup);
//! let listed = pods.list(&Default::default()).await?;
//! assert_eq!(listed.items.len(), 1);
//! assert!(listed.metadata.resource_version < seen);
//! # Ok(())
//! # }
//! ```
//!
//! Real control planes have several API servers, whose caches are of different age; [`Replica`] is
//! one of them.
//!
//! In the repository, `integration-tests/tests/kube_runtime_controller.rs` tests a complete
//! controller that is not part of this project.
//!
//! # For people
//!
//! In a checkout of the repository,
//!
//! ```sh
//! cargo run -p kube-endpoint-embedded-apiserver --example serve -- 127.0.0.1:8080 cluster.json
//! ```
//!
//! loads the output of `kubectl get ... -o json`, serves it and prints the path of a kubeconfig.
//!
//! # What it costs
//!
//! The server keeps an object as its JSON, framed as the watch event that announced it, with its
//! labels and selectable fields beside it. Reads and all watchers that take JSON share those bytes;
//! the server encodes a table, the other view of an event, and protobuf for each answer. It encodes
//! protobuf straight from the JSON text, without a tree in between, and keeps nothing of it. Each
//! resource is a sorted copy-on-write map of two levels, so a list takes a snapshot in constant
//! time and streams it while writes go on; a write to a map that a snapshot shares copies some
//! hundred pointers. A watcher is a cursor into the resource's history and has no queue. The server
//! makes older states (pages of a list, `resourceVersionMatch=Exact`) by undoing the changes since,
//! at the cost of that many map writes.
//!
//! There is one lock. A task holds it for the duration of a map operation: never across an await, a
//! list or the decoding of a body.
//!
//! # What it does not have
//!
//! Server-side apply, protobuf for discovery and tables, compression, custom resources, admission
//! beyond namespaces, authorization of its own requests (a SelfSubjectAccessReview always allows),
//! and everything that needs containers: logs, exec, port-forward, binding, eviction. The response
//! names the unsupported feature. Nothing gives pods a node, addresses and a status, and nothing
//! ends their deletion, unless [`Builder::kubelet`] asks for it.
//!
//! It knows the fields of pods and nodes that endpoint controllers and kubectl read. It stores
//! probes, volumes, affinity, security contexts and the like as given, if their types are right:
//! without defaults, validation and warnings about unknown fields. It stores quantities as written
//! (a kube-apiserver makes `500m` of `0.5`) and compares them as text for the QoS class. It
//! validates only the metadata of nodes, and does not validate the CIDRs and the status of load
//! balancers of Services. It has no events.k8s.io/v1, the other view of events.
//!
//! It stores and returns managedFields. It tracks those of Endpoints and EndpointSlices if
//! [`Builder::track_managers`] asks for it, others never: tracking would cost memory in every
//! object. So a write that changes nothing else makes a new version only if it changes the
//! managedFields that a client sent: resetting them with `[{}]`, which on a kube-apiserver makes a
//! new version of every tracked object, changes nothing in an object that has none.
//!
//! JSON may nest to 127 levels in fields that a kind has and to any depth in others, which the
//! server skips; a kube-apiserver accepts 10,000 levels. Only `fieldsV1` and fields that the server
//! stores as given can nest that deep. The result of a JSON patch may nest to 127 levels, too,
//! including unknown fields, and YAML to 64.

mod answer;
mod body;
mod builder;
mod changes;
mod clock;
mod connection;
mod create;
mod faults;
mod form;
mod gc;
mod guard;
mod handle;
mod kubelet;
mod listener;
mod load;
mod managers;
mod metadata;
mod namespace;
mod open_requests;
mod paging;
mod protobuf;
mod query;
mod random;
pub mod refusals;
mod replica;
mod request;
mod request_log;
mod restore;
mod reviews;
mod router;
mod selection;
mod server;
mod service;
mod store;
mod tls;
mod verbs;
mod watch_cache;
mod watches;
mod yaml;

pub use body::{Body, ConnectionReset};
pub use builder::{BuildError, Builder};
pub use changes::{ChangeKind, StoreChange};
pub use faults::{Fault, FaultId, FaultRule};
pub use handle::EmbeddedApiServer;
pub use kube_endpoint_apiserver_rules::manifest;
pub use kube_endpoint_apiserver_rules::resource::Resource;
pub use kube_endpoint_apiserver_rules::status::{Cause, Details, Status};
pub use kube_endpoint_apiserver_rules::strategy::RangeError;
pub use listener::{ListenError, ListenOptions, Listener};
pub use load::LoadError;
pub use replica::Replica;
pub use request::RequestInfo;
pub use request_log::LoggedRequest;
pub use restore::Checkpoint;
pub use reviews::{PolicyRule, User};
pub use service::{ApiService, ServiceError};
pub use tls::TlsError;
pub use watch_cache::Lag;
