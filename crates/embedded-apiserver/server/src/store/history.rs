//! The latest changes of one resource, which watches replay and from which reads reconstruct older
//! states.

use std::collections::VecDeque;
use std::sync::Arc;

use super::object::{EventKind, Stored};

/// One change.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) version: u64,
    pub(crate) kind: EventKind,
    /// The object after the change, or, for a deletion, its last state with the version of the
    /// deletion.
    pub(crate) object: Arc<Stored>,
    /// The object before the change.
    pub(crate) previous: Option<Arc<Stored>>,
}

/// The requested version is older than the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// The oldest version from which changes are available.
    pub(crate) oldest: u64,
}

/// The limits of a resource's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) changes: usize,
    /// The size of the objects after the changes.
    pub(crate) bytes: usize,
}

/// A bounded queue of changes, oldest first.
#[derive(Debug)]
pub(crate) struct History {
    events: VecDeque<Arc<Event>>,
    /// The size of the objects in `events`.
    bytes: usize,
    limits: Limits,
    /// `events` has all changes after this version.
    floor: u64,
}

impl History {
    /// Returns an empty history that begins after `version`. It keeps at least one change.
    pub(crate) fn new(limits: Limits, version: u64) -> Self {
        Self { events: VecDeque::new(), bytes: 0, limits, floor: version }
    }

    /// Adds a change and drops the oldest ones beyond the limits.
    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.object.size();
        self.events.push_back(event);
        while self.events.len() > 1
            && (self.events.len() > self.limits.changes || self.bytes > self.limits.bytes)
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(dropped) = self.events.pop_front() {
            self.bytes -= dropped.object.size();
            self.floor = dropped.version;
        }
    }

    /// Drops all changes up to `version`.
    pub(crate) fn forget(&mut self, version: u64) {
        while self.events.front().is_some_and(|event| event.version <= version) {
            self.drop_oldest();
        }
        self.floor = self.floor.max(version);
    }

    /// Drops all changes. The history then begins after `version`, which may be lower than before.
    pub(crate) fn reset(&mut self, version: u64) {
        self.events.clear();
        self.bytes = 0;
        self.floor = version;
    }

    /// Returns the changes after `version`, oldest first.
    pub(crate) fn since(&self, version: u64) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, TooOld> {
        if version < self.floor {
            return Err(TooOld { oldest: self.floor });
        }
        let start = self.events.partition_point(|event| event.version <= version);
        Ok(self.events.range(start..))
    }

    /// Returns the version up to which this has dropped changes.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Encoded;

    fn event(version: u64) -> Arc<Event> {
        let encoded = Encoded::of(&serde_json::json!({}));
        let object = Arc::new(Stored::new("a", version, EventKind::Added, &encoded, Arc::default()));
        Arc::new(Event { version, kind: EventKind::Added, object, previous: None })
    }

    fn versions(history: &History, since: u64) -> Result<Vec<u64>, TooOld> {
        history.since(since).map(|events| events.map(|event| event.version).collect())
    }

    #[test]
    fn it_tells_what_it_remembers_and_says_when_it_forgot() {
        let mut history = History::new(Limits { changes: 2, bytes: usize::MAX }, 10);
        assert_eq!(versions(&history, 10), Ok(vec![]));
        assert_eq!(versions(&history, 9), Err(TooOld { oldest: 10 }));
        for version in [12, 15, 20] {
            history.push(event(version));
        }
        assert_eq!(versions(&history, 12), Ok(vec![15, 20]));
        assert_eq!(versions(&history, 15), Ok(vec![20]));
        assert_eq!(versions(&history, 99), Ok(vec![]));
        assert_eq!(versions(&history, 11), Err(TooOld { oldest: 12 }));
        history.forget(15);
        assert_eq!(versions(&history, 14), Err(TooOld { oldest: 15 }));
        assert_eq!(versions(&history, 15), Ok(vec![20]));
        assert_eq!(history.floor(), 15);
    }

    #[test]
    fn it_is_bounded_by_bytes_and_keeps_at_least_one_change() {
        let size = event(1).object.size();
        let mut history = History::new(Limits { changes: 100, bytes: 3 * size + 2 }, 0);
        for version in 1..=9 {
            history.push(event(version));
        }
        assert_eq!(versions(&history, 6), Ok(vec![7, 8, 9]));
        assert_eq!(versions(&history, 5), Err(TooOld { oldest: 6 }));
        history.forget(7);
        history.push(event(10));
        assert_eq!(versions(&history, 7), Ok(vec![8, 9, 10]), "what was forgotten does not count");
        let mut tiny = History::new(Limits { changes: 0, bytes: 0 }, 0);
        tiny.push(event(1));
        tiny.push(event(2));
        assert_eq!(versions(&tiny, 1), Ok(vec![2]));
    }
}
