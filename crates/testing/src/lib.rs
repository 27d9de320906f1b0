//! Clusters in a few lines, to snapshot plans over them and controllers on them, for tests of code
//! about Services, pods and EndpointSlices.
//!
//! ```
//! use kube_endpoint_testing::Cluster;
//!
//! let cluster = Cluster::new()
//!     .node("a").zone("eu-1")
//!     .node("b").zone("eu-2")
//!     .service("web").dual_stack()
//!     .pods("web", 3)
//!     .select("Pod", "web-2").not_ready();
//! cluster.plan("web", |inputs| {
//!     assert_eq!(inputs.service().ip_families.len(), 2);
//!     assert_eq!(inputs.pods.iter().filter(|pod| pod.is_ready()).count(), 2);
//! });
//! ```
//!
//! - [`Cluster`] makes nodes, Services, pods, slices and Endpoints. The order of the calls
//!   determines names, addresses, uids, versions and times, so a test prints the same in every run.
//! - [`Cluster::plan`] calls a plan with the views of these objects; [`Cluster::apply`] applies the
//!   planned writes.
//! - [`Redacted`] orders objects and replaces what differs from run to run, for
//!   `insta::assert_snapshot!` and `insta::assert_yaml_snapshot!`.
//! - [`MetricsPage`] reads values from a page of metrics in Prometheus' text format.
//! - `Simulation` (feature `server`) runs a controller against the embedded API server, under
//!   tokio's paused clock.
//! - `Log` (feature `log`) captures what a test logs.
//!
//! A call that does not apply to the current objects, such as the zone of a Service, panics and
//! names the caller's line.

mod apply;
mod cluster;
mod describe;
mod inputs;
#[cfg(feature = "log")]
mod log;
mod metrics_page;
mod redact;
#[cfg(feature = "server")]
mod simulation;

pub use apply::Planned;
pub use cluster::{Cluster, START_TIME};
pub use inputs::Inputs;
#[cfg(feature = "log")]
pub use log::Log;
pub use metrics_page::MetricsPage;
pub use redact::Redacted;
#[cfg(feature = "server")]
pub use simulation::{
    ControllerService, Environment, Simulation, USER_AGENT, numbered_pods, server_builder, without_an_address,
};
