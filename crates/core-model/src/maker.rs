//! Finds out who made an Endpoints object or a slice. A label is no proof: users copy labels, and
//! tools restore them. Neither is the field manager alone, which is the name of the program:
//! distributions run kube-controller-manager inside programs of their own.
//!
//! ```
//! use kube_endpoint_core_model::maker::{CONTROLLERS, Content, Maker, Provenance};
//! use serde_json::json;
//!
//! // A user has copied Endpoints of another cluster, with the label that a controller gave them.
//! let copied: Provenance = serde_json::from_value(json!({
//!     "name": "web",
//!     "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"},
//!     "managedFields": [{
//!         "manager": "kubectl-create", "operation": "Update", "fieldsType": "FieldsV1",
//!         "fieldsV1": {"f:metadata": {"f:labels": {"f:endpoints.kubernetes.io/managed-by": {}}}, "f:subsets": {}},
//!     }],
//! }))?;
//! let maker = copied.maker(Content::Endpoints, &CONTROLLERS);
//! assert_eq!(maker, Maker::SomebodyElse("kubectl-create".into()));
//! assert!(!maker.is_controller());
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Read the metadata from the API server right before you delete an object, and send the
//! [uid](Provenance::uid) and the [version](Provenance::version) as preconditions: the answer is
//! about that version only. The views of the informers hold no `managedFields`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::meta::or_default;
use crate::well_known::{
    ANNOTATION_LAST_APPLIED, ANNOTATION_LEADER, ANNOTATION_TRIGGER_TIME, ENDPOINT_CONTROLLER,
    ENDPOINTSLICE_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY, LABEL_MANAGED_BY, LABEL_SERVICE_NAME,
    MIRRORING_CONTROLLER, SELECTOR_CONTROLLER,
};
use crate::{OwnerReference, ResourceVersion, StringMap, Text, Timestamp, text};

/// The field manager of kube-controller-manager's writes: the name in its user agent, which is that
/// of its executable file.
pub const KUBE_CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// The field manager of kube-endpoint-manager's writes.
pub const KUBE_ENDPOINT_MANAGER: &str = "kube-endpoint-manager";
/// The field managers under which controllers write Endpoints and slices. The last three are
/// programs in which k3s, MicroK8s and MicroShift run kube-controller-manager with other
/// components.
pub const CONTROLLERS: [&str; 5] =
    [KUBE_CONTROLLER_MANAGER, KUBE_ENDPOINT_MANAGER, "k3s", "kubelite", "microshift"];

/// The field managers that write as controllers only, so that their name proves enough.
const ONLY_CONTROLLERS: [&str; 2] = [KUBE_CONTROLLER_MANAGER, KUBE_ENDPOINT_MANAGER];
/// Beginnings of the field managers of tools that copy, restore or apply objects, in any case.
const TOOLS: [&str; 6] = ["kubectl", "before-first-apply", "velero", "helm", "argocd", "kustomize"];
/// The number of characters that the API server appends to `generateName`, and the most that it
/// keeps of that.
const SUFFIX: usize = 5;
const LONGEST_PREFIX: usize = 58;

/// Returns true if a field manager is that of a tool with which people write objects, so that what
/// it wrote is no controller's, whatever form it has.
pub fn is_tool(field_manager: &str) -> bool {
    let begins = |with: &&str| {
        field_manager.get(..with.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(with))
    };
    TOOLS.iter().any(begins)
}

/// The kinds that controllers make, each with the fields that count as its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The `subsets` of Endpoints.
    Endpoints,
    /// The `endpoints` and `ports` of an EndpointSlice.
    Slice,
}

/// The maker of an object, or the writer of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maker {
    /// A controller, by the name of its field manager.
    Controller(Text),
    /// Another client: its field manager, or the value of the label by which it claims the object.
    SomebodyElse(Text),
    /// Not certain: a client with this field manager, which is none that is known, wrote it in the
    /// form of a controller. It may be kube-controller-manager inside another program, or a tool
    /// that copies objects whole.
    Uncertain(Text),
    /// Not certain: the object does not tell.
    Unknown,
}

impl Maker {
    /// Returns true if a controller made the object, and nobody else has a part in its content.
    pub fn is_controller(&self) -> bool {
        matches!(self, Self::Controller(_))
    }
}

