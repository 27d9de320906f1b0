//! Carries out the operations of a scenario as plain requests through a [`kube::Client`].

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::ConformanceError;

/// The default content type of a patch.
const MERGE_PATCH: &str = "application/merge-patch+json";

/// The kinds that scenarios and snapshots use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Kind {
    Node,
    Namespace,
    Pod,
    Service,
    Endpoints,
    EndpointSlice,
    Event,
}

impl Kind {
    /// Returns the path of the collection, in `namespace` if the kind is namespaced.
    fn collection(self, namespace: &str) -> String {
        let (group, plural) = match self {
            Self::Node => return "/api/v1/nodes".to_owned(),
            Self::Namespace => return "/api/v1/namespaces".to_owned(),
            Self::Pod => ("/api/v1", "pods"),
            Self::Service => ("/api/v1", "services"),
            Self::Endpoints => ("/api/v1", "endpoints"),
            Self::EndpointSlice => ("/apis/discovery.k8s.io/v1", "endpointslices"),
            Self::Event => ("/api/v1", "events"),
        };
        format!("{group}/namespaces/{namespace}/{plural}")
    }

    fn is_namespaced(self) -> bool {
        !matches!(self, Self::Node | Self::Namespace)
    }
}

/// One request, or several that belong together.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Op {
    /// Creates `object`, then patches its status, because a create ignores the status.
    Create {
        /// The object, without a namespace.
        object: Value,
    },
    Patch {
        kind: Kind,
        name: String,
        patch: Value,
        /// The subresource to patch, or `None` for the object itself.
        subresource: Option<String>,
        /// The content type, or `None` for a merge patch.
        r#type: Option<String>,
    },
    Delete {
        kind: Kind,
        name: String,
        /// The grace period in seconds, or `None` for the object's own.
        grace_period_seconds: Option<i64>,
    },
    /// Patches every slice that carries a Service's name.
    PatchSlices {
        service: String,
        patch: Value,
        /// The content type, or `None` for a merge patch.
        r#type: Option<String>,
    },
    /// Deletes every slice that carries a Service's name.
    DeleteSlices { service: String },
}

impl Op {
    /// Returns the name of the node that this operation creates, if it does.
    pub(super) fn created_node(&self) -> Option<&str> {
        match self {
            Self::Create { object } if object["kind"] == "Node" => object["metadata"]["name"].as_str(),
            _ => None,
        }
    }
}

/// A client for one scenario: requests for namespaced kinds go to its namespace.
#[derive(Clone)]
pub struct Api {
    client: Client,
    namespace: String,
    label: Option<&'static str>,
    shares_nodes: bool,
}

