//! Tests the reading of objects that send clients to Services, from a client that answers from a
//! table. The embedded server has none of these kinds.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

#[path = "around/mod.rs"]
mod around;
#[path = "connecting/mod.rs"]
mod connecting;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::references::Referrer;
use kube_endpoint_explain::{LintOptions, Options};
use kube_endpoint_explain_reader::Reader;
use serde_json::{Value, json};

const GATEWAY: &str = "/apis/gateway.networking.k8s.io/v1";

/// The kinds of the lists that the server answers.
const KINDS: [(&str, &str); 11] = [
    ("endpoints", "Endpoints"),
    ("endpointslices", "EndpointSlice"),
    ("events", "Event"),
    ("grpcroutes", "GRPCRoute"),
    ("httproutes", "HTTPRoute"),
    ("ingresses", "Ingress"),
    ("namespaces", "Namespace"),
    ("networkpolicies", "NetworkPolicy"),
    ("nodes", "Node"),
    ("pods", "Pod"),
    ("services", "Service"),
];

/// The answers by path: an object, a list of items, the status 403, or a text with the status 404.
/// All other paths are of objects that do not exist.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<BTreeMap<String, Value>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn reader(&self) -> Reader {
        let server = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let path = request.uri().path().to_owned();
            let (status, body) = match server.answers.get(&path) {
                Some(Value::Array(items)) => (200, list(&path, items)),
                Some(Value::Number(_)) => (403, failure(403, "Forbidden")),
                Some(Value::String(text)) => (404, json!(text)),
                Some(object) => (200, object.clone()),
                None => (404, failure(404, "NotFound")),
            };
            server.asked.lock().unwrap().push(path);
            // As a server answers about a kind that it does not have.
            let body = match body.as_str() {
                Some(text) => text.as_bytes().to_vec(),
                None => serde_json::to_vec(&body).unwrap(),
            };
            let body = Body::from(body);
            std::future::ready(Ok::<_, Infallible>(
                http::Response::builder().status(status).body(body).unwrap(),
            ))
        });
        Reader::new(Client::new(service, "default"))
    }

    fn asked(&self, end: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|path| path.ends_with(end)).count()
    }
}

fn list(path: &str, items: &[Value]) -> Value {
    let kind = KINDS.into_iter().find(|(plural, _)| path.ends_with(&format!("/{plural}")));
    let kind = kind.map_or("ReferenceGrant", |(_, kind)| kind);
    json!({"kind": format!("{kind}List"), "apiVersion": "v1", "metadata": {}, "items": items})
}

fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code})
}

fn service(namespace: &str, name: &str) -> Value {
    json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": namespace},
        "spec": {"type": "ExternalName", "externalName": "example.com", "ports": [{"port": 80}]}})
}

/// A route of `edge` to the Services `bank/a` and `bank/b`, and what else the server answers.
fn server(more: impl IntoIterator<Item = (String, Value)>) -> Server {
    let backends = json!([{"name": "a", "namespace": "bank", "port": 80}, {"name": "b", "namespace": "bank", "port": 80}]);
    let route = json!({"kind": "HTTPRoute", "apiVersion": "gateway.networking.k8s.io/v1",
        "metadata": {"name": "front", "namespace": "edge"}, "spec": {"rules": [{"backendRefs": backends}]}});
    let services = ["a", "b"].map(|name| service("bank", name));
    let mut answers = BTreeMap::from([
        (format!("{GATEWAY}/namespaces/edge/httproutes/front"), route.clone()),
        (format!("{GATEWAY}/namespaces/edge/httproutes"), json!([route])),
        (format!("{GATEWAY}/httproutes"), json!([route])),
        ("/api/v1/services".to_owned(), json!(services)),
        ("/api/v1/namespaces/edge/services".to_owned(), json!([service("edge", "other")])),
    ]);
    for service in services {
        let name = service["metadata"]["name"].as_str().unwrap().to_owned();
        answers.insert(format!("/api/v1/namespaces/bank/services/{name}"), service);
    }
    for list in ["pods", "nodes", "endpoints", "events"] {
        answers.insert(format!("/api/v1/{list}"), json!([]));
        for namespace in ["bank", "edge"] {
            answers.insert(format!("/api/v1/namespaces/{namespace}/{list}"), json!([]));
        }
    }
    for of in ["", "namespaces/bank/", "namespaces/edge/"] {
        answers.insert(format!("/apis/discovery.k8s.io/v1/{of}endpointslices"), json!([]));
        answers.insert(format!("/apis/networking.k8s.io/v1/{of}networkpolicies"), json!([]));
    }
    answers.extend(more);
    Server { answers: Arc::new(answers), asked: Arc::default() }
}

