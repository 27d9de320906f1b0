//! The own writes of a kind, and what the cache and the next leader have to know of them.
//!
//! The cache asks for the content of a write whose echo is outstanding. An echo with this content
//! need not be decoded: the object that was sent is the one that the server stored. Any other
//! content under the version of an own write is the work of another client: a mutating webhook
//! changed the object, or the server dropped a field that it does not know. Versions alone do not
//! show that.
//!
//! The manager asks for the version of the last write, which it leaves to the next leader.

use std::any::Any;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kube_endpoint_core_model::{ObjectKey, ResourceVersion, StringMap};
use parking_lot::Mutex;

use crate::writes::WriteTracker;

mod last_write;
pub(crate) mod state;

pub(crate) use last_write::Begun;
use state::{Object, Phase, State};

/// The most objects that are held. Each other object leaves a digest, and its echo is decoded.
const MOST_OBJECTS: usize = 256;

/// The writes of one kind. All trackers of the kind, its cache and the manager share it.
#[derive(Debug, Default)]
pub struct WriteLedger {
    pub(crate) state: Mutex<State>,
}

/// The object that was sent, of any kind.
pub type SentObject = Arc<dyn Any + Send + Sync>;

/// The fields that controllers write: all but names, annotations, owners, and those of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub labels: StringMap,
    /// The protobuf encoding of the fields after the metadata.
    pub fields: Bytes,
}

/// The meaning of an event, judged by its content.
#[derive(Debug)]
pub enum Echo {
    /// No write is known that the event could show.
    Unknown,
    /// Its content was sent, in this object; `None` if only a digest was kept.
    Same(Option<SentObject>),
    /// Its content is not the one that was sent.
    Different,
}

impl WriteLedger {
    /// Adds a tracker for one controller.
    pub fn tracker(self: &Arc<Self>) -> WriteTracker {
        let mut state = self.state.lock();
        state.books.push(state::Book::default());
        WriteTracker { ledger: Arc::clone(self), book: state.books.len() - 1 }
    }

    /// Returns true if no write is outstanding.
    pub fn is_empty(&self) -> bool {
        self.state.lock().books.iter().all(|book| book.objects.is_empty())
    }

    /// Returns true if an event with this version may be the echo of a write whose content is kept.
    pub fn expects(&self, object: &ObjectKey, version: ResourceVersion) -> bool {
        let state = self.state.lock();
        state.books.iter().filter_map(|book| book.objects.get(object)).any(|it| it.expects(version))
    }

    /// Compares an event with what was sent. `labels` and `fields` are those of [`Content`]. An
    /// event with another content is then [`Observation::Foreign`](crate::Observation).
    pub fn echo(
        &self,
        object: &ObjectKey,
        version: ResourceVersion,
        labels: &StringMap,
        fields: &[u8],
    ) -> Echo {
        let mut state = self.state.lock();
        let mut objects = state.books.iter_mut().filter_map(|book| book.objects.get_mut(object));
        let Some(object) = objects.find(|it| it.expects(version)) else { return Echo::Unknown };
        let (same, view) = match &object.sent {
            Some(Sent::Object { content, view, .. }) => {
                (content.labels == *labels && *content.fields == *fields, Some(Arc::clone(view)))
            }
            Some(Sent::Digest(sent)) => (*sent == digest(labels, fields), None),
            None => return Echo::Unknown,
        };
        if !same {
            object.differs = Some(version);
            return Echo::Different;
        }
        // The cache takes the object over.
        if let Phase::Written { .. } = object.phase {
            object.sent = None;
        }
        Echo::Same(view)
    }

    /// Returns the version that a cache must have read to show all writes of the kind. `None` if
    /// that is unknown: no write was made, the answer to one was lost, or one is in flight; or the
    /// last one was a delete, whose answer has no version.
    pub fn last_version(&self) -> Option<ResourceVersion> {
        self.state.lock().last_write.version()
    }

    /// Records that another ledger, or a process that was killed, has dropped writes of this kind
    /// whose answers never came, before `at`. [`Self::last_version`] is unknown until they cannot
    /// happen any more.
    pub fn writes_abandoned(&self, at: Instant) {
        self.state.lock().last_write.abandoned(at);
    }

    /// Returns true if a write whose answer is unknown may be carried out at this time.
    pub fn may_still_happen(&self, at: Instant) -> bool {
        self.state.lock().last_write.may_still_happen(at)
    }

    /// Records the version of the last write of another process, which wrote the kind before this
    /// one; `None` if it is unknown. [`Self::last_version`] returns it until this process writes.
    pub fn continue_from(&self, version: Option<ResourceVersion>) {
        self.state.lock().last_write.continue_from(version);
    }
}

/// The record of what was sent.
#[derive(Debug)]
pub(crate) enum Sent {
    Object {
        content: Content,
        view: SentObject,
        /// A clone of [`State::held`], which counts the objects that are held.
        _held: Arc<()>,
    },
    Digest(u64),
}

impl State {
    /// Keeps an object that is being sent, or its digest if many are held.
    pub(crate) fn keep(&self, content: Content, view: SentObject) -> Sent {
        if Arc::strong_count(&self.held) > MOST_OBJECTS {
            return Sent::Digest(digest(&content.labels, &content.fields));
        }
        Sent::Object { content, view, _held: Arc::clone(&self.held) }
    }
}

impl Object {
    /// Returns true if an event with this version may be the echo of what was sent.
    fn expects(&self, version: ResourceVersion) -> bool {
        self.sent.is_some()
            && match self.phase {
                Phase::InFlight { .. } => true,
                Phase::Written { version: written, .. } => version == written,
                Phase::Deleted { .. } => false,
            }
    }
}

fn digest(labels: &StringMap, fields: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (labels, fields).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
