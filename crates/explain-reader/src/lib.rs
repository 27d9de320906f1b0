//! Reads from an API server what an explanation of a Service or a pod looks at, and explains it:
//! for tools and pages that answer "why does my Service have no endpoints?".
//!
//! ```
//! use jiff::Timestamp;
//! use kube_endpoint_core_model::ObjectKey;
//! use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
//! use kube_endpoint_explain::Options;
//! use kube_endpoint_explain_reader::{ReadError, Reader};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // In a cluster: kube::Client::try_default().
//!     let server = EmbeddedApiServer::builder().build()?;
//!     let listener = server.listen("127.0.0.1:0".parse()?).await?;
//!     let config = kube::Config::new(format!("http://{}", listener.address()).parse()?);
//!     let reader = Reader::new(kube::Client::try_from(config)?);
//!
//!     let web = ObjectKey::new("default", "web");
//!     let explained = reader.explain_service(&web, &Options::default(), &Timestamp::now).await;
//!     assert!(matches!(explained, Err(ReadError::NotFound(_))));
//!     Ok(())
//! }
//! ```
//!
//! The source is what answers the client's requests: an API server with the rights of the client's
//! user, a part of one that a tower service filters, or a server in the same process that holds
//! manifests.
//!
//! - [`Reader::service`], [`Reader::pod`] and [`Reader::all`] read the objects of one explanation,
//!   or of a report about all Services, and note the kinds that the user may not read.
//! - [`Reader::explain_service`] reads and explains, and reads once more if a write may be under
//!   way.
//! - [`Reader::lint`] reads and checks all Services.
//! - [`Reader::explain_referrer`] explains an Ingress, a route, an APIService or a webhook
//!   configuration: each Service to which it sends clients.
//! - [`Resource`] and [`List`] read lists page by page.
//!
//! No request changes the cluster, except [`Reader::delete`].

mod around;
mod attached;
mod connecting;
mod elsewhere;
mod error;
mod explained;
mod linted;
mod more;
mod pages;
mod progress;
mod reader;
mod referrer;
mod resource;
mod signs;

pub use error::{IN_PART, NOT_IN_FILES, ObjectFailure, ReadError, is_not_in_files};
pub use explained::{BETWEEN_READINGS, Explained};
pub use linted::{Before, Linted};
pub use pages::{List, PAGE, check_kind};
pub use progress::Progress;
pub use reader::{Reader, Reading};
pub use referrer::{newest_resource, referrer_kind};
pub use resource::{Page, Resource};
pub use signs::may_tell_more;
