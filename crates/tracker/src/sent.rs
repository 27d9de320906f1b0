//! The content of own writes whose echo is outstanding.
//!
//! An echo with this content need not be decoded: the view that was sent is the view that the
//! server stored. Any other content under the version of an own write is the work of another
//! client: a mutating webhook changed the object, or the server dropped a field that it does not
//! know. Versions alone do not show that.

use std::any::Any;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use ahash::HashMap;
use bytes::Bytes;
use kube_endpoint_core_model::{ObjectKey, ResourceVersion, StringMap};
use parking_lot::Mutex;

/// The most objects that are held. Of older ones a digest remains; their echoes are decoded.
const MOST_OBJECTS: usize = 256;

/// The most digests, which is more than a cluster at Kubernetes' limits has slices. The oldest are
/// dropped first; their echoes are compared by version only.
const MOST_DIGESTS: usize = 32_768;

/// The objects of one kind that were sent and not seen yet. The writers and the cache of the kind
/// share it.
#[derive(Debug, Default)]
pub struct SentObjects(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    objects: HashMap<ObjectKey, Sent>,
    /// Those that are held, by age.
    held: BTreeMap<u64, ObjectKey>,
    /// Those of which a digest remains, by age.
    digests: BTreeMap<u64, ObjectKey>,
    last_age: u64,
}

/// The view that was sent, of any kind.
pub type SentObject = Arc<dyn Any + Send + Sync>;

#[derive(Debug)]
struct Sent {
    age: u64,
    kept: Kept,
    /// The version that the server answered; none while the write is in flight.
    version: Option<ResourceVersion>,
    /// The latest version that was seen, and whether its content is the one that was sent.
    seen: Option<(ResourceVersion, bool)>,
}

/// What is kept of an object that was sent.
#[derive(Debug)]
enum Kept {
    Object(Content, SentObject),
    Digest(u64),
}

/// What controllers write into an object: all but names, annotations, owners, and what the server
/// adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub labels: StringMap,
    /// The protobuf encoding of the fields after the metadata.
    pub fields: Bytes,
}

impl Kept {
    fn is_same(&self, labels: &StringMap, fields: &[u8]) -> bool {
        match self {
            Self::Object(content, _) => content.labels == *labels && *content.fields == *fields,
            Self::Digest(sent) => *sent == digest(labels, fields),
        }
    }

    fn view(&self) -> Option<SentObject> {
        match self {
            Self::Object(_, view) => Some(Arc::clone(view)),
            Self::Digest(_) => None,
        }
    }
}

fn digest(labels: &StringMap, fields: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (labels, fields).hash(&mut hasher);
    hasher.finish()
}

/// What the event of an object means.
#[derive(Debug)]
pub enum Echo {
    /// Nothing is known about it.
    Unknown,
    /// Its content was sent, in this object; none if the object is no longer held.
    Same(Option<SentObject>),
    /// Its content is not the one that was sent.
    Different,
}

