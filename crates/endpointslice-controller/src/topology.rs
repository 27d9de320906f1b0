//! Topology mode `Auto`: how a cluster's CPU is spread over zones, and what that asks of a Service's endpoints.

mod allocation;
mod state;

pub(crate) use allocation::{Allocation, Disabled, Transfers, allocate, hints_by_zone, transfers};
pub use state::{HintedState, TopologyState};

use kube_endpoint_core_model::AddressType;

/// Reason of the event that says that a Service has no hints (any more).
pub(crate) const EVENT_DISABLED: &str = "TopologyAwareHintsDisabled";

/// A message about one address type (upstream `FormatWithAddressType`).
pub(crate) fn for_address_type(message: &str, address_type: AddressType) -> String {
    format!("{message}, addressType: {}", address_type.as_str())
}
