//! An in-memory Kubernetes API server that speaks the real protocol, in process or on loopback.

mod answer;
mod body;
mod builder;
mod clock;
mod faults;
mod form;
mod gc;
mod handle;
mod listener;
mod load;
mod metadata;
mod namespace;
mod paging;
mod query;
mod random;
mod request;
mod request_log;
mod reviews;
mod router;
mod selection;
mod server;
mod service;
mod store;
mod verbs;
mod view;

pub use body::{Body, Broken};
pub use builder::{BuildError, Builder};
pub use faults::{Fault, FaultId, FaultRule};
pub use handle::EmbeddedApiServer;
pub use kube_endpoint_apiserver_rules::resource::Resource;
pub use listener::{ListenError, ListenOptions, Listener};
pub use load::LoadError;
pub use request::RequestInfo;
pub use request_log::LoggedRequest;
pub use reviews::{Right, User};
pub use service::{ApiService, ServiceError};
