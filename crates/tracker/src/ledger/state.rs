//! The state of a ledger, and how answers and events change it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ahash::HashMap;
use kube_endpoint_core_model::{ObjectKey, ResourceVersion, Text};

use super::Sent;
use super::last_write::LastWrite;
use crate::writes::Observation;

#[derive(Debug, Default)]
pub(crate) struct State {
    /// One for each tracker.
    pub(crate) books: Vec<Book>,
    pub(crate) last_write: LastWrite,
    /// Each object that is held has a clone of this.
    pub(crate) held: Arc<()>,
}

/// The outstanding writes of one controller.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) owners: HashMap<ObjectKey, Owner>,
    pub(crate) objects: HashMap<ObjectKey, Object>,
    /// Objects whose write the cache has read past without showing it.
    pub(crate) missed: BTreeSet<ObjectKey>,
    /// True if a write was answered with a version that the cache had read past before the write
    /// was sent.
    pub(crate) went_back: bool,
    /// How many writes were answered.
    pub(crate) answers: u64,
    /// [`Self::answers`] at the last call of
    /// [`WriteTracker::overdue`](crate::WriteTracker::overdue).
    pub(crate) answers_before: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Owner {
    /// Names of creates whose outcome is unknown. The next create takes one of these, so that
    /// nothing is created twice.
    pub(crate) unresolved: BTreeSet<Text>,
    /// Updates whose outcome is unknown: the objects, and the versions that were to be replaced.
    pub(crate) updates: BTreeMap<ObjectKey, ResourceVersion>,
    /// The objects whose echo is outstanding.
    pub(crate) objects: BTreeSet<ObjectKey>,
    /// The number of the last answer to a write.
    pub(crate) answer: u64,
}

#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) phase: Phase,
    /// The content that was sent, until the cache takes it over.
    pub(crate) sent: Option<Sent>,
    /// The last version that came with another content.
    pub(crate) differs: Option<ResourceVersion>,
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// A write is in flight. `seen` is the version of the last event of the object that the cache
    /// has shown since, and `uid` that of the object that exists since then, if there is one.
    InFlight { seen: Option<ResourceVersion>, uid: Option<Text> },
    /// The server answered a create or an update of the owner's with this version.
    Written { owner: ObjectKey, version: ResourceVersion, created: bool },
    /// The server deleted the object.
    Deleted { uid: Text },
}

impl Object {
    fn in_flight(sent: Option<Sent>) -> Self {
        Self { phase: Phase::InFlight { seen: None, uid: None }, sent, differs: None }
    }
}

impl Book {
    pub(crate) fn begin(&mut self, object: &ObjectKey, sent: Option<Sent>) {
        self.objects.insert(object.clone(), Object::in_flight(sent));
    }

    /// Records the version that an object has after a write. Returns true if another client changed
    /// the object in the meantime.
    pub(crate) fn wrote(
        &mut self,
        owner: &ObjectKey,
        object: &ObjectKey,
        version: ResourceVersion,
        position: ResourceVersion,
        created: bool,
    ) -> bool {
        let written = self.objects.entry(object.clone()).or_insert_with(|| Object::in_flight(None));
        let seen = match written.phase {
            Phase::InFlight { seen, .. } => seen,
            Phase::Written { .. } | Phase::Deleted { .. } => None,
        };
        let echo = Some(version);
        // The echo may come before the answer.
        if seen >= echo {
            let differs = written.differs == Some(version);
            self.answered(owner, object);
            self.remove(owner, object);
            return seen > echo || differs;
        }
        written.phase = Phase::Written { owner: owner.clone(), version, created };
        self.answered(owner, object).objects.insert(object.clone());
        // After a restore a watch may have skipped the event, and a bookmark may have moved the
        // cache to just this version. Without a restore this costs a sync, if the echo comes
        // between the cache's step to its version and its delivery.
        created && version <= position
    }

