//! Which of a controller's own writes the cache has seen.
//!
//! A sync on a cache that does not show the writes of the last sync would create slices twice, so
//! it is delayed. The echo of a controller's own write must not start a sync; any other change to a
//! managed object must. Both are decided by comparing two versions: the one in the server's answer
//! to a write, and the one up to which the cache has read, bookmarks included. Upstream compares
//! generations by uid (`endpointslice_tracker.go`), which misses the deletion of a slice by another
//! client if the controller has not written that slice since it started.
//!
//! Only outstanding writes are held, so nothing is left of objects that no longer exist.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::{ObjectKey, ResourceVersion, Text};
use parking_lot::{MappedMutexGuard, MutexGuard};

use crate::WriteLedger;
use crate::ledger::state::{Book, Owner, Phase};

pub(crate) mod pending;

use pending::{PendingWrite, Verb};

/// The meaning of an event of a managed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The event of our own write: nothing to do.
    Own,
    /// A write of the object has not been answered yet. [`PendingWrite::answered`] reports the
    /// event.
    InFlight,
    /// A change by another client, or an own write that the server or a webhook stored with another
    /// content: the owner must be synced.
    Foreign,
    /// A change by another client after an own write that the cache has not shown: the object may
    /// not be the owner's any more, and nothing else tells that it was. The owner must be synced.
    Overtaken {
        /// The owner of the write.
        owner: ObjectKey,
    },
}

/// The own writes of one controller whose echo is outstanding. The `owner` of a write is the
/// Service or Endpoints object that is synced, the `object` was written for it.
#[derive(Debug)]
pub struct WriteTracker {
    pub(crate) ledger: Arc<WriteLedger>,
    /// The index of its book in the ledger.
    pub(crate) book: usize,
}

impl Default for WriteTracker {
    /// The only tracker of a ledger.
    fn default() -> Self {
        Arc::<WriteLedger>::default().tracker()
    }
}

