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

use std::collections::BTreeSet;

use kube_endpoint_core_model::{ObjectKey, ResourceVersion, Text};
use parking_lot::Mutex;

mod state;
mod updates;

use state::{Object, Owner, Seen, State};

/// What an event of a managed object means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The event of our own write: nothing to do.
    Own,
    /// A write of the object has not been answered yet. [`WriteTracker::wrote`] reports the event
    /// when it is.
    InFlight,
    /// A change by another client: the owner must be synced.
    Foreign,
}

/// Own writes whose echo is outstanding. Each controller has one. The `owner` of a write is the
/// Service or Endpoints object that is synced, the `object` is what was written for it.
#[derive(Debug, Default)]
pub struct WriteTracker {
    state: Mutex<State>,
}

impl WriteTracker {
    /// Returns true if the cache does not show all of the owner's writes yet, so that a sync has to
    /// be delayed. `cached_uids` are the uids of the owner's objects in the cache that are not
    /// being deleted.
    pub fn is_stale<'a>(
        &self,
        owner: &ObjectKey,
        position: ResourceVersion,
        cached_uids: impl IntoIterator<Item = &'a Text>,
    ) -> bool {
        let mut state = self.state.lock();
        let State { owners, objects, missed, .. } = &mut *state;
        let Some(entry) = owners.get_mut(owner) else { return false };
        entry.written = entry.written.filter(|written| *written > position);
        if !entry.deleted.is_empty() {
            let cached: BTreeSet<&Text> = cached_uids.into_iter().collect();
            entry.deleted.retain(|uid| cached.contains(uid));
        }
        let stale = entry.written.is_some() || !entry.deleted.is_empty();
        // Some echoes never come, such as that of an object that was created and deleted between
        // two lists. Events are handled in order, so the event at a version has been handled once
        // the cache has read past it.
        entry.objects.retain(|key| {
            let settled = objects.get(key).is_none_or(|object| {
                let echoed = object.written.is_none_or(|written| written < position);
                let gone = object.deleted.as_ref().is_none_or(|uid| !entry.deleted.contains(uid));
                !object.in_flight && echoed && gone
            });
            if settled && let Some(Object { written: Some(_), deleted: None, .. }) = objects.remove(key) {
                missed.insert(key.clone());
            }
            !settled
        });
        state.drop_settled(owner);
        stale
    }

    /// Records that a write of an object is being sent. Every call must be followed by one of
    /// [`Self::wrote`], [`Self::deleted`], [`Self::failed`].
    pub fn begin(&self, object: &ObjectKey) {
        let mut state = self.state.lock();
        state.objects.entry(object.clone()).or_default().in_flight = true;
    }

    /// As [`Self::wrote`], for a created object. If it is deleted before a relist, there is no
    /// event for it; [`Self::unseen_creates`] finds it then.
    pub fn created(
        &self,
        owner: &ObjectKey,
        object: &ObjectKey,
        version: ResourceVersion,
        position: ResourceVersion,
    ) -> bool {
        self.record_answer(owner, object, version, position, true)
    }

    /// Owners of objects that were created but never appeared in the cache, although it has read
    /// past their versions: they were deleted before a relist. The owners must be synced. Call this
    /// after each relist, when its changes have been observed, with a function that tells which
    /// namespaces were listed and the position after it.
    #[expect(clippy::disallowed_methods, reason = "the owners are sorted")]
    pub fn unseen_creates(
        &self,
        is_listed: impl Fn(&str) -> bool,
        position: ResourceVersion,
    ) -> Vec<ObjectKey> {
        let state = self.state.lock();
        let is_unseen = |key: &ObjectKey| {
            let created =
                state.objects.get(key).filter(|object| object.created).and_then(|object| object.written);
            created.is_some_and(|created| created <= position)
        };
        let mut unseen: Vec<ObjectKey> = state
            .owners
            .iter()
            .filter(|(owner, entry)| is_listed(&owner.namespace) && entry.objects.iter().any(is_unseen))
            .map(|(owner, _)| owner.clone())
            .collect();
        unseen.sort();
        unseen
    }

    /// Records that a create or update was answered with this version. Returns whether another
    /// client changed the object in the meantime, so that the owner must be synced again.
    pub fn wrote(
        &self,
        owner: &ObjectKey,
        object: &ObjectKey,
        version: ResourceVersion,
        position: ResourceVersion,
    ) -> bool {
        self.record_answer(owner, object, version, position, false)
    }

    /// As [`Self::wrote`]; `created` tells whether the object was created.
    fn record_answer(
        &self,
        owner: &ObjectKey,
        object: &ObjectKey,
        version: ResourceVersion,
        position: ResourceVersion,
        created: bool,
    ) -> bool {
        let mut state = self.state.lock();
        state.answers += 1;
        let State { owners, objects, answers, .. } = &mut *state;
        let entry = owners.entry(owner.clone()).or_default();
        entry.answer = *answers;
        entry.unresolved.remove(&object.name);
        entry.updates.remove(object);
        let tracked = objects.entry(object.clone()).or_default();
        // The cache may show it already.
        let is_ahead = version > position;
        if is_ahead {
            entry.written = entry.written.max(Some(version));
        }
        tracked.in_flight = false;
        tracked.created = created;
        tracked.written = Some(version);
        let echo = Seen::Version(version);
        let changed_meanwhile = match tracked.seen.take() {
            // The echo may come before the answer.
            Some(seen) if seen >= echo => {
                objects.remove(object);
                entry.objects.remove(object);
                seen > echo
            }
            _ => {
                entry.objects.insert(object.clone());
                created && !is_ahead
            }
        };
        if entry.is_settled() {
            owners.remove(owner);
        }
        changed_meanwhile
    }

    /// Records that a delete succeeded, or that the object did not exist. `uid` is the object's.
    pub fn deleted(&self, owner: &ObjectKey, object: &ObjectKey, uid: &Text) {
        let mut state = self.state.lock();
        let tracked = state.objects.entry(object.clone()).or_default();
        tracked.in_flight = false;
        if tracked.seen.take() == Some(Seen::Deleted) {
            state.objects.remove(object);
            if let Some(entry) = state.owners.get_mut(owner) {
                entry.updates.remove(object);
            }
            state.drop_observed(Some(owner), object);
            return;
        }
        tracked.deleted = Some(uid.clone());
        let entry = state.answered(owner);
        entry.updates.remove(object);
        entry.deleted.insert(uid.clone());
        entry.objects.insert(object.clone());
    }

    /// Records that a write was refused and had no effect. Returns whether the object changed in
    /// the meantime.
    pub fn failed(&self, object: &ObjectKey) -> bool {
        self.state.lock().objects.remove(object).is_some_and(|tracked| tracked.seen.is_some())
    }

    /// Records that the outcome of a create is unknown: the connection broke, or the server failed.
    /// The next create for this owner should use the same name ([`Self::take_unresolved`]); the
    /// server then answers whether it exists.
    pub fn create_unresolved(&self, owner: &ObjectKey, object: &ObjectKey) {
        let mut state = self.state.lock();
        let seen = state.objects.remove(object).and_then(|tracked| tracked.seen);
        // An event of that name has shown the outcome already.
        if seen.is_none() {
            state.owners.entry(owner.clone()).or_default().unresolved.insert(object.name.clone());
        }
    }

    /// Removes and returns the name of a create whose outcome is unknown, if there is one.
    pub fn take_unresolved(&self, owner: &ObjectKey) -> Option<Text> {
        let mut state = self.state.lock();
        let taken = state.owners.get_mut(owner)?.unresolved.pop_first()?;
        state.drop_settled(owner);
        Some(taken)
    }

    /// Classifies an event: an object was added or changed and has this uid and version.
    pub fn observe_applied(
        &self,
        owner: Option<&ObjectKey>,
        object: &ObjectKey,
        uid: &Text,
        version: ResourceVersion,
    ) -> Observation {
        let mut state = self.state.lock();
        if let Some(owner) = owner
            && let Some(entry) = state.owners.get_mut(owner)
        {
            // It exists, so a create of that name need not be tried again.
            entry.unresolved.remove(&object.name);
            // An event comes when the cache has read up to it.
            entry.written = entry.written.filter(|written| *written > version);
        }
        let observed = state.observe_applied(object, uid, version);
        state.drop_observed(owner, object);
        observed
    }

    /// Classifies an event: an object was deleted.
    pub fn observe_deleted(&self, owner: Option<&ObjectKey>, object: &ObjectKey, uid: &Text) -> Observation {
        let mut state = self.state.lock();
        if let Some(owner) = owner
            && let Some(entry) = state.owners.get_mut(owner)
        {
            entry.deleted.remove(uid);
        }
        let observed = state.observe_deleted(object, uid);
        state.drop_observed(owner, object);
        observed
    }

    /// Compares the version in the answer to a write with the position of the cache before the
    /// write was sent. A write makes a version that is higher than all before, unless the server's
    /// storage went back.
    pub fn check_answer(&self, before: ResourceVersion, version: ResourceVersion) {
        if !version.is_none() && version <= before {
            self.state.lock().went_back = true;
        }
    }

    /// Returns true if an answer since the last call has shown that the server's storage went back.
    pub fn take_went_back(&self) -> bool {
        std::mem::take(&mut self.state.lock().went_back)
    }

    /// Removes and returns the objects of which [`Self::is_stale`] found that the cache has read
    /// past a write without showing it. Either another client deleted the object between two lists,
    /// or the cache shows another history than that of the server.
    pub fn take_missed(&self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.state.lock().missed)
    }

    /// Owners of writes that were answered before the last call already and that the cache has not
    /// shown since, sorted. A cache shows a write within moments. If it does not, an event was lost
    /// or the server's storage went back, and no event may ever come that starts a sync. So the
    /// owners must be synced. Call this at intervals.
    #[expect(clippy::disallowed_methods, reason = "the owners are sorted")]
    pub fn overdue(&self) -> Vec<ObjectKey> {
        let mut state = self.state.lock();
        let answers = state.answers;
        let before = std::mem::replace(&mut state.answers_before, answers);
        let is_overdue = |(_, entry): &(&ObjectKey, &Owner)| {
            entry.answer <= before && !(entry.objects.is_empty() && entry.deleted.is_empty())
        };
        let overdue = state.owners.iter().filter(is_overdue).map(|(owner, _)| owner.clone());
        let mut overdue: Vec<ObjectKey> = overdue.collect();
        overdue.sort();
        overdue
    }

    /// Stops waiting for the cache to show that objects of an owner were deleted.
    pub fn forget_deleted(&self, owner: &ObjectKey) {
        let mut state = self.state.lock();
        let State { owners, objects, .. } = &mut *state;
        let Some(entry) = owners.get_mut(owner) else { return };
        entry.deleted.clear();
        entry.objects.retain(|key| {
            let deleted =
                objects.get(key).is_some_and(|object| !object.in_flight && object.deleted.is_some());
            if deleted {
                objects.remove(key);
            }
            !deleted
        });
        state.drop_settled(owner);
    }

    /// Drops the state of a deleted owner. Events of its last writes then count as foreign, which
    /// costs a sync without writes.
    pub fn forget(&self, owner: &ObjectKey) {
        let mut state = self.state.lock();
        if let Some(entry) = state.owners.remove(owner) {
            for object in &entry.objects {
                state.objects.remove(object);
            }
        }
    }

    /// The numbers of owners and of objects with state.
    pub fn len(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.owners.len(), state.objects.len() + state.missed.len())
    }

    /// Returns true if nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }
}

#[cfg(test)]
mod tests;