    /// Records that an object was deleted. Returns true if the cache has shown another object under
    /// its name in the meantime.
    pub(crate) fn deleted(&mut self, owner: &ObjectKey, object: &ObjectKey, uid: &Text) -> bool {
        let deleted = self.objects.entry(object.clone()).or_insert_with(|| Object::in_flight(None));
        if let Phase::InFlight { seen, uid: existing } = &deleted.phase {
            let is_another = existing.as_ref().is_some_and(|existing| existing != uid);
            if is_another || existing.is_none() && seen.is_some() {
                self.answered(owner, object);
                self.remove(owner, object);
                return is_another;
            }
        }
        deleted.phase = Phase::Deleted { uid: uid.clone() };
        self.answered(owner, object).objects.insert(object.clone());
        false
    }

    /// Records the answer to a write, which settles earlier ones of the same object.
    fn answered(&mut self, owner: &ObjectKey, object: &ObjectKey) -> &mut Owner {
        self.answers += 1;
        let entry = self.owners.entry(owner.clone()).or_default();
        entry.answer = self.answers;
        entry.unresolved.remove(&object.name);
        entry.updates.remove(object);
        entry
    }

    pub(crate) fn update_resolved(&mut self, owner: &ObjectKey, object: &ObjectKey) {
        if let Some(entry) = self.owners.get_mut(owner) {
            entry.updates.remove(object);
            self.drop_settled(owner);
        }
    }

    /// Drops the record of a write that is over. Returns true if the object changed meanwhile.
    pub(crate) fn remove(&mut self, owner: &ObjectKey, object: &ObjectKey) -> bool {
        let removed = self.objects.remove(object);
        self.drop_observed(Some(owner), object);
        removed.is_some_and(|it| matches!(it.phase, Phase::InFlight { seen: Some(_), .. }))
    }

    pub(crate) fn observe_applied(
        &mut self,
        object: &ObjectKey,
        uid: &Text,
        version: ResourceVersion,
    ) -> Observation {
        let Some(tracked) = self.objects.get_mut(object) else { return Observation::Foreign };
        let observed = match &mut tracked.phase {
            Phase::InFlight { seen, uid: existing } => {
                *seen = (*seen).max(Some(version));
                *existing = Some(uid.clone());
                return Observation::InFlight;
            }
            // A change of an object that is being deleted needs no sync; a new object of the same
            // name does.
            Phase::Deleted { uid: deleted } if deleted == uid => return Observation::Own,
            Phase::Deleted { .. } => Observation::Foreign,
            Phase::Written { version: written, .. } if version < *written => return Observation::Own,
            Phase::Written { owner, version: written, .. } if version > *written => {
                Observation::Overtaken { owner: owner.clone() }
            }
            Phase::Written { .. } => {
                let is_own = tracked.differs != Some(version);
                if is_own { Observation::Own } else { Observation::Foreign }
            }
        };
        self.objects.remove(object);
        observed
    }

    pub(crate) fn observe_deleted(
        &mut self,
        object: &ObjectKey,
        uid: &Text,
        position: ResourceVersion,
    ) -> Observation {
        let Some(tracked) = self.objects.get_mut(object) else { return Observation::Foreign };
        let is_own = match &mut tracked.phase {
            Phase::InFlight { seen, uid: existing } => {
                *seen = (*seen).max(Some(position));
                *existing = None;
                return Observation::InFlight;
            }
            // An earlier object of this name was deleted. The cache has yet to show the one that
            // was written.
            Phase::Written { version, .. } if position < *version => return Observation::Foreign,
            Phase::Written { .. } => false,
            Phase::Deleted { uid: deleted } => deleted == uid,
        };
        self.objects.remove(object);
        if is_own { Observation::Own } else { Observation::Foreign }
    }

    /// Drops what an event or an answer has settled.
    pub(crate) fn drop_observed(&mut self, owner: Option<&ObjectKey>, object: &ObjectKey) {
        let Some(owner) = owner else { return };
        let Some(entry) = self.owners.get_mut(owner) else { return };
        if !entry.objects.is_empty() && !self.objects.contains_key(object) {
            entry.objects.remove(object);
        }
        self.drop_settled(owner);
    }

    /// Drops the owner if nothing of it is outstanding or unknown.
    pub(crate) fn drop_settled(&mut self, owner: &ObjectKey) {
        let is_settled = |entry: &Owner| {
            entry.unresolved.is_empty() && entry.updates.is_empty() && entry.objects.is_empty()
        };
        if self.owners.get(owner).is_some_and(is_settled) {
            self.owners.remove(owner);
        }
    }
}
