//! The endpoints controller, which writes the v1 Endpoints of a Service from its pods: a pure plan, and the controller around
//! it (feature `controller`).

#[cfg(feature = "controller")]
pub mod controller;
pub mod plan;

#[cfg(feature = "controller")]
pub use controller::{ControllerOptions, EndpointsController, RuntimeOptions};
pub use plan::{Plan, PlanInputs, PlanOptions, plan};
