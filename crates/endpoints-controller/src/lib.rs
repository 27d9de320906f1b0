//! The endpoints controller, which writes the v1 Endpoints of a Service from its pods: a pure plan
//! for tools and tests, and the controller around it.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kube_endpoint_endpoints_controller::{PlanInputs, plan};
//! use serde_json::{from_value, json};
//!
//! let service = from_value(json!({
//!     "metadata": {"name": "web", "namespace": "default"},
//!     "spec": {"selector": {"app": "web"}, "clusterIP": "10.96.0.9",
//!         "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]},
//! }))?;
//! let pod = from_value(json!({
//!     "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
//!     "status": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
//!         "conditions": [{"type": "Ready", "status": "True"}]},
//! }))?;
//! let plan = plan(&PlanInputs::new(&service, &[Arc::new(pod)]));
//! assert_eq!(plan.to_string(), "\
//! create default/web
//!   label endpoints.kubernetes.io/managed-by=endpoint-controller
//!   ports 8080/TCP
//!     ready: 10.1.0.1 of Pod web-1
//! pod web-1: published as ready
//! pods 1 ready, 0 not ready
//! ");
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! [`plan()`] is a function from objects to writes, without clock, randomness and client. It needs
//! no feature. The feature `controller`, on by default, adds [`EndpointsController`], which reads
//! caches, makes plans and carries them out.

#[cfg(feature = "controller")]
pub mod controller;
#[cfg(feature = "controller")]
mod options;
pub mod plan;

#[cfg(feature = "controller")]
pub use controller::{EndpointsController, RetireAll};
#[cfg(feature = "controller")]
pub use kube_endpoint_controller_runtime::RuntimeOptions;
#[cfg(feature = "controller")]
pub use options::{ControllerOptions, RetirementOptions};
pub use plan::{Plan, PlanInputs, PlanOptions, plan};
