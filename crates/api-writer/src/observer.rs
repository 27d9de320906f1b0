//! A record of each write of an output object.

use kube_endpoint_core_model::{ObjectKey, ResourceVersion};

use crate::error::WriteError;
use crate::sync_context::SyncContext;
use crate::tracked::Operation;

/// One write that was sent, and how it ended.
#[derive(Debug)]
pub struct WriteRecord<'a> {
    pub operation: Operation,
    pub kind: &'static str,
    /// The object; for a create, under the name that was sent.
    pub object: &'a ObjectKey,
    /// The version that the writer saw before; `None` for a create.
    pub version_before: Option<ResourceVersion>,
    /// The version that the server answered; `None` for a delete and for a write that failed.
    pub version_after: Option<ResourceVersion>,
    /// The HTTP status; `None` if no answer arrived.
    pub code: Option<u16>,
    /// The error, if the write failed.
    pub error: Option<&'a WriteError>,
    /// The sync that wrote.
    pub sync: Option<&'a SyncContext>,
}

/// Observes every write of an EndpointSlice or Endpoints object, but no events. The writer calls it
/// when the answer has arrived or can no longer arrive. The call is in the task of the sync, so it
/// must not wait.
pub trait WriteObserver: Send + Sync {
    /// A write has ended.
    fn wrote(&self, write: &WriteRecord<'_>);
}
