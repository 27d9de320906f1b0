//! Carries out command lines of remedies as kubectl would, so that a misprinted one fails. It knows
//! the commands that remedies have.

use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::{Map, Value, json};
use tower::ServiceExt;

/// The version, the plural and the singular of each kind that a command may name, and if it has
/// a namespace.
const KINDS: [(&str, &str, &str, bool); 8] = [
    ("api/v1", "nodes", "node", false),
    ("api/v1", "pods", "pod", true),
    ("api/v1", "services", "service", true),
    ("api/v1", "endpoints", "endpoints", true),
    ("api/v1", "events", "event", true),
    ("apis/discovery.k8s.io/v1", "endpointslices", "endpointslice", true),
    ("apis/coordination.k8s.io/v1", "leases", "lease", true),
    ("apis/kube-endpoint-manager.github.io/v1alpha1", "endpointselectors", "endpointselector", true),
];

/// Kinds that only an API server with admission plugins has. Events name such objects.
const OF_ADMISSION: [&str; 7] = [
    "resourcequota",
    "validatingadmissionpolicy",
    "validatingadmissionpolicybinding",
    "mutatingadmissionpolicy",
    "mutatingadmissionpolicybinding",
    "validatingwebhookconfigurations,mutatingwebhookconfigurations",
    "namespace",
];

/// Carries out a line. Returns true if it is a command that changes objects.
pub(crate) async fn run(server: &EmbeddedApiServer, line: &str) -> Result<bool, String> {
    let words = words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (namespace, words) = match words.as_slice() {
        ["kubectl", "diagnose-svc", "cleanup", "-n", namespace] if !namespace.is_empty() => return Ok(false),
        ["kubectl", "diagnose-svc", "doctor"] => return Ok(false),
        ["kubectl", "-n", namespace, rest @ ..] => (*namespace, rest),
        ["kubectl", rest @ ..] => ("", rest),
        _ => return Err(format!("no command of kubectl: {line}")),
    };
    let at = |kind: &str, name: &str| path(namespace, kind, name);
    match words {
        ["auth", "can-i", "list", kind] => at(kind, "").map(|_| false),
        ["auth", "can-i", _, _, user] if user.starts_with("--as=") => Ok(false),
        ["get" | "describe", kind, ..] if OF_ADMISSION.contains(kind) => Ok(false),
        ["get", "nodes", "-o" | "--show-labels", ..] | ["get", "pvc"] => Ok(false),
        ["get", "endpointselectors.kube-endpoint-manager.github.io"] if !namespace.is_empty() => Ok(false),
        ["get", kind, "--show-labels"] if !namespace.is_empty() => at(kind, "").map(|_| false),
        ["get", kind, name] => exist(server, namespace, kind, &[name]).await,
        ["get", kind, "-L", _] => at(kind, "").map(|_| false),
        ["get", "events", "--field-selector", about] if about.starts_with("involvedObject.name=") => {
            at("events", "").map(|_| false)
        }
        ["get", "deployments,statefulsets,replicasets"] if !namespace.is_empty() => Ok(false),
        ["get", "events", "--field-selector", "reason=FailedCreate"] if !namespace.is_empty() => Ok(false),
        ["get", kind, "-l", selector] | ["get", kind, "-l", selector, "--show-labels"]
            if selector.contains('=') =>
        {
            at(kind, "").map(|_| false)
        }
        ["get", kind, "-A", "-o", "wide", "--field-selector", selector] if selector.contains('=') => {
            path("any", kind, "").map(|_| false)
        }
        ["get", kind, names @ .., "-o", "yaml", "--show-managed-fields"]
        | ["get", kind, names @ .., "-o" | "-L", _]
        | ["describe", kind, names @ ..] => exist(server, namespace, kind, names).await,
        ["logs", "--previous", pod, "-c", container] | ["logs", pod, "-c", container] => {
            let pod = send(server, "GET", &at("pod", pod)?, "", &Value::Null).await?;
            let lists = ["initContainers", "containers"].iter();
            let of = lists.flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten());
            match of.filter(|one| one["name"] == **container).count() {
                1 => Ok(false),
                _ => Err(format!("the pod has no container {container}")),
            }
        }
        [verb @ ("label" | "annotate"), kind, names @ .., change] => {
            let key = change.strip_suffix('-').ok_or_else(|| format!("no change: {change}"))?;
            let field = if *verb == "label" { "labels" } else { "annotations" };
            let keys = Map::from_iter([(key.to_owned(), Value::Null)]);
            let patch = json!({"metadata": {field: keys}});
            for name in names {
                send(server, "PATCH", &at(kind, name)?, "application/merge-patch+json", &patch).await?;
            }
            Ok(!names.is_empty())
        }
        ["patch", kind, name, form, "-p", patch] => {
            let patch: Value = serde_json::from_str(patch).map_err(|error| error.to_string())?;
            let form = match *form {
                "--type=merge" => "application/merge-patch+json",
                "--type=json" => "application/json-patch+json",
                form => return Err(format!("no form of a patch: {form}")),
            };
            send(server, "PATCH", &at(kind, name)?, form, &patch).await?;
            Ok(true)
        }
        ["delete", kind, names @ ..] => {
            for name in names {
                send(server, "DELETE", &at(kind, name)?, "", &Value::Null).await?;
            }
            Ok(!names.is_empty())
        }
        _ => Err(format!("a command that remedies do not have: {line}")),
    }
}

