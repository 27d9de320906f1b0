//! Asks the API server before all mirrored slices of a Service are deleted.
//!
//! The caches of Services, Endpoints and slices change one after the other. At the start of a
//! process, the cache of slices may show slices that the process before wrote for a Service or
//! Endpoints that the other caches do not show yet. Upstream deletes such slices, and writes them
//! again when its caches have caught up (`syncEndpoints`); the Service has no endpoints in the
//! meantime.

use kube_endpoint_api_writer::{FailedWrite, Operation, WriteError};
use kube_endpoint_controller_runtime::Runtime;
use kube_endpoint_core_model::{Endpoints, ObjectKey};

use super::MirroringReconciler;
use super::content::differs;
use crate::plan::{NotMirrored, mirrorable};

/// Checks that the API server, too, has a reason not to mirror these Endpoints, before the sync
/// deletes their slices.
///
/// # Errors
///
/// The failed write, if the API server does not answer, or has no such reason. The cache will show
/// that and start a sync; but the answer may be wrong, so the queue retries the key, too.
pub(super) async fn check_not_mirrored(
    runtime: &Runtime<MirroringReconciler>,
    key: &ObjectKey,
    reason: NotMirrored,
) -> Result<(), FailedWrite> {
    let writer = runtime.writer().writer();
    let asked = async {
        match reason {
            NotMirrored::NoService | NotMirrored::Selector => {
                let service = writer.service(key).await?;
                Ok::<_, WriteError>(service.is_none_or(|service| service.selector.is_some()))
            }
            NotMirrored::NoEndpoints | NotMirrored::SkipLabel | NotMirrored::LeaderElection => {
                let endpoints: Option<Endpoints> = writer.read_as::<Endpoints, _>(key).await?;
                Ok(endpoints.is_none_or(|endpoints| mirrorable(&endpoints).is_err()))
            }
            // The sync deletes nothing.
            NotMirrored::EndpointSelector => Ok(true),
        }
    };
    let failed = |error| FailedWrite { operation: Operation::Delete, object: key.clone(), error };
    if asked.await.map_err(failed)? {
        return Ok(());
    }
    Err(failed(differs(&format!("Service or the Endpoints ({reason})"))))
}
