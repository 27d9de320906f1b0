//! The objects that other clients wrote last, for the status page.

use std::collections::VecDeque;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use parking_lot::Mutex;

/// The most objects in the list.
const KEPT: usize = 20;

/// An object that another client has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentForeignWrite {
    pub object: ObjectKey,
    /// When the cache showed the last of the writes.
    pub at: Timestamp,
    /// How often other clients have written the object since it joined the list.
    pub count: u64,
    /// The last writer of its content as the server names it, once the controller has asked.
    pub writer: Option<Text>,
    /// The count when the controller asked the server.
    asked: u64,
}

/// The list of objects, the newest write last.
#[derive(Debug, Default)]
pub(crate) struct RecentForeignWrites(Mutex<VecDeque<RecentForeignWrite>>);

impl RecentForeignWrites {
    /// Records a write. A new object replaces the one whose last write is the oldest.
    pub(crate) fn seen(&self, object: ObjectKey, at: Timestamp) {
        let mut kept = self.0.lock();
        let known = kept.iter().position(|write| write.object == object).and_then(|at| kept.remove(at));
        if kept.len() == KEPT {
            kept.pop_front();
        }
        let mut write = known.unwrap_or(RecentForeignWrite { object, at, count: 0, writer: None, asked: 0 });
        (write.at, write.count) = (at, write.count.saturating_add(1));
        kept.push_back(write);
    }

    /// Returns at most `limit` wanted objects that other clients have written since the last call
    /// that returned them, those of the newest writes first.
    pub(crate) fn to_ask(&self, limit: usize, is_wanted: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        let mut kept = self.0.lock();
        let unasked = kept.iter_mut().rev().filter(|write| write.asked < write.count);
        let unasked = unasked.filter(|write| is_wanted(&write.object)).take(limit);
        let ask = |write: &mut RecentForeignWrite| {
            write.asked = write.count;
            write.object.clone()
        };
        unasked.map(ask).collect()
    }

    /// Records who wrote an object last.
    pub(crate) fn written_by(&self, object: &ObjectKey, writer: Text) {
        if let Some(write) = self.0.lock().iter_mut().find(|write| write.object == *object) {
            write.writer = Some(writer);
        }
    }

    /// Returns the writes, the newest first.
    pub(crate) fn list(&self) -> Vec<RecentForeignWrite> {
        self.0.lock().iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_twenty_objects_are_kept_with_the_number_of_writes() {
        let writes = RecentForeignWrites::default();
        let key = |number: i64| ObjectKey::new("shop", format!("web-{number}"));
        let at = |second| Timestamp::from_second(second).unwrap();
        for number in 0..25 {
            writes.seen(key(number), at(number));
            writes.seen(key(0), at(number));
        }
        let listed = writes.list();
        assert_eq!(listed.len(), KEPT);
        let write = |number, count| RecentForeignWrite {
            object: key(number),
            at: at(24),
            count,
            writer: None,
            asked: 0,
        };
        assert_eq!(listed[..2], [write(0, 26), write(24, 1)]);
        assert_eq!(listed[19].object, key(6));
        // An object that left the list and returns has a new count.
        writes.seen(key(1), at(30));
        assert_eq!(writes.list()[0].count, 1);
        assert_eq!(writes.list().len(), KEPT);
    }

    #[test]
    fn each_write_is_asked_about_once() {
        let writes = RecentForeignWrites::default();
        let key = |name: &str| ObjectKey::new("shop", name);
        let now = Timestamp::UNIX_EPOCH;
        for name in ["a", "b", "c"] {
            writes.seen(key(name), now);
        }
        assert_eq!(writes.to_ask(2, |_| true), [key("c"), key("b")]);
        writes.written_by(&key("c"), "kube-controller-manager".into());
        writes.seen(key("c"), now);
        assert_eq!(writes.list()[0].writer.as_deref(), Some("kube-controller-manager"));
        assert_eq!(writes.to_ask(9, |object| *object != key("a")), [key("c")]);
        assert_eq!(writes.to_ask(9, |_| true), [key("a")]);
        assert_eq!(writes.to_ask(9, |_| true), []);
    }
}
