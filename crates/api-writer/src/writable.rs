//! The kinds that a writer can write.

use kube_endpoint_core_model::protobuf::ObjectToWrite;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectMeta};
use serde::Serialize;

/// An object that can be written.
pub trait Writable: Clone + Serialize + ObjectToWrite + Send + Sync + 'static {
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
        [root::<Self>(), "/", Self::API_VERSION, "/namespaces/", namespace, "/", Self::PLURAL].concat()
    }

    /// The path of all objects of the kind.
    fn cluster_path() -> String {
        [root::<Self>(), "/", Self::API_VERSION, "/", Self::PLURAL].concat()
    }
}

fn root<T: Writable>() -> &'static str {
    if T::API_VERSION.contains('/') { "/apis" } else { "/api" }
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
