//! Manifests: JSON or YAML with objects, as a person or kubectl writes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::Value;

use super::EmbeddedError;

/// The objects of one file.
pub(super) struct Manifest {
    /// The file, or the sample.
    pub(super) path: PathBuf,
    /// Objects of kinds that the server stores, with kind, version and name.
    pub(super) objects: Vec<Value>,
    /// The other kinds, as `KIND of VERSION`.
    pub(super) skipped: BTreeSet<String>,
}

impl Manifest {
    /// Splits a text into objects. It may be JSON or YAML, hold several documents, and contain lists.
    ///
    /// # Errors
    ///
    /// If it is neither JSON nor YAML, or something in it is no object.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, EmbeddedError> {
        let documents = documents(text).map_err(|(line, why)| EmbeddedError::Syntax {
            path: path.to_owned(),
            line,
            why,
        })?;
        let mut manifest = Self { path: path.to_owned(), objects: Vec::new(), skipped: BTreeSet::new() };
        for document in documents {
            for item in manifest.items(document)? {
                manifest.add(item)?;
            }
        }
        Ok(manifest)
    }

    /// Returns the objects, each with the file.
    pub(super) fn into_objects(self) -> impl Iterator<Item = (PathBuf, Value)> {
        let Self { path, objects, .. } = self;
        objects.into_iter().map(move |object| (path.clone(), object))
    }

    /// Returns the items of a list, or else the document. Items of a typed list, such as a PodList, need no kind.
    fn items(&self, mut document: Value) -> Result<Vec<Value>, EmbeddedError> {
        if document.is_null() {
            return Ok(Vec::new());
        }
        let kind = document["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
        let Some(kind) = kind.filter(|kind| kind.is_empty() || document["items"].is_array()) else {
            return Ok(vec![document]);
        };
        let Value::Array(mut items) = document["items"].take() else {
            return Err(self.invalid("a List needs items"));
        };
        let untyped =
            items.iter_mut().filter(|item| !kind.is_empty() && item.is_object() && item["kind"].is_null());
        untyped.for_each(|item| {
            item["kind"] = kind.as_str().into();
            item["apiVersion"] = document["apiVersion"].clone();
        });
        Ok(items)
    }

    fn add(&mut self, item: Value) -> Result<(), EmbeddedError> {
        let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (of(&item["apiVersion"]), of(&item["kind"]));
        let is_typed = !version.is_empty() && !kind.is_empty();
        if is_typed && !EmbeddedApiServer::stores(&version, &kind) {
            self.skipped.insert(format!("{kind} of {version}"));
            return Ok(());
        }
        if !is_typed || item["metadata"]["name"].as_str().is_none() {
            let start: String = item.to_string().chars().take(80).collect();
            return Err(
                self.invalid(&format!("this object lacks apiVersion, kind or metadata.name: {start}"))
            );
        }
        self.objects.push(item);
        Ok(())
    }

    fn invalid(&self, why: &str) -> EmbeddedError {
        EmbeddedError::Invalid { path: self.path.clone(), why: one_line(why) }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The documents of a manifest. The error has the line of the mistake.
fn documents(text: &str) -> Result<Vec<Value>, (u64, String)> {
    // The parsers name the place at the end of their explanations.
    let explained = |language: &str, line: u64, why: &str| {
        let why = why.rsplit_once(" at line ").map_or(why, |(why, _)| why);
        (line.max(1), format!("this is not {language}: {}", one_line(why)))
    };
    if text.trim_start().starts_with('{') {
        let parsed: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        return parsed.map_err(|error| explained("JSON", error.line() as u64, &error.to_string()));
    }
    serde_saphyr::from_multiple(text).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        explained("YAML", line, &error.without_snippet().to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds_of(text: &str) -> Result<Vec<String>, String> {
        let manifest = Manifest::parse(Path::new("m.yaml"), text).map_err(|error| error.to_string())?;
        Ok(manifest
            .objects
            .iter()
            .map(|object| object["kind"].as_str().unwrap_or_default().to_owned())
            .collect())
    }

    #[test]
    fn json_and_yaml_lists_and_single_objects_are_read() {
        let json = r#"{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}]}"#;
        assert_eq!(kinds_of(json).unwrap(), ["Node"]);
        let yaml = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: b\n";
        assert_eq!(kinds_of(yaml).unwrap(), ["Node", "Service"]);
    }

    #[test]
    fn the_items_of_a_typed_list_are_read() {
        let json = r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}]}"#;
        assert_eq!(kinds_of(json).unwrap(), ["Pod"]);
    }

    #[test]
    fn kinds_that_are_not_stored_are_skipped_and_named_once() {
        let deployment =
            |name: &str| format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\n---\n");
        let others = "apiVersion: v1\nkind: Servise\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n\
                      ---\napiVersion: batch/v1\nkind: Job\nmetadata: {generateName: c-}\n";
        let text = deployment("one") + &deployment("two") + others;
        let manifest = Manifest::parse(Path::new("m.yaml"), &text).unwrap();
        assert_eq!(kinds_of(&text).unwrap(), ["Node"]);
        let skipped: Vec<&str> = manifest.skipped.iter().map(String::as_str).collect();
        assert_eq!(skipped, ["Deployment of apps/v1", "Job of batch/v1", "Servise of v1"]);
    }

    #[test]
    fn an_invalid_manifest_is_reported_on_one_line() {
        let errors = [
            kinds_of("{\"kind\":\n "),
            kinds_of("kind: Node\nmetadata: {name: [}\n"),
            kinds_of("kind: Node\n\tname: a\n"),
            kinds_of("kind: Node\n---\nkind: [a\n"),
            kinds_of("kind: Node\n"),
            kinds_of("{\"kind\":\"List\",\"apiVersion\":\"v1\"}"),
            kinds_of("just words"),
        ]
        .map(Result::unwrap_err);
        assert!(errors.iter().all(|error| !error.contains('\n')));
        insta::assert_snapshot!(errors.join("\n"));
    }

    #[test]
    fn the_sample_has_inputs_and_no_outputs_of_the_controllers() {
        let Manifest { objects, skipped, .. } =
            Manifest::parse(Path::new("sample"), super::super::SAMPLE).unwrap();
        assert!(skipped.is_empty(), "{skipped:?}");
        let count = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).count();
        assert_eq!(
            (count("Node"), count("Service"), count("EndpointSlice"), count("Endpoints")),
            (6, 9, 0, 1)
        );
        assert_eq!(count("Pod"), 19);
    }
}
