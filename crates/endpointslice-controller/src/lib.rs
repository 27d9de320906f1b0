//! The endpointslice controller, which writes the EndpointSlices of a Service from its pods: a pure
//! plan, and the controller around it (feature `controller`).

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
