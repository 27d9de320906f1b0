//! The plan: which slices a Service shall have, and which writes lead there. A plain function of its inputs.

mod inputs;
mod outcome;

pub use inputs::{DEFAULT_MAX_ENDPOINTS_PER_SLICE, PlanInputs, PlanOptions};
pub use outcome::{AddressTypeStats, GroupStats, Plan, PlanError, PlanStats};

/// Plans one sync of a Service (upstream `Reconciler.Reconcile`).
pub fn plan(inputs: &PlanInputs<'_>) -> Plan {
    Plan { hinted: inputs.hinted.clone(), ..Plan::default() }
}
