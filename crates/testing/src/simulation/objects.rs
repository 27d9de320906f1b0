//! Lets a test change and read the objects on the server.

use std::time::Duration;

use http::Request;
use kube::Client;
use serde_json::{Value, json};

use super::Simulation;
use crate::Redacted;

impl<C> Simulation<C> {
    /// Sends a request as the test, and returns the answer.
    ///
    /// # Panics
    ///
    /// If the server refuses it.
    pub async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Value {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = match request.body(body) {
            Ok(request) => request,
            Err(error) => panic!("{method} {path}: {error}"),
        };
        let client = Client::new(self.server.service(), "default");
        match client.request(request).await {
            Ok(answer) => answer,
            Err(error) => panic!("{method} {path}: {error}"),
        }
    }

    /// Creates an object and returns it as the server stored it.
    pub async fn create(&self, object: &Value) -> Value {
        let plural = plural(object["kind"].as_str().unwrap_or_default());
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        self.send("POST", &collection(&plural, namespace), "application/json", object).await
    }

    /// Replaces an object in the namespace `default`.
    pub async fn put(&self, plural: &str, object: &Value) -> Value {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.send("PUT", &path(plural, name), "application/json", object).await
    }

    /// Changes an object in the namespace `default` by a merge patch.
    pub async fn patch(&self, plural: &str, name: &str, patch: Value) -> Value {
        self.send("PATCH", &path(plural, name), "application/merge-patch+json", &patch).await
    }

    /// Deletes an object in the namespace `default`. A pod that is bound to a node stays for its
    /// grace period.
    pub async fn delete(&self, plural: &str, name: &str) -> Value {
        self.send("DELETE", &path(plural, name), "application/json", &Value::Null).await
    }

    /// Deletes an object in the namespace `default`, without a grace period.
    pub async fn delete_now(&self, plural: &str, name: &str) -> Value {
        self.delete_with(plural, name, json!({"gracePeriodSeconds": 0})).await
    }

    /// Deletes an object in the namespace `default`, with fields of DeleteOptions.
    pub async fn delete_with(&self, plural: &str, name: &str, mut options: Value) -> Value {
        options["kind"] = "DeleteOptions".into();
        options["apiVersion"] = "v1".into();
        self.send("DELETE", &path(plural, name), "application/json", &options).await
    }

    /// Removes all faults, then deletes all Services, Endpoints and pods, and lets two hours pass,
    /// in which every retry comes. A controller that still remembers an object leaks memory.
    pub async fn remove_everything(&self) {
        self.server.clear_faults();
        for plural in ["services", "pods", "endpoints"] {
            for object in self.list(plural) {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
                let (namespace, name) = (text("namespace"), text("name"));
                if self.server.get(plural, &namespace, &name).is_some() {
                    let options =
                        json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
                    let path = format!("{}/{name}", collection(plural, &namespace));
                    self.send("DELETE", &path, "application/json", &options).await;
                }
            }
        }
        self.pass(Duration::from_secs(7200)).await;
    }

    /// Stores objects as they are, without validation.
    ///
    /// # Panics
    ///
    /// If the server cannot read an object.
    pub fn load(&self, objects: impl IntoIterator<Item = Value>) {
        if let Err(error) = self.server.load(objects) {
            panic!("an object that cannot be loaded: {error}");
        }
    }

    /// Returns an object in the namespace `default`.
    pub fn get(&self, plural: &str, name: &str) -> Option<Value> {
        self.server.get(plural, "default", name)
    }

    /// Returns all objects of a resource.
    pub fn list(&self, plural: &str) -> Vec<Value> {
        self.server.list(plural)
    }

    /// Returns Endpoints, EndpointSlices and events, ordered and redacted.
    pub fn snapshot(&self) -> Redacted {
        let kinds = [("endpoints", "Endpoints"), ("endpointslices", "EndpointSlice"), ("events", "Event")];
        let objects = kinds.iter().flat_map(|(plural, kind)| {
            self.list(plural).into_iter().map(|mut object| {
                object["kind"] = (*kind).into();
                object
            })
        });
        Redacted::new(objects.collect::<Vec<_>>())
    }

    /// Returns the events of a component, sorted: `KIND NAMESPACE/NAME: REASON (xCOUNT) MESSAGE`.
    ///
    /// # Panics
    ///
    /// If an event comes from another component.
    #[track_caller]
    pub fn events(&self, component: &str) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let event = |event: Value| {
            assert_eq!(event["source"]["component"], component);
            let about = &event["involvedObject"];
            let count = event["count"].as_i64().filter(|count| *count != 1);
            let count = count.map(|count| format!(" (x{count})")).unwrap_or_default();
            let (kind, namespace, name) =
                (text(&about["kind"]), text(&about["namespace"]), text(&about["name"]));
            let (reason, message) = (text(&event["reason"]), text(&event["message"]));
            format!("{kind} {namespace}/{name}: {reason}{count} {message}")
        };
        let mut events: Vec<String> = self.list("events").into_iter().map(event).collect();
        events.sort();
        events
    }
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if kind.ends_with('s') { kind } else { format!("{kind}s") }
}

fn collection(plural: &str, namespace: &str) -> String {
    match plural {
        "namespaces" | "nodes" => format!("/api/v1/{plural}"),
        "endpointslices" => format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/{plural}"),
        "leases" => format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/{plural}"),
        "endpointselectors" => {
            format!("/apis/kube-endpoint-manager.github.io/v1alpha1/namespaces/{namespace}/{plural}")
        }
        plural => format!("/api/v1/namespaces/{namespace}/{plural}"),
    }
}

/// Returns the path of an object, in the namespace `default` if it lives in one.
fn path(plural: &str, name: &str) -> String {
    format!("{}/{name}", collection(plural, "default"))
}
