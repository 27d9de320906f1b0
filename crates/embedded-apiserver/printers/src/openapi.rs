//! OpenAPI documents: the definitions of all kinds, which kubectl uses to validate, explain and
//! patch, and for each resource the paths where kubectl looks up the query parameters `dryRun` and
//! `fieldValidation`.

mod protobuf;

use std::collections::BTreeSet;

use kube_endpoint_apiserver_rules::patch::definitions;
use kube_endpoint_apiserver_rules::resource::{self, Resource};
use serde_json::{Map, Value, json};

/// The `Content-Type` of [`v2_protobuf`].
pub const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The name in kubectl's `Accept` header. A response must not use it, since Go rejects the `@` as a
/// syntax error.
const V2_PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

const KIND: &str = "x-kubernetes-group-version-kind";
const V2_REFERENCE: &str = "#/definitions/";
const V3_REFERENCE: &str = "#/components/schemas/";

/// Returns the document of `/openapi/v2`.
pub fn v2_json() -> Value {
    let mut paths = Map::new();
    for resource in resource::all() {
        add_paths(resource, &mut paths, |name| json!({"name": name, "in": "query", "type": "string"}));
    }
    json!({"swagger": "2.0", "info": info(), "paths": paths, "definitions": definitions()})
}

/// Returns the document of `/openapi/v2` in protobuf, as `gnostic`'s `openapi.v2.Document`.
pub fn v2_protobuf() -> Vec<u8> {
    protobuf::document(&v2_json())
}

/// Returns true if an `Accept` header prefers protobuf to JSON for OpenAPI v2.
pub fn wants_v2_protobuf(accept: &str) -> bool {
    for range in crate::represent::media_ranges(accept) {
        match range.media_type {
            V2_PROTOBUF | V2_PROTOBUF_ASKED => return true,
            "application/json" | "application/*" | "*/*" => return false,
            _ => {}
        }
    }
    false
}

/// Returns the document of `/openapi/v3`: the URLs of the documents of the group versions. The hash
/// in a URL changes with the document, since clients cache documents.
pub fn v3_index() -> Value {
    let mut paths = Map::new();
    for resource in resource::all() {
        let path = resource.root();
        if let Some(document) = v3(resource.group, resource.version) {
            let url = format!("/openapi/v3{path}?hash={:016X}", hash(document.to_string().as_bytes()));
            paths.insert(path.trim_start_matches('/').to_owned(), json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// Returns the document of `/openapi/v3/api/v1` (with an empty group) or
/// `/openapi/v3/apis/GROUP/VERSION`, if there is such a version. It exists only as JSON, which is
/// what kubectl reads.
pub fn v3(group: &str, version: &str) -> Option<Value> {
    let all = definitions();
    let (mut paths, mut used) = (Map::new(), BTreeSet::new());
    for resource in resource::all().filter(|r| r.group == group && r.version == version) {
        add_paths(
            resource,
            &mut paths,
            |name| json!({"name": name, "in": "query", "schema": {"type": "string"}}),
        );
        for (name, definition) in &all {
            if definition.get(KIND) == Some(&json!([kind(resource)])) {
                add_reachable(name, &all, &mut used);
            }
        }
    }
    if paths.is_empty() {
        return None;
    }
    let schemas: Map<String, Value> = all
        .into_iter()
        .filter(|(name, _)| used.contains(name))
        .map(|(name, mut definition)| {
            rewrite_references(&mut definition);
            (name, definition)
        })
        .collect();
    Some(json!({
        "openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": schemas},
    }))
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": crate::git_version(crate::MINOR_VERSION)})
}

fn kind(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

/// Adds the paths of a resource's collection and of one object. The operations have only the fields
/// that clients read.
fn add_paths(resource: &Resource, paths: &mut Map<String, Value>, query: impl Fn(&str) -> Value) {
    let namespace = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{}{namespace}/{}", resource.root(), resource.plural);
    let operation = |id: &str, action: &str, parameters: &[&str]| {
        let parameters: Vec<Value> = parameters.iter().map(|name| query(name)).collect();
        json!({
            "operationId": format!("{id}{}{}{}", capitalized(resource.version), resource.kind, resource.group),
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action,
            KIND: kind(resource),
        })
    };
    const CHANGE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
    let mut on_collection = Map::new();
    on_collection.insert("post".to_owned(), operation("create", "post", &CHANGE));
    if resource.is_stored() {
        on_collection
            .insert("get".to_owned(), operation("list", "list", &["labelSelector", "fieldSelector"]));
        let on_object = json!({
            "get": operation("read", "get", &[]),
            "put": operation("replace", "put", &CHANGE),
            "patch": operation("patch", "patch", &CHANGE),
            "delete": operation("delete", "delete", &["dryRun", "propagationPolicy"]),
        });
        paths.insert(format!("{collection}/{{name}}"), on_object);
    }
    paths.insert(collection, Value::Object(on_collection));
}

fn capitalized(version: &str) -> String {
    let mut chars = version.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), chars.as_str()))
}

/// Adds a definition and all definitions that it refers to.
fn add_reachable(name: &str, all: &Map<String, Value>, used: &mut BTreeSet<String>) {
    let Some(definition) = all.get(name) else { return };
    if used.insert(name.to_owned()) {
        let mut references = Vec::new();
        collect_references(definition, &mut references);
        for reference in references {
            add_reachable(reference, all, used);
        }
    }
}

fn collect_references<'a>(value: &'a Value, references: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            let reference = object.get("$ref").and_then(Value::as_str);
            references.extend(reference.and_then(|reference| reference.strip_prefix(V2_REFERENCE)));
            object.values().for_each(|value| collect_references(value, references));
        }
        Value::Array(list) => list.iter().for_each(|value| collect_references(value, references)),
        _ => {}
    }
}

