//! Object metadata: names, versions, owners, references.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{StringMap, Text, Timestamp, text, time};

/// Namespace and name of an object; the namespace is empty for cluster-wide ones. Prints as
/// `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectKey {
    /// The namespace, or empty.
    pub namespace: Text,
    pub name: Text,
}

impl ObjectKey {
    /// Returns a key of two strings.
    pub fn new(namespace: impl Into<Text>, name: impl Into<Text>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl Hash for ObjectKey {
    /// Hashes as the derived implementation does, without the mark at the end: the mark after the
    /// namespace keeps the two apart. So a caller that hashes another value with a key has to hash
    /// it before the key.
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.namespace.hash(hasher);
        hasher.write(self.name.as_bytes());
    }
}

impl Default for ObjectKey {
    fn default() -> Self {
        Self::new("", "")
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The resource version of an object or a list; zero stands for none. Versions of one API server
/// are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVersion(pub u64);

impl ResourceVersion {
    /// Returns true if there is no version.
    pub fn is_none(&self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ResourceVersion {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        if text.is_empty() { Ok(Self(0)) } else { text.parse().map(Self) }
    }
}

impl Serialize for ResourceVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ResourceVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = |text: &str| {
            text.parse().map_err(|_| format!("resourceVersion {text:?} is not a decimal number"))
        };
        Ok(text::through(deserializer, read)?.unwrap_or_default())
    }
}

/// Deserialises `null` as the default, as Go does.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Metadata of an object that a controller writes: the fields that an update must send back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// Name; empty before the server has generated one.
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub name: Text,
    /// Prefix of a generated name.
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub generate_name: Text,
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub namespace: Text,
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub uid: Text,
    /// Version, for optimistic concurrency.
    #[serde(skip_serializing_if = "ResourceVersion::is_none")]
    pub resource_version: ResourceVersion,
    /// The API server increases it with each change of the desired state.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_default")]
    pub generation: i64,
    /// When it was created.
    #[serde(
        deserialize_with = "time::optional",
        serialize_with = "time::write_optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub creation_timestamp: Option<Timestamp>,
    /// The end of the grace period; set while the object is being deleted.
    #[serde(
        deserialize_with = "time::optional",
        serialize_with = "time::write_optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub deletion_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub labels: StringMap,
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    pub annotations: StringMap,
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// The object stays until clients have removed all of these.
    #[serde(deserialize_with = "text::list", skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<Text>,
}

impl ObjectMeta {
    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Takes over name, prefix and owners of `other` where they are equal: other objects may hold
    /// the same strings.
    pub fn share_strings(&mut self, other: Self) {
        let share = |text: &mut Text, other: Text| {
            if *text == other {
                *text = other;
            }
        };
        share(&mut self.name, other.name);
        share(&mut self.generate_name, other.generate_name);
        if self.owner_references == other.owner_references {
            self.owner_references = other.owner_references;
        }
    }
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// `v1` or `group/v1`.
    #[serde(deserialize_with = "text::or_empty")]
    pub api_version: Text,
    #[serde(deserialize_with = "text::or_empty")]
    pub kind: Text,
    #[serde(deserialize_with = "text::or_empty")]
    pub name: Text,
    #[serde(deserialize_with = "text::or_empty")]
    pub uid: Text,
    /// True if this owner is the managing controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// True if a foreground deletion of the owner waits until this object is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// Returns a reference to the managing controller (upstream `metav1.NewControllerRef`).
    pub fn controller(api_version: &str, kind: &str, name: &Text, uid: &Text) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.clone(),
            uid: uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }
}

/// A reference to an object; unknown fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub kind: Text,
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub namespace: Text,
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub name: Text,
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub uid: Text,
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub api_version: Text,
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub resource_version: Text,
    #[serde(deserialize_with = "text::or_empty", skip_serializing_if = "is_default")]
    pub field_path: Text,
}

/// All references to pods share this string.
static POD: LazyLock<Text> = LazyLock::new(|| "Pod".into());

impl ObjectReference {
    /// Returns a reference to the pod of this key and uid, as endpoints have it (`targetRef`).
    pub fn to_pod(key: &ObjectKey, uid: &Text) -> Self {
        Self {
            kind: POD.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: uid.clone(),
            ..Self::default()
        }
    }

    /// Returns true if two references are equal except for the resource version (upstream
    /// `semanticIgnoreResourceVersion`). A new version of a pod is not a reason to write.
    pub fn same_but_version(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.namespace == other.namespace
            && self.name == other.name
            && self.uid == other.uid
            && self.api_version == other.api_version
            && self.field_path == other.field_path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_survives_a_round_trip_and_skips_what_is_not_read() {
        let text = r#"{"name":"a","namespace":"b","uid":"u","resourceVersion":"12","generation":3,
            "creationTimestamp":"2024-01-01T00:00:00Z","labels":{"x":"y"},"managedFields":[{"a":[1,2,{}]}],
            "ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"s","uid":"su","controller":true,"blockOwnerDeletion":true}],
            "finalizers":["f"]}"#;
        let meta: ObjectMeta = serde_json::from_str(text).unwrap();
        assert_eq!(meta.resource_version, ResourceVersion(12));
        let mut want: serde_json::Value = serde_json::from_str(text).unwrap();
        want.as_object_mut().unwrap().remove("managedFields");
        assert_eq!(serde_json::to_value(&meta).unwrap(), want);
    }

    #[test]
    fn nulls_are_defaults() {
        let meta: ObjectMeta = serde_json::from_str(
            r#"{"name":"a","creationTimestamp":null,"labels":null,"ownerReferences":null,"resourceVersion":null}"#,
        )
        .unwrap();
        assert_eq!(meta, ObjectMeta { name: "a".into(), ..ObjectMeta::default() });
    }

    #[test]
    fn a_version_that_is_no_number_is_an_error_that_says_so() {
        let error = serde_json::from_str::<ObjectMeta>(r#"{"resourceVersion":"x1"}"#).unwrap_err();
        assert!(error.to_string().contains(r#"resourceVersion "x1" is not a decimal number"#), "{error}");
    }

    #[test]
    fn equal_strings_are_shared_and_others_stay() {
        let meta = |name: &str, prefix: &str, owner: &str| ObjectMeta {
            name: name.into(),
            generate_name: prefix.into(),
            owner_references: vec![OwnerReference::controller("v1", "Service", &owner.into(), &"u".into())],
            ..ObjectMeta::default()
        };
        let (sent, mut echo) = (meta("", "web-", "web"), meta("web-x", "web-", "web"));
        echo.share_strings(sent.clone());
        assert_eq!(echo, meta("web-x", "web-", "web"));
        assert!(Text::ptr_eq(&echo.generate_name, &sent.generate_name));
        assert!(Text::ptr_eq(&echo.owner_references[0].name, &sent.owner_references[0].name));
        let mut other = meta("a", "b-", "c");
        other.share_strings(sent);
        assert_eq!(other, meta("a", "b-", "c"));
    }

    #[test]
    fn references_are_the_same_whatever_version_they_saw() {
        let one = ObjectReference { name: "a".into(), resource_version: "1".into(), ..Default::default() };
        let two = ObjectReference { resource_version: "2".into(), ..one.clone() };
        assert!(one.same_but_version(&two));
        assert!(!one.same_but_version(&ObjectReference { uid: "u".into(), ..one.clone() }));
    }
}
