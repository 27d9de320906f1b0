//! Reads manifests, texts with objects as a person or kubectl writes them, and makes the objects
//! that an API server would store.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use serde_saphyr::Budget;

use crate::resource::{self, Resource};
use crate::status::Status;
use crate::strategy::{self, Subresource};
use crate::value::Fields;

/// The maximum number of characters of an object in an error.
const SHOWN: usize = 80;

/// The reason why a text is no manifest, or why nobody can send an object in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    #[error("this is not text in UTF-8, nor in UTF-16 with its mark at the start")]
    NotText,
    /// It is neither JSON nor YAML.
    #[error("line {line}: {why}")]
    Syntax {
        /// The line of the mistake; the first is 1.
        line: u64,
        why: String,
    },
    /// It is a template, not a manifest.
    #[error("line {line}: `{{{{` begins an action of a template; take what `helm template` prints")]
    Template {
        /// The line of the first action.
        line: u64,
    },
    /// It lists manifests of Kustomize.
    #[error("this is a file of Kustomize, not an object; take what `kubectl kustomize FOLDER` prints")]
    Kustomization,
    #[error("a List needs items")]
    NoItems,
    /// An item is no object, or lacks fields that every object needs.
    #[error("this object lacks {lacks}; {fields}")]
    Incomplete {
        /// The missing fields.
        lacks: &'static str,
        /// A sentence with the names of its fields. The values may be secrets.
        fields: String,
    },
}

/// An object of a manifest. It has a kind and a version.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// The object as the text has it.
    pub value: Value,
    /// Its resource, if this crate knows it.
    pub resource: Option<&'static Resource>,
}

impl Object {
    /// Returns `KIND of VERSION`.
    pub fn type_name(&self) -> String {
        format!("{} of {}", self.value.text("kind"), self.value.text("apiVersion"))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.value["metadata"].text("name")
    }

    /// Returns true if a server has stored it: somebody read it from a cluster, and a server need
    /// not check it again.
    pub fn is_stored(&self) -> bool {
        let meta = &self.value["metadata"];
        !meta.text("uid").is_empty() || !meta.text("resourceVersion").is_empty()
    }
}

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    pub objects: Vec<Object>,
    /// The kinds of typed lists, such as a PodList, as [`Object::type_name`] writes them. A list
    /// may be empty.
    pub listed: BTreeSet<String>,
}

/// Reads the objects of a file. It may be JSON or YAML, hold several documents, and contain lists.
/// This skips empty documents.
///
/// # Errors
///
/// An error about the first document or item that is no object.
pub fn read(file: &[u8]) -> Result<Vec<Object>, ManifestError> {
    read_contents(file).map(|contents| contents.objects)
}

/// As [`read`], with the kinds that are listed.
///
/// # Errors
///
/// As [`read`].
pub fn read_contents(file: &[u8]) -> Result<Contents, ManifestError> {
    let text = text_of(file)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut contents = Contents::default();
    for document in documents(text)? {
        add(document, &mut contents)?;
    }
    Ok(contents)
}

/// Decodes a file as kubectl does. Windows PowerShell makes UTF-16 of what `>` sends to a file.
fn text_of(file: &[u8]) -> Result<Cow<'_, str>, ManifestError> {
    let unit: fn([u8; 2]) -> u16 = match file {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return std::str::from_utf8(file).map(Cow::Borrowed).map_err(|_| ManifestError::NotText),
    };
    let (pairs, rest) = file.as_chunks();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    let text = String::from_utf16(&units).ok().filter(|_| rest.is_empty());
    text.map(Cow::Owned).ok_or(ManifestError::NotText)
}

/// Returns the object that a server stores when a client creates it and then sets its status,
/// without the values that the server makes up: uid, version, times and cluster IPs. It refuses
/// fields that the kind does not have, as kubectl asks servers to do.
///
/// # Errors
///
/// The Status that a client would get.
pub fn create(resource: &Resource, mut object: Value) -> Result<Value, Status> {
    let status = object.get("status").filter(|status| !status.is_null()).cloned();
    if resource.namespaced {
        object.child("metadata").set_default("namespace", "default");
    }
    let decoded = strategy::decode(resource, object)?;
    if !decoded.warnings.is_empty() {
        let why = format!("strict decoding error: {}", decoded.warnings.join(", "));
        return Err(strategy::cannot_be_handled(resource, &why));
    }
    let mut created = decoded.object;
    strategy::drop_duplicate_owners(&mut created);
    let created = strategy::before_create(resource, created)?.object;
    let Some(status) = status.filter(|_| resource.has_status()) else { return Ok(created) };
    let mut before = created;
    // A client can update only a stored object.
    before.child("metadata").set("resourceVersion", "1");
    let mut after = before.clone();
    json_patch::merge(after.child("status"), &status);
    let after = strategy::decode(resource, after)?.object;
    let mut updated = strategy::before_update(resource, &before, after, Subresource::Status)?.object;
    updated.child("metadata").drop_field("resourceVersion");
    Ok(updated)
}

