//! Reads the addresses of Endpoints of which the cache holds a summary.
//!
//! The cache does not hold what the endpoints controller has written. It has to be mirrored once
//! the Service has lost its selector, or if somebody has copied such an object. So each version of
//! it is read once, and kept while it is mirrored.

use std::sync::Arc;

use kube_endpoint_api_writer::{FailedWrite, Operation, WriteError};
use kube_endpoint_controller_runtime::Runtime;
use kube_endpoint_core_model::{Endpoints, ObjectKey};

use super::MirroringReconciler;

/// Returns the object of which the cache holds a summary.
///
/// # Errors
///
/// If the API server does not answer, or has no such object or another version of it. The cache
/// will show that and start a sync; but the answer may be wrong, such as the 404 of a proxy, or
/// that of a server which is behind, so the key is retried anyway.
pub(super) async fn read(
    runtime: &Runtime<MirroringReconciler>,
    key: &ObjectKey,
    cached: &Endpoints,
) -> Result<Arc<Endpoints>, FailedWrite> {
    let is_cached = |found: &Endpoints| {
        let (found, cached) = (&found.metadata, &cached.metadata);
        found.resource_version == cached.resource_version && found.uid == cached.uid
    };
    if let Some(content) = runtime.with_state(key, |state| state.content.clone())
        && is_cached(&content)
    {
        return Ok(content);
    }
    let found = runtime.writer().writer().read_as::<Endpoints, Endpoints>(key).await;
    // What is read is to be written into slices.
    let failed = |error| FailedWrite { operation: Operation::Create, object: key.clone(), error };
    let found = found.map_err(failed)?.filter(is_cached).map(Arc::new);
    runtime.with_state(key, |state| state.content = found.clone());
    found.ok_or_else(|| failed(differs("Endpoints")))
}

/// The API server's answer about an object is not what the cache has.
pub(super) fn differs(what: &str) -> WriteError {
    WriteError::CacheBehind(format!("the API server has another state of the {what} than the cache"))
}
