//! The situation of a Service, and the events about it.

use std::collections::BTreeSet;

use kube_endpoint_api_writer::{Operation, WriteError};
use kube_endpoint_controller_runtime::SyncError;
use kube_endpoint_core_model::endpoint_selector::LONGEST_NAME;
use kube_endpoint_core_model::maker::Keep;
use kube_endpoint_core_model::{ObjectKey, PlannedEvent, harmless};

/// The most characters of a refusal in an event.
const LONGEST_MESSAGE: usize = 500;
/// The most names in an event or in a condition.
const MOST_NAMES: usize = 5;

/// A part of the situation of a Service that names an EndpointSelector, as the last sync found it.
/// Those after which clients may use dead addresses come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Situation {
    /// The API server refuses a write or the read before it, and will until something changes.
    Refused { what: String, message: String },
    /// Requests have failed for a while.
    Failing,
    /// The API server does not let the controller read, change or delete the Endpoints.
    EndpointsForbidden { message: String },
    /// A slice stays that has the label of the endpointslice controller, and that no controller
    /// made for certain.
    Kept { keep: Keep, slice: String },
    /// Slices stay that were mirrored from Endpoints which no controller made for certain.
    Mirrored { keep: Keep },
    /// The selector does not exist. Slices of others may stay.
    NotFound { selector: String, others_stay: bool },
    /// The selector selects nothing. Slices of others may stay.
    Invalid { selector: String, reason: String, others_stay: bool },
    /// The slices of others stay, since no own endpoint is ready.
    Held { selector: String, slices: usize },
    /// The slices of others stay until own ones are written.
    TakingOver,
    /// The Service has a selector again, and the slices of the endpointslice controller lack ready
    /// endpoints.
    HandingBack,
}

/// The situation of a Service: everything that its last sync found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Situations(BTreeSet<Situation>);

impl Situations {
    pub(super) fn add(&mut self, situation: Situation) {
        self.0.insert(situation);
    }

    /// Adds the request that the API server refused, if there is one in an error, or a failure that
    /// may pass. A 403 about Endpoints has its own situation.
    pub(super) fn add_refused(&mut self, service: &ObjectKey, error: &SyncError) {
        let refused = error.writes().iter().find_map(|failed| match &failed.error {
            WriteError::Refused { message, .. } => Some((failed, message)),
            _ => None,
        });
        let Some((failed, message)) = refused else {
            if error.writes().iter().any(|failed| failed.error.is_common()) {
                self.add(Situation::Failing);
            }
            return;
        };
        let mut message = harmless(message, LONGEST_MESSAGE).into_owned();
        if failed.operation == Operation::Create {
            // Each attempt has a new name.
            message = message.replace(&*failed.object.name, &format!("{}-", service.name));
        }
        let what = if failed.object == *service {
            "read the Service".to_owned()
        } else {
            format!("{} an EndpointSlice", failed.operation.as_str())
        };
        self.add(Situation::Refused { what, message });
    }

    /// Returns true if requests have failed for a reason that may pass.
    pub(super) fn is_failing(&self) -> bool {
        self.0.contains(&Situation::Failing)
    }

    /// Leaves failures out: they may pass.
    pub(super) fn forgive_failures(&mut self) {
        self.0.remove(&Situation::Failing);
    }

    fn any(&self, is_one: impl Fn(&Situation) -> bool) -> bool {
        self.0.iter().any(is_one)
    }

    /// Returns true if the API server still refuses a write, or fails.
    pub(super) fn is_refused(&self) -> bool {
        self.any(|it| matches!(it, Situation::Refused { .. } | Situation::Failing))
    }

    /// Returns true if a hand-over waits.
    pub(super) fn is_held(&self) -> bool {
        use Situation::{HandingBack, Held, TakingOver};
        self.any(|it| matches!(it, Held { .. } | TakingOver | HandingBack))
    }

    /// Returns true if the named selector cannot be used.
    pub(super) fn lacks_selector(&self) -> bool {
        self.has_no_selector() || self.any(|it| matches!(it, Situation::Invalid { .. }))
    }

    /// Returns true if the named selector does not exist.
    pub(super) fn has_no_selector(&self) -> bool {
        self.any(|it| matches!(it, Situation::NotFound { .. }))
    }

    /// Returns true if clients use addresses that the controller may not take away.
    pub(super) fn has_leftovers(&self) -> bool {
        use Situation::{EndpointsForbidden, Kept, Mirrored};
        self.any(|it| matches!(it, EndpointsForbidden { .. } | Kept { .. } | Mirrored { .. }))
    }