/// The reason to keep an object that may be left over; see [`Provenance::reason_to_keep`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// It is the lock of a leader election. Somebody may hold it, whoever made the object.
    Lock,
    /// Another client made it, or has a part in its content.
    MadeBy(Text),
    /// It is not certain that a controller made it: see [`Maker::Uncertain`].
    Uncertain(Text),
    /// The object does not tell who made it.
    Unknown,
}

impl Keep {
    /// Returns true if a controller may have made the object.
    pub fn is_uncertain(&self) -> bool {
        matches!(self, Self::Uncertain(_) | Self::Unknown)
    }
}

impl fmt::Display for Keep {
    /// Writes who made the object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MadeBy(by) => f.write_str(by),
            Self::Uncertain(by) => write!(f, "{by} (perhaps kube-controller-manager under another name)"),
            Self::Lock | Self::Unknown => f.write_str("an unknown client"),
        }
    }
}

/// The newest write of the content of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastWrite {
    /// Its writer; [`Maker::Unknown`] does not occur.
    pub writer: Maker,
    /// The second of the write by the server's clock; `None` if the object does not tell.
    pub at: Option<Timestamp>,
}

/// The part of an object's metadata that tells who made it. Deserialize it from `metadata`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Provenance {
    #[serde(deserialize_with = "text::or_empty")]
    name: Text,
    #[serde(deserialize_with = "text::or_empty")]
    generate_name: Text,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<OwnerReference>,
    #[serde(deserialize_with = "text::or_empty")]
    uid: Text,
    resource_version: ResourceVersion,
    #[serde(deserialize_with = "or_default")]
    labels: StringMap,
    #[serde(deserialize_with = "or_default")]
    annotations: StringMap,
    #[serde(deserialize_with = "or_default")]
    managed_fields: Vec<Entry>,
}

/// An entry of `managedFields`. Whatever its operation and its subresource are, it owns fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Entry {
    #[serde(deserialize_with = "text::or_empty")]
    manager: Text,
    #[serde(deserialize_with = "text::or_empty")]
    operation: Text,
    #[serde(deserialize_with = "text::or_empty")]
    subresource: Text,
    /// Seconds of UTC in RFC 3339, so that texts compare as times do.
    #[serde(deserialize_with = "text::or_empty")]
    time: Text,
    #[serde(rename = "fieldsV1", deserialize_with = "or_default")]
    fields: BTreeMap<Text, Field>,
}

/// A field that an entry owns. Of `metadata` this reads the maps and their keys, of the other
/// fields only the name.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Field {
    Maps(BTreeMap<Text, BTreeMap<Text, IgnoredAny>>),
    Other(IgnoredAny),
}

impl Content {
    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Endpoints => &["f:subsets"],
            Self::Slice => &["f:endpoints", "f:ports"],
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Endpoints => LABEL_ENDPOINTS_MANAGED_BY,
            Self::Slice => LABEL_MANAGED_BY,
        }
    }

    /// Returns the values of the label `managed-by` on objects of the controllers.
    pub const fn managers(self) -> &'static [&'static str] {
        match self {
            Self::Endpoints => &[ENDPOINT_CONTROLLER],
            Self::Slice => &[ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER, SELECTOR_CONTROLLER],
        }
    }
}

impl Provenance {
    /// Returns the uid of the object, a precondition of its deletion.
    pub fn uid(&self) -> &Text {
        &self.uid
    }

    /// Returns true if the object says which clients wrote it. kubectl leaves that out.
    pub fn shows_managers(&self) -> bool {
        !self.managed_fields.is_empty()
    }

    /// Returns true if the object is the lock of a leader election.
    pub fn is_lock(&self) -> bool {
        self.annotations.contains_key(ANNOTATION_LEADER)
    }

    /// Returns the name of the object.
    pub fn name(&self) -> &Text {
        &self.name
    }

    /// Returns the labels of the object.
    pub fn labels(&self) -> &StringMap {
        &self.labels
    }

    /// Returns the version of the object, a precondition of its deletion.
    pub fn version(&self) -> ResourceVersion {
        self.resource_version
    }

