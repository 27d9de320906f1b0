//! Creates, replaces and deletes objects.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, header};
use http_body_util::BodyExt;
use kube::client::Body;
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, ObjectKey, ObjectMeta, ResourceVersion, Service, Text, causes,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::WriteError;
use crate::limiter::RequestLimiter;
use crate::observer::{WriteObserver, WriteRecord};
use crate::request_span::RequestSpan;
use crate::sync_context::SyncContext;
use crate::tracked::Operation;

/// Time limit for an answer. Upstream's clients have none, so a hanging request blocks its key.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// An object that can be written.
pub trait Writable: Serialize + Send + Sync {
    /// `v1` or `group/v1`.
    const API_VERSION: &'static str;
    /// Kind of the object.
    const KIND: &'static str;
    /// The plural resource name, as in paths.
    const PLURAL: &'static str;

    /// The metadata of the object.
    fn metadata(&self) -> &ObjectMeta;

    /// Its metadata, to be changed.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// The path of all objects of the kind in a namespace.
    fn collection_path(namespace: &str) -> String {
        let root = if Self::API_VERSION.contains('/') { "/apis" } else { "/api" };
        format!("{root}/{}/namespaces/{namespace}/{}", Self::API_VERSION, Self::PLURAL)
    }
}

impl Writable for EndpointSlice {
    const API_VERSION: &'static str = "discovery.k8s.io/v1";
    const KIND: &'static str = "EndpointSlice";
    const PLURAL: &'static str = "endpointslices";

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Writable for Endpoints {
    const API_VERSION: &'static str = "v1";
    const KIND: &'static str = "Endpoints";
    const PLURAL: &'static str = "endpoints";

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The metadata that the server returned for an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Written {
    /// Its metadata.
    pub metadata: ObjectMeta,
}

impl Written {
    /// The resource version.
    pub fn version(&self) -> ResourceVersion {
        self.metadata.resource_version
    }
}

/// Writes objects through one client with one rate limiter. Clones share both.
#[derive(Clone)]
pub struct ApiWriter {
    client: ApiClient,
    limiter: RequestLimiter,
    user_agent: Arc<str>,
    observer: Option<Arc<dyn WriteObserver>>,
}

impl std::fmt::Debug for ApiWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiWriter").field("user_agent", &self.user_agent).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    object: &'a T,
}

impl ApiWriter {
    /// A writer. The user agent identifies the controller in the server's audit log and managedFields, as upstream's does.
    pub fn new(client: ApiClient, limiter: RequestLimiter, user_agent: impl Into<Arc<str>>) -> Self {
        Self { client, limiter, user_agent: user_agent.into(), observer: None }
    }

    /// The same, with an observer that is told of each write of an output object.
    #[must_use]
    pub fn with_observer(mut self, observer: Option<Arc<dyn WriteObserver>>) -> Self {
        self.observer = observer;
        self
    }

    /// Whether it has an observer.
    pub fn has_observer(&self) -> bool {
        self.observer.is_some()
    }

    /// Creates an object under its name.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]. Unless [`WriteError::is_refusal`], the object may exist. `NotFound` if the namespace does not.
    pub async fn create<T: Writable>(&self, object: &T) -> Result<Written, WriteError> {
        let metadata = object.metadata();
        let answer = self.stored(Method::POST, T::collection_path(&metadata.namespace), Some(object)).await;
        self.observe::<T>(Operation::Create, &metadata.key(), None, &answer);
        Ok(answer?.0)
    }

    /// Replaces an object, if its current version is the one in its metadata.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]. Unless [`WriteError::is_refusal`], the object may have been replaced.
    pub async fn update<T: Writable>(&self, object: &T) -> Result<Written, WriteError> {
        let metadata = object.metadata();
        let key = metadata.key();
        let answer = self.stored(Method::PUT, object_path::<T>(&key), Some(object)).await;
        self.observe::<T>(Operation::Update, &key, Some(metadata.resource_version), &answer);
        Ok(answer?.0)
    }

    /// Reads an object's metadata from the server.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]; `NotFound` if the object does not exist.
    pub async fn get<T: Writable>(&self, key: &ObjectKey) -> Result<Written, WriteError> {
        Ok(self.stored::<T>(Method::GET, object_path::<T>(key), None).await?.0)
    }

    /// Deletes the object with this uid. If another object has its name, the server answers `Conflict`. Without a uid, the
    /// object of that name is deleted, with any uid.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]; `NotFound` if the object was deleted already.
    pub async fn delete<T: Writable>(&self, key: &ObjectKey, uid: Option<&Text>) -> Result<(), WriteError> {
        self.delete_if::<T>(key, None, uid_precondition(uid)).await
    }

    /// Deletes the object with the uid in this metadata, in any version.
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete).
    pub async fn delete_seen<T: Writable>(&self, seen: &ObjectMeta) -> Result<(), WriteError> {
        let preconditions = uid_precondition(Some(&seen.uid));
        self.delete_if::<T>(&seen.key(), Some(seen.resource_version), preconditions).await
    }

    /// Deletes an object, if its current uid and version are those in its metadata.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]; `NotFound` if the object was deleted already, `Conflict` if it has changed.
    pub async fn delete_unchanged<T: Writable>(&self, object: &T) -> Result<(), WriteError> {
        let ObjectMeta { uid, resource_version, .. } = object.metadata();
        let seen = serde_json::json!({ "uid": &**uid, "resourceVersion": resource_version.to_string() });
        self.delete_if::<T>(&object.metadata().key(), Some(*resource_version), Some(seen)).await
    }

