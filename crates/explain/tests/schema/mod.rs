//! Tests that `docs/explain.schema.json`, the JSON Schema of the plugin's documents, is current,
//! and that what the library serialises is as it says. It is made of `types.txt`, and of the codes
//! and other words of the library: `UPDATE_DOCS=1 cargo test -p kube-endpoint-explain schema`.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod documents;

use std::collections::BTreeMap;

use kube_endpoint_core_model::AddressType;
use kube_endpoint_explain::doctor::{Answer, LeaseState};
use kube_endpoint_explain::leftovers::{Outcome, OutputKind};
use kube_endpoint_explain::retire::{EvidenceKind, Source, Verdict};
use kube_endpoint_explain::{
    API_VERSION, Attachment, Code, HintReason, PatchForm, Person, Publication, ServedBy, Severity, Status,
    TrafficLost, Verb,
};
use serde_json::{Map, Value, json};

use crate::generated;
use crate::json_schema::Schema;

/// The kinds of documents, and the commands that print them.
const KINDS: [(&str, &str); 9] = [
    ("ServiceExplanation", "explain"),
    ("BriefExplanation", "explain --brief"),
    ("PodExplanation", "explain pod"),
    ("BackendsExplanation", "explain ingress, deployment and the like"),
    ("LintReport", "lint"),
    ("Diff", "diff"),
    ("DoctorReport", "doctor"),
    ("Cleanup", "cleanup"),
    ("RetireReport", "retire"),
];

/// Returns the values of an enumeration as they serialise. It does not compile if one is missing.
macro_rules! values {
    ($type:ident: $($value:ident)*) => { values!($type: $($value)*; ) };
    ($type:ident, non_exhaustive: $($value:ident)*) => { values!($type: $($value)*; _ => ()) };
    ($type:ident: $($value:ident)*; $($rest:tt)*) => {{
        let _ = |value: $type| match value {
            $($type::$value => (),)*
            $($rest)*
        };
        json!([$($type::$value),*])
    }};
}

/// Returns the words that the library defines.
fn words() -> Vec<(&'static str, Value)> {
    let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    let of = |values: &Value, tag: &str| {
        values.as_array().unwrap().iter().map(|value| value[tag].clone()).collect::<Value>()
    };
    let text = || "a".into();
    let served_by =
        json!([ServedBy::KubeProxy, ServedBy::OtherProxy { name: text() }, ServedBy::Dns, ServedBy::Nobody,]);
    let hints = json!([
        HintReason::NotAsked,
        HintReason::NotReady,
        HintReason::NoZone,
        HintReason::OwnZone,
        HintReason::OwnNode,
        HintReason::OtherZone { from: text(), to: text() },
        HintReason::Withheld { message: String::new() },
        HintReason::Unexpected,
    ]);
    vec![
        ("Code", json!(Code::ALL)),
        ("CodeName", json!(names)),
        ("Severity", values!(Severity: Info Warning Error)),
        ("Status", values!(Status: Ok NoEndpoints Unknown Starting Degraded Down)),
        ("TrafficLost", values!(TrafficLost: None Some All)),
        ("Publication", values!(Publication: Ready NotReady LeftOut)),
        ("Person", values!(Person: ServiceOwner PodOwner EndpointsWriter ClusterAdministrator)),
        ("PatchForm", values!(PatchForm: Merge Json)),
        ("Verb", values!(Verb: Create Update Delete)),
        ("Outcome", values!(Outcome: Found Deleted Gone Kept Unchecked Failed)),
        ("OutputKind", values!(OutputKind: EndpointSlice Endpoints)),
        ("AddressType", values!(AddressType: IPv4 IPv6 Fqdn)),
        ("Answer", values!(Answer: Yes No NotKnown)),
        ("LeaseState", values!(LeaseState: Held Expired Released Reserved)),
        ("EvidenceKind", values!(EvidenceKind: Reader Refused Writer)),
        ("EvidenceSource", values!(Source: Server Metrics AuditLog)),
        ("NamespaceWord", values!(Verdict: Refuse Unknown NoReaderSeen)),
        (
            "Attachment",
            values!(Attachment, non_exhaustive: Attached Held Shrinking NotKnown HandedBack HandingBack),
        ),
        ("ServedByWord", of(&served_by, "by")),
        ("HintWord", of(&hints, "why")),
    ]
}

/// Returns the schema of a type in the notation of `types.txt`.
fn of_type(name: &str) -> Value {
    let between = |open, close| name.strip_prefix(open).and_then(|rest: &str| rest.strip_suffix(close));
    if let Some(item) = between('[', ']') {
        return json!({"type": "array", "items": of_type(item)});
    }
    if let Some(value) = between('{', '}') {
        return json!({"type": "object", "additionalProperties": of_type(value)});
    }
    if let Some(word) = between('\'', '\'') {
        return json!({"const": word});
    }
    if name.contains('|') {
        return json!({"oneOf": name.split('|').map(of_type).collect::<Vec<_>>()});
    }
    match name {
        "text" => json!({"type": "string"}),
        "time" => json!({"type": "string", "format": "date-time"}),
        "bool" => json!({"type": "boolean"}),
        "count" => json!({"type": "integer", "minimum": 0}),
        "integer" | "object" | "null" => json!({"type": name}),
        "any" => json!({}),
        _ => json!({"$ref": format!("#/$defs/{name}")}),
    }
}