    /// Decides whether one of the `controllers`, which are field managers such as [`CONTROLLERS`],
    /// made the object:
    ///
    /// - If the label names another manager, the object is that manager's. A slice without the
    ///   label is nobody's. Endpoints need no label, because kube-controller-manager sets it since
    ///   Kubernetes 1.33 only.
    /// - Each owner of the content has to be a controller. If nobody owns any content, because
    ///   there is none, this holds for the owners of the label and, if nobody owns that either, for
    ///   the owners of any field.
    /// - kube-controller-manager and kube-endpoint-manager are controllers by their names. Another
    ///   of the `controllers` may be a program that does other things, too: the object needs the
    ///   form that controllers give it. A client that is none of them wrote the object as
    ///   [somebody else](Maker::SomebodyElse) if it lacks this form or the name is that of a tool,
    ///   and [nobody knows](Maker::Uncertain) otherwise.
    /// - An object whose `managedFields` are absent does not tell.
    pub fn maker(&self, content: Content, controllers: &[&str]) -> Maker {
        match self.labels.get(content.label()) {
            Some(by) if !content.managers().contains(&&**by) => return Maker::SomebodyElse(by.clone()),
            None if content == Content::Slice => return Maker::Unknown,
            _ => {}
        }
        let owners = self.responsible(content);
        let makers = || owners.iter().map(|entry| self.maker_by(entry, content, controllers));
        let other = makers().find(|maker| matches!(maker, Maker::SomebodyElse(_)));
        let uncertain = || makers().find(|maker| matches!(maker, Maker::Uncertain(_)));
        other.or_else(uncertain).or_else(|| makers().next()).unwrap_or(Maker::Unknown)
    }

    /// Says who wrote the fields of one entry.
    fn maker_by(&self, entry: &Entry, content: Content, controllers: &[&str]) -> Maker {
        let name = entry.manager.clone();
        let is_listed = controllers.contains(&&*name);
        if is_listed && ONLY_CONTROLLERS.contains(&&*name) {
            return Maker::Controller(name);
        }
        // Controllers replace whole objects.
        let is_update = *entry.operation == *"Update" && entry.subresource.is_empty();
        if !is_update || !self.has_form(content) || is_tool(&name) {
            return Maker::SomebodyElse(name);
        }
        if is_listed { Maker::Controller(name) } else { Maker::Uncertain(name) }
    }

    /// Returns true if the metadata has the form that controllers give it: those of slices let the
    /// server make a name after that of the Service, and have one owner; Endpoints have none.
    fn has_form(&self, content: Content) -> bool {
        if self.annotations.contains_key(ANNOTATION_LAST_APPLIED) {
            return false;
        }
        match content {
            Content::Endpoints => {
                self.owner_references.is_empty()
                    && (self.labels.contains_key(LABEL_ENDPOINTS_MANAGED_BY)
                        || self.annotations.contains_key(ANNOTATION_TRIGGER_TIME))
            }
            Content::Slice => {
                let Some(service) = self.labels.get(LABEL_SERVICE_NAME) else { return false };
                let is_mirrored =
                    self.labels.get(LABEL_MANAGED_BY).is_some_and(|by| **by == *MIRRORING_CONTROLLER);
                let kind = if is_mirrored { "Endpoints" } else { "Service" };
                let is_owned = match &*self.owner_references {
                    [owner] => {
                        owner.controller == Some(true) && *owner.kind == *kind && owner.name == *service
                    }
                    _ => false,
                };
                is_owned && self.is_named_after(service)
            }
        }
    }

    /// Returns true if the server made the name, from that of the Service.
    fn is_named_after(&self, service: &str) -> bool {
        let is_prefix = self.generate_name.strip_prefix(service).is_some_and(|rest| matches!(rest, "" | "-"));
        let kept = self.generate_name.get(..LONGEST_PREFIX).unwrap_or(&self.generate_name);
        let suffix = self.name.strip_prefix(kept);
        is_prefix && suffix.is_some_and(|suffix| suffix.len() == SUFFIX)
    }

