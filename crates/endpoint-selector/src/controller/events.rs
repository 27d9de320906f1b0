//! The situation of a Service, and the events about it.

use kube_endpoint_core_model::endpoint_selector::LONGEST_NAME;
use kube_endpoint_core_model::{PlannedEvent, harmless};

/// The situation of a Service that names an EndpointSelector, as the last sync found it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Situation {
    /// No sync has found anything to report.
    #[default]
    Normal,
    /// The slices of others stay, since no own endpoint is ready.
    Held { selector: String, slices: usize },
    /// A slice stays that has the label of the endpointslice controller, and that somebody else
    /// made.
    Kept { slice: String, by: String },
    /// Slices stay that were mirrored from Endpoints which no controller made.
    Mirrored { by: String },
    /// The API server does not let the controller look at the Endpoints or delete them.
    EndpointsForbidden { message: String },
    /// The selector does not exist. Slices of others may stay.
    NotFound { selector: String, others_stay: bool },
    /// The selector selects nothing. Slices of others may stay.
    Invalid { selector: String, reason: String, others_stay: bool },
    /// The Service has a selector again, and the slices of the endpointslice controller lack ready
    /// endpoints.
    HandingBack,
}

impl Situation {
    /// Returns true if a hand-over waits.
    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. } | Self::HandingBack)
    }

    /// Returns true if the named selector cannot be used.
    pub(super) fn lacks_selector(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::Invalid { .. })
    }

    /// Returns the event that reports it.
    pub(super) fn event(&self) -> Option<PlannedEvent> {
        Some(match self {
            Self::Normal | Self::HandingBack => return None,
            Self::Held { selector, slices } => PlannedEvent::warning(
                "TakeOverHeld",
                format!(
                    "no endpoint of EndpointSelector {selector} is ready, so what kube-controller-manager published \
                     stays ({}); correct the selector, or wait for the pods",
                    counted(*slices)
                ),
            ),
            Self::Kept { slice, by } => PlannedEvent::warning(
                "EndpointSliceKept",
                format!(
                    "clients also use EndpointSlice {slice}: {by} wrote it, and it has the label of \
                     kube-controller-manager; delete it if it is left over"
                ),
            ),
            Self::Mirrored { by } => PlannedEvent::warning(
                "MirroredEndpointsAdded",
                format!(
                    "clients also use the addresses of the Endpoints of this name, which {by} wrote and \
                     kube-controller-manager mirrors; delete the Endpoints if they are left over"
                ),
            ),
            Self::EndpointsForbidden { message } => PlannedEvent::warning(
                "EndpointsNotDeleted",
                format!(
                    "kube-controller-manager mirrors the Endpoints of this name, which may be left over; delete \
                     them if a controller made them: {message}"
                ),
            ),
            Self::NotFound { selector, others_stay } => PlannedEvent::warning(
                "EndpointSelectorNotFound",
                // An annotation may have any text of up to 256 kB.
                format!(
                    "EndpointSelector {} does not exist; until it does, {}",
                    harmless(selector, LONGEST_NAME),
                    without_selector(*others_stay)
                ),
            ),
            Self::Invalid { selector, reason, others_stay } => PlannedEvent::warning(
                "EndpointSelectorInvalid",
                format!(
                    "EndpointSelector {selector} is invalid, so {}: {reason}",
                    without_selector(*others_stay)
                ),
            ),
        })
    }
}

/// Says what happens to the endpoints of a Service whose selector cannot be used.
fn without_selector(others_stay: bool) -> &'static str {
    if others_stay {
        "what kube-controller-manager published stays, and nobody updates it"
    } else {
        "endpoints only leave"
    }
}

/// Returns the event about slices and Endpoints that this controller has deleted after a take-over.
pub(super) fn taken_over(selector: &str, slices: usize, endpoints: bool) -> PlannedEvent {
    let endpoints = if endpoints { " and the Endpoints" } else { "" };
    PlannedEvent::normal(
        "EndpointsTakenOver",
        format!(
            "EndpointSelector {selector} selects the pods now; deleted {}{endpoints} of kube-controller-manager",
            counted(slices)
        ),
    )
}

/// Returns the event about own slices that this controller has deleted.
pub(super) fn handed_back(slices: usize) -> PlannedEvent {
    PlannedEvent::normal(
        "EndpointsHandedBack",
        format!("the Service has a selector; deleted {} of the EndpointSelector", counted(slices)),
    )
}

fn counted(slices: usize) -> String {
    format!("{slices} EndpointSlice{}", if slices == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_say_what_is_wrong_and_what_to_do() {
        let selector = || "web-stable".to_owned();
        let situations = [
            Situation::Held { selector: selector(), slices: 2 },
            Situation::Kept { slice: "web-1".into(), by: "kubectl-edit".into() },
            Situation::Mirrored { by: "kubectl-create".into() },
            Situation::EndpointsForbidden { message: "endpoints \"web\" is forbidden".into() },
            Situation::NotFound { selector: selector(), others_stay: false },
            Situation::NotFound { selector: "a\n".repeat(100_000), others_stay: true },
            Situation::Invalid {
                selector: selector(),
                reason: "spec.selector is empty".into(),
                others_stay: false,
            },
        ];
        let mut events: Vec<String> =
            situations.iter().filter_map(Situation::event).map(|event| event.to_string()).collect();
        events.extend([taken_over("web-stable", 3, true), handed_back(1)].map(|event| event.to_string()));
        insta::assert_snapshot!(events.join("\n"));
        assert!(Situation::Normal.event().is_none() && Situation::HandingBack.event().is_none());
    }
}
