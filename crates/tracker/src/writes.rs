//! Which of a controller's own writes the cache has seen.
//!
//! A sync on a cache that does not show the last sync's writes yet would make slices twice; it has to be put off. And the
//! echo of an own write must not start another sync, while any other change to a managed object must. Versions of one
//! server compare, so both follow from the version that the server answered a write with and the version up to which
//! the cache has read, bookmarks included. Upstream compares generations by uid (`endpointslice_tracker.go`), which
//! misses a slice that is deleted by hand before it has been written to.
//!
//! Only writes whose echo is outstanding are held, so state of what no longer exists goes by itself.

use std::collections::{BTreeSet, HashMap};

use kube_endpoint_core_model::{ObjectKey, ResourceVersion, Text};
use parking_lot::Mutex;

/// The position of a cache in the event stream of one kind. If the server's versions go back, as after a restore from a
/// backup, a new epoch begins. Versions of different epochs cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachePosition {
    /// Is incremented by each list with a lower version than the position of the cache.
    pub epoch: u64,
    /// Version of the last event, bookmark or list that was applied.
    pub version: ResourceVersion,
}

impl CachePosition {
    /// Whether it is later than another position of the same epoch.
    fn is_ahead_of(self, other: Self) -> bool {
        self.epoch == other.epoch && self.version > other.version
    }
}

/// What an event of a managed object means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The event of our own write: nothing to do.
    Own,
    /// A write of the object has not been answered yet. [`WriteTracker::wrote`] reports the event when it is.
    InFlight,
    /// A change by another client: the owner must be synced.
    Foreign,
}

/// Own writes whose echo is outstanding. One for each controller; `owner` is the Service (or Endpoints) that is synced,
/// `object` what was written for it.
#[derive(Debug, Default)]
pub struct WriteTracker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    owners: HashMap<ObjectKey, Owner>,
    objects: HashMap<ObjectKey, Object>,
}

#[derive(Debug, Default)]
struct Owner {
    /// The highest version written for it, in an epoch.
    written: Option<CachePosition>,
    /// Uids of deleted objects that the cache may still show.
    deleted: BTreeSet<Text>,
    /// Names of creates whose outcome is not known: the next create takes one of these, so that none is made twice.
    unresolved: BTreeSet<Text>,
    /// The objects whose echo is outstanding.
    objects: BTreeSet<ObjectKey>,
}

#[derive(Debug, Default)]
struct Object {
    in_flight: bool,
    /// The highest version, or the deletion, seen while in flight.
    seen: Option<Seen>,
    written: Option<ResourceVersion>,
    /// Where it was created, until the cache shows it.
    created: Option<CachePosition>,
    /// The uid of the object that was deleted.
    deleted: Option<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Version(ResourceVersion),
    Deleted,
}