    /// Returns the event about the worst part, which counts the others.
    pub(super) fn event(&self) -> Option<PlannedEvent> {
        let mut worst: Option<PlannedEvent> = None;
        let mut others: Vec<String> = Vec::new();
        // Slices by one maker are neighbours, and one part.
        let is_same = |one: &Situation, other: &Situation| match (one, other) {
            (Situation::Kept { keep: one, .. }, Situation::Kept { keep: other, .. }) => one == other,
            _ => false,
        };
        let all: Vec<&Situation> = self.0.iter().collect();
        for part in all.chunk_by(|one, other| is_same(one, other)) {
            let kept = part.iter().filter_map(|it| match it {
                Situation::Kept { slice, .. } => Some(&**slice),
                _ => None,
            });
            let kept = listed(&kept.collect::<Vec<_>>());
            let Some(event) = part.first().and_then(|situation| situation.event(&kept)) else { continue };
            match &worst {
                None => worst = Some(event),
                Some(_) if kept.is_empty() => others.push(event.reason.to_owned()),
                Some(_) => others.push(format!("{} {kept}", event.reason)),
            }
        }
        let mut worst = worst?;
        if !others.is_empty() {
            worst.message = format!("{} (and {} more: {})", worst.message, others.len(), others.join("; "));
        }
        Some(worst)
    }
}

