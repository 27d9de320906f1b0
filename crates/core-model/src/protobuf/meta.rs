//! Decodes the parts that all kinds have: metadata, times, maps and references.

use super::DecodeError;
use super::wire::{Fields, Payload};
use crate::{
    Interner, ObjectKey, ObjectMeta, ObjectReference, OwnerReference, ResourceVersion, StringMap, Text,
    Timestamp,
};

/// The fields of `ObjectMeta` that all views have, borrowed.
#[derive(Default)]
pub(super) struct CommonMeta<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    pub(super) uid: &'a str,
    pub(super) resource_version: ResourceVersion,
    pub(super) creation_timestamp: Option<Timestamp>,
    pub(super) deletion_timestamp: Option<Timestamp>,
    pub(super) labels: Pairs<'a>,
}

impl<'a> CommonMeta<'a> {
    /// Reads a message. Fields that this struct lacks go to `other`.
    #[inline]
    pub(super) fn read(
        &mut self,
        payload: Payload<'a>,
        mut other: impl FnMut(u64, Payload<'a>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut fields = Fields::of(payload, "metadata")?;
        while let Some((number, payload)) = fields.next()? {
            match number {
                1 => self.name = payload.text("metadata.name")?,
                3 => self.namespace = payload.text("metadata.namespace")?,
                5 => self.uid = payload.text("metadata.uid")?,
                6 => self.resource_version = version(payload)?,
                8 => self.creation_timestamp = time(payload, "metadata.creationTimestamp")?,
                9 => self.deletion_timestamp = time(payload, "metadata.deletionTimestamp")?,
                11 => self.labels.read(payload, "metadata.labels")?,
                _ => other(number, payload)?,
            }
        }
        Ok(())
    }

    pub(super) fn key(&self, interner: &mut Interner) -> ObjectKey {
        // StatefulSets put the name of a pod into its labels, so the two share one string.
        let name =
            if self.labels.contains_value(self.name) { interner.shared(self.name) } else { owned(self.name) };
        ObjectKey { namespace: interner.shared(self.namespace), name }
    }
}

/// Appends to a list that a store holds for long. Most such lists have one item, so the first push
/// reserves memory for one.
pub(super) fn push_to_short<T>(list: &mut Vec<T>, item: T) {
    if list.capacity() == 0 {
        list.reserve_exact(1);
    }
    list.push(item);
}

/// Reads complete metadata into `meta`.
pub(super) fn object_meta(
    payload: Payload<'_>,
    meta: &mut ObjectMeta,
    interner: &mut Interner,
) -> Result<(), DecodeError> {
    let mut common = CommonMeta::default();
    let mut annotations = Pairs::default();
    common.read(payload, |number, payload| {
        match number {
            2 => meta.generate_name = owned(payload.text("metadata.generateName")?),
            7 => meta.generation = payload.number("metadata.generation")? as i64,
            12 => annotations.read(payload, "metadata.annotations")?,
            13 => push_to_short(&mut meta.owner_references, owner_reference(payload, interner)?),
            14 => meta.finalizers.push(interner.shared(payload.text("metadata.finalizers")?)),
            _ => {}
        }
        Ok(())
    })?;
    meta.name = owned(common.name);
    meta.namespace = interner.shared(common.namespace);
    meta.uid = owned(common.uid);
    meta.resource_version = common.resource_version;
    meta.creation_timestamp = common.creation_timestamp;
    meta.deletion_timestamp = common.deletion_timestamp;
    meta.labels = common.labels.shared(interner);
    meta.annotations = annotations.with_own_values(interner);
    Ok(())
}

fn owner_reference(payload: Payload<'_>, interner: &mut Interner) -> Result<OwnerReference, DecodeError> {
    let mut owner = OwnerReference::default();
    let mut fields = Fields::of(payload, "metadata.ownerReferences")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => owner.kind = interner.shared(payload.text("metadata.ownerReferences.kind")?),
            3 => owner.name = owned(payload.text("metadata.ownerReferences.name")?),
            4 => owner.uid = owned(payload.text("metadata.ownerReferences.uid")?),
            5 => owner.api_version = interner.shared(payload.text("metadata.ownerReferences.apiVersion")?),
            6 => owner.controller = Some(payload.boolean("metadata.ownerReferences.controller")?),
            7 => {
                let blocks = payload.boolean("metadata.ownerReferences.blockOwnerDeletion")?;
                owner.block_owner_deletion = Some(blocks);
            }
            _ => {}
        }
    }
    Ok(owner)
}