impl WriteTracker {
    /// Whether the cache does not show all of the owner's writes yet, so that a sync has to be put off. `cached_uids` are
    /// the uids of the owner's objects in the cache that are not being deleted.
    pub fn is_stale<'a>(
        &self,
        owner: &ObjectKey,
        position: CachePosition,
        cached_uids: impl IntoIterator<Item = &'a Text>,
    ) -> bool {
        let mut state = self.state.lock();
        let State { owners, objects } = &mut *state;
        let Some(entry) = owners.get_mut(owner) else { return false };
        entry.written = entry.written.filter(|written| written.is_ahead_of(position));
        if !entry.deleted.is_empty() {
            let cached: BTreeSet<&Text> = cached_uids.into_iter().collect();
            entry.deleted.retain(|uid| cached.contains(uid));
        }
        let stale = entry.written.is_some() || !entry.deleted.is_empty();
        // An echo that never came by itself (made and deleted between two lists, say) must not be waited for. Events are
        // handled in order, so the one at a version has been handled once the cache has read past it.
        entry.objects.retain(|key| {
            let settled = objects.get(key).is_none_or(|object| {
                let echoed = object.written.is_none_or(|written| written < position.version);
                let gone = object.deleted.as_ref().is_none_or(|uid| !entry.deleted.contains(uid));
                !object.in_flight && echoed && gone
            });
            if settled {
                objects.remove(key);
            }
            !settled
        });
        state.drop_settled(owner);
        stale
    }

    /// Records that a write of an object is being sent. Every call must be followed by one of [`Self::wrote`],
    /// [`Self::deleted`], [`Self::failed`].
    pub fn begin(&self, object: &ObjectKey) {
        self.state.lock().objects.entry(object.clone()).or_default().in_flight = true;
    }

    /// As [`Self::wrote`], for a created object. If it is deleted before a relist, there is no event for it;
    /// [`Self::unseen_creates`] finds it then.
    pub fn created(
        &self,
        owner: &ObjectKey,
        object: &ObjectKey,
        version: ResourceVersion,
        position: CachePosition,
    ) -> bool {
        let changed_meanwhile = self.wrote(owner, object, version, position);
        let mut state = self.state.lock();
        let Some(tracked) = state.objects.get_mut(object).filter(|it| it.written == Some(version)) else {
            // Its echo has come.
            return changed_meanwhile;
        };
        let created = CachePosition { epoch: position.epoch, version };
        tracked.created = Some(created);
        changed_meanwhile || !created.is_ahead_of(position)
    }

    /// Owners of objects that were created but never appeared in the cache, although it has read past their versions: they
    /// were deleted before a relist. The owners must be synced. Call this after each relist, when its changes have been
    /// observed.
    pub fn unseen_creates(&self, position: CachePosition) -> Vec<ObjectKey> {
        let state = self.state.lock();
        let is_unseen = |key: &ObjectKey| {
            let created = state.objects.get(key).and_then(|object| object.created);
            created.is_some_and(|created| !created.is_ahead_of(position))
        };
        let mut unseen: Vec<ObjectKey> = state
            .owners
            .iter()
            .filter(|(_, entry)| entry.objects.iter().any(is_unseen))
            .map(|(owner, _)| owner.clone())
            .collect();
        unseen.sort();
        unseen
    }

    /// Records that a create or update was answered with this version. Returns whether another client changed the object in
    /// the meantime, so that the owner must be synced again.
    pub fn wrote(
        &self,
        owner: &ObjectKey,
        object: &ObjectKey,
        version: ResourceVersion,
        position: CachePosition,
    ) -> bool {
        let mut state = self.state.lock();
        let State { owners, objects } = &mut *state;
        let entry = owners.entry(owner.clone()).or_default();
        entry.unresolved.remove(&object.name);
        // The cache may show it already.
        let written = CachePosition { epoch: position.epoch, version };
        if version > position.version && entry.written.is_none_or(|before| !before.is_ahead_of(written)) {
            entry.written = Some(written);
        }
        let tracked = objects.entry(object.clone()).or_default();
        tracked.in_flight = false;
        tracked.written = Some(version);
        let changed_meanwhile = match tracked.seen.take() {
            // The echo may come before the answer.
            Some(seen) if seen >= Seen::Version(version) => {
                objects.remove(object);
                entry.objects.remove(object);
                seen > Seen::Version(version)
            }
            _ => {
                entry.objects.insert(object.clone());
                false
            }
        };
        state.drop_settled(owner);
        changed_meanwhile
    }

    /// Records that a delete succeeded, or that the object did not exist. `uid` is the object's.
    pub fn deleted(&self, owner: &ObjectKey, object: &ObjectKey, uid: &Text) {
        let mut state = self.state.lock();
        let tracked = state.objects.entry(object.clone()).or_default();
        tracked.in_flight = false;
        if tracked.seen.take() == Some(Seen::Deleted) {
            state.objects.remove(object);
            state.drop_observed(Some(owner), object);
            return;
        }
        tracked.deleted = Some(uid.clone());
        let entry = state.owners.entry(owner.clone()).or_default();
        entry.deleted.insert(uid.clone());
        entry.objects.insert(object.clone());
    }

    /// Records that a write was refused and had no effect. Returns whether the object changed in the meantime.
    pub fn failed(&self, object: &ObjectKey) -> bool {
        self.state.lock().objects.remove(object).is_some_and(|tracked| tracked.seen.is_some())
    }

    /// Records that the outcome of a create is unknown: the connection broke, or the server failed. The next create for this
    /// owner should use the same name ([`Self::take_unresolved`]); the server then answers whether it exists.
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
            // It exists: a create of that name need not be tried again.
            entry.unresolved.remove(&object.name);
            // An event comes when the cache has read up to it.
            entry.written = entry.written.filter(|written| written.version > version);
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

    /// Stops waiting for the cache to show that objects of an owner were deleted.
    pub fn forget_deleted(&self, owner: &ObjectKey) {
        let mut state = self.state.lock();
        let State { owners, objects } = &mut *state;
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

    /// Drops the state of a deleted owner. Events of its last writes then count as foreign, which costs a sync without
    /// writes.
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
        (state.owners.len(), state.objects.len())
    }

    /// Whether nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }
}

impl State {
    fn observe_applied(&mut self, object: &ObjectKey, uid: &Text, version: ResourceVersion) -> Observation {
        let Some(tracked) = self.objects.get_mut(object) else { return Observation::Foreign };
        if tracked.in_flight {
            tracked.seen = tracked.seen.max(Some(Seen::Version(version)));
            return Observation::InFlight;
        }
        // What changes on its way out is of no interest; a new object of the same name is.
        if let Some(deleted) = &tracked.deleted {
            if deleted == uid {
                return Observation::Own;
            }
            self.objects.remove(object);
            return Observation::Foreign;
        }
        match tracked.written {
            Some(written) if version < written => Observation::Own,
            written => {
                self.objects.remove(object);
                if written == Some(version) { Observation::Own } else { Observation::Foreign }
            }
        }
    }

    fn observe_deleted(&mut self, object: &ObjectKey, uid: &Text) -> Observation {
        let Some(tracked) = self.objects.get_mut(object) else { return Observation::Foreign };
        if tracked.in_flight {
            tracked.seen = Some(Seen::Deleted);
            return Observation::InFlight;
        }
        let expected = tracked.deleted.as_ref() == Some(uid);
        self.objects.remove(object);
        if expected { Observation::Own } else { Observation::Foreign }
    }

    /// Drops what an event has settled.
    fn drop_observed(&mut self, owner: Option<&ObjectKey>, object: &ObjectKey) {
        let Some(owner) = owner else { return };
        if let Some(entry) = self.owners.get_mut(owner) {
            if !self.objects.contains_key(object) {
                entry.objects.remove(object);
            }
            self.drop_settled(owner);
        }
    }

    fn drop_settled(&mut self, owner: &ObjectKey) {
        if self.owners.get(owner).is_some_and(|entry| {
            entry.written.is_none()
                && entry.deleted.is_empty()
                && entry.unresolved.is_empty()
                && entry.objects.is_empty()
        }) {
            self.owners.remove(owner);
        }
    }
}

#[cfg(test)]
mod tests;
