//! Finds leftovers: slices and Endpoints that a controller made, and whose Service or owner does
//! not exist any more, and Endpoints that a controller made from the pods of a Service that has no
//! selector any more.
//!
//! An object that no controller made is never a leftover. Its label is no proof, because users copy
//! labels: [`Provenance::maker`] decides who made it. [`Managed::judge`] decides about one object.
//! The caller hands in which objects exist, so that it can look for candidates with a list and
//! confirm them with single reads.

mod remains;

use std::fmt;

use kube_endpoint_core_model::maker::{CONTROLLERS, Content, Keep, Maker, Provenance};
use kube_endpoint_core_model::well_known::{
    LABEL_ENDPOINTS_MANAGED_BY, LABEL_MANAGED_BY, LABEL_SERVICE_NAME, MIRRORING_CONTROLLER,
};
use kube_endpoint_core_model::{ObjectKey, Text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::facts::output_kind::OutputKind;
pub use remains::{Remains, Served};

/// A slice or Endpoints whose label names one of the controllers, or Endpoints without the label
/// that one of them made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Managed {
    pub kind: OutputKind,
    pub key: ObjectKey,
    /// The uid, a precondition of its deletion.
    pub uid: Text,
    /// The version, a precondition of its deletion.
    pub resource_version: Text,
    service: Option<Text>,
    owners: Vec<Owner>,
    is_deleted: bool,
    /// True if its label names the mirroring controller.
    is_mirrored: bool,
    /// Why it stays in any case; `None` if a controller made it.
    keep: Option<Keep>,
}

/// The reason to keep Endpoints that somebody holds.
const LOCK: &str = "it is the lock of a leader election";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Owner {
    kind: Text,
    name: Text,
    uid: Text,
}

/// An object on which another depends: a Service, or the Endpoints that a slice mirrors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// True for a Service, false for an Endpoints object.
    pub is_service: bool,
    pub key: ObjectKey,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.is_service { "Service" } else { "Endpoints" }, self.key.name)
    }
}

/// The existence of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Absent,
    /// It exists and has this uid.
    Present(Text),
    /// The caller could not find out, for this reason.
    Unknown(String),
}

/// The reason why an object is a leftover. Prints as a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its Service does not exist.
    NoService(Text),
    /// Its owner does not exist.
    NoOwner {
        owner: Reference,
        uid: Text,
        /// True if another object of that name exists.
        is_replaced: bool,
    },
    /// Its Service has no selector any more.
    NoSelector {
        service: Text,
        /// The slices that are mirrored from it. The garbage collector deletes them with it.
        mirrored: Vec<Text>,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoService(name) => write!(f, "the Service {name} does not exist"),
            Self::NoOwner { owner, uid, is_replaced: false } => {
                write!(f, "its owner, {owner} (uid {uid}), does not exist")
            }
            Self::NoOwner { owner, uid, is_replaced: true } => write!(
                f,
                "its owner, {owner} (uid {uid}), does not exist; the {owner} that exists has another uid"
            ),
            Self::NoSelector { service, mirrored } => {
                f.write_str(&made_for(service))?;
                match mirrored.as_slice() {
                    [] => Ok(()),
                    [slice] => write!(f, "; the slice that is mirrored from them goes with them: {slice}"),
                    slices => {
                        write!(
                            f,
                            "; the slices that are mirrored from them go with them: {}",
                            slices.join(", ")
                        )
                    }
                }
            }
        }
    }
}

/// Says why Endpoints are left over.
fn made_for(service: &Text) -> String {
    format!("a controller made them for the selector that the Service {service} no longer has")
}

/// The decision about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Leftover(Reason),
    InUse,
    /// It has to stay although nothing uses it. The reason is a sentence without a full stop.
    Kept(String),
    /// It may be a leftover, but the objects that would tell could not be read. The reason is a
    /// sentence without a full stop.
    Unchecked(String),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMetadata {
    name: Text,
    namespace: Text,
    uid: Text,
    resource_version: Text,
    labels: kube_endpoint_core_model::StringMap,
    owner_references: Vec<Owner>,
    deletion_timestamp: Option<Text>,
}

