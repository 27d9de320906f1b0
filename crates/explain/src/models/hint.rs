//! Finds the reason why an endpoint has its hints, or no hints.

use std::fmt;

use kube_endpoint_core_model::{AddressType, Endpoint, Text};
use kube_endpoint_slice_plan::Plan;
use serde::Serialize;

/// The reason why an endpoint has its hints, or no hints. Prints as the end of a sentence.
/// Serialises with the tag `why`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum HintReason {
    /// The Service asks for no hints.
    NotAsked,
    /// Only ready endpoints have hints.
    NotReady,
    /// The endpoint's node has no zone.
    NoZone,
    /// Traffic distribution or topology: it serves its own zone.
    OwnZone,
    /// Traffic distribution: it serves its own node, and its own zone.
    OwnNode,
    /// Topology mode `Auto`: its own zone has more endpoints than its share of the CPU.
    OtherZone {
        /// The endpoint's own zone.
        from: Text,
        /// The zone that it serves.
        to: Text,
    },
    /// Topology mode `Auto`: the endpoints of this address type cannot have hints.
    Withheld {
        /// The reason, as the controller's event gives it.
        message: String,
    },
    /// The hints differ from those that the Service asks for: the slice is behind, or another
    /// client wrote it.
    Unexpected,
}

impl fmt::Display for HintReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("the Service asks for no hints"),
            Self::NotReady => f.write_str("only ready endpoints have hints"),
            Self::NoZone => f.write_str("its node has no zone"),
            Self::OwnZone => f.write_str("its own zone"),
            Self::OwnNode => f.write_str("its own node"),
            Self::OtherZone { from, to } => {
                write!(f, "{from} has more endpoints than its share of the CPU, {to} has fewer")
            }
            Self::Withheld { message } => f.write_str(message),
            Self::Unexpected => f.write_str("not what the Service asks for"),
        }
    }
}

/// Returns the message of the event with which a plan withholds topology hints from an address
/// type.
pub(crate) fn withheld(plan: &Plan, address_type: AddressType) -> Option<&str> {
    if !plan.stats.topology_auto {
        return None;
    }
    let end = format!(", addressType: {address_type}");
    plan.events.iter().find_map(|event| {
        (event.reason == "TopologyAwareHintsDisabled").then(|| event.message.strip_suffix(&end)).flatten()
    })
}

/// Returns the reason why an endpoint of a slice has its hints, or no hints.
pub(crate) fn reason(plan: &Plan, address_type: AddressType, endpoint: &Endpoint) -> HintReason {
    let hints = endpoint.hints.as_ref();
    let for_zones: Vec<&Text> =
        hints.iter().flat_map(|hints| &hints.for_zones).map(|hint| &hint.name).collect();
    let for_nodes = hints.is_some_and(|hints| !hints.for_nodes.is_empty());
    let has_hints = !for_zones.is_empty() || for_nodes;
    let distribution = plan.stats.traffic_distribution.as_deref();
    let unless_hinted = |reason: HintReason| if has_hints { HintReason::Unexpected } else { reason };
    if let Some(message) = withheld(plan, address_type) {
        return unless_hinted(HintReason::Withheld { message: message.to_owned() });
    }
    if !plan.stats.topology_auto && distribution.is_none() {
        return unless_hinted(HintReason::NotAsked);
    }
    if endpoint.conditions.ready != Some(true) {
        return HintReason::NotReady;
    }
    match (endpoint.zone.as_ref(), for_zones.as_slice()) {
        (_, _) if for_nodes && distribution == Some("PreferSameNode") => HintReason::OwnNode,
        (None, []) => HintReason::NoZone,
        (Some(zone), [hint]) if zone == *hint => HintReason::OwnZone,
        (Some(zone), [hint]) if plan.stats.topology_auto => {
            HintReason::OtherZone { from: zone.clone(), to: (*hint).clone() }
        }
        _ => HintReason::Unexpected,
    }
}
