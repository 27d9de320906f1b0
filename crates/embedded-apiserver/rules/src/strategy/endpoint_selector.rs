//! EndpointSelectors, a custom resource: the schema and the rules of
//! `deploy/crds/endpointselectors.yaml`, with the answers of a real API server.

use serde_json::{Map, Value};

use crate::validation::errors::Raw;
use crate::validation::metadata::{self, NameRule};
use crate::validation::names::{dns1123_subdomain, label_value, qualified_name};
use crate::validation::{Errors, Path};
use crate::value::Fields;

use super::Strategy;
use super::structural::{Pattern, Schema, prune, validate};

const LONGEST_NAME: usize = 63;
const LONGEST_LEASE_NAME: usize = 253;

const KEY: Pattern = Pattern {
    text: r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    // The schema limits the length of the whole key otherwise.
    matches: |key| qualified_name(key).is_empty(),
};

const VALUE: Pattern = Pattern {
    text: "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    matches: |value| label_value(value.get(..LONGEST_NAME).unwrap_or(value)).is_empty(),
};

const PREFIXED_KEY: Pattern = Pattern {
    text: r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    matches: |key| key.contains('/') && qualified_name(key).is_empty(),
};

const NAME: Pattern = Pattern {
    text: r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    matches: |name| dns1123_subdomain(name.get(..LONGEST_LEASE_NAME).unwrap_or(name)).is_empty(),
};

const LABEL_VALUE: Schema = Schema::Text { longest: 63, pattern: Some(VALUE) };
const EXPRESSION: Schema = Schema::Object {
    fields: &[
        ("key", Schema::Text { longest: 317, pattern: Some(KEY) }),
        ("operator", Schema::OneOf(&["In", "NotIn", "Exists", "DoesNotExist"])),
        ("values", Schema::List { items: &LABEL_VALUE, most: 64 }),
    ],
    required: &["key", "operator"],
};
const SELECTOR: Schema = Schema::Object {
    fields: &[
        ("matchLabels", Schema::Map { values: &LABEL_VALUE, most: 16 }),
        ("matchExpressions", Schema::List { items: &EXPRESSION, most: 16 }),
    ],
    required: &[],
};
const LEASE: Schema = Schema::Object {
    fields: &[
        ("name", Schema::Text { longest: LONGEST_LEASE_NAME, pattern: Some(NAME) }),
        ("role", Schema::OneOf(&["Leader", "Follower"])),
    ],
    required: &["name"],
};
const READINESS: Schema = Schema::Object {
    fields: &[
        ("lease", LEASE),
        ("condition", Schema::Text { longest: 317, pattern: Some(PREFIXED_KEY) }),
        ("pick", Schema::OneOf(&["All", "Newest"])),
    ],
    required: &[],
};
const SPEC: Schema =
    Schema::Object { fields: &[("selector", SELECTOR), ("readiness", READINESS)], required: &["selector"] };
const CONDITION: Schema = Schema::Object {
    fields: &[
        ("type", Schema::Text { longest: 316, pattern: None }),
        ("status", Schema::OneOf(&["True", "False", "Unknown"])),
        ("reason", Schema::Text { longest: 1024, pattern: None }),
        ("message", Schema::Text { longest: 32768, pattern: None }),
        ("observedGeneration", Schema::Integer),
        ("lastTransitionTime", Schema::Text { longest: usize::MAX, pattern: None }),
    ],
    required: &["type", "status", "reason", "lastTransitionTime"],
};
const STATUS: Schema = Schema::Object {
    fields: &[
        ("observedGeneration", Schema::Integer),
        ("services", Schema::Integer),
        ("conditions", Schema::List { items: &CONDITION, most: usize::MAX }),
    ],
    required: &[],
};

/// The strategy of EndpointSelectors.
pub(crate) struct EndpointSelectorStrategy;

/// The strategy of the status of EndpointSelectors.
pub(crate) struct EndpointSelectorStatusStrategy;

impl Strategy for EndpointSelectorStrategy {
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn drop_unknown_fields(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        for (field, schema) in [("spec", &SPEC), ("status", &STATUS)] {
            if let Some(value) = object.get_mut(field) {
                prune(schema, value, field, &mut unknown);
            }
        }
        unknown
    }

    fn prepare_for_create(&self, object: &mut Value) {
        object.drop_field("status");
        object.child("metadata").set("generation", 1);
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        metadata::validate(&object["metadata"], true, NameRule::Subdomain, errors);
        validate_all(object, errors);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        match old.get("status") {
            Some(status) => new.set("status", status.clone()),
            None => new.drop_field("status"),
        }
        if new.get("spec") != old.get("spec") {
            let generation = old["metadata"].int("generation").wrapping_add(1);
            new.child("metadata").set("generation", generation);
        }
    }

    fn validate_update(&self, new: &Value, _: &Value, errors: &mut Errors) {
        validate_all(new, errors);
    }
}

impl Strategy for EndpointSelectorStatusStrategy {
    /// A status update changes nothing but the status, and what the server itself writes.
    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        new.copy("spec", old);
        let mut metadata = old["metadata"].clone();
        for field in ["managedFields", "resourceVersion"] {
            metadata.copy(field, &new["metadata"]);
        }
        new.set("metadata", metadata);
    }

    fn validate_update(&self, new: &Value, _: &Value, errors: &mut Errors) {
        validate_all(new, errors);
    }
}

fn validate_all(object: &Value, errors: &mut Errors) {
    let empty = Value::Object(Map::new());
    let mut goes_on = true;
    match object.get("spec").filter(|spec| !spec.is_null()) {
        Some(spec) => goes_on &= validate(&SPEC, spec, &Path::Root("spec"), errors),
        None => {
            errors.required(&Path::Root("spec"), "");
            goes_on = false;
        }
    }
    let status = object.get("status").filter(|status| !status.is_null()).unwrap_or(&empty);
    goes_on &= validate(&STATUS, status, &Path::Root("status"), errors);
    // The real server calls the whole object so.
    let whole = Path::Root("<nil>");
    if !goes_on {
        let why = "some validation rules were not checked because the object was invalid; correct the existing \
                   errors to complete validation";
        errors.invalid(&whole, &Raw("null".to_owned()), why);
        return;
    }
    if object["metadata"].text("name").len() > LONGEST_NAME {
        errors.rule(
            &whole,
            "a label of EndpointSlices has the name as its value, so it may have at most 63 characters",
        );
    }
    let root = Path::Root("spec");
    if let Some(readiness) = object["spec"].get("readiness").filter(|readiness| !readiness.is_null()) {
        let at = root.child("readiness");
        let has = |field: &str| readiness.get(field).is_some_and(|field| !field.is_null());
        if has("condition") == has("lease") {
            errors.rule(&at, "give it exactly one of lease and condition");
        }
        if has("pick") && !has("condition") {
            errors.rule(&at, "pick goes with a condition, not with a lease");
        }
    }
    let selector = &object["spec"]["selector"];
    let at = root.child("selector");
    let expressions = selector.list("matchExpressions");
    if expressions.is_empty() && selector["matchLabels"].as_object().is_none_or(Map::is_empty) {
        errors.rule(&at, "an empty selector would select every pod; give it matchLabels or matchExpressions");
    }
    let at = at.child("matchExpressions");
    for (index, expression) in expressions.iter().enumerate() {
        let compares = ["In", "NotIn"].contains(&expression.text("operator"));
        if compares == expression.list("values").is_empty() {
            let why = "In and NotIn need values, Exists and DoesNotExist take none";
            errors.rule(&at.index(index), why);
        }
    }
}
