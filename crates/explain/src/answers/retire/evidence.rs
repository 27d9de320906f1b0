//! Pieces of evidence, and what could not be seen.

use kube_endpoint_core_model::{Text, Timestamp};
use serde::{Serialize, Serializer};

use crate::answers::doctor::Unread;

/// The verbs of requests that read.
pub(super) const READS: [&str; 3] = ["get", "list", "watch"];

/// The meaning of a piece of evidence for leaving Endpoints behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// Somebody reads Endpoints.
    Reader,
    /// An API server needs Endpoints.
    Refused,
    /// Somebody other than a controller writes Endpoints.
    Writer,
}

/// Where a piece of evidence comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    Server,
    Metrics,
    AuditLog,
}

/// A piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Evidence {
    pub kind: EvidenceKind,
    pub source: Source,
    /// The namespace whose Endpoints this is about; `None` for those of all namespaces.
    pub namespace: Option<Text>,
    /// The observation, as a sentence without a full stop.
    pub what: String,
    /// The advice, as sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// The requests, if it comes from an audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
}

/// Requests of one client in an audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Requests {
    pub user: String,
    pub agent: String,
    /// The number of requests with each verb.
    pub verbs: std::collections::BTreeMap<String, u64>,
    #[serde(serialize_with = "as_text")]
    pub first: Option<Timestamp>,
    #[serde(serialize_with = "as_text")]
    pub last: Option<Timestamp>,
}

pub(super) fn as_text<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.to_string()).serialize(serializer)
}

/// Returns a time in whole seconds, in words.
pub(crate) fn seconds(time: Option<Timestamp>) -> String {
    let second = time.and_then(|time| Timestamp::from_second(time.as_second()).ok());
    second.map_or_else(|| "an unknown time".to_owned(), |second| second.to_string())
}

/// Something that could not be seen and could hide a reader, so that no namespace is known to have
/// none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Unseen {
    /// A sentence without a full stop.
    pub what: String,
    /// How to see it, as sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Evidence, and what could not be seen.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) evidence: Vec<Evidence>,
    pub(super) unseen: Vec<Unseen>,
}

impl Findings {
    pub(super) fn extend(&mut self, other: Self) {
        self.evidence.extend(other.evidence);
        self.unseen.extend(other.unseen);
    }

    /// Adds a piece of evidence; `remedy` may be empty.
    pub(super) fn add(
        &mut self,
        kind: EvidenceKind,
        source: Source,
        namespace: Option<&Text>,
        what: impl Into<String>,
        remedy: &str,
    ) -> &mut Evidence {
        let remedy = Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty());
        self.evidence.push(Evidence {
            kind,
            source,
            namespace: namespace.cloned(),
            what: what.into(),
            remedy,
            requests: None,
        });
        let last = self.evidence.len() - 1;
        &mut self.evidence[last]
    }

    /// Adds something that could hide a reader.
    pub(super) fn hidden(&mut self, what: impl Into<String>, remedy: &str) {
        let remedy = Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty());
        self.unseen.push(Unseen { what: what.into(), remedy });
    }

    /// Adds that something could not be read, which could hide a reader.
    pub(super) fn unread(&mut self, what: &str, why: &Unread) {
        let (what, remedy) = match why {
            Unread::Forbidden(permission) => (
                format!("{what}: you lack the permission to {permission}"),
                format!("Ask for the permission to {permission}."),
            ),
            Unread::Failed(why) => (format!("{what}: {why}"), String::new()),
        };
        self.hidden(what, &remedy);
    }
}

/// Names. A sentence shows a few of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    some: Vec<String>,
    count: usize,
}

impl Names {
    const SHOWN: usize = 3;

    pub(super) fn add(&mut self, name: &str) {
        if self.some.iter().any(|known| known == name) {
            return;
        }
        self.count += 1;
        if self.some.len() < Self::SHOWN {
            self.some.push(name.to_owned());
        }
    }
}

impl std::fmt::Display for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.some.join(", "))?;
        match self.count.saturating_sub(self.some.len()) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
