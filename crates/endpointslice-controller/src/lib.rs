//! The endpointslice controller, which writes the EndpointSlices of a Service from its pods: a pure plan, and the controller
//! around it (feature `controller`).

#[cfg(feature = "controller")]
pub mod controller;
#[cfg(feature = "controller")]
mod metrics;
pub mod plan;
pub mod topology;

#[cfg(feature = "controller")]
pub use controller::{ControllerOptions, EndpointSliceController, RuntimeOptions};
#[cfg(feature = "controller")]
pub use metrics::buckets;
pub use plan::{
    AddressTypeStats, GroupStats, Plan, PlanError, PlanInputs, PlanOptions, PlanStats, SubPlan, plan,
};
pub use topology::{HintedState, TopologyState};