/// A ReferenceGrant of `bank` for the routes of `edge` to one Service.
fn grant(service: &str) -> Value {
    json!({"kind": "ReferenceGrant", "metadata": {"name": "g", "namespace": "bank"}, "spec": {
        "from": [{"kind": "HTTPRoute", "namespace": "edge"}], "to": [{"kind": "Service", "name": service}]}})
}

/// The time of all explanations.
fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// Returns the findings of `lint` about references, as `code object`.
async fn linted(server: &Server, namespace: Option<&str>) -> Vec<String> {
    let (reader, options) = (server.reader(), Options::default());
    let linted = reader.lint(namespace, &options, &LintOptions::default(), None, now).await;
    let report = linted.unwrap().report;
    let of = report.problems.iter().filter(|it| it.code.to_string().starts_with("EP12"));
    of.map(|it| format!("{} {}", it.code, it.object)).collect()
}

#[tokio::test]
async fn lint_reads_the_grants_of_references_across_namespaces() {
    let grants = format!("{GATEWAY}/referencegrants");
    let of_none = server([(grants.clone(), json!([]))]);
    assert_eq!(linted(&of_none, None).await, ["EP122 bank/a", "EP122 bank/b"]);
    let of_one = server([(grants.clone(), json!([grant("a")]))]);
    assert_eq!(linted(&of_one, None).await, ["EP122 bank/b"]);
    let older = server([(grants.replace("/v1/", "/v1beta1/"), json!([grant("a")]))]);
    assert_eq!(linted(&older, None).await, ["EP122 bank/b"]);
}

/// Who may not read the grants does not learn which references are permitted, and is told so.
#[tokio::test]
async fn grants_that_cannot_be_read_are_no_fault() {
    let forbidden = server([(format!("{GATEWAY}/referencegrants"), json!(403))]);
    assert_eq!(linted(&forbidden, None).await, Vec::<String>::new());
    assert_eq!(forbidden.asked("/referencegrants"), 2, "both versions");
    let of = Referrer { kind: "HTTPRoute", object: ObjectKey::new("edge", "front") };
    let explained = forbidden.reader().explain_referrer(&of, &Options::default(), &now).await.unwrap();
    let notes = explained.not_read.iter().filter(|note| note.starts_with("ReferenceGrants cannot be read."));
    assert_eq!(notes.count(), 1, "{:?}", explained.not_read);
    assert!(explained.to_do.iter().all(|it| !it.advice.code.to_string().starts_with("EP12")));
}

/// The Services of other namespaces are not read then: nobody knows that they do not exist.
#[tokio::test]
async fn lint_of_a_namespace_says_nothing_about_services_of_others() {
    let server = server([(format!("{GATEWAY}/referencegrants"), json!([grant("a"), grant("b")]))]);
    assert_eq!(linted(&server, Some("edge")).await, Vec::<String>::new());
}

#[tokio::test]
async fn what_services_of_one_namespace_share_is_read_once() {
    let grants = format!("{GATEWAY}/namespaces/bank/referencegrants");
    let server = server([(grants, json!([grant("a")]))]);
    let of = Referrer { kind: "HTTPRoute", object: ObjectKey::new("edge", "front") };
    let explained = server.reader().explain_referrer(&of, &Options::default(), &now).await.unwrap();
    let codes: Vec<String> = explained.backends.iter().map(|it| it.verdict.code.to_string()).collect();
    assert_eq!(codes[1], "EP122", "{codes:?}");
    assert_ne!(codes[0], "EP122");
    assert_eq!((server.asked("/networkpolicies"), server.asked("/referencegrants")), (1, 1));
}
