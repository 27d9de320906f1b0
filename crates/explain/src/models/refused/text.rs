//! Says which write the API server refused.

use std::fmt;

use kube_endpoint_core_model::harmless;

use super::{Refusal, Refused};
use crate::facts::age;

/// The maximum number of characters of the API server's words.
const LONGEST: usize = 300;

/// Returns the words of the API server for a line of text.
pub(super) fn shortened(words: &str) -> String {
    harmless(words.trim().trim_end_matches('.'), LONGEST).into_owned()
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WebhookDenied { webhook } => write!(f, "the admission webhook {webhook} refuses the write"),
            Self::WebhookUnreachable { webhook } => {
                write!(
                    f,
                    "the API server refuses the write, because it cannot ask the admission webhook {webhook}"
                )
            }
            Self::PolicyDenied { policy, .. } => write!(f, "the admission policy {policy} refuses the write"),
            Self::Quota { quota } if quota.is_empty() => f.write_str("a ResourceQuota refuses the write"),
            Self::Quota { quota } => write!(f, "the ResourceQuota {quota} refuses the write"),
            Self::NamespaceTerminating => {
                f.write_str("the namespace is being deleted and takes no new objects")
            }
            Self::NamespaceNotFound => f.write_str("the namespace does not exist"),
            Self::NotPermitted { user, verb, resource } => {
                write!(f, "the controller's user {user} has no permission to {verb} {resource}")
            }
            Self::Forbidden => f.write_str("an admission plugin of the API server refuses the write"),
            Self::Unauthorized => f.write_str("the API server does not accept the controller's credentials"),
            Self::Invalid => f.write_str("the API server does not take a field of the object"),
            Self::Conflict => f.write_str("another client changed the object at the same time"),
            Self::TooLarge => f.write_str("the object is too large for the API server or etcd"),
            Self::Busy => f.write_str("the API server has too many requests"),
            Self::StorageFull => f.write_str("the database of etcd is full"),
            Self::ServerFailed => f.write_str("the API server or etcd fails"),
            Self::NoAnswer => f.write_str("the controller gets no answer from the API server"),
            Self::Other => f.write_str("the write fails"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.refusal)?;
        match self.seconds {
            Some(seconds) => write!(f, " ({} ago): {}", age::seconds(seconds), self.said),
            None => write!(f, ": {}", self.said),
        }
    }
}
