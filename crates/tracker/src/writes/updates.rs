//! Updates that changed nothing, and updates of which nobody knows whether they were carried out.

use kube_endpoint_core_model::{ObjectKey, ResourceVersion};

use super::WriteTracker;

impl WriteTracker {
    /// Records that an update was answered with the version that it was to replace: it changed
    /// nothing, so there is no event to wait for. Returns whether another client changed the object
    /// in the meantime.
    pub fn unchanged(&self, owner: &ObjectKey, object: &ObjectKey) -> bool {
        self.update_resolved(owner, object);
        self.failed(object)
    }

    /// Records that the outcome of an update is unknown: the connection broke, or the server
    /// failed. `sent` is the version that the update was to replace. The next sync may see the
    /// state from before the update, so it must not conclude that there is nothing to write. The
    /// update is kept until another write of the object is answered, until the cache shows another
    /// version ([`Self::settle_updates`]), or until the server was asked
    /// ([`Self::update_resolved`]).
    pub fn update_unresolved(&self, owner: &ObjectKey, object: &ObjectKey, sent: ResourceVersion) {
        let mut state = self.state.lock();
        state.objects.remove(object);
        state.owners.entry(owner.clone()).or_default().updates.insert(object.clone(), sent);
    }

    /// Drops the owner's updates whose outcome the cache shows. Call this before a plan is made,
    /// with a function that returns the version that the plan sees. If an update was carried out,
    /// it made the version that follows the one that it replaced. A cache that shows any other
    /// version is therefore past the update.
    pub fn settle_updates(&self, owner: &ObjectKey, cached: impl Fn(&ObjectKey) -> Option<ResourceVersion>) {
        let mut state = self.state.lock();
        let Some(entry) = state.owners.get_mut(owner) else { return };
        entry.updates.retain(|object, sent| cached(object) == Some(*sent));
        state.drop_settled(owner);
    }

    /// The owner's updates whose outcome is unknown, each with the version that it was to replace.
    pub fn unresolved_updates(&self, owner: &ObjectKey) -> Vec<(ObjectKey, ResourceVersion)> {
        let state = self.state.lock();
        let updates = state.owners.get(owner).into_iter().flat_map(|entry| &entry.updates);
        updates.map(|(object, sent)| (object.clone(), *sent)).collect()
    }

    /// Records that the server was asked about an update whose outcome was unknown.
    pub fn update_resolved(&self, owner: &ObjectKey, object: &ObjectKey) {
        let mut state = self.state.lock();
        if let Some(entry) = state.owners.get_mut(owner) {
            entry.updates.remove(object);
            state.drop_settled(owner);
        }
    }
}