impl Managed {
    /// Reads the metadata of an object. Returns `None` if its label names no controller, unless it
    /// is Endpoints that a controller made: before Kubernetes 1.33 these have no label.
    ///
    /// # Errors
    ///
    /// An error if the value is no metadata.
    pub fn read(kind: OutputKind, metadata: &Value) -> Result<Option<Self>, serde_json::Error> {
        let raw = RawMetadata::deserialize(metadata)?;
        let (content, label) = match kind {
            OutputKind::EndpointSlice => (Content::Slice, LABEL_MANAGED_BY),
            OutputKind::Endpoints => (Content::Endpoints, LABEL_ENDPOINTS_MANAGED_BY),
        };
        let provenance = Provenance::deserialize(metadata)?;
        let manager = raw.labels.get(label);
        let is_of_controller = |manager: &Text| content.managers().contains(&&**manager);
        let keep = provenance.reason_to_keep(content, &CONTROLLERS);
        let may_be_controllers =
            matches!(provenance.maker(content, &CONTROLLERS), Maker::Controller(_) | Maker::Uncertain(_));
        if !may_be_controllers && !manager.is_some_and(is_of_controller) {
            return Ok(None);
        }
        let service = match kind {
            OutputKind::EndpointSlice => raw.labels.get(LABEL_SERVICE_NAME).cloned(),
            OutputKind::Endpoints => Some(raw.name.clone()),
        };
        Ok(Some(Self {
            kind,
            key: ObjectKey { namespace: raw.namespace, name: raw.name },
            uid: raw.uid,
            resource_version: raw.resource_version,
            service: service.filter(|name| !name.is_empty()),
            owners: raw.owner_references,
            is_deleted: raw.deletion_timestamp.is_some(),
            is_mirrored: manager.is_some_and(|manager| **manager == *MIRRORING_CONTROLLER),
            keep,
        }))
    }

    /// Returns the key of its Service.
    pub fn service_key(&self) -> Option<ObjectKey> {
        let name = self.service.clone()?;
        Some(ObjectKey { namespace: self.key.namespace.clone(), name })
    }

    fn reference(&self, is_service: bool, name: &Text) -> Reference {
        let key = ObjectKey { namespace: self.key.namespace.clone(), name: name.clone() };
        Reference { is_service, key }
    }

