//! The mirroring controller, which writes EndpointSlices from the Endpoints of Services without a selector: a pure plan, and
//! the controller around it (feature `controller`).

#[cfg(feature = "controller")]
pub mod controller;
#[cfg(feature = "controller")]
mod metrics;
pub mod plan;

#[cfg(feature = "controller")]
pub use controller::{ControllerOptions, MirroringController, RuntimeOptions};
#[cfg(feature = "controller")]
pub use metrics::buckets;
pub use plan::{
    AddressVerdict, KeptOrphans, KeptReason, MirrorVerdict, NotMirrored, OrphanInputs, OrphanVerdict, Plan,
    PlanInputs, PlanOptions, PlanStats, Provenance, SkipReason, SubsetsWriter, judge_orphans, kept_events,
    plan,
};