/// kubectl's text about an object that a server refuses: the field errors one by one, or else the
/// server's message.
pub struct Refusal<'s>(pub &'s Status);

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(details) = self.0.details.as_ref().filter(|_| self.0.reason == "Invalid") else {
            return f.write_str(&self.0.message);
        };
        write!(f, "The {} {:?} is invalid: ", details.kind, details.name)?;
        let mut texts: Vec<String> = Vec::new();
        for cause in &details.causes {
            let text = format!("{}: {}", cause.field, cause.message);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [one] => f.write_str(one),
            many => many.iter().try_for_each(|text| write!(f, "\n* {text}")),
        }
    }
}

/// Adds an object, or the items of a list. Items of a typed list, such as a PodList, need no kind.
fn add(mut document: Value, contents: &mut Contents) -> Result<(), ManifestError> {
    if document.is_null() {
        return Ok(());
    }
    if is_of_kustomize(&document) {
        return Err(ManifestError::Kustomization);
    }
    let kind = document.text("kind").strip_suffix("List").map(str::to_owned);
    // `kubectl cluster-info dump` writes null for no items.
    let has_items = matches!(document.get("items"), Some(Value::Array(_) | Value::Null));
    if let Some(kind) = kind.filter(|kind| kind.is_empty() || has_items) {
        let version = document["apiVersion"].clone();
        if !kind.is_empty() {
            contents.listed.insert(format!("{kind} of {}", version.as_str().unwrap_or_default()));
        }
        let items = match document["items"].take() {
            Value::Array(items) => items,
            Value::Null if !kind.is_empty() => Vec::new(),
            _ => return Err(ManifestError::NoItems),
        };
        for mut item in items {
            if !kind.is_empty() && item.is_object() && item["kind"].is_null() {
                item["kind"] = kind.as_str().into();
                item["apiVersion"] = version.clone();
            }
            add(item, contents)?;
        }
        return Ok(());
    }
    let (version, kind) = (document.text("apiVersion"), document.text("kind"));
    let lacks = match (version.is_empty(), kind.is_empty()) {
        (false, false) => {
            let resource = resource::by_kind(version, kind).filter(|resource| resource.is_stored());
            contents.objects.push(Object { value: document, resource });
            return Ok(());
        }
        (true, false) => "apiVersion",
        (false, true) => "kind",
        (true, true) => "apiVersion and kind",
    };
    let names = document.as_object().into_iter().flatten().map(|(name, _)| format!("{name:?}"));
    let fields: String = names.collect::<Vec<_>>().join(", ").chars().take(SHOWN).collect();
    let fields = match fields.is_empty() {
        true => "it has no fields".to_owned(),
        false => format!("its fields are {fields}"),
    };
    Err(ManifestError::Incomplete { lacks, fields })
}

/// Returns true for a kustomization, which need not have a kind, and whose resources are names of
/// files.
fn is_of_kustomize(document: &Value) -> bool {
    let version = document.text("apiVersion");
    version.starts_with("kustomize.config.k8s.io/")
        || version.is_empty()
            && document.text("kind").is_empty()
            && document.list("resources").first().is_some_and(Value::is_string)
}

/// Returns the documents of a text.
fn documents(text: &str) -> Result<Vec<Value>, ManifestError> {
    let is_json = text.trim_start().starts_with('{');
    if is_json && let Ok(documents) = serde_json::Deserializer::from_str(text).into_iter().collect() {
        return Ok(documents);
    }
    // JSON is YAML, and a stream may go on in YAML.
    let yaml = match serde_saphyr::from_multiple_with_options(text, options(text)) {
        Ok(documents) => return Ok(documents),
        Err(error) => error,
    };
    if let Some(line) = text.lines().position(|line| line.contains("{{")) {
        return Err(ManifestError::Template { line: line as u64 + 1 });
    }
    // The parsers put the place at the end of their explanations.
    let explained = |language: &str, line: u64, why: &str| {
        let why = why.rsplit_once(" at line ").map_or(why, |(why, _)| why);
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        ManifestError::Syntax { line: line.max(1), why: format!("this is not {language}: {why}") }
    };
    let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    Err(match json {
        Err(error) if is_json => explained("JSON", error.line() as u64, &error.to_string()),
        _ => {
            let line = yaml.location().map_or(1, |location| location.line());
            match yaml.without_snippet() {
                serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
                    let key = key.as_deref().unwrap_or_default();
                    ManifestError::Syntax { line, why: format!("the key {key:?} is already set above") }
                }
                error => explained("YAML", line, &error.to_string()),
            }
        }
    })
}

/// Returns options that limit only the repetitions by aliases, and not the length of a text: the
/// output of `kubectl get` of a large cluster has millions of nodes.
fn options(text: &str) -> serde_saphyr::Options {
    let length = text.len().saturating_add(64);
    let mut budget = Budget::default();
    for limit in [&mut budget.max_events, &mut budget.max_nodes, &mut budget.max_documents] {
        *limit = (*limit).max(length);
    }
    budget.max_total_scalar_bytes = budget.max_total_scalar_bytes.max(length);
    // kubectl reads octal numbers, too: 0120 is 80.
    serde_saphyr::options! {
        budget: Some(budget),
        legacy_octal_numbers: true,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
    }
}

#[cfg(test)]
mod tests;
