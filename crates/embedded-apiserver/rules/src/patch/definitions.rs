//! The object types as OpenAPI v2 definitions: fields, types and the merge keys that clients need
//! to compute a strategic merge patch.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::schema::Schema;
use crate::resource::{self, Resource};
use crate::schema::{GoType, Shape};

const REFERENCE: &str = "#/definitions/";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
/// Types of apimachinery's `meta/v1`, which all groups share.
const META: [&str; 4] = ["Condition", "ManagedFieldsEntry", "ObjectMeta", "OwnerReference"];

/// The descriptions of types and fields, by `TYPE` and `TYPE.FIELD`.
static DESCRIPTIONS: LazyLock<BTreeMap<&'static str, &'static str>> = LazyLock::new(|| {
    let lines = include_str!("descriptions.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(": ")).collect()
});

/// Adds the description of a type or field, if there is one.
fn describe(definition: &mut Value, of: &str) {
    if let Some(text) = DESCRIPTIONS.get(of) {
        definition["description"] = json!(text);
    }
}

/// Returns the definitions of all kinds and of the types in them, by name, such as
/// `io.k8s.api.core.v1.Pod`. References start with `#/definitions/`. The definitions mark no field
/// as required: validation reports missing fields.
pub fn definitions() -> Map<String, Value> {
    let mut walk = Walk::default();
    for resource in resource::all() {
        let name = walk.visit(resource.go_type, resource.patch_schema, resource);
        if let Some(definition) = walk.definitions.get_mut(&name) {
            definition["x-kubernetes-group-version-kind"] =
                json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
        }
    }
    let quantity = json!({"type": "string", "description": "An amount, such as 500m, 2 or 64Mi."});
    walk.definitions.insert(QUANTITY.to_owned(), quantity);
    walk.definitions
}

/// The types so far. The name of a type contains the group that first uses it.
#[derive(Default)]
struct Walk {
    names: BTreeMap<*const GoType, String>,
    definitions: Map<String, Value>,
}

impl Walk {
    /// Defines a type unless it is defined already, and returns its name.
    fn visit(&mut self, go_type: &'static GoType, merging: &Schema, root: &Resource) -> String {
        if let Some(name) = self.names.get(&std::ptr::from_ref(go_type)) {
            return name.clone();
        }
        let name = if META.contains(&go_type.name) {
            format!("io.k8s.apimachinery.pkg.apis.meta.v1.{}", go_type.name)
        } else {
            // The name of a Go package is the first part of the group.
            let package = root.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
            format!("io.k8s.api.{package}.{}.{}", root.version, go_type.name)
        };
        self.names.insert(go_type, name.clone());
        let mut properties = Map::new();
        for field in go_type.fields {
            let merging = merging.field(field.name);
            let mut property = self.shape(&field.shape, merging.schema, root);
            if let Some(key) = merging.merge_key {
                property["x-kubernetes-patch-strategy"] = json!("merge");
                if !key.is_empty() {
                    property["x-kubernetes-patch-merge-key"] = json!(key);
                }
            }
            describe(&mut property, &format!("{}.{}", go_type.name, field.name));
            properties.insert(field.name.to_owned(), property);
        }
        let mut definition = json!({"type": "object", "properties": properties});
        describe(&mut definition, go_type.name);
        self.definitions.insert(name.clone(), definition);
        name
    }

    fn shape(&mut self, shape: &'static Shape, merging: &Schema, root: &Resource) -> Value {
        match shape {
            Shape::Text(_) => json!({"type": "string"}),
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Int32 => json!({"type": "integer", "format": "int32"}),
            Shape::Int64 => json!({"type": "integer", "format": "int64"}),
            Shape::Quantity => json!({"$ref": format!("{REFERENCE}{QUANTITY}")}),
            Shape::Time | Shape::MicroTime => json!({"type": "string", "format": "date-time"}),
            Shape::IntOrString => json!({"type": "string", "format": "int-or-string"}),
            Shape::Any => json!({"type": "object"}),
            Shape::Object(go_type) => {
                json!({"$ref": format!("{REFERENCE}{}", self.visit(go_type, merging, root))})
            }
            Shape::List(item) => json!({"type": "array", "items": self.shape(item, merging, root)}),
            Shape::Map(item) => {
                json!({"type": "object", "additionalProperties": self.shape(item, merging, root)})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_defined_and_every_reference_resolves() {
        let definitions = definitions();
        let mut kinds = 0;
        for (name, definition) in &definitions {
            kinds += usize::from(definition.get("x-kubernetes-group-version-kind").is_some());
            let text = definition.to_string();
            for reference in text.split(REFERENCE).skip(1) {
                let target = reference.split('"').next().unwrap();
                assert!(definitions.contains_key(target), "{name}: {target}");
            }
        }
        assert_eq!(kinds, resource::all().len());
    }

    #[test]
    fn every_description_is_one_sentence_about_something_that_exists() {
        let definitions = definitions();
        let has = |of: &str| {
            let (type_name, field) =
                of.split_once('.').map_or((of, None), |(name, field)| (name, Some(field)));
            definitions.iter().any(|(name, definition)| {
                name.rsplit('.').next() == Some(type_name)
                    && field.is_none_or(|field| definition["properties"].get(field).is_some())
            })
        };
        let lines = include_str!("descriptions.txt").lines().filter(|line| !line.starts_with('#'));
        assert_eq!(lines.count(), DESCRIPTIONS.len(), "each line is one entry, and none occurs twice");
        for (of, text) in &*DESCRIPTIONS {
            assert!(has(of), "{of}");
            assert!(text.ends_with('.') && !text.contains(". "), "{of}: {text}");
        }
    }

    #[test]
    fn definitions_have_merge_keys() {
        let definitions = definitions();
        let property = |definition: &str, field: &str| definitions[definition]["properties"][field].clone();
        insta::assert_json_snapshot!(
            [
                property("io.k8s.api.core.v1.ServiceSpec", "ports"),
                property("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers"),
                property("io.k8s.api.core.v1.Container", "env"),
                property("io.k8s.api.discovery.v1.EndpointSlice", "endpoints"),
            ],
            @r##"
        [
          {
            "description": "The ports of the Service; several need names.",
            "items": {
              "$ref": "#/definitions/io.k8s.api.core.v1.ServicePort"
            },
            "type": "array",
            "x-kubernetes-patch-merge-key": "port",
            "x-kubernetes-patch-strategy": "merge"
          },
          {
            "description": "Names of those who must agree before the object disappears.",
            "items": {
              "type": "string"
            },
            "type": "array",
            "x-kubernetes-patch-strategy": "merge"
          },
          {
            "items": {
              "$ref": "#/definitions/io.k8s.api.core.v1.EnvVar"
            },
            "type": "array",
            "x-kubernetes-patch-merge-key": "name",
            "x-kubernetes-patch-strategy": "merge"
          },
          {
            "description": "The endpoints of the slice, at most 1000.",
            "items": {
              "$ref": "#/definitions/io.k8s.api.discovery.v1.Endpoint"
            },
            "type": "array"
          }
        ]
        "##
        );
    }
}