impl SentObjects {
    /// Returns true if nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.0.lock().objects.is_empty()
    }

    /// The number of objects that are outstanding.
    pub fn len(&self) -> usize {
        self.0.lock().objects.len()
    }

    /// Records that an object is being sent. It replaces what was sent of that object before.
    pub fn begin(&self, object: &ObjectKey, content: Content, view: SentObject) {
        let mut state = self.0.lock();
        state.remove(object);
        if state.held.len() >= MOST_OBJECTS {
            state.reduce_oldest_to_digest();
        }
        state.last_age += 1;
        let age = state.last_age;
        state.held.insert(age, object.clone());
        let kept = Kept::Object(content, view);
        state.objects.insert(object.clone(), Sent { age, kept, version: None, seen: None });
    }

    /// Records that the write of an object was answered. Returns whether the object has been seen
    /// in that version already, with another content.
    pub fn answered(&self, object: &ObjectKey, version: ResourceVersion) -> bool {
        let mut state = self.0.lock();
        let Some(sent) = state.objects.get_mut(object) else { return false };
        match sent.seen {
            Some((seen, same)) if seen >= version => {
                state.remove(object);
                seen == version && !same
            }
            _ => {
                sent.version = Some(version);
                false
            }
        }
    }

    /// Records that the write of an object failed.
    pub fn failed(&self, object: &ObjectKey) {
        self.0.lock().remove(object);
    }

    /// Returns true if something is known about an object that has this version in an event.
    pub fn expects(&self, object: &ObjectKey, version: ResourceVersion) -> bool {
        let state = self.0.lock();
        state.objects.get(object).is_some_and(|sent| sent.version.is_none_or(|sent| version <= sent))
    }

    /// Compares an event with what was sent. `labels` and `fields` are those of [`Content`].
    pub fn echo(
        &self,
        object: &ObjectKey,
        version: ResourceVersion,
        labels: &StringMap,
        fields: &[u8],
    ) -> Echo {
        let mut state = self.0.lock();
        let Some(sent) = state.objects.get_mut(object) else { return Echo::Unknown };
        match sent.version {
            // An event before that of the write.
            Some(written) if version < written => return Echo::Unknown,
            Some(written) if version > written => {
                state.remove(object);
                return Echo::Unknown;
            }
            _ => {}
        }
        let same = sent.kept.is_same(labels, fields);
        let view = sent.kept.view();
        if same && sent.version.is_some() {
            state.remove(object);
            return Echo::Same(view);
        }
        if sent.seen.is_none_or(|(seen, _)| seen < version) {
            sent.seen = Some((version, same));
        }
        if same { Echo::Same(view) } else { Echo::Different }
    }

    /// Returns true if an object has another content in the version of the own write than was sent.
    /// The answer is given once, after [`Self::echo`].
    pub fn take_difference(&self, object: &ObjectKey, version: ResourceVersion) -> bool {
        let mut state = self.0.lock();
        let differs = state
            .objects
            .get(object)
            .is_some_and(|sent| sent.version == Some(version) && sent.seen == Some((version, false)));
        if differs {
            state.remove(object);
        }
        differs
    }
}

impl State {
    fn remove(&mut self, object: &ObjectKey) {
        if let Some(sent) = self.objects.remove(object) {
            let ages = match sent.kept {
                Kept::Object(..) => &mut self.held,
                Kept::Digest(_) => &mut self.digests,
            };
            ages.remove(&sent.age);
        }
    }

