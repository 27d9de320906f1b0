//! Topology mode `Auto`: the distribution of the cluster's CPU over zones, and the number of
//! endpoints that each zone should have.

mod allocation;
mod state;

pub(crate) use allocation::{Allocation, Disabled, Transfers, allocate, hints_by_zone, transfers};
pub use state::{HintedState, TopologyState};

use kube_endpoint_core_model::AddressType;

/// Reason of the event about a Service that has no hints, or no longer has any.
pub(crate) const EVENT_DISABLED: &str = "TopologyAwareHintsDisabled";

/// Formats a message about one address type (upstream `FormatWithAddressType`).
pub(crate) fn for_address_type(message: &str, address_type: AddressType) -> String {
    format!("{message}, addressType: {}", address_type.as_str())
}
