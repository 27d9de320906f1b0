//! Pods of a Service into v1 Endpoints: a pure plan, and the controller around it.

pub mod controller;
pub mod plan;

pub use controller::{ControllerOptions, EndpointsController};
pub use plan::{Plan, PlanInputs, PlanOptions, plan};
