//! Leftovers: slices and Endpoints that a controller made, and whose Service or owner does not exist any more.
//!
//! What a controller did not make is never a leftover: it names no controller in its labels. [`Managed::judge`] decides about
//! one object; what exists is handed in, so that a list can tell what to look at and single reads can confirm it.

use std::fmt;

use kube_endpoint_core_model::well_known::{
    ANNOTATION_LEADER, ENDPOINT_CONTROLLER, ENDPOINTSLICE_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY,
    LABEL_MANAGED_BY, LABEL_SERVICE_NAME, MIRRORING_CONTROLLER,
};
use kube_endpoint_core_model::{ObjectKey, Text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A slice or Endpoints whose label names one of the controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Managed {
    /// Its kind.
    pub kind: OutputKind,
    /// Its key.
    pub key: ObjectKey,
    /// Its uid, a precondition of its deletion.
    pub uid: Text,
    /// Its version, a precondition of its deletion.
    pub resource_version: Text,
    service: Option<Text>,
    owners: Vec<Owner>,
    is_lock: bool,
    is_deleted: bool,
}

/// Kinds of objects that the controllers write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum OutputKind {
    /// An EndpointSlice.
    EndpointSlice,
    /// An Endpoints object.
    Endpoints,
}

impl fmt::Display for OutputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EndpointSlice => "EndpointSlice",
            Self::Endpoints => "Endpoints",
        })
    }
}

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
    /// Whether it is a Service. Otherwise it is an Endpoints object.
    pub is_service: bool,
    /// Its key.
    pub key: ObjectKey,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", if self.is_service { "Service" } else { "Endpoints" }, self.key.name)
    }
}

/// Whether an object exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It does not exist.
    Absent,
    /// It exists and has this uid.
    Present(Text),
    /// That could not be found out, and why.
    Unknown(String),
}

/// Why an object is a leftover. Prints as a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its Service does not exist.
    NoService(Text),
    /// Its owner does not exist: kind and name, and whether another object has that name now.
    NoOwner {
        /// The owner.
        owner: Reference,
        /// Its uid.
        uid: Text,
        /// Whether another object of that name exists.
        is_replaced: bool,
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
        }
    }
}

/// The decision about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is a leftover.
    Leftover(Reason),
    /// It is in use.
    InUse,
    /// It may be a leftover and has to stay: why, as a sentence without a full stop.
    Kept(String),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMetadata {
    name: Text,
    namespace: Text,
    uid: Text,
    resource_version: Text,
    labels: kube_endpoint_core_model::StringMap,
    annotations: kube_endpoint_core_model::StringMap,
    owner_references: Vec<Owner>,
    deletion_timestamp: Option<Text>,
}

impl Managed {
    /// Reads the metadata of an object. None if its label names none of the controllers.
    ///
    /// # Errors
    ///
    /// If the value is no metadata.
    pub fn read(kind: OutputKind, metadata: &Value) -> Result<Option<Self>, serde_json::Error> {
        let raw = RawMetadata::deserialize(metadata)?;
        let (label, managers) = match kind {
            OutputKind::EndpointSlice => {
                (LABEL_MANAGED_BY, &[ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER][..])
            }
            OutputKind::Endpoints => (LABEL_ENDPOINTS_MANAGED_BY, &[ENDPOINT_CONTROLLER][..]),
        };
        let manager = raw.labels.get(label);
        if !manager.is_some_and(|manager| managers.contains(&&**manager)) {
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
            is_lock: raw.annotations.contains_key(ANNOTATION_LEADER),
            is_deleted: raw.deletion_timestamp.is_some(),
        }))
    }

    fn reference(&self, is_service: bool, name: &Text) -> Reference {
        let key = ObjectKey { namespace: self.key.namespace.clone(), name: name.clone() };
        Reference { is_service, key }
    }

    /// Returns the owners that can be looked up, each with its uid; none if there is one that cannot.
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

    /// Decides about the object. It is a leftover if its Service does not exist, or if none of its owners does.
    pub fn judge(&self, look: impl Fn(&Reference) -> Presence) -> Judgement {
        if self.is_deleted {
            return Judgement::Kept("it is being deleted, and finalizers hold it".to_owned());
        }
        if self.is_lock {
            return Judgement::Kept("it is the lock of a leader election".to_owned());
        }
        let Some(owners) = self.owners() else {
            return Judgement::Kept(
                "it is owned by an object that is neither a Service nor Endpoints".to_owned(),
            );
        };
        let mut unknown = None;
        if let Some(name) = &self.service {
            match look(&self.reference(true, name)) {
                Presence::Absent => return Judgement::Leftover(Reason::NoService(name.clone())),
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
            (Some(why), _) => Judgement::Kept(format!("whether it is in use cannot be found out: {why}")),
            (None, Some(gone)) => Judgement::Leftover(gone),
            (None, None) => Judgement::InUse,
        }
    }
}

