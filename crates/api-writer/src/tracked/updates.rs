//! Updates whose answer was lost.

use kube_endpoint_core_model::{ObjectKey, ResourceVersion};

use super::{FailedWrite, Operation, TrackedWriter};
use crate::error::WriteError;
use crate::writable::Writable;

impl TrackedWriter {
    /// Asks the server about the owner's updates whose outcome is unknown. Returns true if an
    /// object changed; the cache may not show that, so the owner must be synced again. If the
    /// ledger keeps no such update, nothing is sent.
    ///
    /// # Errors
    ///
    /// The first update whose object cannot be read. It is kept.
    pub async fn resolve_updates<T: Writable>(
        &self,
        owner: &ObjectKey,
        position: impl Fn() -> ResourceVersion,
    ) -> Result<bool, FailedWrite> {
        let mut changed = false;
        for (object, sent) in self.tracker.unresolved_updates(owner) {
            match self.writer.get::<T>(&object).await {
                // It was not carried out.
                Ok(found) if found.version() == sent => self.tracker.update_resolved(owner, &object),
                Ok(found) => {
                    self.tracker.found(owner, &object, found.version(), position());
                    changed = true;
                }
                Err(WriteError::NotFound(_)) => {
                    self.tracker.update_resolved(owner, &object);
                    changed = true;
                }
                Err(error) => {
                    return Err(FailedWrite { operation: Operation::Update, object, error });
                }
            }
        }
        Ok(changed)
    }
}