impl WriteTracker {
    fn book(&self) -> MappedMutexGuard<'_, Book> {
        MutexGuard::map(self.ledger.state.lock(), |state| &mut state.books[self.book])
    }

    /// Returns the handle of a write that is to be sent. `position` is that of the cache.
    pub fn write<'a>(
        &'a self,
        owner: &'a ObjectKey,
        object: &'a ObjectKey,
        verb: Verb,
        position: ResourceVersion,
    ) -> PendingWrite<'a> {
        PendingWrite { tracker: self, owner, object, verb, position, begun: None, permit: None }
    }

    /// Returns true if the cache does not show all of the owner's writes yet, so that a sync has to
    /// be delayed. `cached_uids` are the uids of the owner's objects in the cache that are not
    /// being deleted.
    pub fn is_stale<'a>(
        &self,
        owner: &ObjectKey,
        position: ResourceVersion,
        cached_uids: impl IntoIterator<Item = &'a Text>,
    ) -> bool {
        let mut book = self.book();
        let Book { owners, objects, missed, .. } = &mut *book;
        let Some(entry) = owners.get_mut(owner) else { return false };
        // Most owners await no delete.
        let cached = LazyCell::new(|| cached_uids.into_iter().collect::<BTreeSet<&Text>>());
        let mut stale = false;
        // Some echoes never come, such as that of an object that was created and deleted between
        // two lists. Events are handled in order, so the event at a version has been handled once
        // the cache has read past it.
        entry.objects.retain(|key| {
            let Some(object) = objects.get(key) else { return false };
            match &object.phase {
                Phase::InFlight { .. } => true,
                Phase::Written { version, .. } if *version < position => {
                    objects.remove(key);
                    missed.insert(key.clone());
                    false
                }
                Phase::Written { version, .. } => {
                    stale |= *version > position;
                    true
                }
                Phase::Deleted { uid } if cached.contains(uid) => {
                    stale = true;
                    true
                }
                Phase::Deleted { .. } => {
                    objects.remove(key);
                    false
                }
            }
        });
        book.drop_settled(owner);
        stale
    }

    /// Records that the server was asked and has an object of the owner in this version.
    /// `position` is that of the cache by now.
    pub fn found(
        &self,
        owner: &ObjectKey,
        object: &ObjectKey,
        version: ResourceVersion,
        position: ResourceVersion,
    ) {
        self.book().wrote(owner, object, version, position, false);
    }

    /// Returns the owners of objects that were created but never appeared in the cache, although it
    /// has read past their versions: they were deleted before a relist. The owners must be synced.
    /// Call this after each relist, when its changes have been observed, with a function that
    /// returns true for the namespaces that were listed, and the position after it.
    #[expect(clippy::disallowed_methods, reason = "the owners are sorted")]
    pub fn unseen_creates(
        &self,
        is_listed: impl Fn(&str) -> bool,
        position: ResourceVersion,
    ) -> Vec<ObjectKey> {
        let book = self.book();
        let is_unseen = |key: &ObjectKey| {
            let phase = book.objects.get(key).map(|object| &object.phase);
            matches!(phase, Some(Phase::Written { version, created: true, .. }) if *version <= position)
        };
        let mut unseen: Vec<ObjectKey> = book
            .owners
            .iter()
            .filter(|(owner, entry)| is_listed(&owner.namespace) && entry.objects.iter().any(is_unseen))
            .map(|(owner, _)| owner.clone())
            .collect();
        unseen.sort();
        unseen
    }

    /// Keeps the name of a create whose outcome is still unknown, after
    /// [`Self::take_unresolved`].
    pub fn keep_unresolved(&self, owner: &ObjectKey, name: &Text) {
        self.book().owners.entry(owner.clone()).or_default().unresolved.insert(name.clone());
    }

    /// Removes and returns the name of a create whose outcome is unknown, if there is one.
    pub fn take_unresolved(&self, owner: &ObjectKey) -> Option<Text> {
        let mut book = self.book();
        let taken = book.owners.get_mut(owner)?.unresolved.pop_first()?;
        book.drop_settled(owner);
        Some(taken)
    }

    /// Drops the owner's creates and updates whose outcome the cache shows. Call this before a plan
    /// is made, with a function that returns the version that the plan sees: an event does not do
    /// this, since a plan that is being carried out may have been made before it. If an update was
    /// carried out, it made the version that follows the one that it replaced. A cache that shows
    /// any other version is therefore past the update.
    pub fn settle(&self, owner: &ObjectKey, cached: impl Fn(&ObjectKey) -> Option<ResourceVersion>) {
        let mut book = self.book();
        let Some(entry) = book.owners.get_mut(owner) else { return };
        entry.updates.retain(|object, replaced| cached(object) == Some(*replaced));
        entry.unresolved.retain(|name| cached(&ObjectKey::new(&*owner.namespace, &**name)).is_none());
        book.drop_settled(owner);
    }

    /// Returns the owner's updates whose outcome is unknown, each with the version that it was to
    /// replace. The next sync may see the state from before the update, so it must not conclude
    /// that there is nothing to write.
    pub fn unresolved_updates(&self, owner: &ObjectKey) -> Vec<(ObjectKey, ResourceVersion)> {
        let book = self.book();
        let updates = book.owners.get(owner).into_iter().flat_map(|entry| &entry.updates);
        updates.map(|(object, replaced)| (object.clone(), *replaced)).collect()
    }

    /// Records that the server was asked about an update whose outcome was unknown, and that there
    /// is no event to wait for.
    pub fn update_resolved(&self, owner: &ObjectKey, object: &ObjectKey) {
        self.book().update_resolved(owner, object);
    }

    /// Classifies an event: an object was added or changed and has this uid and version.
    pub fn observe_applied(
        &self,
        owner: Option<&ObjectKey>,
        object: &ObjectKey,
        uid: &Text,
        version: ResourceVersion,
    ) -> Observation {
        let mut book = self.book();
        let observed = book.observe_applied(object, uid, version);
        book.drop_observed(owner, object);
        observed
    }

    /// Classifies an event: an object was deleted. `position` is that of the cache with this event.
    pub fn observe_deleted(
        &self,
        owner: Option<&ObjectKey>,
        object: &ObjectKey,
        uid: &Text,
        position: ResourceVersion,
    ) -> Observation {
        let mut book = self.book();
        let observed = book.observe_deleted(object, uid, position);
        book.drop_observed(owner, object);
        observed
    }

    /// Returns true if an answer since the last call has shown that the server's storage went back.
    pub fn take_went_back(&self) -> bool {
        std::mem::take(&mut self.book().went_back)
    }

    /// Removes and returns the objects whose write the cache has read past without showing it, as
    /// [`Self::is_stale`] found. Either another client deleted the object between two lists, or the
    /// cache shows another history than that of the server.
    pub fn take_missed(&self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.book().missed)
    }

    /// Returns the owners of writes that were answered before the last call already and that the
    /// cache has not shown since, sorted. A cache shows a write within moments. If it does not, an
    /// event was lost or the server's storage went back, and no event may ever come that starts a
    /// sync. So the owners must be synced. Call this at intervals.
    #[expect(clippy::disallowed_methods, reason = "the owners are sorted")]
    pub fn overdue(&self) -> Vec<ObjectKey> {
        let mut book = self.book();
        let answers = book.answers;
        let before = std::mem::replace(&mut book.answers_before, answers);
        let is_overdue =
            |(_, entry): &(&ObjectKey, &Owner)| entry.answer <= before && !entry.objects.is_empty();
        let overdue = book.owners.iter().filter(is_overdue).map(|(owner, _)| owner.clone());
        let mut overdue: Vec<ObjectKey> = overdue.collect();
        overdue.sort();
        overdue
    }

    /// Stops waiting for the cache to show that objects of an owner were deleted.
    pub fn forget_deleted(&self, owner: &ObjectKey) {
        let mut book = self.book();
        let Book { owners, objects, .. } = &mut *book;
        let Some(entry) = owners.get_mut(owner) else { return };
        entry.objects.retain(|key| {
            let deleted =
                objects.get(key).is_some_and(|object| matches!(object.phase, Phase::Deleted { .. }));
            if deleted {
                objects.remove(key);
            }
            !deleted
        });
        book.drop_settled(owner);
    }

    /// Drops the state of a deleted owner. Events of its last writes then count as foreign, which
    /// costs a sync without writes.
    pub fn forget(&self, owner: &ObjectKey) {
        let mut book = self.book();
        if let Some(entry) = book.owners.remove(owner) {
            for object in &entry.objects {
                book.objects.remove(object);
            }
        }
    }

    /// Returns the numbers of owners and of objects with state.
    pub fn len(&self) -> (usize, usize) {
        let book = self.book();
        (book.owners.len(), book.objects.len() + book.missed.len())
    }

    /// Returns true if nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }
}

#[cfg(test)]
mod tests;