    /// Returns the owners, each with its uid, or `None` if one of them is of a kind that nobody can
    /// look up here.
    fn owners(&self) -> Option<Vec<(Reference, &Text)>> {
        let owner = |owner: &'_ Owner| match &*owner.kind {
            "Service" => Some(self.reference(true, &owner.name)),
            "Endpoints" => Some(self.reference(false, &owner.name)),
            _ => None,
        };
        self.owners.iter().map(|one| Some((owner(one)?, &one.uid))).collect()
    }

    /// Returns the objects on which the decision depends.
    pub fn references(&self) -> Vec<Reference> {
        let service = self.service.iter().map(|name| self.reference(true, name));
        let owners = self.owners().unwrap_or_default().into_iter().map(|(reference, _)| reference);
        let mut all: Vec<Reference> = service.chain(owners).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Judges the object. It is a leftover if a controller made it, and its Service or all of its
    /// owners do not exist.
    pub fn judge(&self, look: impl Fn(&Reference) -> Presence) -> Judgement {
        if self.is_deleted {
            return Judgement::Kept("it is being deleted, and finalizers hold it".to_owned());
        }
        if self.keep == Some(Keep::Lock) {
            return Judgement::Kept(LOCK.to_owned());
        }
        let Some(owners) = self.owners() else {
            return Judgement::Kept(
                "it is owned by an object that is neither a Service nor Endpoints".to_owned(),
            );
        };
        let mut unknown = None;
        if let Some(name) = &self.service {
            match look(&self.reference(true, name)) {
                Presence::Absent => return self.left_over(Reason::NoService(name.clone())),
                Presence::Present(_) => {}
                Presence::Unknown(why) => unknown = Some(why),
            }
        }
        let mut gone = None;
        let mut exists = owners.is_empty();
        for (owner, uid) in owners {
            match look(&owner) {
                Presence::Present(found) if found == *uid => exists = true,
                Presence::Unknown(why) => unknown = Some(why),
                presence => {
                    let is_replaced = presence != Presence::Absent;
                    gone = gone.or_else(|| Some(Reason::NoOwner { owner, uid: uid.clone(), is_replaced }));
                }
            }
        }
        match (unknown, gone.filter(|_| !exists)) {
            (Some(why), _) => {
                Judgement::Unchecked(format!("whether it is in use cannot be found out: {why}"))
            }
            (None, Some(gone)) => self.left_over(gone),
            (None, None) => Judgement::InUse,
        }
    }

    /// Returns true for objects that a controller made from pods, or may have made: Endpoints,
    /// which are left over if their Service has no selector any more, and slices that nobody
    /// deletes then because it is not certain who made them.
    pub fn is_made_from_pods(&self) -> bool {
        let may_be_left = match self.kind {
            OutputKind::Endpoints => self.keep.as_ref().is_none_or(Keep::is_uncertain),
            OutputKind::EndpointSlice => self.keep.is_some() && !self.is_mirrored,
        };
        may_be_left && !self.is_deleted
    }

    /// Judges an object that is [made from pods](Self::is_made_from_pods), and that
    /// [`Self::judge`] finds in use, for a Service without a selector.
    pub fn judge_without_selector(&self, remains: Remains) -> Judgement {
        let Remains { endpoint_selector, mirrored, missed } = remains;
        if let Some(keep) = &self.keep {
            return self.judge_kept(keep, endpoint_selector.as_ref());
        }
        let service = self.key.name.clone();
        if let Some(selector) = endpoint_selector {
            return Judgement::Kept(format!(
                "{}; the controller of EndpointSelector {selector}, which the Service names, deletes them once its own \
                 slices have a ready endpoint, and it may delete Endpoints",
                made_for(&service)
            ));
        }
        if missed.is_empty() {
            return Judgement::Leftover(Reason::NoSelector { service, mirrored });
        }
        let missed: Vec<String> = missed.iter().map(ToString::to_string).collect();
        Judgement::Kept(format!(
            "{}, but no slice besides those that controllers left serves {}; restore the \
             selector, or write EndpointSlices for the Service, and run the command again",
            made_for(&service),
            missed.join(" and ")
        ))
    }

    /// Judges an object that a controller may have made for a Service without a selector.
    fn judge_kept(&self, keep: &Keep, endpoint_selector: Option<&Text>) -> Judgement {
        let Some(service) = &self.service else { return Judgement::InUse };
        let it = self.kind.pronoun();
        let why = match keep {
            Keep::Uncertain(name) => format!(
                "{name} wrote {it} in the form of a controller; if {name} is kube-controller-manager under another name, \
                 let the add-on delete {it} with --controller-field-managers={name}"
            ),
            Keep::Unknown => format!("managedFields do not tell who wrote {it}"),
            Keep::MadeBy(name) if endpoint_selector.is_some() => {
                format!("{name}, which is no controller, wrote {it}, although the label says so")
            }
            // It may be the only one that serves clients.
            Keep::MadeBy(_) | Keep::Lock => return Judgement::InUse,
        };
        let selector = match endpoint_selector {
            Some(selector) => format!("names EndpointSelector {selector}"),
            None => "has no selector".to_owned(),
        };
        Judgement::Kept(format!(
            "the Service {service} {selector}, so nobody updates {it}; {why}; delete {it} yourself if nothing needs {it}"
        ))
    }

    /// Judges an object that nobody uses.
    fn left_over(&self, reason: Reason) -> Judgement {
        let why = match &self.keep {
            None => return Judgement::Leftover(reason),
            Some(Keep::Lock) => return Judgement::Kept(LOCK.to_owned()),
            Some(Keep::MadeBy(name)) => {
                format!("{reason}, but {name}, which is no controller, wrote what it publishes")
            }
            Some(Keep::Uncertain(name)) => format!(
                "{reason}, but it is not certain that {name}, which wrote it, is kube-controller-manager under another name"
            ),
            Some(Keep::Unknown) => format!("{reason}, but its managedFields do not tell who wrote it"),
        };
        // Upstream's controller and ours look at the label alone.
        let others = if self.is_mirrored {
            "; cleanup keeps it, but the EndpointSlice-mirroring controller, which its label names, deletes or \
             changes it"
        } else {
            ""
        };
        Judgement::Kept(why + others)
    }
}

/// The result of cleaning a leftover up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The program found it, and was not to delete it.
    Found,
    Deleted,
    /// Somebody else deleted it meanwhile.
    Gone,
    /// It is no leftover, because no controller made it, or something else needs it.
    Kept,
    /// It stays, because the objects that would tell if it is a leftover could not be read.
    Unchecked,
    /// The server refused to delete it, for example because it has changed meanwhile, or did not
    /// answer.
    Failed,
}

/// One leftover, and the result of cleaning it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupItem {
    pub kind: OutputKind,
    pub object: ObjectKey,
    pub uid: Text,
    /// The reason why it is a leftover, as a sentence without a full stop.
    pub reason: String,
    pub outcome: Outcome,
    /// The reason why it still exists, or empty if it was deleted or should stay.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// All leftovers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cleanup {
    /// The leftovers, by namespace, kind and name.
    pub items: Vec<CleanupItem>,
    /// Sentences about the kinds that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

impl Cleanup {
    /// Returns the exit code: 1 if leftovers remain, 2 if no leftovers remain but some objects
    /// could not be read, otherwise 0. A kept object is no leftover.
    pub fn exit_code(&self) -> u8 {
        let any = |outcomes: &[Outcome]| self.items.iter().any(|item| outcomes.contains(&item.outcome));
        if any(&[Outcome::Found, Outcome::Failed]) {
            1
        } else if any(&[Outcome::Unchecked]) || !self.not_read.is_empty() {
            2
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests;
