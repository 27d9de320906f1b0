//! Deletes what a run has created: the namespaces and nodes with its label.

use futures::{StreamExt, stream};
use serde_json::Value;

use super::cluster::name_of;
use super::{ConformanceError, LABEL};
use crate::conformance::{Api, Kind};

/// Deletes all namespaces and nodes of a run. It tries each, and returns the first error.
///
/// Without a kubelet nobody confirms the end of a pod, and without a controller nobody removes a
/// finalizer. Both would keep their namespace.
pub(super) async fn tidy(api: &Api) -> Result<(), ConformanceError> {
    let mut errors = Errors::default();
    for namespace in errors.items(api.labelled(Kind::Namespace, LABEL).await) {
        let api = api.clone().in_namespace(name_of(&namespace));
        for service in errors.items(api.list(Kind::Service).await) {
            if !service["metadata"]["finalizers"].is_null() {
                errors.note(api.remove_finalizers(Kind::Service, name_of(&service)).await);
            }
        }
        delete_pods(&api, &mut errors).await;
        if namespace["metadata"]["deletionTimestamp"].is_null() {
            errors.note(api.delete(Kind::Namespace, api.namespace(), None).await);
        }
    }
    for node in errors.items(api.labelled(Kind::Node, LABEL).await) {
        errors.note(api.delete(Kind::Node, name_of(&node), None).await);
    }
    errors.0.map_or(Ok(()), Err)
}

/// The first error, if there is one.
#[derive(Default)]
struct Errors(Option<ConformanceError>);

impl Errors {
    /// Keeps an error, unless the object is gone or already ends.
    fn note(&mut self, result: Result<(), ConformanceError>) {
        let is_gone = |error: &ConformanceError| error.is_status(404) || error.is_status(409);
        if let Some(error) = result.err().filter(|error| !is_gone(error)) {
            self.0.get_or_insert(error);
        }
    }

    /// Returns the objects of a list, or none after an error.
    fn items(&mut self, list: Result<Vec<Value>, ConformanceError>) -> Vec<Value> {
        list.unwrap_or_else(|error| {
            self.note(Err(error));
            Vec::new()
        })
    }
}

/// How many requests to send at once.
const AT_ONCE: usize = 16;

/// Deletes all pods of a namespace, one by one: a server may take longer for a thousand in one
/// request than a request may take.
async fn delete_pods(api: &Api, errors: &mut Errors) {
    let pods = errors.items(api.list(Kind::Pod).await);
    let deletes = pods.iter().map(|pod| api.delete(Kind::Pod, name_of(pod), Some(0)));
    let results: Vec<_> = stream::iter(deletes).buffered(AT_ONCE).collect().await;
    results.into_iter().for_each(|result| errors.note(result));
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// Returns a client of a server with two namespaces that have two pods each, and a node. The
    /// server answers with 500 to requests that begin with one of `fails`, and notes all deletes.
    fn server(fails: &'static [&'static str]) -> (Api, Arc<Mutex<Vec<String>>>) {
        let deletes = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&deletes);
        let service = tower::service_fn(move |request: Request<Body>| {
            let asked = format!("{} {}", request.method(), request.uri().path());
            let named = |names: &[&str]| {
                let items = names.iter().map(|name| json!({"metadata": {"name": name}}));
                json!({"items": items.collect::<Vec<_>>()})
            };
            let list = match asked.rsplit('/').next() {
                Some("namespaces") => named(&["a", "b"]),
                Some("pods") => named(&["p", "q"]),
                Some("nodes") => named(&["n"]),
                _ => named(&[]),
            };
            let failed = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "reason": "InternalError", "message": "no", "code": 500});
            let (code, body) =
                if fails.iter().any(|it| asked.starts_with(it)) { (500, failed) } else { (200, list) };
            if let Some(path) = asked.strip_prefix("DELETE /api/v1/") {
                noted.lock().unwrap().push(path.to_owned());
            }
            let answer = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        (Api::new(Client::new(service, "default"), "default"), deletes)
    }

    const ALL: [&str; 7] = [
        "namespaces/a",
        "namespaces/a/pods/p",
        "namespaces/a/pods/q",
        "namespaces/b",
        "namespaces/b/pods/p",
        "namespaces/b/pods/q",
        "nodes/n",
    ];

    /// Checks what is deleted if these requests fail, and that the error is that of the first.
    async fn check(fails: &'static [&'static str], deletes: &[&str]) {
        let (api, noted) = server(fails);
        let error = tidy(&api).await.err().map(|error| error.to_string());
        assert_eq!(error, fails.first().map(|it| format!("{it}: 500 InternalError: no")));
        let mut noted = noted.lock().unwrap().clone();
        noted.sort_unstable();
        assert_eq!(noted, deletes, "{fails:?}");
    }

    #[tokio::test]
    async fn a_request_that_fails_keeps_nothing_else() {
        check(&[], &ALL).await;
        check(&["GET /api/v1/namespaces/a/services"], &ALL).await;
        check(&["DELETE /api/v1/namespaces/a/pods/p", "DELETE /api/v1/namespaces/b"], &ALL).await;
        let without_pods_of_a = [&ALL[..1], &ALL[3..]].concat();
        check(&["GET /api/v1/namespaces/a/pods"], &without_pods_of_a).await;
    }

    #[tokio::test]
    async fn nodes_are_deleted_if_the_namespaces_are_unknown() {
        let (api, noted) = server(&["GET /api/v1/namespaces"]);
        assert!(tidy(&api).await.is_err());
        assert_eq!(*noted.lock().unwrap(), ["nodes/n"]);
    }
}