    /// Returns why an object stays that nobody seems to need, or `None` if it may be changed or
    /// deleted: one of the `controllers` made it, as [`Self::maker`] decides, and it is no lock.
    ///
    /// Everything that changes or deletes what controllers left asks this: take-overs, the
    /// retirement of Endpoints, and commands that clean up.
    pub fn reason_to_keep(&self, content: Content, controllers: &[&str]) -> Option<Keep> {
        if self.is_lock() {
            return Some(Keep::Lock);
        }
        match self.maker(content, controllers) {
            Maker::Controller(_) => None,
            Maker::SomebodyElse(by) => Some(Keep::MadeBy(by)),
            Maker::Uncertain(by) => Some(Keep::Uncertain(by)),
            Maker::Unknown => Some(Keep::Unknown),
        }
    }

    /// Returns the last writer of the content, as [`Self::last_write`] does.
    pub fn last_writer(&self, content: Content, controllers: &[&str]) -> Maker {
        self.last_write(content, controllers).map_or(Maker::Unknown, |write| write.writer)
    }

    /// Returns the last write of the content: the manager and the time of the newest entry that
    /// owns some of it. If several entries are equally new, one of a controller counts. Returns
    /// `None` if nobody owns any content.
    ///
    /// In doubt this names a controller, while [`Self::maker`] names another client: an entry that
    /// owns a field that only controllers set is a controller's under any name, because
    /// distributions that run all components in one process write under another name.
    pub fn last_write(&self, content: Content, controllers: &[&str]) -> Option<LastWrite> {
        Self::newest_of(&self.owners(|entry| entry.owns(content)), content, controllers)
    }

    /// As [`Self::last_write`]. If nobody owns any content, because there is none, the owners of
    /// the label count and, if nobody owns that either, the owners of any field.
    pub fn last_write_or_making(&self, content: Content, controllers: &[&str]) -> Option<LastWrite> {
        Self::newest_of(&self.responsible(content), content, controllers)
    }

    /// Returns the second of the newest change of the object, of any field, by the server's clock.
    pub fn changed(&self) -> Option<Timestamp> {
        self.owners(|_| true).first()?.time.parse().ok()
    }

    fn newest_of(owners: &[&Entry], content: Content, controllers: &[&str]) -> Option<LastWrite> {
        let newest = &owners.first()?.time;
        let latest = || owners.iter().filter(|entry| entry.time == *newest);
        let is_controllers =
            |entry: &&&Entry| controllers.contains(&&*entry.manager) || entry.has_sign(content);
        let writer = match latest().find(is_controllers) {
            Some(controller) => Maker::Controller(controller.manager.clone()),
            None => Maker::SomebodyElse(owners.first()?.manager.clone()),
        };
        Some(LastWrite { writer, at: newest.parse().ok() })
    }

    /// Returns the owners of the content, or else those of the label, or else those of any field.
    fn responsible(&self, content: Content) -> Vec<&Entry> {
        let label = format!("f:{}", content.label());
        let owners = [
            self.owners(|entry| entry.owns(content)),
            self.owners(|entry| entry.sets("f:labels", &label)),
            self.owners(|entry| !entry.fields.is_empty()),
        ];
        owners.into_iter().find(|owners| !owners.is_empty()).unwrap_or_default()
    }

    /// Returns the entries that match, the newest first.
    fn owners(&self, matches: impl Fn(&Entry) -> bool) -> Vec<&Entry> {
        let mut owners: Vec<&Entry> = self.managed_fields.iter().filter(|entry| matches(entry)).collect();
        owners.sort_by(|one, two| two.time.cmp(&one.time).then_with(|| one.manager.cmp(&two.manager)));
        owners
    }
}

impl Entry {
    fn owns(&self, content: Content) -> bool {
        content.fields().iter().any(|field| self.fields.contains_key(*field))
    }

    /// Returns true if it owns a key of a map in the metadata.
    fn sets(&self, map: &str, key: &str) -> bool {
        let Some(Field::Maps(maps)) = self.fields.get("f:metadata") else { return false };
        maps.get(map).is_some_and(|keys| keys.contains_key(key))
    }

    /// Returns true if it owns a field that only controllers set.
    fn has_sign(&self, content: Content) -> bool {
        self.sets("f:labels", &format!("f:{}", content.label()))
            || self.sets("f:annotations", &format!("f:{ANNOTATION_TRIGGER_TIME}"))
    }
}

#[cfg(test)]
mod tests;