impl Situation {
    /// Returns the event that reports it. `kept` are the names of the slices that are kept for the
    /// same reason.
    fn event(&self, kept: &str) -> Option<PlannedEvent> {
        Some(match self {
            Self::TakingOver | Self::HandingBack => return None,
            Self::Refused { what, message } => PlannedEvent::warning(
                "EndpointSlicesRefused",
                format!(
                    "the API server refuses to {what}, so clients may use endpoints that are out of \
                     date: {message}"
                ),
            ),
            Self::Failing => PlannedEvent::warning(
                "EndpointSlicesRefused",
                "the API server does not carry out requests for this Service, so clients may use endpoints that are \
                 out of date: requests fail again and again; look at the log of the API server, and at the webhooks \
                 that it calls"
                    .to_owned(),
            ),
            Self::Held { selector, slices } => PlannedEvent::warning(
                "TakeOverHeld",
                format!(
                    "no endpoint of EndpointSelector {selector} is ready, so what kube-controller-manager published \
                     stays ({}): pods that end leave it, and none joins; correct the selector, or wait for the pods",
                    counted(*slices)
                ),
            ),
            Self::Kept { keep, .. } => PlannedEvent::warning(
                "EndpointSliceKept",
                format!(
                    "clients also use EndpointSlice {kept}, with the label of kube-controller-manager, and nobody updates \
                     it: {keep} wrote it; {}",
                    remedy(keep)
                ),
            ),
            Self::Mirrored { keep } if keep.is_uncertain() => PlannedEvent::warning(
                "MirroredEndpointsAdded",
                format!(
                    "clients also use the addresses of the Endpoints of this name, which nobody updates and \
                     kube-controller-manager mirrors: {keep} wrote them; {}",
                    remedy(keep)
                ),
            ),
            Self::Mirrored { keep: by } => PlannedEvent::warning(
                "MirroredEndpointsAdded",
                format!(
                    "clients also use the addresses of the Endpoints of this name, which {by} wrote and \
                     kube-controller-manager mirrors; delete the Endpoints if they are left over"
                ),
            ),
            Self::EndpointsForbidden { message } => PlannedEvent::warning(
                "EndpointsNotDeleted",
                format!(
                    "the Endpoints of this name may be left over, with addresses of pods that have ended, and \
                     kube-controller-manager mirrors them; grant the right, or delete them if a controller made them: \
                     {message}"
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

/// Says what to do about an object that stays.
fn remedy(keep: &Keep) -> String {
    match keep {
        Keep::Uncertain(name) => format!(
            "if {name} runs kube-controller-manager, start this program with --controller-field-managers={name}; if not, \
             delete it if it is left over"
        ),
        _ => "delete it if it is left over".to_owned(),
    }
}

/// Lists names, as many as a message has room for, and counts the others.
pub(super) fn listed(names: &[&str]) -> String {
    let (shown, more) = names.split_at(names.len().min(MOST_NAMES));
    let mut text = shown.join(", ");
    if !more.is_empty() {
        text.push_str(&format!(" and {} more", more.len()));
    }
    text
}

/// Says what happens to the endpoints of a Service whose selector cannot be used.
fn without_selector(others_stay: bool) -> &'static str {
    if others_stay {
        "what kube-controller-manager published stays; pods that end leave, and none joins"
    } else {
        "pods that end leave, and none joins"
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
    use kube_endpoint_api_writer::FailedWrite;

    use super::*;

    fn event(situations: impl IntoIterator<Item = Situation>) -> Option<String> {
        Situations(situations.into_iter().collect()).event().map(|event| event.to_string())
    }

    #[test]
    fn events_say_what_is_wrong_and_what_to_do() {
        let selector = || "web-stable".to_owned();
        let situations = [
            Situation::Failing,
            Situation::Held { selector: selector(), slices: 2 },
            Situation::Kept { keep: Keep::MadeBy("kubectl-edit".into()), slice: "web-1".into() },
            Situation::Kept { keep: Keep::Unknown, slice: "web-1".into() },
            Situation::Kept { keep: Keep::Uncertain("hyperkube".into()), slice: "web-1".into() },
            Situation::Mirrored { keep: Keep::MadeBy("kubectl-create".into()) },
            Situation::Mirrored { keep: Keep::Uncertain("hyperkube".into()) },
            Situation::EndpointsForbidden { message: "endpoints \"web\" is forbidden".into() },
            Situation::NotFound { selector: selector(), others_stay: false },
            Situation::NotFound { selector: "a\n".repeat(100_000), others_stay: true },
            Situation::Invalid {
                selector: selector(),
                reason: "spec.selector is empty".into(),
                others_stay: false,
            },
        ];
        let mut events: Vec<String> = situations.into_iter().filter_map(|it| event([it])).collect();
        events.extend([taken_over("web-stable", 3, true), handed_back(1)].map(|event| event.to_string()));
        insta::assert_snapshot!(events.join("\n"));
        assert_eq!(event([]), None);
        assert_eq!(event([Situation::TakingOver, Situation::HandingBack]), None);
    }

    #[test]
    fn an_event_names_all_slices_that_are_kept_for_one_reason_and_counts_the_rest() {
        let kept = |keep: &Keep, number: usize| Situation::Kept {
            keep: keep.clone(),
            slice: format!("web-{number}"),
        };
        let hyperkube = Keep::Uncertain("hyperkube".into());
        let mut situations: Vec<Situation> = (1..=3).map(|number| kept(&hyperkube, number)).collect();
        situations.push(Situation::Held { selector: "stable".into(), slices: 7 });
        situations.extend([4, 5].map(|number| kept(&Keep::MadeBy("kubectl-edit".into()), number)));
        situations.push(Situation::Mirrored { keep: hyperkube.clone() });
        insta::assert_snapshot!(event(situations.clone()).unwrap());
        situations.push(Situation::EndpointsForbidden { message: "no".into() });
        situations.extend((6..=9).map(|number| kept(&hyperkube, number)));
        insta::assert_snapshot!(event(situations).unwrap());
    }

    /// A refusal names the object, and each attempt to create a slice has a new name.
    #[test]
    fn the_worst_of_several_situations_is_reported_once() {
        let service = ObjectKey::new("shop", "web");
        let refused = |name: &str| {
            let mut found = Situations::default();
            found.add(Situation::Held { selector: "web-stable".into(), slices: 1 });
            found.add(Situation::TakingOver);
            let message =
                format!("endpointslices.discovery.k8s.io \"{name}\" is forbidden: exceeded quota: slices");
            let error = WriteError::Refused { code: 403, message };
            let object = ObjectKey::new("shop", name);
            let failed = FailedWrite { operation: Operation::Create, object, error };
            found.add_refused(&service, &failed.into());
            found
        };
        assert_eq!(refused("web-x7k2p"), refused("web-99999"));
        let event = refused("web-x7k2p").event().unwrap();
        insta::assert_snapshot!(event);
        // A conflict is retried. Without a read of the Service nothing is written.
        let mut found = Situations::default();
        let failed = |error| SyncError::from(FailedWrite::delete(&service, error));
        found.add_refused(&service, &failed(WriteError::Conflict("no".into())));
        assert_eq!(found, Situations::default());
        let down = WriteError::Failed { code: 500, message: "no".into() };
        found.add_refused(&service, &failed(down));
        assert!(found.is_failing() && found.is_refused());
        found.forgive_failures();
        assert_eq!(found, Situations::default());
        found.add_refused(&service, &failed(WriteError::Refused { code: 403, message: "no".into() }));
        insta::assert_snapshot!(
            found.event().unwrap(),
            @"Warning EndpointSlicesRefused the API server refuses to read the Service, so clients may use endpoints that are out of date: no"
        );
    }
}