async fn exist(
    server: &EmbeddedApiServer,
    namespace: &str,
    kind: &str,
    names: &[&str],
) -> Result<bool, String> {
    for name in names {
        send(server, "GET", &path(namespace, kind, name)?, "", &Value::Null).await?;
    }
    if names.is_empty() { Err(format!("no {kind} is named")) } else { Ok(false) }
}

/// Returns the path of an object, or of all objects of a kind if the name is empty.
pub(crate) fn path(namespace: &str, kind: &str, name: &str) -> Result<String, String> {
    let kind = kind.strip_suffix(".kube-endpoint-manager.github.io").unwrap_or(kind);
    let is_flag = [namespace, kind, name].iter().any(|word| word.starts_with('-'));
    let of = KINDS.iter().find(|(_, plural, singular, _)| kind == *plural || kind == *singular);
    match of.filter(|_| !is_flag) {
        Some((version, plural, _, true)) if !namespace.is_empty() => {
            Ok(format!("/{version}/namespaces/{namespace}/{plural}/{name}"))
        }
        Some((version, plural, _, false)) if namespace.is_empty() => {
            Ok(format!("/{version}/{plural}/{name}"))
        }
        _ => Err(format!("no object: {kind} {name:?} of the namespace {namespace:?}")),
    }
}

/// Sends a request, and returns the object or the server's message.
pub(crate) async fn send(
    server: &EmbeddedApiServer,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> Result<Value, String> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut request = Request::builder().method(method).uri(path);
    if !content_type.is_empty() {
        request = request.header(header::CONTENT_TYPE, content_type);
    }
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let answer = server.service().oneshot(request).await.unwrap();
    let code = answer.status();
    let bytes = answer.into_body().collect().await.map_err(|_| "the connection broke")?.to_bytes();
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    if code.is_success() { Ok(value) } else { Err(format!("{method} {path}: {}", value["message"])) }
}

/// Returns the words of a line, as a shell reads them.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' => words.extend(word.take()),
            '\'' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => quoted.push(c),
                        None => return Err(format!("a quote has no end: {line}")),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c) => {
                word.get_or_insert_default().push(c);
            }
            c => return Err(format!("a shell does not take {c:?} as it is: {line}")),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_by_a_shell() {
        assert_eq!(words(r"a 'b c' 'it'\''s' ''").unwrap(), ["a", "b c", "it's", ""]);
        assert!(words("a $b").is_err());
        assert!(words("a 'b").is_err());
    }
}
