//! The endpointslice controller, which writes the EndpointSlices of a Service from its pods: a pure
//! plan for tools and tests, and the controller around it.
//!
//! ```
//! use std::{collections::BTreeMap, sync::Arc};
//!
//! use kube_endpoint_endpointslice_controller::{PlanInputs, plan};
//! use serde_json::{from_value, json};
//!
//! let service = from_value(json!({
//!     "metadata": {"name": "web", "namespace": "default", "uid": "5e7a"},
//!     "spec": {"selector": {"app": "web"}, "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"],
//!         "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]},
//! }))?;
//! let pod = from_value(json!({
//!     "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
//!     "spec": {"nodeName": "a"},
//!     "status": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
//!         "conditions": [{"type": "Ready", "status": "True"}]},
//! }))?;
//! let nodes = BTreeMap::from([("a".into(), Arc::new(from_value(json!({"metadata": {"name": "a"}}))?))]);
//! let plan = plan(&PlanInputs::new(&service, &[Arc::new(pod)], &nodes));
//! assert_eq!(plan.to_string(), "\
//! create default/web-*: IPv4, ports 8080/TCP
//!   owner Service web (5e7a)
//!   ready: 10.1.0.1 of Pod web-1 on a
//! pod web-1: published as ready
//! IPv4: endpoints 1 (1 added, 0 removed), slices 1 (1 changed)
//! ");
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! [`plan()`] is a function from objects to writes, without clock, randomness and client. It needs
//! no feature. The feature `controller`, on by default, adds [`EndpointSliceController`], which
//! reads caches, makes plans and carries them out.

#[cfg(feature = "controller")]
pub mod controller;
#[cfg(feature = "controller")]
mod metrics;
#[cfg(feature = "controller")]
mod options;
pub mod plan;
#[cfg(feature = "controller")]
mod sync_error;
pub mod topology;

#[cfg(feature = "controller")]
pub use controller::EndpointSliceController;
#[cfg(feature = "controller")]
pub use kube_endpoint_controller_runtime::RuntimeOptions;
#[cfg(feature = "controller")]
pub use metrics::buckets;
#[cfg(feature = "controller")]
pub use options::ControllerOptions;
pub use plan::{
    AddressTypeStats, GroupStats, Plan, PlanError, PlanInputs, PlanOptions, PlanState, PlanStats, SubPlan,
    plan, plan_and_keep,
};
pub use topology::{HintedState, TopologyState};