/// Rewrites references of version 2 as references of version 3.
fn rewrite_references(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get_mut("$ref") {
                *reference = reference.replace(V2_REFERENCE, V3_REFERENCE);
            }
            object.values_mut().for_each(rewrite_references);
        }
        Value::Array(list) => list.iter_mut().for_each(rewrite_references),
        _ => {}
    }
}

/// FNV-1a: the same on every run and machine.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_kind_can_be_patched_with_field_validation() {
        let document = v2_json();
        for resource in resource::all().filter(|resource| resource.is_stored()) {
            let patch = document["paths"]
                .as_object()
                .unwrap()
                .values()
                .map(|path| &path["patch"])
                .find(|patch| patch[KIND] == kind(resource))
                .unwrap();
            let names: Vec<&Value> =
                patch["parameters"].as_array().unwrap().iter().map(|parameter| &parameter["name"]).collect();
            assert!(names.contains(&&json!("dryRun")) && names.contains(&&json!("fieldValidation")));
        }
    }

    #[test]
    fn the_index_lists_every_version() {
        let index = v3_index();
        let paths = index["paths"].as_object().unwrap();
        for (path, entry) in paths {
            let url = entry["serverRelativeURL"].as_str().unwrap();
            assert!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
        }
        assert!(paths.contains_key("api/v1") && paths.contains_key("apis/discovery.k8s.io/v1"));
    }

    #[test]
    fn a_version_has_the_schemas_of_its_kinds() {
        let document = v3("discovery.k8s.io", "v1").unwrap();
        let names: Vec<&String> = document["components"]["schemas"].as_object().unwrap().keys().collect();
        insta::assert_json_snapshot!("v3_schemas", names);
        insta::assert_json_snapshot!("v3_paths", document["paths"]);
        assert!(!document.to_string().contains(V2_REFERENCE));
        assert_eq!(v3("apps", "v1"), None);
    }

    #[test]
    fn protobuf_is_negotiated() {
        assert!(wants_v2_protobuf(V2_PROTOBUF));
        assert!(wants_v2_protobuf(&format!("{V2_PROTOBUF_ASKED}, */*")));
        assert!(!wants_v2_protobuf("application/json, */*"));
        assert!(!wants_v2_protobuf(""));
    }
}
