//! The endpoints controller, which writes the v1 Endpoints of a Service from its pods: a pure plan, and the controller around
//! it.

pub mod controller;
pub mod plan;

pub use controller::{ControllerOptions, EndpointsController};
pub use plan::{Plan, PlanInputs, PlanOptions, plan};
