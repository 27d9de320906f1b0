//! The endpointslice controller, which writes the EndpointSlices of a Service from its pods: a pure plan, and the controller
//! around it.

pub mod controller;
mod metrics;
pub mod plan;
pub mod topology;

pub use controller::{ControllerOptions, EndpointSliceController, Remembered};
pub use metrics::buckets;
pub use plan::{
    AddressTypeStats, GroupStats, Plan, PlanError, PlanInputs, PlanOptions, PlanStats, SubPlan, plan,
};
pub use topology::{HintedState, TopologyState};
