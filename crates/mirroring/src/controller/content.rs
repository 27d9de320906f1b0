//! Reads the addresses of Endpoints if the cache holds only a summary of them.
//!
//! The cache does not hold addresses that the endpoints controller has written. The mirroring
//! controller needs them once the Service has lost its selector, or if somebody has copied such an
//! object. So it reads each version of the object once, and keeps it while it mirrors the object.

use std::sync::Arc;

use kube_endpoint_api_writer::{FailedWrite, Operation, WriteError};
use kube_endpoint_controller_runtime::Runtime;
use kube_endpoint_core_model::{Endpoints, ObjectKey};

use super::MirroringReconciler;

/// Returns the whole object behind a summary in the cache.
///
/// # Errors
///
/// The failed write, if the API server does not answer, or has no such object or another version of
/// it. The cache will show that and start a sync; but the answer may be wrong, such as the 404 of a
/// proxy or of a server that is behind, so the queue retries the key, too.
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
    // The sync would have created slices from the addresses.
    let failed = |error| FailedWrite { operation: Operation::Create, object: key.clone(), error };
    let found = found.map_err(failed)?.filter(is_cached).map(Arc::new);
    runtime.with_state(key, |state| state.content = found.clone());
    found.ok_or_else(|| failed(differs("Endpoints")))
}

/// Returns the error of an answer that differs from the cache.
pub(super) fn differs(what: &str) -> WriteError {
    WriteError::CacheBehind(format!("the API server has another state of the {what} than the cache"))
}
