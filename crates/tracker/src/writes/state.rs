//! What is tracked, and how events change it.

use std::collections::{BTreeMap, BTreeSet};

use ahash::HashMap;
use kube_endpoint_core_model::{ObjectKey, ResourceVersion, Text};

use super::Observation;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) owners: HashMap<ObjectKey, Owner>,
    pub(super) objects: HashMap<ObjectKey, Object>,
    /// Objects that were written at a position that the cache has read past without showing the
    /// write.
    pub(super) missed: BTreeSet<ObjectKey>,
    /// True if a write was answered with a version that the cache had read past before the write
    /// was sent.
    pub(super) went_back: bool,
    /// How many writes were answered.
    pub(super) answers: u64,
    /// [`Self::answers`] at the last call of
    /// [`WriteTracker::overdue`](super::WriteTracker::overdue).
    pub(super) answers_before: u64,
}

#[derive(Debug, Default)]
pub(super) struct Owner {
    /// The highest version written for it.
    pub(super) written: Option<ResourceVersion>,
    /// Uids of deleted objects that the cache may still show.
    pub(super) deleted: BTreeSet<Text>,
    /// Names of creates whose outcome is not known. The next create takes one of these, so that
    /// nothing is created twice.
    pub(super) unresolved: BTreeSet<Text>,
    /// Updates whose outcome is not known: the objects, and the versions that were to be replaced.
    pub(super) updates: BTreeMap<ObjectKey, ResourceVersion>,
    /// The objects whose echo is outstanding.
    pub(super) objects: BTreeSet<ObjectKey>,
    /// The number of the last answer to a write.
    pub(super) answer: u64,
}

impl Owner {
    /// Returns true if nothing is outstanding or unknown.
    pub(super) fn is_settled(&self) -> bool {
        self.written.is_none()
            && self.deleted.is_empty()
            && self.unresolved.is_empty()
            && self.updates.is_empty()
            && self.objects.is_empty()
    }
}

#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) in_flight: bool,
    /// The latest state, or the deletion, seen while in flight.
    pub(super) seen: Option<Seen>,
    /// The version of the last write.
    pub(super) written: Option<ResourceVersion>,
    /// True if that write was a create.
    pub(super) created: bool,
    /// The uid of the object that was deleted.
    pub(super) deleted: Option<Text>,
}

/// The latest version of an object that was seen, or its deletion, which is later than any version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seen {
    Version(ResourceVersion),
    Deleted,
}

impl State {
    /// The owner of a write that was answered.
    pub(super) fn answered(&mut self, owner: &ObjectKey) -> &mut Owner {
        self.answers += 1;
        let entry = self.owners.entry(owner.clone()).or_default();
        entry.answer = self.answers;
        entry
    }

    pub(super) fn observe_applied(
        &mut self,
        object: &ObjectKey,
        uid: &Text,
        version: ResourceVersion,
    ) -> Observation {
        let Some(tracked) = self.objects.get_mut(object) else { return Observation::Foreign };
        if tracked.in_flight {
            tracked.seen = tracked.seen.max(Some(Seen::Version(version)));
            return Observation::InFlight;
        }
        // A change of an object that is being deleted needs no sync; a new object of the same name
        // does.
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

    pub(super) fn observe_deleted(&mut self, object: &ObjectKey, uid: &Text) -> Observation {
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
    pub(super) fn drop_observed(&mut self, owner: Option<&ObjectKey>, object: &ObjectKey) {
        let Some(owner) = owner else { return };
        let Some(entry) = self.owners.get_mut(owner) else { return };
        if !entry.objects.is_empty() && !self.objects.contains_key(object) {
            entry.objects.remove(object);
        }
        if entry.is_settled() {
            self.owners.remove(owner);
        }
    }

    pub(super) fn drop_settled(&mut self, owner: &ObjectKey) {
        if self.owners.get(owner).is_some_and(Owner::is_settled) {
            self.owners.remove(owner);
        }
    }
}
