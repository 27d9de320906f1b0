//! The mirroring controller, which writes EndpointSlices from the Endpoints of Services without a selector: a pure plan, and
//! the controller around it.

pub mod controller;
mod metrics;
pub mod plan;

pub use controller::{ControllerOptions, MirroringController};
pub use metrics::buckets;
pub use plan::{
    AddressVerdict, MirrorVerdict, NotMirrored, Plan, PlanInputs, PlanOptions, PlanStats, SkipReason, plan,
};