pub(super) fn object_reference(
    payload: Payload<'_>,
    interner: &mut Interner,
) -> Result<ObjectReference, DecodeError> {
    let mut reference = ObjectReference::default();
    let mut fields = Fields::of(payload, "targetRef")?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => reference.kind = interner.shared(payload.text("targetRef.kind")?),
            2 => reference.namespace = interner.shared(payload.text("targetRef.namespace")?),
            3 => reference.name = owned(payload.text("targetRef.name")?),
            4 => reference.uid = owned(payload.text("targetRef.uid")?),
            5 => reference.api_version = owned(payload.text("targetRef.apiVersion")?),
            6 => reference.resource_version = owned(payload.text("targetRef.resourceVersion")?),
            7 => reference.field_path = owned(payload.text("targetRef.fieldPath")?),
            _ => {}
        }
    }
    Ok(reference)
}

/// Returns a copy of a string. An empty one has no allocation.
pub(super) fn owned(text: &str) -> Text {
    if text.is_empty() { Text::default() } else { Text::from(text) }
}

/// Returns a string that is absent if it is empty.
pub(super) fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

pub(super) fn version(payload: Payload<'_>) -> Result<ResourceVersion, DecodeError> {
    let text = payload.text("metadata.resourceVersion")?;
    text.parse().map_err(|_| DecodeError::ResourceVersion { value: text.to_owned() })
}

/// Reads a `Time`. An empty message is Go's zero time, which is null in JSON. As in Go, only whole
/// seconds count.
pub(super) fn time(payload: Payload<'_>, field: &'static str) -> Result<Option<Timestamp>, DecodeError> {
    let mut fields = Fields::of(payload, field)?;
    if fields.rest().is_empty() {
        return Ok(None);
    }
    let mut seconds = 0;
    while let Some((number, payload)) = fields.next()? {
        if number == 1 {
            seconds = payload.number(field)? as i64;
        }
    }
    Timestamp::from_second(seconds).map(Some).map_err(|_| DecodeError::Time { field, seconds })
}

/// Reads an entry of a map from strings: its key and its value.
pub(super) fn map_entry<'a>(
    payload: Payload<'a>,
    field: &'static str,
) -> Result<(&'a str, Option<Payload<'a>>), DecodeError> {
    let (mut key, mut value) = ("", None);
    let mut fields = Fields::of(payload, field)?;
    while let Some((number, payload)) = fields.next()? {
        match number {
            1 => key = payload.text(field)?,
            2 => value = Some(payload),
            _ => {}
        }
    }
    Ok((key, value))
}

/// The pairs of a map from string to string, borrowed.
#[derive(Default)]
pub(super) struct Pairs<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Pairs<'a> {
    /// Reads an entry.
    pub(super) fn read(&mut self, payload: Payload<'a>, field: &'static str) -> Result<(), DecodeError> {
        self.read_if(payload, field, |_| true)
    }

    /// Reads an entry if its key is wanted.
    pub(super) fn read_if(
        &mut self,
        payload: Payload<'a>,
        field: &'static str,
        wanted: impl FnOnce(&str) -> bool,
    ) -> Result<(), DecodeError> {
        let (key, value) = map_entry(payload, field)?;
        if wanted(key) {
            let value = value.map_or(Ok(""), |value| value.text(field))?;
            self.0.push((key, value));
        }
        Ok(())
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, wanted: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(key, _)| *key == wanted).map(|(_, value)| *value)
    }

    fn contains_value(&self, value: &str) -> bool {
        self.0.iter().any(|(_, other)| *other == value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the map, of shared strings, and shared as a whole.
    pub(super) fn shared(self, interner: &mut Interner) -> StringMap {
        interner.map_of(self.0)
    }

    /// Returns the map, of shared keys and values of its own.
    pub(super) fn with_own_values(self, interner: &mut Interner) -> StringMap {
        if self.0.is_empty() {
            return StringMap::default();
        }
        self.0.into_iter().map(|(key, value)| (interner.shared(key), value)).collect()
    }
}

/// The identity of an object, even of an invalid one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// Namespace and name, or `None` if the object has no name.
    pub key: Option<ObjectKey>,
    /// The version, or the default if it is unreadable.
    pub resource_version: ResourceVersion,
}

/// Reads namespace, name and version of an object of any kind. It stops at a broken field.
pub fn identity(object: &[u8]) -> Identity {
    let (mut namespace, mut name, mut resource_version) = ("", "", ResourceVersion::default());
    let mut object = Fields::new(object, "");
    while let Ok(Some((number, payload))) = object.next() {
        let (1, Payload::Bytes(meta)) = (number, payload) else { continue };
        let mut meta = Fields::new(meta, "metadata");
        while let Ok(Some((number, payload))) = meta.next() {
            match number {
                1 => name = payload.text("").unwrap_or_default(),
                3 => namespace = payload.text("").unwrap_or_default(),
                6 => resource_version = version(payload).unwrap_or_default(),
                _ => {}
            }
        }
    }
    Identity { key: non_empty(name).map(|name| ObjectKey::new(namespace, name)), resource_version }
}