/// Adds the fields of a line of `types.txt`.
fn add(
    fields: &str,
    types: &BTreeMap<&str, &str>,
    properties: &mut Map<String, Value>,
    required: &mut Vec<String>,
) {
    for field in fields.split_whitespace() {
        if let Some(other) = field.strip_prefix("...") {
            add(types[other], types, properties, required);
            continue;
        }
        let (name, of) = field.split_once(':').unwrap();
        properties.insert(name.trim_end_matches('?').to_owned(), of_type(of));
        if !name.ends_with('?') {
            required.push(name.to_owned());
        }
    }
}

fn expected() -> Value {
    let lines = include_str!("types.txt").lines().filter(|line| !line.starts_with('#'));
    let types: BTreeMap<&str, &str> = lines.filter_map(|line| line.split_once(' ')).collect();
    let mut defs: Map<String, Value> =
        words().into_iter().map(|(name, words)| (name.to_owned(), json!({"enum": words}))).collect();
    for (name, fields) in &types {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let kind = KINDS.iter().find(|(kind, _)| kind == name);
        if kind.is_some() {
            required.extend(["apiVersion", "kind"].map(str::to_owned));
            properties.insert("apiVersion".to_owned(), json!({"const": API_VERSION}));
            properties.insert("kind".to_owned(), json!({"const": name}));
        }
        add(fields, &types, &mut properties, &mut required);
        let mut def = json!({"type": "object", "required": required, "properties": properties});
        if let Some((_, command)) = kind {
            def["description"] = format!("What `kubectl diagnose-svc {command}` prints").into();
        }
        defs.insert((*name).to_owned(), def);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/explain.schema.json"),
        "title": "Documents that kubectl diagnose-svc prints with -o json and -o yaml",
        "oneOf": KINDS.map(|(kind, _)| of_type(kind)),
        "$defs": defs,
    })
}

#[test]
fn the_published_schema_is_current() {
    let expected = serde_json::to_string_pretty(&expected()).unwrap() + "\n";
    generated::check("docs/explain.schema.json", &expected, "-p kube-endpoint-explain schema");
}

/// Documents have no field that the schema lacks, and each field of the schema is in a document.
#[test]
fn documents_are_as_the_schema_says() {
    let schema = Schema::closed(expected());
    let mut failed = Vec::new();
    for (of, document) in documents::all() {
        if let Err(error) = schema.check(&document) {
            failed.push(format!("{of}: {} {error}", document["kind"]));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let defs = schema.schema["$defs"].as_object().unwrap();
    let described = defs.iter().flat_map(|(def, part)| {
        let fields = part["properties"].as_object().into_iter().flatten();
        fields.map(move |(name, _)| format!("{def}.{name}"))
    });
    let seen = schema.seen.borrow();
    // The fields of a remedy are printed among those of a finding.
    let unseen: Vec<String> =
        described.filter(|field| !field.starts_with("Remedy.") && !seen.contains(field)).collect();
    assert!(unseen.is_empty(), "no document has {unseen:#?}");
}

/// Returns the pointers to all values in a value that the schema describes.
fn pointers(value: &Value, pointer: &str, all: &mut Vec<String>) {
    all.push(pointer.to_owned());
    for (name, field) in value.as_object().into_iter().flatten() {
        let pointer = format!("{pointer}/{}", name.replace('/', "~1"));
        match &**name {
            "patch" => {}
            "details" | "nobody" => all.push(pointer),
            _ => pointers(field, &pointer, all),
        }
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        pointers(item, &format!("{pointer}/{i}"), all);
    }
}

/// The documents of the recorded clusters, with each value in turn of a wrong type, and without
/// each field in turn that must be there.
#[test]
fn a_document_with_a_wrong_type_or_without_a_field_is_refused() {
    let schema = Schema::of(expected());
    let mut seen = BTreeMap::new();
    for (_, document) in documents::recorded() {
        schema.check(&document).unwrap();
        *seen.entry(document["kind"].to_string()).or_insert(0) += 1;
        let mut all = Vec::new();
        pointers(&document, "", &mut all);
        for pointer in all {
            let mut wrong = document.clone();
            // No field has a fraction.
            *wrong.pointer_mut(&pointer).unwrap() = json!(1.5);
            assert!(schema.check(&wrong).is_err(), "{pointer} of {}", document["kind"]);
        }
        let definition = &schema.schema["$defs"][document["kind"].as_str().unwrap()];
        for name in definition["required"].as_array().unwrap() {
            let mut without = document.clone();
            without.as_object_mut().unwrap().remove(name.as_str().unwrap());
            assert!(schema.check(&without).is_err(), "{name}");
        }
    }
    assert_eq!(seen.len(), KINDS.len(), "{seen:?}");
}

#[test]
fn words_that_do_not_exist_are_refused() {
    let schema = Schema::of(expected());
    let (_, document) = documents::recorded().swap_remove(0);
    for pointer in ["/apiVersion", "/kind", "/verdict/status", "/verdict/code", "/toDo/0/steps/0/step"] {
        let mut wrong = document.clone();
        *wrong.pointer_mut(pointer).unwrap() = "EP000-like".into();
        assert!(schema.check(&wrong).is_err(), "{pointer}");
    }
    let mut later = document;
    later["verdict"]["aFieldOfALaterRelease"] = 1.into();
    schema.check(&later).unwrap();
}
