//! Creates objects from manifests as a client does: with defaults, allocation and validation, then
//! the status.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use kube_endpoint_apiserver_rules::resource::{self, Resource};
use kube_endpoint_apiserver_rules::status::Status;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::EmbeddedApiServer;

impl EmbeddedApiServer {
    /// Returns true if the server stores objects of a kind. Nobody can create or load others.
    pub fn stores(api_version: &str, kind: &str) -> bool {
        stored_resource(api_version, kind).is_some()
    }

    /// Creates an object as a client's POST does, and then sets its status, if it has one, as a
    /// client's PATCH does. Creates a missing namespace. Returns the stored object.
    ///
    /// In contrast to [`Self::load`], which stores objects of another server unchanged, this is for
    /// manifests that a person wrote.
    ///
    /// # Errors
    ///
    /// The Status that a client would get.
    pub async fn create(&self, mut object: Value) -> Result<Value, Status> {
        let resource =
            stored_resource(text(&object, "apiVersion"), text(&object, "kind")).ok_or_else(|| {
                let (kind, api_version) = (text(&object, "kind"), text(&object, "apiVersion"));
                Status::bad_request(format!("this server does not store {kind} of {api_version}"))
            })?;
        let namespace = match (resource.namespaced, object["metadata"]["namespace"].as_str()) {
            (false, _) => None,
            (true, None | Some("")) => Some("default".to_owned()),
            (true, Some(namespace)) => Some(namespace.to_owned()),
        };
        if let Some(namespace) = &namespace
            && self.get("namespaces", "", namespace).is_none()
        {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.ask(Method::POST, "/api/v1/namespaces", "application/json", &body).await?;
        }
        let status = object.as_object_mut().and_then(|object| object.remove("status"));
        let collection = collection(resource, namespace.as_deref());
        let stored = self.ask(Method::POST, &collection, "application/json", &object).await?;
        let Some(status) = status.filter(|_| resource.has_status()) else { return Ok(stored) };
        if let Some(mut kubelet) = self.inner.kubelet_of(resource) {
            kubelet.give_up(&stored);
        }
        let path = format!("{collection}/{}/status", text(&stored["metadata"], "name"));
        let patch = json!({ "status": status });
        self.ask(Method::PATCH, &path, "application/merge-patch+json", &patch).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, Status> {
        let failed = |why: String| Status::new(500, "InternalError", why);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .body(http_body_util::Full::new(Bytes::from(body.to_string())))
            .map_err(|error| failed(error.to_string()))?;
        let answer = self.service().oneshot(request).await.map_err(|error| failed(error.to_string()))?;
        let code = answer.status();
        let bytes =
            answer.into_body().collect().await.map_err(|_| failed("the connection broke".into()))?.to_bytes();
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
        if code.is_success() {
            return Ok(value);
        }
        // The reason must be static; the code distinguishes the errors.
        Err(Status::new(code.as_u16(), "Refused", text(&value, "message")))
    }
}

fn stored_resource(api_version: &str, kind: &str) -> Option<&'static Resource> {
    resource::by_kind(api_version, kind).filter(|resource| resource.is_stored())
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn collection(resource: &Resource, namespace: Option<&str>) -> String {
    let namespace = namespace.map(|name| format!("/namespaces/{name}")).unwrap_or_default();
    format!("{}{namespace}/{}", resource.root(), resource.plural)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn manifests_are_created_as_by_a_client() {
        let server = EmbeddedApiServer::builder().build().unwrap();
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "new"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
        let stored = server.create(service.clone()).await.unwrap();
        assert_eq!(stored["spec"]["ipFamilies"], json!(["IPv4"]));
        assert_eq!(stored["spec"]["ports"][0]["targetPort"], 80);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "x"}]}, "status": {"podIP": "10.0.0.1"}});
        let stored = server.create(pod).await.unwrap();
        assert_eq!(stored["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
        assert_eq!(server.create(service).await.unwrap_err().code, 409);
        let unknown =
            server.create(json!({"apiVersion": "apps/v1", "kind": "Deployment"})).await.unwrap_err();
        assert_eq!(unknown.message, "this server does not store Deployment of apps/v1");
    }
}
