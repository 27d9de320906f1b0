//! The mirroring controller, which writes EndpointSlices from the Endpoints of Services without a
//! selector: a pure plan for tools and tests, and the controller around it.
//!
//! ```
//! use kube_endpoint_core_model::{Endpoints, Service};
//! use kube_endpoint_mirroring::{PlanInputs, plan};
//! use serde_json::{from_value, json};
//!
//! let service: Service = from_value(json!({"metadata": {"name": "db", "namespace": "default"}}))?;
//! let endpoints: Endpoints = from_value(json!({
//!     "metadata": {"name": "db", "namespace": "default", "uid": "5e7a"},
//!     "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 5432, "protocol": "TCP"}]}],
//! }))?;
//! let plan = plan(&PlanInputs::new(&service, &endpoints));
//! assert_eq!(plan.to_string(), r#"create default/db-*: IPv4, ports 5432/TCP
//!   owner Endpoints db (5e7a)
//!   ready: 192.0.2.1
//! address "192.0.2.1" (ports 5432/TCP): mirrored as ready
//! endpoints 1 (1 added, 0 updated, 0 removed), slices 1, addresses skipped 0
//! "#);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! [`plan()`] is a function from objects to writes, without clock, randomness and client. It needs
//! no feature. The feature `controller`, on by default, adds [`MirroringController`], which reads
//! caches, makes plans and carries them out.

#[cfg(feature = "controller")]
pub mod controller;
#[cfg(feature = "controller")]
mod metrics;
#[cfg(feature = "controller")]
mod options;
pub mod plan;

#[cfg(feature = "controller")]
pub use controller::MirroringController;
#[cfg(feature = "controller")]
pub use kube_endpoint_controller_runtime::RuntimeOptions;
#[cfg(feature = "controller")]
pub use metrics::buckets;
#[cfg(feature = "controller")]
pub use options::ControllerOptions;
pub use plan::{
    AddressVerdict, KeptOrphans, KeptReason, MirrorVerdict, NotMirrored, OrphanInputs, OrphanVerdict, Plan,
    PlanInputs, PlanOptions, PlanStats, SkipReason, judge_orphans, kept_events, plan,
};
