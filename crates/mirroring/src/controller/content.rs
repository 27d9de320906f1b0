//! Reads the addresses of Endpoints of which the cache holds a summary.
//!
//! The cache does not hold what the endpoints controller has written. It has to be mirrored once the Service has lost its selector,
//! or if somebody has copied such an object. So each version of it is read once, and kept while it is mirrored.

use std::sync::Arc;

use kube_endpoint_api_writer::{FailedWrite, Operation};
use kube_endpoint_controller_runtime::Runtime;
use kube_endpoint_core_model::{Endpoints, ObjectKey};

use super::MirroringReconciler;

/// Returns the object of which the cache holds a summary. None if the API server has another version by now.
pub(super) async fn read(
    runtime: &Runtime<MirroringReconciler>,
    key: &ObjectKey,
    cached: &Endpoints,
) -> Result<Option<Arc<Endpoints>>, FailedWrite> {
    let is_cached = |found: &Endpoints| {
        let (found, cached) = (&found.metadata, &cached.metadata);
        found.resource_version == cached.resource_version && found.uid == cached.uid
    };
    if let Some(content) = runtime.with_state(key, |state| state.content.clone())
        && is_cached(&content)
    {
        return Ok(Some(content));
    }
    let found = runtime.writer().writer().read_as::<Endpoints, Endpoints>(key).await;
    // What is read is to be written into slices.
    let failed = |error| FailedWrite { operation: Operation::Update, object: key.clone(), error };
    let found = found.map_err(failed)?.filter(is_cached).map(Arc::new);
    runtime.with_state(key, |state| state.content = found.clone());
    Ok(found)
}
