//! Carries out plans against the Kubernetes API server, for controllers: client-side rate limit,
//! creates, updates, deletes, events. It makes no decisions.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kube_endpoint_api_client::ApiClient;
//! use kube_endpoint_api_writer::{ApiWriter, RequestLimiter};
//! use kube_endpoint_core_model::{EndpointSlice, ObjectKey, ObjectMeta, ResourceVersion};
//! use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
//! use kube_endpoint_tracker::{Verb, WriteTracker};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = EmbeddedApiServer::builder().build()?;
//!     // In a cluster, `kube_endpoint_api_client::client_from_config` makes the client.
//!     let client = ApiClient::for_tests(server.service());
//!     let writer = ApiWriter::new(client, RequestLimiter::new(20.0, 30)?, "my-controller");
//!
//!     let (service, name) = (ObjectKey::new("default", "web"), ObjectKey::new("default", "web-1"));
//!     let metadata = ObjectMeta { namespace: "default".into(), name: "web-1".into(), ..Default::default() };
//!     let slice = EndpointSlice { metadata, ..Default::default() };
//!     // The tracker knows the write until the cache shows it.
//!     let tracker = WriteTracker::default();
//!     let mut write = tracker.write(&service, &name, Verb::Create, ResourceVersion(0));
//!     let version = writer.create(&Arc::new(slice), &mut write).await?;
//!     assert_eq!(version.0, server.resource_version());
//!     Ok(())
//! }
//! ```
//!
//! The writer reports the outcome of each write in terms that a controller can act on: done,
//! refused (and why), or unknown. [`TrackedWriter`] carries out all writes of a plan.

pub mod clock;
pub mod dry_run;
pub mod error;
pub mod events;
pub mod fence;
pub mod limiter;
pub mod name_generator;
mod request_span;
mod send;
pub mod tracked;
mod writable;
pub mod writer;

pub use clock::Clock;
pub use dry_run::DryRun;
pub use error::WriteError;
pub use events::{EventRecorder, EventSubject};
pub use fence::WriteFence;
pub use limiter::RequestLimiter;
pub use tracked::{Carried, Deleted, FailedWrite, Operation, TrackedWriter};
pub use writable::Writable;
pub use writer::{ApiWriter, MetadataPage, PartialObjectMetadata};