impl Api {
    /// Sends requests through `client`, those about namespaced kinds to `namespace`.
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        Self { client, namespace: namespace.into(), label: None, shares_nodes: false }
    }

    /// Marks the namespaces and nodes that it creates with this label, so that they can be told
    /// from those of others. Its nodes also have a taint, which keeps most pods of others away.
    #[must_use]
    pub fn with_label(self, label: &'static str) -> Self {
        Self { label: Some(label), ..self }
    }

    /// Takes a node that exists for the one that it is to create.
    #[must_use]
    pub(super) fn sharing_nodes(self) -> Self {
        Self { shares_nodes: true, ..self }
    }

    /// Sends requests about namespaced kinds to another namespace.
    #[must_use]
    pub(super) fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self }
    }

    /// Returns the namespace that `$NS` stands for.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Runs one operation.
    ///
    /// # Errors
    ///
    /// An error if the server refuses a request.
    pub async fn run(&self, op: &Op) -> Result<(), ConformanceError> {
        match op {
            Op::Create { object } => self.create(object.clone()).await,
            Op::Patch { kind, name, patch, subresource, r#type } => {
                let path = self.path(*kind, name, subresource.as_deref());
                self.patch(&path, patch, r#type.as_deref()).await
            }
            Op::Delete { kind, name, grace_period_seconds } => {
                self.delete(*kind, name, *grace_period_seconds).await
            }
            Op::PatchSlices { service, patch, r#type } => {
                for name in self.slices_of(service).await? {
                    let path = self.path(Kind::EndpointSlice, &name, None);
                    self.patch(&path, patch, r#type.as_deref()).await?;
                }
                Ok(())
            }
            Op::DeleteSlices { service } => {
                for name in self.slices_of(service).await? {
                    self.delete(Kind::EndpointSlice, &name, None).await?;
                }
                Ok(())
            }
        }
    }

    /// Creates `object` in the scenario's namespace and patches its status.
    ///
    /// # Errors
    ///
    /// An error if the server refuses one of the two requests, or the kind of `object` is unknown.
    pub async fn create(&self, mut object: Value) -> Result<(), ConformanceError> {
        let kind = Kind::deserialize(&object["kind"])
            .map_err(|source| ConformanceError::Malformed { what: object.to_string(), source })?;
        let status = object.as_object_mut().and_then(|map| map.remove("status"));
        name_namespace(&mut object, &self.namespace);
        if kind.is_namespaced() {
            object["metadata"]["namespace"] = json!(self.namespace);
        } else if let Some(label) = self.label {
            object["metadata"]["labels"][label] = json!("");
            if kind == Kind::Node {
                object["spec"]["taints"] = json!([{"key": label, "effect": "NoSchedule"}]);
            }
        }
        let made = self.send(Method::POST, kind.collection(&self.namespace), Some((&object, JSON))).await;
        let made = match made {
            Err(error) if self.shares_nodes && kind == Kind::Node && error.is_status(409) => return Ok(()),
            made => made?,
        };
        if let Some(status) = status {
            let name = made["metadata"]["name"].as_str().unwrap_or_default();
            self.patch(&self.path(kind, name, Some("status")), &json!({ "status": status }), None).await?;
        }
        Ok(())
    }

    /// Deletes one object.
    ///
    /// # Errors
    ///
    /// An error if the server refuses the request.
    pub async fn delete(&self, kind: Kind, name: &str, grace: Option<i64>) -> Result<(), ConformanceError> {
        self.send(Method::DELETE, self.path(kind, name, None), Some((&delete_options(grace), JSON))).await?;
        Ok(())
    }

    /// Returns the items of a kind.
    ///
    /// # Errors
    ///
    /// An error if the server refuses the request.
    pub async fn list(&self, kind: Kind) -> Result<Vec<Value>, ConformanceError> {
        self.list_path(kind.collection(&self.namespace)).await
    }

    /// Returns the objects of a kind that have a label.
    ///
    /// # Errors
    ///
    /// An error if the server refuses the request.
    pub(super) async fn labelled(&self, kind: Kind, label: &str) -> Result<Vec<Value>, ConformanceError> {
        let label = label.replace('/', "%2F");
        self.list_path(format!("{}?labelSelector={label}", kind.collection(&self.namespace))).await
    }

    /// Removes the finalizers of an object.
    ///
    /// # Errors
    ///
    /// An error if the server refuses the request.
    pub(super) async fn remove_finalizers(&self, kind: Kind, name: &str) -> Result<(), ConformanceError> {
        let patch = json!({"metadata": {"finalizers": null}});
        self.patch(&self.path(kind, name, None), &patch, None).await
    }

    /// Merges `patch` into the status of a pod.
    ///
    /// # Errors
    ///
    /// An error if the server refuses the request.
    pub(super) async fn patch_pod_status(&self, name: &str, patch: &Value) -> Result<(), ConformanceError> {
        self.patch(&self.path(Kind::Pod, name, Some("status")), patch, None).await
    }

    /// Returns the answer to a GET of a path.
    ///
    /// # Errors
    ///
    /// An error if the server refuses the request.
    pub(super) async fn get(&self, path: &str) -> Result<Value, ConformanceError> {
        self.send(Method::GET, path.to_owned(), None).await
    }

    /// Returns the answer to a POST of JSON.
    ///
    /// # Errors
    ///
    /// An error if the server refuses the request.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, ConformanceError> {
        self.send(Method::POST, path.to_owned(), Some((body, JSON))).await
    }

    async fn list_path(&self, path: String) -> Result<Vec<Value>, ConformanceError> {
        let mut list = self.send(Method::GET, path, None).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    async fn slices_of(&self, service: &str) -> Result<Vec<String>, ConformanceError> {
        let collection = Kind::EndpointSlice.collection(&self.namespace);
        let path = format!("{collection}?labelSelector=kubernetes.io%2Fservice-name%3D{service}");
        let name = |slice: Value| slice["metadata"]["name"].as_str().map(str::to_owned);
        Ok(self.list_path(path).await?.into_iter().filter_map(name).collect())
    }

    async fn patch(&self, path: &str, patch: &Value, content: Option<&str>) -> Result<(), ConformanceError> {
        self.send(Method::PATCH, path.to_owned(), Some((patch, content.unwrap_or(MERGE_PATCH)))).await?;
        Ok(())
    }

    fn path(&self, kind: Kind, name: &str, subresource: Option<&str>) -> String {
        let mut path = kind.collection(&self.namespace);
        for part in [Some(name), subresource].into_iter().flatten() {
            path.push('/');
            path.push_str(part);
        }
        path
    }

    async fn send(
        &self,
        method: Method,
        path: String,
        body: Option<(&Value, &str)>,
    ) -> Result<Value, ConformanceError> {
        let mut request = Request::builder().method(method.clone()).uri(&path).header(ACCEPT, JSON);
        if let Some((_, content)) = body {
            request = request.header(CONTENT_TYPE, content);
        }
        let bytes = body.map(|(value, _)| value.to_string().into_bytes()).unwrap_or_default();
        let request = request
            .body(bytes)
            .map_err(|source| ConformanceError::NoRequest { path: path.clone(), source })?;
        let answer = self.client.request(request).await;
        answer.map_err(|source| ConformanceError::Refused { method, path, source: Box::new(source) })
    }
}

const JSON: &str = "application/json";

fn delete_options(grace: Option<i64>) -> Value {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    if let Some(seconds) = grace {
        options["gracePeriodSeconds"] = json!(seconds);
    }
    options
}

/// Replaces every string `$NS` with `namespace`, as in the targets of Endpoints that the scenario
/// writes.
fn name_namespace(value: &mut Value, namespace: &str) {
    match value {
        Value::String(text) if text == "$NS" => namespace.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(|item| name_namespace(item, namespace)),
        Value::Object(map) => map.values_mut().for_each(|item| name_namespace(item, namespace)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_reads_its_optional_fields() {
        let op: Op = serde_json::from_value(json!({"op": "patch", "kind": "Pod", "name": "p", "patch": {},
            "subresource": "status", "type": "application/json-patch+json"}))
        .unwrap();
        let Op::Patch { subresource, r#type, .. } = op else { panic!("{op:?} is no patch") };
        assert_eq!(subresource.as_deref(), Some("status"));
        assert_eq!(r#type.as_deref(), Some("application/json-patch+json"));
        let op: Op = serde_json::from_value(
            json!({"op": "delete", "kind": "Pod", "name": "p", "gracePeriodSeconds": 0}),
        )
        .unwrap();
        assert_eq!(op, Op::Delete { kind: Kind::Pod, name: "p".to_owned(), grace_period_seconds: Some(0) });
        let op: Op = serde_json::from_value(json!({"op": "delete-slices", "service": "web"})).unwrap();
        assert_eq!(op, Op::DeleteSlices { service: "web".to_owned() });
    }

    #[test]
    fn the_namespace_stands_for_its_symbol() {
        let mut value = json!({"a": [{"namespace": "$NS", "other": "x$NS"}]});
        name_namespace(&mut value, "conf-1");
        assert_eq!(value, json!({"a": [{"namespace": "conf-1", "other": "x$NS"}]}));
    }

    #[test]
    fn only_the_creation_of_a_node_names_a_node() {
        let create = |kind: &str| Op::Create { object: json!({"kind": kind, "metadata": {"name": "n"}}) };
        assert_eq!(create("Node").created_node(), Some("n"));
        assert_eq!(create("Pod").created_node(), None);
    }
}
