//! The handle of one write.

use std::any::Any;
use std::time::Instant;

use kube_endpoint_core_model::{ObjectKey, ResourceVersion, Text};
use parking_lot::MutexGuard;

use super::WriteTracker;
use crate::ledger::Begun;
use crate::ledger::state::State;
use crate::{Content, SentObject};

/// The verb of a write, as in Kubernetes' API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    /// Replaces this version.
    Update(ResourceVersion),
    Delete,
}

/// A write that the ledger knows from [`Self::begin`] on. If it is dropped before an answer is
/// recorded, its outcome is unknown: the next create for the owner takes the name of a create
/// ([`WriteTracker::take_unresolved`]), so that the server tells if it exists, and an update is
/// kept, until a plan sees the outcome ([`WriteTracker::settle`]). An unknown delete leaves
/// nothing, since it can be repeated.
#[derive(Debug)]
pub struct PendingWrite<'a> {
    pub(super) tracker: &'a WriteTracker,
    pub(super) owner: &'a ObjectKey,
    pub(super) object: &'a ObjectKey,
    pub(super) verb: Verb,
    /// The position of the cache before the write.
    pub(super) position: ResourceVersion,
    pub(super) begun: Option<Begun>,
    /// The handle drops this after it has recorded the outcome.
    pub(super) permit: Option<Box<dyn Any + Send>>,
}

impl<'a> PendingWrite<'a> {
    /// Ends a write that was begun and has not ended.
    fn end(&mut self) -> Option<(MutexGuard<'a, State>, Begun)> {
        let begun = self.begun.take()?;
        let mut state = self.tracker.ledger.state.lock();
        state.last_write.end();
        Some((state, begun))
    }

    /// Records that the write is being sent, and the object that is sent, if the server stores it.
    /// The handle drops `permit` after it has recorded the outcome.
    pub fn begin(&mut self, now: Instant, sent: Option<(Content, SentObject)>, permit: impl Any + Send) {
        let mut state = self.tracker.ledger.state.lock();
        let sent = sent.map(|(content, view)| state.keep(content, view));
        state.books[self.tracker.book].begin(self.object, sent);
        self.begun = Some(state.last_write.begin(now));
        self.permit = Some(Box::new(permit));
    }

    /// Records that the server answered a create or an update with this version. `position` is that
    /// of the cache by now. Returns true if another client changed the object in the meantime, so
    /// that the owner must be synced again.
    ///
    /// The answer to an update that changed nothing has the version that it was to replace. There
    /// is no event to wait for.
    pub fn answered(mut self, version: ResourceVersion, position: ResourceVersion) -> bool {
        let Some((mut state, begun)) = self.end() else { return false };
        if self.verb == Verb::Update(version) {
            let book = &mut state.books[self.tracker.book];
            book.update_resolved(self.owner, self.object);
            return book.remove(self.owner, self.object);
        }
        state.last_write.answered(begun, version);
        let book = &mut state.books[self.tracker.book];
        // A write makes a version that is higher than all before, unless the server's storage went
        // back.
        book.went_back |= version <= self.position;
        book.wrote(self.owner, self.object, version, position, self.verb == Verb::Create)
    }

    /// Records that the object with this uid no longer exists. Returns true if another client has
    /// made an object under its name in the meantime, so that the owner must be synced again.
    pub fn deleted(mut self, uid: &Text) -> bool {
        let Some((mut state, _)) = self.end() else { return false };
        state.last_write.deleted();
        state.books[self.tracker.book].deleted(self.owner, self.object, uid)
    }

    /// Records that the write was refused and had no effect.
    pub fn refused(mut self) {
        let Some((mut state, _)) = self.end() else { return };
        state.books[self.tracker.book].remove(self.owner, self.object);
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        let Some((mut state, begun)) = self.end() else { return };
        state.last_write.lost(begun);
        let book = &mut state.books[self.tracker.book];
        let was_seen = book.remove(self.owner, self.object);
        let entry = book.owners.entry(self.owner.clone()).or_default();
        match self.verb {
            // An event of that name has shown the outcome already.
            Verb::Create if was_seen => {}
            Verb::Create => {
                entry.unresolved.insert(self.object.name.clone());
            }
            Verb::Update(replaced) => {
                entry.updates.insert(self.object.clone(), replaced);
            }
            Verb::Delete => {}
        }
        book.drop_settled(self.owner);
    }
}