    /// Replaces the oldest object by its digest.
    fn reduce_oldest_to_digest(&mut self) {
        if self.digests.len() >= MOST_DIGESTS
            && let Some((_, oldest)) = self.digests.pop_first()
        {
            self.objects.remove(&oldest);
        }
        if let Some((age, oldest)) = self.held.pop_first()
            && let Some(sent) = self.objects.get_mut(&oldest)
        {
            if let Kept::Object(content, _) = &sent.kept {
                sent.kept = Kept::Digest(digest(&content.labels, &content.fields));
            }
            self.digests.insert(age, oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("n", name)
    }

    fn version(number: u64) -> ResourceVersion {
        ResourceVersion(number)
    }

    fn content(text: &'static str) -> Content {
        Content { fields: text.into(), ..Content::default() }
    }

    fn sent(text: &'static str) -> SentObjects {
        let objects = SentObjects::default();
        objects.begin(&key("a"), content(text), Arc::new(7u8));
        objects
    }

    /// What an event means: `unknown`, `same` or `different`.
    fn echo(objects: &SentObjects, number: u64, text: &'static str) -> &'static str {
        match objects.echo(&key("a"), version(number), &StringMap::default(), text.as_bytes()) {
            Echo::Unknown => "unknown",
            Echo::Same(view) => {
                assert_eq!(*view.unwrap().downcast::<u8>().unwrap(), 7);
                "same"
            }
            Echo::Different => "different",
        }
    }

    #[test]
    fn an_echo_with_the_content_that_was_sent_gets_the_object_that_was_sent() {
        let objects = sent("x");
        assert!(objects.expects(&key("a"), version(5)) && !objects.expects(&key("b"), version(5)));
        assert!(!objects.answered(&key("a"), version(5)));
        assert!(!objects.expects(&key("a"), version(6)));
        // The event of an earlier write, with any content.
        assert_eq!(echo(&objects, 4, "x"), "unknown");
        assert_eq!(echo(&objects, 4, "y"), "unknown");
        assert_eq!(echo(&objects, 5, "x"), "same");
        assert!(objects.is_empty());
        assert!(!objects.take_difference(&key("a"), version(5)));
    }

    #[test]
    fn another_content_under_the_version_of_the_write_is_a_difference_once() {
        let objects = sent("x");
        assert!(!objects.answered(&key("a"), version(5)));
        assert_eq!(echo(&objects, 5, "y"), "different");
        assert!(!objects.take_difference(&key("a"), version(4)));
        assert!(objects.take_difference(&key("a"), version(5)));
        assert!(!objects.take_difference(&key("a"), version(5)));
        assert!(objects.is_empty());
    }

    #[test]
    fn an_echo_may_come_before_the_answer() {
        let check = |text: &'static str, seen: u64, answered: u64, differs: bool, left: usize| {
            let objects = sent("x");
            assert_eq!(echo(&objects, seen, text), if text == "x" { "same" } else { "different" });
            let got = objects.answered(&key("a"), version(answered));
            assert_eq!((got, objects.len()), (differs, left), "{text} {seen} {answered}");
        };
        check("x", 5, 5, false, 0);
        check("y", 5, 5, true, 0);
        // A foreign write before ours; the echo is still to come.
        check("y", 4, 5, false, 1);
        // A foreign write after ours, which the tracker reports.
        check("y", 6, 5, false, 0);
    }

    #[test]
    fn a_write_that_fails_or_is_overtaken_leaves_nothing() {
        let objects = sent("x");
        assert_eq!(echo(&objects, 5, "x"), "same");
        objects.failed(&key("a"));
        assert_eq!(echo(&objects, 5, "x"), "unknown");
        assert_eq!(echo(&objects, 5, "y"), "unknown");
        let objects = sent("x");
        assert_eq!(echo(&objects, 5, "x"), "same");
        assert_eq!(echo(&objects, 6, "y"), "different");
        // The tracker reports the foreign write after ours.
        assert!(!objects.answered(&key("a"), version(5)));
        assert!(objects.is_empty());
    }

    #[test]
    fn a_later_version_or_a_failed_write_ends_the_wait() {
        let objects = sent("x");
        assert!(!objects.answered(&key("a"), version(5)));
        assert_eq!(echo(&objects, 6, "x"), "unknown");
        assert!(objects.is_empty());
        let objects = sent("x");
        objects.failed(&key("a"));
        assert_eq!(echo(&objects, 5, "x"), "unknown");
    }

    #[test]
    fn digests_remain_of_the_oldest_objects_and_the_oldest_of_them_are_dropped() {
        let objects = SentObjects::default();
        for number in 0..MOST_OBJECTS + MOST_DIGESTS + 10 {
            objects.begin(&key(&number.to_string()), content("x"), Arc::new(7u8));
            objects.begin(&key("always"), content("x"), Arc::new(7u8));
        }
        assert_eq!(objects.len(), MOST_OBJECTS + MOST_DIGESTS);
        assert!(!objects.expects(&key("10"), version(1)) && objects.expects(&key("11"), version(1)));
        let echo = |name: &str, labels: &[(&str, &str)], text: &str| {
            objects.answered(&key(name), version(5));
            let labels = labels.iter().copied().collect();
            match objects.echo(&key(name), version(5), &labels, text.as_bytes()) {
                Echo::Same(Some(_)) => "held",
                Echo::Same(None) => "same",
                Echo::Different => "different",
                Echo::Unknown => "unknown",
            }
        };
        assert_eq!(echo("10", &[], "x"), "unknown");
        assert_eq!(echo("11", &[], "x"), "same");
        assert_eq!(echo("12", &[], "y"), "different");
        assert_eq!(echo("13", &[("a", "b")], "x"), "different");
        assert_eq!(echo("always", &[], "x"), "held");
        assert!(objects.take_difference(&key("12"), version(5)));
        objects.failed(&key("14"));
        let state = objects.0.lock();
        assert_eq!(state.objects.len(), MOST_OBJECTS + MOST_DIGESTS - 4);
        assert_eq!(state.held.len() + state.digests.len(), state.objects.len());
    }
}
