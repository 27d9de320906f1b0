//! The endpoints controller, which writes the v1 Endpoints of a Service from its pods: a pure plan,
//! and the controller around it (feature `controller`).

#[cfg(feature = "controller")]
pub mod controller;
#[cfg(feature = "controller")]
mod options;
pub mod plan;

#[cfg(feature = "controller")]
pub use controller::EndpointsController;
#[cfg(feature = "controller")]
pub use kube_endpoint_controller_runtime::RuntimeOptions;
#[cfg(feature = "controller")]
pub use options::{ControllerOptions, LeftoversAtStart};
pub use plan::{Plan, PlanInputs, PlanOptions, PlanState, plan, plan_and_keep};
