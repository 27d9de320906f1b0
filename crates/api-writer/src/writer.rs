//! Creates, replaces and deletes objects.

mod answer;
mod rehearse;

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method};
use kube_endpoint_api_client::{ApiClient, ContentType};
use kube_endpoint_core_model::maker::{CONTROLLERS, Provenance};
use kube_endpoint_core_model::protobuf::Encoded;
use kube_endpoint_core_model::retirement::ServerVersion;
use kube_endpoint_core_model::{Lease, ObjectKey, ObjectMeta, ResourceVersion, Service, Text};
use kube_endpoint_tracker::{Content, PendingWrite};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::dry_run::DryRun;
use crate::error::WriteError;
use crate::fence::WriteFence;
use crate::limiter::RequestLimiter;
use crate::send::Formats;
use crate::writable::Writable;

pub use answer::{MetadataPage, PartialObjectMetadata};
use answer::{stored_version, unreadable};

/// Writes objects through one client with one rate limiter. Clones share both.
#[derive(Clone)]
pub struct ApiWriter {
    pub(crate) client: ApiClient,
    pub(crate) limiter: RequestLimiter,
    pub(crate) fence: WriteFence,
    user_agent: Arc<str>,
    /// `None` if it has characters that no header may have.
    pub(crate) user_agent_header: Option<HeaderValue>,
    pub(crate) dry_run: Option<DryRun>,
    added_controllers: Arc<[Text]>,
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
    /// A writer. The user agent identifies the controller in the server's audit log and
    /// managedFields, as upstream's does.
    pub fn new(client: ApiClient, limiter: RequestLimiter, user_agent: impl Into<Arc<str>>) -> Self {
        let user_agent = user_agent.into();
        Self {
            client,
            limiter,
            fence: WriteFence::default(),
            user_agent_header: HeaderValue::try_from(&*user_agent).ok(),
            user_agent,
            dry_run: None,
            added_controllers: Arc::default(),
        }
    }

    /// Returns a writer for requests that nobody waits for: the rate limiter lets those of all
    /// others go first. See [`RequestLimiter::yielding`].
    #[must_use]
    pub fn yielding(&self) -> Self {
        Self { limiter: self.limiter.yielding(), ..self.clone() }
    }

    /// The same, with a fence that decides whether writes are begun. By default it is always open.
    #[must_use]
    pub fn with_fence(mut self, fence: WriteFence) -> Self {
        self.fence = fence;
        self
    }

    /// The fence that decides whether writes are begun. Reads do not depend on it.
    pub fn fence(&self) -> &WriteFence {
        &self.fence
    }

    /// Lets it write nothing: a controller records its writes with `dry_run` instead, events are
    /// dropped, and any other write is refused.
    #[must_use]
    pub fn with_dry_run(mut self, dry_run: DryRun) -> Self {
        self.dry_run = Some(dry_run);
        self
    }

    /// Where writes are recorded, if it writes nothing.
    pub fn dry_run(&self) -> Option<&DryRun> {
        self.dry_run.as_ref()
    }

    /// The same, with more field managers under which controllers write in this cluster.
    #[must_use]
    pub fn with_controllers(mut self, field_managers: Arc<[Text]>) -> Self {
        self.added_controllers = field_managers;
        self
    }

    /// Creates an object under its name, and begins `write`. Returns the version that was stored.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]. Unless [`WriteError::is_refusal`], the object may exist. `NotFound` if
    /// the namespace does not.
    pub async fn create<T: Writable>(
        &self,
        object: &Arc<T>,
        write: &mut PendingWrite<'_>,
    ) -> Result<ResourceVersion, WriteError> {
        let metadata = object.metadata();
        self.store(Method::POST, T::collection_path(&metadata.namespace), object, write).await
    }

    /// Replaces an object, if its current version is the one in its metadata, and begins `write`.
    /// Returns the version that was stored, which is the same if nothing changed.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]. Unless [`WriteError::is_refusal`], the object may have been replaced.
    pub async fn update<T: Writable>(
        &self,
        object: &Arc<T>,
        write: &mut PendingWrite<'_>,
    ) -> Result<ResourceVersion, WriteError> {
        self.store(Method::PUT, object_path::<T>(&object.metadata().key()), object, write).await
    }

