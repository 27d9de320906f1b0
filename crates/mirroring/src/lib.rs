//! The mirroring controller, which writes EndpointSlices from the Endpoints of Services without a
//! selector: a pure plan, and the controller around it (feature `controller`).

#[cfg(feature = "controller")]
pub mod controller;
#[cfg(feature = "controller")]
mod metrics;
#[cfg(feature = "controller")]
mod options;
pub mod plan;

#[cfg(feature = "controller")]
pub use controller::MirroringController;
#[cfg(feature = "controller")]
pub use kube_endpoint_controller_runtime::RuntimeOptions;
#[cfg(feature = "controller")]
pub use metrics::buckets;
#[cfg(feature = "controller")]
pub use options::ControllerOptions;
pub use plan::{
    AddressVerdict, KeptOrphans, KeptReason, MirrorVerdict, NotMirrored, OrphanInputs, OrphanVerdict, Plan,
    PlanInputs, PlanOptions, PlanStats, SkipReason, judge_orphans, kept_events, plan,
};
