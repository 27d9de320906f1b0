//! Pods of a Service into EndpointSlices: a pure plan, and the controller around it.

pub mod plan;
pub mod topology;

pub use plan::{Plan, PlanError, PlanInputs, PlanOptions, PlanStats, plan};
pub use topology::{HintedState, TopologyState};
