//! The refusal of a write: the reason that the API server gave the controller, read from the
//! controller's event or from the status of an EndpointSelector.

mod read;
mod remedy;
mod text;

use kube_endpoint_core_model::endpoint_selector::Condition;
use kube_endpoint_core_model::{EndpointSelector, ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::facts::age;
use crate::facts::details::RecentEvent;
use crate::facts::output_kind::OutputKind;

/// A controller waits at most 1000 s before it tries again. An older event says nothing about the
/// next attempt.
const MAX_AGE: i64 = 1200;

/// The last refusal of a write of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Refused {
    pub refusal: Refusal,
    /// The words of the API server, shortened.
    pub said: String,
    /// The age of the refusal in seconds, if it is known.
    pub seconds: Option<i64>,
}

/// The reason of a refusal. Each needs other work. Serialises with the tag `class`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "class", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Refusal {
    /// An admission webhook said no.
    WebhookDenied {
        webhook: Text,
    },
    /// The API server could not ask an admission webhook.
    WebhookUnreachable {
        webhook: Text,
    },
    /// A ValidatingAdmissionPolicy or a MutatingAdmissionPolicy said no.
    PolicyDenied {
        policy: Text,
        /// Empty if the message names none.
        binding: Text,
        /// True if it is a ValidatingAdmissionPolicy.
        validating: bool,
    },
    /// A ResourceQuota is used up, or has no status yet.
    Quota {
        /// Empty if the message names none.
        quota: Text,
    },
    NamespaceTerminating,
    NamespaceNotFound,
    /// The user of the controller lacks a permission.
    NotPermitted {
        user: Text,
        verb: Text,
        /// The resource, with its group if it has one.
        resource: Text,
    },
    /// Another admission plugin said no.
    Forbidden,
    /// The API server does not know who the controller is.
    Unauthorized,
    /// A field has a value that the API server does not take.
    Invalid,
    /// The object has changed, or exists already.
    Conflict,
    /// The object is larger than the API server or etcd takes.
    TooLarge,
    /// The API server has too many requests.
    Busy,
    /// The database of etcd is full.
    StorageFull,
    /// The API server or etcd failed.
    ServerFailed,
    /// The controller got no answer.
    NoAnswer,
    /// Any other reason.
    Other,
}

impl Refused {
    /// Returns the time of the refusal, if it is known.
    pub(crate) fn time(&self, now: Timestamp) -> Option<Timestamp> {
        now.checked_sub(std::time::Duration::from_secs(u64::try_from(self.seconds?).ok()?)).ok()
    }

    /// Returns the last refusal of a kind of object, unless a controller has written one since
    /// then. `events` are those about the Service and its Endpoints.
    pub(crate) fn last<'a>(
        events: impl Iterator<Item = &'a RecentEvent>,
        kind: OutputKind,
        written: Option<Timestamp>,
        now: Timestamp,
    ) -> Option<Self> {
        let reasons: &[&str] = match kind {
            OutputKind::EndpointSlice => &["FailedToUpdateEndpointSlices"],
            OutputKind::Endpoints => &["FailedToCreateEndpoint", "FailedToUpdateEndpoint"],
        };
        let about = events.filter(|event| reasons.contains(&&*event.reason));
        let (_, event, words) = about
            .filter_map(|event| Some((event.last, event, read::words(&event.message)?)))
            .max_by_key(|(last, ..)| *last)?;
        let seconds = event.last.map(|last| age::since(last, now));
        // Times of writes are whole seconds.
        let is_over = event.last.is_some_and(|last| written.is_some_and(|written| written > last));
        if is_over || seconds.is_some_and(|seconds| seconds > MAX_AGE) {
            return None;
        }
        Some(Self { refusal: read::refusal(words), said: text::shortened(words), seconds })
    }

    /// Returns the refusal of slices of a Service that the status of its EndpointSelector tells.
    /// The controller takes it back once it has written all slices, so no later write ends it.
    pub(crate) fn in_status(selector: &EndpointSelector, service: &ObjectKey) -> Option<Self> {
        let status = &selector.status;
        let is_current = status.observed_generation.is_some_and(|seen| seen >= selector.generation);
        let is_refusal = |it: &&Condition| {
            *it.kind == *"Published" && *it.status == *"False" && *it.reason == *"EndpointSlicesRefused"
        };
        let condition = status.conditions.iter().find(is_refusal).filter(|_| is_current)?;
        let about = condition.message.strip_prefix(&format!("Service {}: ", service.name))?;
        let words = read::words_of_status(about);
        Some(Self { refusal: read::refusal(words), said: text::shortened(words), seconds: None })
    }
}

/// The reasons of the events about failed writes.
pub const FAILED_WRITES: [&str; 3] =
    ["FailedToUpdateEndpointSlices", "FailedToCreateEndpoint", "FailedToUpdateEndpoint"];
