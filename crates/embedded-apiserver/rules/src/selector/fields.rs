//! Field selectors, after apimachinery's `fields/selector.go`, and the selectable fields of each
//! resource, after the field label conversions of `pkg/apis/core/v1` and `pkg/apis/events/v1` and
//! the registries' selectable fields.

use serde_json::Value;

use crate::resource::Resource;
use crate::status::Status;

/// A parsed field selector; the default one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: &'static str,
    equal: bool,
    value: Box<str>,
}

const META: &[&str] = &["metadata.name", "metadata.namespace"];
const POD: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
];
const NODE: &[&str] = &["metadata.name", "spec.unschedulable"];
const NAMESPACE: &[&str] = &["metadata.name", "status.phase"];
const SERVICE: &[&str] = &["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"];
const EVENT: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

impl FieldSelector {
    /// Parses `metadata.name=a,spec.nodeName!=b`. Rejects a field that is not selectable (400) with
    /// upstream's message.
    pub fn parse(resource: &Resource, text: &str) -> Result<Self, Status> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = split_term(part) else {
                return Err(Status::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                )));
            };
            let value = unescape(value).map_err(Status::bad_request)?;
            terms.push(Term {
                field: canonical(resource, field).map_err(Status::bad_request)?,
                equal,
                value,
            });
        }
        Ok(Self { terms })
    }

    /// Returns true if an object matches, given a lookup of its selectable fields; a missing field
    /// is empty. It calls `get` only with names in [`selectable_fields`].
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| (get(term.field).unwrap_or_default() == &*term.value) == term.equal)
    }

    /// Returns true if it selects everything.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }
}

/// Returns the selectable fields of a resource, such as `spec.nodeName` of pods.
pub fn selectable_fields(resource: &Resource) -> &'static [&'static str] {
    match (resource.group, resource.plural) {
        ("", "pods") => POD,
        ("", "nodes") => NODE,
        ("", "namespaces") => NAMESPACE,
        ("", "services") => SERVICE,
        ("", "events") => EVENT,
        _ => META,
    }
}

/// Returns the value of a field in [`selectable_fields`], empty if absent.
pub fn field_value<'a>(resource: &Resource, object: &'a Value, field: &str) -> &'a str {
    let text = |path: &str| {
        let mut value = Some(object);
        for step in path.split('.') {
            value = value.and_then(|v| v.get(step));
        }
        match value {
            Some(Value::String(text)) => text.as_str(),
            Some(Value::Bool(true)) => "true",
            Some(Value::Bool(false)) => "false",
            _ => "",
        }
    };
    let or = |value: &'a str, other: &'a str| if value.is_empty() { other } else { value };
    match (resource.plural, field) {
        ("pods", "status.podIP") => {
            object.pointer("/status/podIPs/0/ip").and_then(Value::as_str).unwrap_or_default()
        }
        ("pods", "spec.hostNetwork") | ("nodes", "spec.unschedulable") => or(text(field), "false"),
        ("events", "source") => or(text("source.component"), text("reportingComponent")),
        _ => text(field),
    }
}

/// Returns the selectable field that `field` names.
fn canonical(resource: &Resource, field: &str) -> Result<&'static str, String> {
    let known = |name: &str| selectable_fields(resource).iter().find(|known| **known == name).copied();
    let unsupported = || format!("field label not supported: {field}");
    match (resource.group, resource.plural) {
        ("", "pods") if field == "spec.host" => Ok("spec.nodeName"),
        ("", "pods" | "nodes" | "namespaces" | "services" | "events") => known(field).ok_or_else(unsupported),
        _ => known(field).ok_or_else(|| {
            format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
        }),
    }
}

/// Splits at commas. A comma after a backslash belongs to a value.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == ',' {
            terms.push(&text[start..index]);
            start = index + 1;
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Returns the field, true if it must be equal, and the value, still escaped.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(index, _)| {
        [("!=", false), ("==", true), ("=", true)].into_iter().find_map(|(operator, equal)| {
            term[index..].strip_prefix(operator).map(|value| (&term[..index], equal, value))
        })
    })
}

fn unescape(value: &str) -> Result<Box<str>, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(c) => return Err(format!("invalid field selector: invalid escape sequence: \\{c}")),
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            // Upstream prints the character's number.
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            c => plain.push(c),
        }
    }
    Ok(plain.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::by_path;

    fn resource(plural: &str) -> &'static Resource {
        [("", "v1"), ("discovery.k8s.io", "v1")]
            .into_iter()
            .find_map(|(group, version)| by_path(group, version, plural))
            .unwrap()
    }

    #[test]
    fn selectors_match_as_upstream() {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "ns"}, "spec": {"nodeName": "n1"},
            "status": {"phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.1"}]},
        });
        let check = |text: &str, expected: bool| {
            let pods = resource("pods");
            let selector = FieldSelector::parse(pods, text).unwrap();
            assert_eq!(selector.matches(|field| Some(field_value(pods, &pod, field))), expected, "{text}");
        };
        check("", true);
        check(",", true);
        check("metadata.name=a", true);
        check("metadata.name==a,metadata.namespace=ns", true);
        check("metadata.name!=a", false);
        check("spec.nodeName!=,status.phase=Running", true);
        check("spec.host=n1", true);
        check("status.nominatedNodeName=", true);
        check("spec.hostNetwork=false", true);
        check("status.podIP=10.0.0.1", true);
        check("metadata.name=a\\,b", false);
        check("metadata.name!=a\\,b\\=\\\\", true);
    }

    #[test]
    fn events_are_selected_by_what_they_are_about() {
        let event = json!({
            "metadata": {"name": "e"}, "involvedObject": {"kind": "Service", "name": "web"},
            "source": {}, "reportingComponent": "endpoint-controller", "type": "Warning", "reason": "R",
        });
        let check = |text: &str| {
            let events = by_path("", "v1", "events").unwrap();
            let selector = FieldSelector::parse(events, text).unwrap();
            assert!(selector.matches(|field| Some(field_value(events, &event, field))), "{text}");
        };
        check("involvedObject.kind=Service,involvedObject.name=web,reason=R,type!=Normal");
        check("source=endpoint-controller,reportingComponent=endpoint-controller");
    }

    #[test]
    fn an_exact_name_is_found() {
        let selector =
            FieldSelector::parse(resource("nodes"), "spec.unschedulable!=true,metadata.name=n").unwrap();
        assert!(!selector.is_everything());
    }

    #[test]
    fn what_is_not_offered_is_refused_in_upstreams_words() {
        let all: Vec<String> = [
            ("pods", "spec.color=red"),
            ("nodes", "metadata.namespace=x"),
            ("endpointslices", "addressType=IPv4"),
            ("pods", "metadata.name"),
            ("pods", "metadata.name=a=b"),
            ("pods", "metadata.name=a\\b"),
            ("pods", "metadata.name=a\\"),
        ]
        .into_iter()
        .map(|(plural, text)| {
            let error = FieldSelector::parse(resource(plural), text).unwrap_err();
            format!("{} {}", error.code, error.message)
        })
        .collect();
        insta::assert_snapshot!(all.join("\n"), @r#"
        400 field label not supported: spec.color
        400 field label not supported: metadata.namespace
        400 "addressType" is not a known field selector: only "metadata.name", "metadata.namespace"
        400 invalid selector: 'metadata.name'; can't understand 'metadata.name'
        400 invalid field selector: unescaped character in value: 61
        400 invalid field selector: invalid escape sequence: \b
        400 invalid field selector: invalid escape sequence: \
        "#);
    }
}