/// What became of a leftover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was found; nothing was to be deleted.
    Found,
    /// It was deleted.
    Deleted,
    /// Somebody else deleted it meanwhile.
    Gone,
    /// It stays, because it may be in use or changed meanwhile.
    Kept,
    /// The server refused to delete it, or did not answer.
    Failed,
}

/// One leftover, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanupItem {
    /// Its kind.
    pub kind: OutputKind,
    /// Its key.
    pub object: ObjectKey,
    /// Its uid.
    pub uid: Text,
    /// Why it is a leftover, as a sentence without a full stop.
    pub reason: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it was not deleted; empty if it was, or should not be.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// All leftovers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cleanup {
    /// The leftovers, by namespace, kind and name.
    pub items: Vec<CleanupItem>,
    /// What could not be read, as sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

impl Cleanup {
    /// Returns the exit code: 1 if leftovers remain, 2 if none do but some objects could not be read, otherwise 0.
    pub fn exit_code(&self) -> u8 {
        let remains = |item: &CleanupItem| !matches!(item.outcome, Outcome::Deleted | Outcome::Gone);
        match (self.items.iter().any(remains), self.not_read.is_empty()) {
            (true, _) => 1,
            (false, false) => 2,
            (false, true) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn slice(manager: &str, service: &str, owners: &Value) -> Value {
        json!({"name": "web-1", "namespace": "n", "uid": "u1", "resourceVersion": "7",
            "labels": {LABEL_MANAGED_BY: manager, LABEL_SERVICE_NAME: service}, "ownerReferences": owners})
    }

    fn owner(kind: &str, uid: &str) -> Value {
        json!([{"apiVersion": "v1", "kind": kind, "name": "web", "uid": uid}])
    }

    fn endpoints(extra: &Value) -> Value {
        let mut metadata = json!({"name": "web", "namespace": "n", "uid": "u1", "resourceVersion": "7",
            "labels": {LABEL_ENDPOINTS_MANAGED_BY: ENDPOINT_CONTROLLER}});
        for (key, value) in extra.as_object().into_iter().flatten() {
            metadata[key] = value.clone();
        }
        metadata
    }

    /// Judges in a namespace with a Service and Endpoints of these uids.
    #[track_caller]
    fn check(kind: OutputKind, metadata: &Value, service: Option<&str>, endpoints: Option<&str>, want: &str) {
        let managed = Managed::read(kind, metadata).unwrap().unwrap();
        let look = |reference: &Reference| {
            assert!(managed.references().contains(reference), "{reference} is not announced");
            let uid = if reference.is_service { service } else { endpoints };
            match uid {
                Some("?") => Presence::Unknown("you may not read it".to_owned()),
                Some(uid) if *reference.key.name == *"web" => Presence::Present(uid.into()),
                _ => Presence::Absent,
            }
        };
        let text = match managed.judge(look) {
            Judgement::Leftover(reason) => format!("leftover: {reason}"),
            Judgement::InUse => "in use".to_owned(),
            Judgement::Kept(why) => format!("kept: {why}"),
        };
        assert_eq!(text, want);
    }

    #[test]
    fn a_slice_is_judged_by_its_service_and_its_owners() {
        let of = |owners: &Value| slice(ENDPOINTSLICE_CONTROLLER, "web", owners);
        let kind = OutputKind::EndpointSlice;
        let owned = of(&owner("Service", "s1"));
        check(kind, &owned, Some("s1"), None, "in use");
        check(kind, &owned, None, None, "leftover: the Service web does not exist");
        check(
            kind,
            &owned,
            Some("s2"),
            None,
            "leftover: its owner, Service web (uid s1), does not exist; the Service web that exists has another uid",
        );
        check(
            kind,
            &owned,
            Some("?"),
            None,
            "kept: whether it is in use cannot be found out: you may not read it",
        );
        check(kind, &of(&json!([])), Some("s1"), None, "in use");
        check(kind, &of(&json!([])), None, None, "leftover: the Service web does not exist");
        check(
            kind,
            &of(&owner("Gateway", "g1")),
            None,
            None,
            "kept: it is owned by an object that is neither a Service nor Endpoints",
        );
        check(
            kind,
            &slice(ENDPOINTSLICE_CONTROLLER, "", &owner("Service", "s1")),
            None,
            None,
            "leftover: its owner, Service web (uid s1), does not exist",
        );
        check(kind, &slice(ENDPOINTSLICE_CONTROLLER, "", &json!([])), None, None, "in use");
    }

    #[test]
    fn a_mirrored_slice_is_judged_by_its_endpoints_too() {
        let kind = OutputKind::EndpointSlice;
        let owned = slice(MIRRORING_CONTROLLER, "web", &owner("Endpoints", "e1"));
        check(kind, &owned, Some("s1"), Some("e1"), "in use");
        check(kind, &owned, None, Some("e1"), "leftover: the Service web does not exist");
        check(kind, &owned, Some("s1"), None, "leftover: its owner, Endpoints web (uid e1), does not exist");
        check(
            kind,
            &owned,
            Some("s1"),
            Some("?"),
            "kept: whether it is in use cannot be found out: you may not read it",
        );
    }

    #[test]
    fn one_owner_that_exists_is_enough() {
        let mut two = owner("Service", "s1");
        two.as_array_mut().unwrap().extend(owner("Endpoints", "e1").as_array().unwrap().clone());
        let slice = slice(MIRRORING_CONTROLLER, "web", &two);
        check(OutputKind::EndpointSlice, &slice, Some("s2"), Some("e1"), "in use");
    }

    #[test]
    fn endpoints_are_judged_by_the_service_of_their_name() {
        let kind = OutputKind::Endpoints;
        check(kind, &endpoints(&json!({})), Some("s1"), None, "in use");
        check(kind, &endpoints(&json!({})), None, None, "leftover: the Service web does not exist");
        let lock = endpoints(&json!({"annotations": {ANNOTATION_LEADER: "{}"}}));
        check(kind, &lock, None, None, "kept: it is the lock of a leader election");
        let deleted = endpoints(&json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        check(kind, &deleted, None, None, "kept: it is being deleted, and finalizers hold it");
    }

    #[test]
    fn what_names_no_controller_is_not_looked_at() {
        let check = |kind, metadata: Value| assert_eq!(Managed::read(kind, &metadata).unwrap(), None);
        check(OutputKind::Endpoints, json!({"name": "by-hand", "namespace": "n"}));
        check(
            OutputKind::Endpoints,
            json!({"name": "n", "labels": {LABEL_ENDPOINTS_MANAGED_BY: "my-controller"}}),
        );
        check(OutputKind::EndpointSlice, slice("my-controller.example.com", "web", &json!([])));
        check(OutputKind::EndpointSlice, json!({"name": "n", "labels": {LABEL_SERVICE_NAME: "web"}}));
        // The label of the other kind.
        check(OutputKind::EndpointSlice, endpoints(&json!({})));
    }

    #[test]
    fn the_exit_code_tells_whether_leftovers_remain() {
        let item = |outcome| CleanupItem {
            kind: OutputKind::Endpoints,
            object: ObjectKey::new("n", "web"),
            uid: "u1".into(),
            reason: String::new(),
            outcome,
            message: String::new(),
        };
        let check = |outcomes: &[Outcome], not_read: &[&str], want: u8| {
            let items = outcomes.iter().copied().map(item).collect();
            let not_read = not_read.iter().map(|note| (*note).to_owned()).collect();
            assert_eq!(Cleanup { items, not_read }.exit_code(), want);
        };
        check(&[], &[], 0);
        check(&[], &["You may not read endpoints."], 2);
        check(&[Outcome::Found], &[], 1);
        check(&[Outcome::Deleted, Outcome::Gone], &[], 0);
        check(&[Outcome::Deleted, Outcome::Kept], &[], 1);
        check(&[Outcome::Deleted, Outcome::Failed], &["You may not read endpoints."], 1);
    }
}