    /// Changes an object of a kind that no controller here creates, by a merge patch. `resource` is
    /// the plural name of the kind, and `path` that of the object or its subresource. Name the
    /// version in the patch to change no other.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]. Unless [`WriteError::is_refusal`], the object may have changed.
    pub async fn merge_patch(
        &self,
        resource: &str,
        path: &str,
        patch: &serde_json::Value,
    ) -> Result<(), WriteError> {
        let formats = Formats::new("application/merge-patch+json", "application/json");
        let (_permit, waited) = self.begin(&Method::PATCH, resource).await?;
        self.send_write(Method::PATCH, path, formats, patch.to_string().into(), waited).await.map(drop)
    }

    /// Reads an object's metadata from the server.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]; `NotFound` if the object does not exist.
    pub async fn get<T: Writable>(&self, key: &ObjectKey) -> Result<PartialObjectMetadata, WriteError> {
        let path = object_path::<T>(key);
        let waited = self.limiter.acquire().await;
        self.client.waited_for_rate_limiter(&Method::GET, waited);
        let answer = loop {
            let content_type = self.client.content_type_of(T::PLURAL);
            let formats = Formats::metadata(content_type);
            let answer = self.send(Method::GET, &path, formats, Bytes::new(), waited).await;
            if !self.is_refused_encoding(T::PLURAL, content_type, &answer) {
                break answer?;
            }
        };
        PartialObjectMetadata::read(&answer, &path)
    }

    /// Deletes the object with the uid in this metadata, in any version, and begins `write`.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]; `NotFound` if the object was deleted already, `Conflict` if another
    /// object has its name.
    pub async fn delete_seen<T: Writable>(
        &self,
        seen: &ObjectMeta,
        write: &mut PendingWrite<'_>,
    ) -> Result<(), WriteError> {
        self.delete::<T>(seen, serde_json::json!({ "uid": &*seen.uid }), write).await
    }

    /// Deletes an object, if its current uid and version are those in its metadata, and begins
    /// `write`.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]; `NotFound` if the object was deleted already, `Conflict` if it has
    /// changed.
    pub async fn delete_unchanged<T: Writable>(
        &self,
        object: &T,
        write: &mut PendingWrite<'_>,
    ) -> Result<(), WriteError> {
        let seen = object.metadata();
        let version = seen.resource_version.to_string();
        let preconditions = serde_json::json!({ "uid": &*seen.uid, "resourceVersion": version });
        self.delete::<T>(seen, preconditions, write).await
    }

