//! The kinds of objects that controllers write.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kube_endpoint_api_writer::Writable;
use kube_endpoint_core_model::maker::Content;
use kube_endpoint_core_model::{
    Endpoint, EndpointSlice, Endpoints, ObjectKey, ObjectMeta, ResourceVersion, Writes, writes_without,
};
use kube_endpoint_informer::{Cluster, Kind};

/// A kind of object that a controller writes, and whose changes it therefore observes.
pub trait Output: Writable + Clone + 'static {
    /// The kind, as informers name it.
    const INFORMER_KIND: Kind;
    /// The fields whose writer is the writer of the object.
    const CONTENT: Content;
    /// True if objects are named from `generateName`. A name that exists already then belongs to an
    /// earlier create whose answer was lost. The runtime repeats the sync once the cache shows the
    /// object.
    const GENERATES_NAMES: bool;

    /// Returns a hash of the content that a controller writes: all but the name, the annotations,
    /// and the fields that the server adds.
    fn content_hash(&self) -> u64 {
        let mut content = self.clone();
        *content.metadata_mut() = metadata_with_content(self.metadata());
        let mut hasher = DefaultHasher::new();
        // An object that cannot be serialized could not be written either.
        serde_json::to_vec(&content).unwrap_or_default().hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the key that the object is written for.
    fn owner(&self) -> Option<ObjectKey>;

    /// Returns the cached objects of an owner, of all managers.
    fn of_owner(cluster: &Cluster, owner: &ObjectKey) -> Vec<Arc<Self>>;

    /// Returns true if the cached objects of an owner have a ready endpoint.
    fn has_ready_endpoint(cluster: &Cluster, owner: &ObjectKey) -> bool;

    /// Returns the version of an object in the cache.
    fn cached_version(cluster: &Cluster, object: &ObjectKey) -> Option<ResourceVersion>;

    /// Returns the updates and deletes of a plan that are safe although the writes of `missing`
    /// failed. `rest` are all updates and deletes that the plan has left, `existing` are the cached
    /// objects of the owner.
    fn writes_without(existing: &[Arc<Self>], rest: Writes<Self>, missing: &[Self]) -> Writes<Self>;
}

/// Returns the metadata that a controller writes, without names and annotations.
fn metadata_with_content(metadata: &ObjectMeta) -> ObjectMeta {
    let ObjectMeta { labels, owner_references, .. } = metadata;
    ObjectMeta { labels: labels.clone(), owner_references: owner_references.clone(), ..ObjectMeta::default() }
}

impl Output for EndpointSlice {
    const INFORMER_KIND: Kind = Kind::EndpointSlices;
    const CONTENT: Content = Content::Slice;
    const GENERATES_NAMES: bool = true;

    fn owner(&self) -> Option<ObjectKey> {
        self.service_key()
    }

    fn of_owner(cluster: &Cluster, owner: &ObjectKey) -> Vec<Arc<Self>> {
        cluster.slices_of(owner)
    }

    fn has_ready_endpoint(cluster: &Cluster, owner: &ObjectKey) -> bool {
        cluster.any_slice_of(owner, |slice| slice.endpoints.iter().any(Endpoint::is_ready))
    }

    fn cached_version(cluster: &Cluster, object: &ObjectKey) -> Option<ResourceVersion> {
        cluster.endpoint_slice(object).map(|slice| slice.metadata.resource_version)
    }

    fn writes_without(existing: &[Arc<Self>], rest: Writes<Self>, missing: &[Self]) -> Writes<Self> {
        writes_without(existing, rest, missing)
    }
}

impl Output for Endpoints {
    const INFORMER_KIND: Kind = Kind::Endpoints;
    const CONTENT: Content = Content::Endpoints;
    const GENERATES_NAMES: bool = false;

    /// The hash is the same if the cache holds only a summary of the addresses.
    fn content_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let metadata = serde_json::to_vec(&metadata_with_content(&self.metadata));
        (metadata.unwrap_or_default(), self.subsets.summary().digest).hash(&mut hasher);
        hasher.finish()
    }

    fn owner(&self) -> Option<ObjectKey> {
        Some(self.key())
    }

    fn of_owner(cluster: &Cluster, owner: &ObjectKey) -> Vec<Arc<Self>> {
        cluster.endpoints(owner).into_iter().collect()
    }

    fn has_ready_endpoint(cluster: &Cluster, owner: &ObjectKey) -> bool {
        cluster.endpoints(owner).is_some_and(|endpoints| endpoints.subsets.counts().0 > 0)
    }

    fn cached_version(cluster: &Cluster, object: &ObjectKey) -> Option<ResourceVersion> {
        cluster.endpoints(object).map(|endpoints| endpoints.metadata.resource_version)
    }

    /// Returns no writes: a plan of Endpoints has only one.
    fn writes_without(_: &[Arc<Self>], _: Writes<Self>, _: &[Self]) -> Writes<Self> {
        Writes::default()
    }
}
