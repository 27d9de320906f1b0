//! The report.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use serde::{Serialize, Serializer};

use super::Webhook;
use crate::facts::answer::Answer;
use crate::facts::lease::LeaseState;
use crate::facts::output_kind::OutputKind;

/// The report of `doctor`. Its JSON is documented in `docs/kubectl-plugin.md`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    pub versions: Versions,
    /// The last writers of each kind that could be read.
    pub outputs: Vec<OutputsReport>,
    pub leases: Vec<LeaseReport>,
    /// The three loops of kube-controller-manager.
    pub loops: Vec<LoopReport>,
    /// True if kube-endpoint-manager and another controller write at the same time.
    pub two_at_once: TwoAtOnce,
    pub missing_permissions: Vec<Missing>,
    /// True if the server answered all questions about permissions.
    #[serde(skip)]
    pub knows_permissions: bool,
    /// Sentences about the certificates of kube-endpoint-manager.
    pub certificates: Vec<String>,
    pub webhooks: Vec<Webhook>,
    /// The writes that kube-endpoint-manager would make; `None` if that could not be computed.
    pub changes: Option<Changes>,
    /// Sentences about what somebody should do.
    pub to_do: Vec<String>,
    /// Sentences about what could not be found out, and why.
    pub not_known: Vec<String>,
}

impl Report {
    /// Returns the exit code: 1 if there is something to do, 2 if there is not but something could
    /// not be found out, otherwise 0.
    pub fn exit_code(&self) -> u8 {
        match (self.to_do.is_empty(), self.not_known.is_empty()) {
            (false, _) => 1,
            (true, false) => 2,
            (true, true) => 0,
        }
    }
}

/// The known versions.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Versions {
    pub server: Option<String>,
    pub plugin: String,
    pub managers: Vec<InstanceReport>,
    pub kube_controller_managers: Vec<InstanceReport>,
}

/// A pod.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InstanceReport {
    pub pod: ObjectKey,
    pub node: String,
    pub image: String,
    /// The values of its flag `--controllers`, if the pod shows a command line.
    pub controllers: Option<String>,
}

/// The last writers of the objects of a kind.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OutputsReport {
    pub kind: OutputKind,
    /// The number of objects that were read.
    pub read: usize,
    /// The number of objects that were not read.
    pub left: u64,
    /// The writers of the content, those of the newest writes first.
    pub writers: Vec<WriterReport>,
    /// The number of objects with each value of the label `managed-by`.
    pub managed_by: BTreeMap<String, usize>,
}

/// A writer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WriterReport {
    /// The field manager.
    pub name: String,
    /// The number of objects whose content it wrote last.
    pub objects: usize,
    /// The time of the newest of these writes.
    #[serde(serialize_with = "as_text")]
    pub newest: Option<Timestamp>,
    pub newest_object: Option<ObjectKey>,
}

fn as_text<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.to_string()).serialize(serializer)
}

/// A Lease.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeaseReport {
    pub lease: ObjectKey,
    pub holder: String,
    /// The program that wrote it last, by its field manager; empty if the Lease does not tell.
    pub program: String,
    pub state: LeaseState,
    /// The objects that its holder writes, in a few words.
    pub writes: String,
    /// When the holder acquired it.
    #[serde(serialize_with = "as_text")]
    pub acquired: Option<Timestamp>,
    #[serde(serialize_with = "as_text")]
    pub renewed: Option<Timestamp>,
    /// Since when it is in this state: when the holder acquired it, or when it expired.
    #[serde(serialize_with = "as_text")]
    pub since: Option<Timestamp>,
}

/// A loop of kube-controller-manager.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LoopReport {
    /// The name of the controller, as in `--controllers`.
    pub name: &'static str,
    /// [`Answer::Yes`] if the loop is off.
    pub is_off: Answer,
    /// The reasons, as sentences.
    pub evidence: Vec<String>,
}

/// An answer with reasons.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TwoAtOnce {
    pub answer: Answer,
    /// The reasons, as sentences.
    pub evidence: Vec<String>,
}

/// A permission that a user lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Missing {
    /// `kube-endpoint-manager`, or `you`.
    pub who: &'static str,
    /// Such as `list pods`.
    pub permission: String,
    /// The function that needs it.
    pub function: &'static str,
}

/// Writes that would be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Changes {
    /// The number of Services for which this was computed.
    pub services: usize,
    /// The number of all Services, if these are only some of them.
    pub of: Option<u64>,
    /// The number of writes by kind, then by verb.
    pub writes: BTreeMap<String, BTreeMap<String, usize>>,
}

impl Changes {
    /// Returns the number of all writes.
    pub fn total(&self) -> usize {
        self.writes.values().flat_map(BTreeMap::values).sum()
    }
}
