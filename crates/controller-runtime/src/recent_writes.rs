//! The objects that other clients wrote last, for the status page.

use std::collections::VecDeque;

use kube_endpoint_core_model::{ObjectKey, Timestamp};
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
}

/// The list of objects, the newest write last.
#[derive(Debug, Default)]
pub(crate) struct RecentForeignWrites(Mutex<VecDeque<RecentForeignWrite>>);

impl RecentForeignWrites {
    /// Records a write. A new object replaces the one whose last write is the oldest.
    pub(crate) fn seen(&self, object: ObjectKey, at: Timestamp) {
        let mut kept = self.0.lock();
        let known = kept.iter().position(|write| write.object == object);
        let count = known.and_then(|at| kept.remove(at)).map_or(0, |write| write.count);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(RecentForeignWrite { object, at, count: count.saturating_add(1) });
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
        assert_eq!(listed[0], RecentForeignWrite { object: key(0), at: at(24), count: 26 });
        assert_eq!(listed[1], RecentForeignWrite { object: key(24), at: at(24), count: 1 });
        assert_eq!(listed[19].object, key(6));
        // An object that left the list and returns has a new count.
        writes.seen(key(1), at(30));
        assert_eq!(writes.list()[0].count, 1);
        assert_eq!(writes.list().len(), KEPT);
    }
}
