//! Validation of `metadata`, after `apimachinery/pkg/api/validation/objectmeta.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names::{dns1123_label, dns1123_subdomain, label_value, path_segment, qualified_name};
use super::{Errors, Path};
use crate::value::Fields;

/// The maximum size of all annotations of an object, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The format of an object's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// A DNS subdomain.
    Subdomain,
    /// A DNS label.
    Label,
    /// Anything that can be a segment of a path.
    PathSegment,
}

impl NameRule {
    fn check(self, name: &str, prefix: bool) -> Vec<String> {
        // A prefix may end in a dash, since a suffix follows.
        let masked;
        let checked = if prefix && self != Self::PathSegment && name.len() > 1 && name.ends_with('-') {
            masked = name.get(..name.len() - 2).map_or_else(|| name.to_owned(), |n| format!("{n}a"));
            &masked
        } else {
            name
        };
        match self {
            Self::Subdomain => dns1123_subdomain(checked),
            Self::Label => dns1123_label(checked),
            Self::PathSegment => path_segment(checked, prefix),
        }
    }
}

/// Validates metadata without comparing it with an old object.
pub(crate) fn validate(meta: &Value, namespaced: bool, rule: NameRule, errors: &mut Errors) {
    let root = Path::Root("metadata");
    let prefix = meta.text("generateName");
    if !prefix.is_empty() {
        errors.invalid_each(&root.child("generateName"), prefix, rule.check(prefix, true));
    }
    let name = meta.text("name");
    if name.is_empty() {
        errors.required(&root.child("name"), "name or generateName is required");
    } else {
        errors.invalid_each(&root.child("name"), name, rule.check(name, false));
    }
    let namespace = meta.text("namespace");
    let at = root.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.required(&at, ""),
        (true, false) => errors.invalid_each(&at, namespace, dns1123_label(namespace)),
        (false, false) => errors.forbidden(&at, "not allowed on this type"),
        (false, true) => {}
    }
    non_negative(meta.int("generation"), &root.child("generation"), errors);
    validate_maps(meta, &root, errors);
    validate_finalizers(meta, &root.child("finalizers"), errors);
    validate_managed_fields(meta, &root.child("managedFields"), errors);
}

/// Validates metadata that will replace `old`.
pub(crate) fn validate_update(meta: &Value, old: &Value, errors: &mut Errors) {
    let root = Path::Root("metadata");
    if old.has("deletionTimestamp") {
        let before: BTreeSet<&str> = old.texts("finalizers").into_iter().collect();
        let now: BTreeSet<&str> = meta.texts("finalizers").into_iter().collect();
        let added: Vec<&str> = now.difference(&before).copied().collect();
        if !added.is_empty() {
            let listed: Vec<String> = added.iter().map(|f| format!("{f:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                listed.join(", ")
            );
            errors.forbidden(&root.child("finalizers"), &why);
        }
    }
    if meta.text("resourceVersion").is_empty() {
        errors.invalid(&root.child("resourceVersion"), "", "must be specified for an update");
    }
    if meta.int("generation") < old.int("generation") {
        errors.invalid(&root.child("generation"), &meta.int("generation"), "must not be decremented");
    }
    for field in ["name", "namespace", "uid"] {
        immutable(meta, old, field, &root, false, errors);
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        immutable(meta, old, field, &root, true, errors);
    }
    validate_maps(meta, &root, errors);
    validate_managed_fields(meta, &root.child("managedFields"), errors);
}

/// Rejects a change of a field. If `optional`, an absent value prints as null, otherwise as the
/// empty string.
pub(crate) fn immutable(
    new: &Value,
    old: &Value,
    field: &str,
    parent: &Path<'_>,
    optional: bool,
    errors: &mut Errors,
) {
    let absent = if optional { Value::Null } else { Value::String(String::new()) };
    let (now, before) = (new.get(field).unwrap_or(&absent), old.get(field).unwrap_or(&absent));
    if now != before {
        errors.invalid(&parent.child(field), now, "field is immutable");
    }
}

/// Rejects an integer below zero.
pub(crate) fn non_negative(value: i64, path: &Path<'_>, errors: &mut Errors) {
    if value < 0 {
        errors.invalid(path, &value, "must be greater than or equal to 0");
    }
}

/// Validates a field of `object` that is a map of labels.
pub(crate) fn validate_labels(object: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in object.entries(field) {
        errors.invalid_each(path, key, qualified_name(key));
        errors.invalid_each(path, value, label_value(value));
    }
}

fn validate_maps(meta: &Value, root: &Path<'_>, errors: &mut Errors) {
    validate_labels(meta, "labels", &root.child("labels"), errors);
    let at = root.child("annotations");
    let mut size = 0;
    for (key, value) in meta.entries("annotations") {
        size += key.len() + value.len();
        errors.invalid_each(&at, key, qualified_name(&key.to_lowercase()));
    }
    if size > ANNOTATIONS_LIMIT {
        errors.too_long(&at, ANNOTATIONS_LIMIT);
    }
    validate_owners(meta, &root.child("ownerReferences"), errors);
}

fn validate_owners(meta: &Value, at: &Path<'_>, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    for owner in meta.list("ownerReferences") {
        let api_version = owner.text("apiVersion");
        let version = api_version.split_once('/').map_or(api_version, |(_, version)| version);
        if version.is_empty() || version.contains('/') {
            errors.invalid(&at.child("apiVersion"), api_version, "version must not be empty");
        }
        for field in ["kind", "name", "uid"] {
            if owner.text(field).is_empty() {
                errors.invalid(&at.child(field), "", "must not be empty");
            }
        }
        if api_version == "v1" && owner.text("kind") == "Event" {
            errors.invalid(at, owner, "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner.flag("controller") {
            let this = format!("{}/{}", owner.text("kind"), owner.text("name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for \
                         {first} and {this}"
                    );
                    errors.invalid(at, &meta["ownerReferences"], &why);
                }
            }
        }
    }
}

/// Rejects finalizers without a domain, which core kinds, EndpointSlices and Events accept only if
/// they are Kubernetes' own.
pub(crate) fn validate_finalizer_names(meta: &Value, errors: &mut Errors) {
    let root = Path::Root("metadata");
    let at = root.child("finalizers");
    for (index, finalizer) in meta.texts("finalizers").iter().enumerate() {
        validate_finalizer_name(finalizer, &at.index(index), errors);
    }
}

/// Rejects a finalizer without a domain that is not Kubernetes' own.
pub(crate) fn validate_finalizer_name(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
        errors.invalid(at, name, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

fn validate_finalizers(meta: &Value, at: &Path<'_>, errors: &mut Errors) {
    let finalizers = meta.texts("finalizers");
    for finalizer in finalizers.iter().copied() {
        errors.invalid_each(at, finalizer, qualified_name(finalizer));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(at, finalizers.as_slice(), why);
    }
}

fn validate_managed_fields(meta: &Value, at: &Path<'_>, errors: &mut Errors) {
    for (index, entry) in meta.list("managedFields").iter().enumerate() {
        let at = at.index(index);
        let operation = entry.text("operation");
        if !matches!(operation, "Apply" | "Update") {
            errors.invalid(&at.child("operation"), operation, "must be `Apply` or `Update`");
        }
        let kind = entry.text("fieldsType");
        if !kind.is_empty() && kind != "FieldsV1" {
            errors.invalid(&at.child("fieldsType"), kind, "must be `FieldsV1`");
        }
    }
}
