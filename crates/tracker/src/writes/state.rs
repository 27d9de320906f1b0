//! What is tracked, and how events change it.

use std::collections::{BTreeMap, BTreeSet};

use ahash::{HashMap, HashSet};
use kube_endpoint_core_model::{ObjectKey, ResourceVersion, Text};

use super::{CachePosition, Observation};

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) owners: HashMap<ObjectKey, Owner>,
    pub(super) objects: HashMap<ObjectKey, Object>,
    /// The latest epoch that was passed in for a namespace, without those that are 0. Namespaces
    /// may be listed one by one.
    epochs: HashMap<Text, u64>,
    /// Objects that were written at a position that the cache has read past without showing the
    /// write.
    pub(super) missed: BTreeMap<ObjectKey, CachePosition>,
    /// Owners with writes that were outstanding when a new epoch began. Whether the cache shows
    /// them is not known.
    pub(super) uncertain: HashSet<ObjectKey>,
    /// True if a write was answered with a version that the cache had read past before the write
    /// was sent.
    pub(super) set_back: bool,
    /// How many writes were answered.
    pub(super) answers: u64,
    /// [`Self::answers`] at the last call of
    /// [`WriteTracker::overdue`](super::WriteTracker::overdue).
    pub(super) answers_before: u64,
}

#[derive(Debug, Default)]
pub(super) struct Owner {
    /// The highest version written for it, in its epoch.
    pub(super) written: Option<CachePosition>,
    /// Uids of deleted objects that the cache may still show, with the epoch in which they were
    /// deleted. A restored server may have them again.
    pub(super) deleted: BTreeMap<Text, u64>,
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
    /// Returns true if a write of another epoch is outstanding.
    pub(super) fn is_of_other_epoch(&self, epoch: u64) -> bool {
        self.written.is_some_and(|written| written.epoch != epoch)
    }

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
    /// The epoch in which the last write began.
    pub(super) epoch: u64,
    /// The latest state, or the deletion, seen while in flight.
    pub(super) seen: Option<Seen>,
    /// The version of the last write, in `epoch`.
    pub(super) written: Option<ResourceVersion>,
    /// True if that write was a create.
    pub(super) created: bool,
    /// The uid of the object that was deleted.
    pub(super) deleted: Option<Text>,
}

impl Object {
    pub(super) fn written(&self) -> Option<CachePosition> {
        self.written.map(|version| CachePosition { epoch: self.epoch, version })
    }
}

/// What was seen of an object: a version of an epoch, or its deletion, which is later than any
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seen {
    Version { epoch: u64, version: ResourceVersion },
    Deleted,
}

impl State {
    /// Takes note of the epoch of the cache in a namespace.
    pub(super) fn enter(&mut self, namespace: &Text, epoch: u64) {
        if epoch > self.epoch(namespace) {
            self.epochs.insert(namespace.clone(), epoch);
        }
    }

    /// The owner of a write that was answered.
    pub(super) fn answered(&mut self, owner: &ObjectKey) -> &mut Owner {
        self.answers += 1;
        let entry = self.owners.entry(owner.clone()).or_default();
        entry.answer = self.answers;
        entry
    }

    /// The latest epoch of a namespace.
    pub(super) fn epoch(&self, namespace: &Text) -> u64 {
        self.epochs.get(namespace).copied().unwrap_or_default()
    }

    pub(super) fn observe_applied(
        &mut self,
        object: &ObjectKey,
        uid: &Text,
        seen: CachePosition,
    ) -> Observation {
        let CachePosition { epoch, version } = seen;
        let Some(tracked) = self.objects.get_mut(object) else { return Observation::Foreign };
        if tracked.in_flight {
            tracked.seen = tracked.seen.max(Some(Seen::Version { epoch, version }));
            return Observation::InFlight;
        }
        // A restored server may have undone the write, and its versions say nothing about those
        // before.
        if tracked.epoch != epoch {
            self.objects.remove(object);
            return Observation::Foreign;
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