    async fn delete<T: Writable>(
        &self,
        seen: &ObjectMeta,
        preconditions: serde_json::Value,
        write: &mut PendingWrite<'_>,
    ) -> Result<(), WriteError> {
        let options = serde_json::json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions
        });
        let body = serde_json::to_vec(&options).map_err(|error| WriteError::Unknown(error.to_string()))?;
        let method = Method::DELETE;
        let (permit, waited) = self.begin(&method, T::PLURAL).await?;
        write.begin(Instant::now().into_std(), None, permit);
        let path = object_path::<T>(&seen.key());
        self.send_write(method, &path, Formats::json(), body.into(), waited).await.map(drop)
    }

    /// Reads a Service from the server, for decisions that must not depend on a lagging cache.
    /// Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`] except `NotFound`.
    pub async fn service(&self, key: &ObjectKey) -> Result<Option<Service>, WriteError> {
        let path = format!("/api/v1/namespaces/{}/services/{}", key.namespace, key.name);
        self.read_json(&path, Formats::json()).await
    }

    /// Reads a Lease from the server, as [`Self::service`] reads a Service.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`] except `NotFound`.
    pub async fn lease(&self, key: &ObjectKey) -> Result<Option<Lease>, WriteError> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}", key.namespace, key.name);
        self.read_json(&path, Formats::json()).await
    }

    /// Reads the version of the server.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]; `Unknown` also if the answer is no version.
    pub async fn server_version(&self) -> Result<ServerVersion, WriteError> {
        let version = self.read_json("/version", Formats::json()).await?;
        version.ok_or_else(|| WriteError::Unknown("the server does not tell its version".to_owned()))
    }

    /// Reads a page of the metadata of all objects of a kind, in one namespace if one is given.
    /// `after` is the token of the page before.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`]; `Refused` with code 410 if the token is too old.
    pub async fn list_metadata<T: Writable, M: DeserializeOwned>(
        &self,
        namespace: Option<&str>,
        limit: usize,
        after: Option<&str>,
    ) -> Result<MetadataPage<M>, WriteError> {
        let mut path = namespace.map_or_else(T::cluster_path, T::collection_path);
        let _ = write!(path, "?limit={limit}");
        self.page(path, after).await
    }

    async fn page<M: DeserializeOwned>(
        &self,
        mut path: String,
        after: Option<&str>,
    ) -> Result<MetadataPage<M>, WriteError> {
        if let Some(token) = after {
            path.push_str("&continue=");
            path.extend(utf8_percent_encode(token, NON_ALPHANUMERIC));
        }
        let page = self.read_json(&path, Formats::list_of_metadata()).await?;
        page.ok_or_else(|| WriteError::NotFound(format!("the server does not serve {path}")))
    }

    /// Reads an object from the server in a form of the caller's. Returns `None` if it does not
    /// exist.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`] except `NotFound`.
    pub async fn read_as<T: Writable, D: DeserializeOwned>(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<D>, WriteError> {
        let path = object_path::<T>(key);
        self.read_json(&path, Formats::json()).await
    }

    /// Reads from the server who made an object. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Any [`WriteError`] except `NotFound`.
    pub async fn provenance<T: Writable>(&self, key: &ObjectKey) -> Result<Option<Provenance>, WriteError> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Provenance,
        }
        let metadata = Formats::metadata(ContentType::Json);
        let object: Option<Object> = self.read_json(&object_path::<T>(key), metadata).await?;
        Ok(object.map(|object| object.metadata))
    }

    /// The field managers under which controllers write: the known ones, those that were added, and
    /// this writer's.
    pub fn controllers(&self) -> Vec<&str> {
        let added = self.added_controllers.iter().map(|name| &**name);
        CONTROLLERS.into_iter().chain(added).chain([self.field_manager()]).collect()
    }

    /// The name under which the server records the writes in managedFields: the user agent up to
    /// its version.
    pub fn field_manager(&self) -> &str {
        self.user_agent.split('/').next().unwrap_or_default()
    }

    async fn read_json<D: DeserializeOwned>(
        &self,
        path: &str,
        formats: Formats,
    ) -> Result<Option<D>, WriteError> {
        let answer = match self.read(path, formats).await {
            Ok(answer) => answer,
            Err(WriteError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        serde_json::from_slice(&answer).map(Some).map_err(|error| unreadable(path, &error))
    }

    /// Waits for the rate limiter and sends a request that reads.
    async fn read(&self, path: &str, formats: Formats) -> Result<Bytes, WriteError> {
        let waited = self.limiter.acquire().await;
        self.client.waited_for_rate_limiter(&Method::GET, waited);
        Ok(self.send(Method::GET, path, formats, Bytes::new(), waited).await?.body)
    }

    /// Creates or replaces an object. Returns the version that was stored.
    async fn store<T: Writable>(
        &self,
        method: Method,
        path: String,
        object: &Arc<T>,
        write: &mut PendingWrite<'_>,
    ) -> Result<ResourceVersion, WriteError> {
        let (permit, waited) = self.begin(&method, T::PLURAL).await?;
        let Encoded { body, content } = object.to_protobuf();
        let protobuf = Bytes::from(body);
        let content = Content { labels: object.metadata().labels.clone(), fields: protobuf.slice(content) };
        write.begin(Instant::now().into_std(), Some((content, Arc::<T>::clone(object))), permit);
        let answer = loop {
            let content_type = self.client.content_type_of(T::PLURAL);
            let body = match content_type {
                ContentType::Protobuf => protobuf.clone(),
                ContentType::Json => json(&**object)?,
            };
            let formats = Formats::metadata(content_type);
            let answer = self.send_write(method.clone(), &path, formats, body, waited).await;
            if !self.is_refused_encoding(T::PLURAL, content_type, &answer) {
                break answer?;
            }
        };
        stored_version(&answer, &path)
    }
}

/// The body that creates or replaces an object, in JSON.
fn json<T: Writable>(object: &T) -> Result<Bytes, WriteError> {
    let typed = Typed { api_version: T::API_VERSION, kind: T::KIND, object };
    let body = serde_json::to_vec(&typed)
        .map_err(|error| WriteError::Refused { code: 0, message: format!("cannot be encoded: {error}") })?;
    Ok(body.into())
}

fn object_path<T: Writable>(key: &ObjectKey) -> String {
    let mut path = T::collection_path(&key.namespace);
    path.push('/');
    path.push_str(&key.name);
    path
}

#[cfg(test)]
mod tests;
