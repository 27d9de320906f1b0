//! Tests the fields on which findings rest: of each manifest of `integration-tests/faults`, the
//! objects have the values that the evidence names.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::collections::BTreeSet;

use kube_endpoint_explain::{Code, Evidence};
use serde_json::{Value, json};

use crate::fault_manifests::manifests;
use crate::faults::State;

/// Returns the first part of a path, and the rest. A key may have escaped dots.
fn step(path: &str) -> (String, &str) {
    let rest = path.strip_prefix('.').unwrap_or(path);
    let mut key = String::new();
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => key.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (key, &rest[at..]),
            c => key.push(c),
        }
    }
    (key, "")
}

/// Evaluates as much of JSONPath as evidence has: keys, `[*]` and `[?(@.name=="value")]`.
fn at<'v>(value: &'v Value, path: &str) -> Vec<&'v Value> {
    if path.is_empty() {
        return vec![value];
    }
    let Some(filter) = path.strip_prefix('[') else {
        let (key, rest) = step(path);
        return at(&value[&key], rest);
    };
    let (filter, rest) = filter.split_once(']').unwrap();
    let wanted = filter.strip_prefix("?(@.").map(|it| it.trim_end_matches(')').split_once("==").unwrap());
    let holds = |item: &&Value| {
        wanted.is_none_or(|(key, want)| item[key] == serde_json::from_str::<Value>(want).unwrap())
    };
    value.as_array().into_iter().flatten().filter(holds).flat_map(|item| at(item, rest)).collect()
}

/// Returns true if an object has a value at a path. Of a list or a map, evidence shows a part.
fn has(object: &Value, path: &str, value: Option<&str>) -> bool {
    let found: Vec<&Value> = at(object, path).into_iter().filter(|it| !it.is_null()).collect();
    match (value, &*found) {
        (None, found) => found.iter().all(|it| **it == json!([]) || **it == json!({})),
        (Some(_), []) => false,
        (Some(value), [Value::String(text), ..]) => text == value,
        (Some(_), [Value::Array(_) | Value::Object(_), ..]) => true,
        (Some(value), [other, ..]) => serde_json::from_str(value).is_ok_and(|value: Value| value == **other),
    }
}

fn line(evidence: &Evidence) -> String {
    let Evidence { object, field, value, .. } = evidence;
    let value = value.as_ref().map_or("null".to_owned(), |value| format!("{value:?}"));
    format!("  {} {}/{} {field} = {value}\n", object.kind, object.namespace, object.name)
}

/// The evidence of each code, as a reader of JSON gets it.
#[test]
fn each_finding_names_the_fields_that_it_rests_on() {
    let (mut texts, mut seen) = (String::new(), BTreeSet::new());
    for (file, fault) in manifests() {
        let state = State::of(&fault);
        let code: Code = fault.code.parse().unwrap();
        let of_service = state.explained().map(|it| it.to_do).unwrap_or_default();
        let of_service = of_service.into_iter().map(|it| (it.code, it.evidence));
        let of_others = state.linted().problems.into_iter().map(|it| (it.code, it.evidence));
        let found = of_service.chain(of_others).find(|(it, _)| *it == code);
        let Some((_, evidence)) = found.filter(|_| seen.insert(code)) else { continue };
        assert!(!evidence.is_empty() || code == Code::NotKnown || code == Code::ClusterUnserved, "{file}");
        texts += &format!("{code} {file}\n{}", evidence.iter().map(line).collect::<String>());
    }
    insta::assert_snapshot!(texts);
}

/// Fields that the object has with another text than evidence, which shows what kubectl would.
const TEXTS: [&str; 3] = [".spec.selector", ".spec.podSelector", ".metadata.ownerReferences"];

#[test]
fn the_objects_have_the_values() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (file, fault) in manifests() {
        let state = State::of(&fault);
        let to_do = state.explained().map(|it| it.to_do).unwrap_or_default();
        let of_lint = state.linted().problems.into_iter().flat_map(|it| it.evidence);
        for evidence in to_do.into_iter().flat_map(|it| it.evidence).chain(of_lint) {
            let Evidence { object, field, value, .. } = &evidence;
            assert!(field.starts_with('.'), "{file}: {field}");
            assert!(value.as_ref().is_none_or(|value| value.chars().count() <= 200), "{file}: {value:?}");
            let is = |it: &&Value| {
                let metadata = &it["metadata"];
                it["kind"] == *object.kind
                    && metadata["name"] == *object.name
                    && (object.namespace.is_empty()
                        || metadata["namespace"].as_str().unwrap_or("default") == &*object.namespace)
            };
            let holds = match state.objects().iter().find(is) {
                Some(it) => has(it, field, value.as_deref()) || TEXTS.contains(&&**field),
                None => value.is_none(),
            };
            checked += 1;
            if !holds {
                wrong.push(format!("{file}:{}", line(&evidence)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
    assert!(checked > 150, "{checked}");
}