    async fn delete_if<T: Writable>(
        &self,
        key: &ObjectKey,
        version: Option<ResourceVersion>,
        preconditions: Option<serde_json::Value>,
    ) -> Result<(), WriteError> {
        let mut options = serde_json::json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(preconditions) = preconditions {
            options["preconditions"] = preconditions;
        }
        let body = serde_json::to_vec(&options).map_err(|error| WriteError::Unknown(error.to_string()))?;
        let answer = self.send(Method::DELETE, &object_path::<T>(key), "application/json", body).await;
        let answer = answer.map(|(code, _)| (Written::default(), code));
        self.observe::<T>(Operation::Delete, key, version, &answer);
        answer.map(drop)
    }

    /// Tells the observer how a write ended.
    fn observe<T: Writable>(
        &self,
        operation: Operation,
        object: &ObjectKey,
        version_before: Option<ResourceVersion>,
        answer: &Result<(Written, u16), WriteError>,
    ) {
        let Some(observer) = &self.observer else { return };
        let written = answer.as_ref().ok();
        let has_version = operation != Operation::Delete;
        observer.wrote(&WriteRecord {
            operation,
            kind: T::KIND,
            object,
            version_before,
            version_after: written.filter(|_| has_version).map(|(written, _)| written.version()),
            code: answer.as_ref().map_or_else(WriteError::code, |(_, code)| Some(*code)),
            error: answer.as_ref().err(),
            sync: SyncContext::current().as_deref(),
        });
    }

    /// Reads a Service from the server, for decisions that must not depend on a lagging cache. Returns none if it does not
    /// exist.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`] except `NotFound`.
    pub async fn service(&self, key: &ObjectKey) -> Result<Option<Service>, WriteError> {
        let path = format!("/api/v1/namespaces/{}/services/{}", key.namespace, key.name);
        let answer = match self.send(Method::GET, &path, "application/json", Vec::new()).await {
            Ok((_, answer)) => answer,
            Err(WriteError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = serde_json::from_slice(&answer);
        read.map(Some)
            .map_err(|error| WriteError::Unknown(format!("the answer to {path} cannot be read: {error}")))
    }

    /// Reads an object from the server in a form of the caller's. Returns none if it does not exist.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`] except `NotFound`.
    pub async fn read_as<T: Writable, D: DeserializeOwned>(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<D>, WriteError> {
        let path = object_path::<T>(key);
        let answer = match self.send(Method::GET, &path, "application/json", Vec::new()).await {
            Ok((_, answer)) => answer,
            Err(WriteError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = serde_json::from_slice(&answer);
        read.map(Some)
            .map_err(|error| WriteError::Unknown(format!("the answer to {path} cannot be read: {error}")))
    }

    /// The name under which the server records the writes in managedFields: the user agent up to its version.
    pub fn field_manager(&self) -> &str {
        self.user_agent.split('/').next().unwrap_or_default()
    }

    async fn stored<T: Writable>(
        &self,
        method: Method,
        path: String,
        object: Option<&T>,
    ) -> Result<(Written, u16), WriteError> {
        let body = match object {
            Some(object) => {
                serde_json::to_vec(&Typed { api_version: T::API_VERSION, kind: T::KIND, object }).map_err(
                    |error| WriteError::Refused { code: 0, message: format!("cannot be encoded: {error}") },
                )?
            }
            None => Vec::new(),
        };
        let (code, answer) = self.send(method, &path, "application/json", body).await?;
        serde_json::from_slice(&answer)
            .map(|written| (written, code))
            .map_err(|error| WriteError::Unknown(format!("the answer to {path} cannot be read: {error}")))
    }

    /// Waits for the rate limiter, sends one request and reads the whole answer. Returns the status and the body.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<(u16, bytes::Bytes), WriteError> {
        let waited = self.limiter.acquire().await;
        self.client.waited_for_rate_limiter(method.as_str(), waited);
        let span = RequestSpan::begin(&method, path, waited);
        let mut request = Request::builder()
            .method(&method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, &*self.user_agent)
            .body(Body::from(body))
            .map_err(|error| WriteError::Refused { code: 0, message: format!("{path}: {error}") })?;
        span.inject(request.headers_mut());
        let answered = async {
            let answer = self.client.send(request).await.map_err(|error| causes(&error))?;
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| causes(&error))?.to_bytes();
            Ok::<_, String>((parts, body))
        };
        let result = match tokio::time::timeout(ANSWER_TIMEOUT, answered).await {
            Err(_) => {
                Err(WriteError::Unknown(format!("{method} {path}: no answer within {ANSWER_TIMEOUT:?}")))
            }
            Ok(Err(error)) => Err(WriteError::Unknown(format!("{method} {path}: {error}"))),
            Ok(Ok((parts, body))) if parts.status.is_success() => Ok((parts.status.as_u16(), body)),
            Ok(Ok((parts, body))) => {
                Err(WriteError::from_answer(parts.status, retry_after(&parts.headers), &body))
            }
        };
        let code = result.as_ref().map_or_else(WriteError::code, |(code, _)| Some(*code));
        span.end(code, result.as_ref().err());
        result
    }
}

/// The delay that an answer asks for. None if it is zero, a date or unreadable: the key then waits for its own backoff.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn uid_precondition(uid: Option<&Text>) -> Option<serde_json::Value> {
    uid.filter(|uid| !uid.is_empty()).map(|uid| serde_json::json!({ "uid": &**uid }))
}

fn object_path<T: Writable>(key: &ObjectKey) -> String {
    format!("{}/{}", T::collection_path(&key.namespace), key.name)
}

#[cfg(test)]
mod tests;
