//! A sorted map of two levels with copy on write, so cloning one `Arc` gives a consistent snapshot.
//!
//! Cost: a snapshot is O(1). A write to a map of n objects moves at most [`LEAF`] pointers. If a
//! snapshot still shares them, it first clones one leaf and the n / LEAF pointers of the top level:
//! some microseconds for 150,000 objects.

use std::sync::Arc;

use super::object::Stored;

/// The maximum number of objects of a leaf. An insert splits a larger one.
const LEAF: usize = 256;

type Leaf = Arc<Vec<Arc<Stored>>>;

/// Objects by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct CowMap {
    leaves: Arc<Vec<Leaf>>,
    len: usize,
}

impl CowMap {
    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the leaf that contains the key, if the map does.
    fn leaf_of(&self, key: &str) -> usize {
        self.leaves
            .partition_point(|leaf| leaf.first().is_some_and(|first| &*first.key <= key))
            .saturating_sub(1)
    }

    fn position(&self, key: &str) -> (usize, Result<usize, usize>) {
        let leaf = self.leaf_of(key);
        let found = match self.leaves.get(leaf) {
            Some(objects) => objects.binary_search_by(|object| (*object.key).cmp(key)),
            None => Err(0),
        };
        (leaf, found)
    }

    /// Returns the object with this key.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        let (leaf, found) = self.position(key);
        self.leaves.get(leaf)?.get(found.ok()?)
    }

    /// Inserts an object and returns the one that it replaces.
    pub(crate) fn insert(&mut self, object: Arc<Stored>) -> Option<Arc<Stored>> {
        let (at, found) = self.position(&object.key);
        let leaves = Arc::make_mut(&mut self.leaves);
        if leaves.is_empty() {
            leaves.push(Arc::new(vec![object]));
            self.len = 1;
            return None;
        }
        let leaf = Arc::make_mut(&mut leaves[at]);
        match found {
            Ok(index) => Some(std::mem::replace(&mut leaf[index], object)),
            Err(index) => {
                leaf.insert(index, object);
                self.len += 1;
                if leaf.len() > LEAF {
                    // If a full leaf grows at its end, inserts probably come in order, so the leaf
                    // stays full.
                    let keep = if index + 1 == leaf.len() { LEAF } else { LEAF / 2 };
                    let right = leaf.split_off(keep);
                    leaves.insert(at + 1, Arc::new(right));
                }
                None
            }
        }
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Arc<Stored>> {
        let (at, found) = self.position(key);
        let index = found.ok()?;
        let leaves = Arc::make_mut(&mut self.leaves);
        let leaf = Arc::make_mut(&mut leaves[at]);
        let removed = leaf.remove(index);
        if leaf.is_empty() {
            leaves.remove(at);
        }
        self.len -= 1;
        Some(removed)
    }

    /// Returns the number of objects with a smaller key.
    pub(crate) fn rank(&self, key: &str) -> usize {
        let (leaf, found) = self.position(key);
        let within = found.unwrap_or_else(|index| index);
        self.leaves[..leaf.min(self.leaves.len())].iter().map(|leaf| leaf.len()).sum::<usize>() + within
    }

    /// Returns a cursor over a snapshot, from `start` to the last key with `prefix`.
    pub(crate) fn cursor(&self, start: &str, prefix: &str) -> Cursor {
        let (leaf, found) = self.position(start);
        Cursor { map: self.clone(), leaf, index: found.unwrap_or_else(|index| index), prefix: prefix.into() }
    }
}

/// An iterator over a snapshot that it owns.
#[derive(Debug)]
pub(crate) struct Cursor {
    map: CowMap,
    leaf: usize,
    index: usize,
    prefix: Box<str>,
}

impl Iterator for Cursor {
    type Item = Arc<Stored>;

    fn next(&mut self) -> Option<Arc<Stored>> {
        loop {
            let leaf = self.map.leaves.get(self.leaf)?;
            let Some(object) = leaf.get(self.index) else {
                self.leaf += 1;
                self.index = 0;
                continue;
            };
            if !object.key.starts_with(&*self.prefix) {
                self.leaf = usize::MAX;
                return None;
            }
            self.index += 1;
            return Some(object.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Encoded, EventKind};
    use std::collections::BTreeMap;

    fn object(key: &str, version: u64) -> Arc<Stored> {
        let encoded = Encoded::of(&serde_json::json!({"metadata": {}}));
        Arc::new(Stored::new(key, version, EventKind::Added, &encoded, Arc::default()))
    }

    fn keys(map: &CowMap) -> Vec<String> {
        map.cursor("", "").map(|object| object.key.to_string()).collect()
    }

    #[test]
    fn it_behaves_as_a_sorted_map_does_and_snapshots_stay_as_they_were() {
        let mut model = BTreeMap::new();
        let mut map = CowMap::default();
        let mut number = 1u64;
        for step in 0..6000u64 {
            number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let key = format!("ns-{}/pod-{}", (number >> 33) % 7, (number >> 40) % 300);
            let before = (step % 500 == 0).then(|| (map.clone(), keys(&map)));
            if number >> 62 == 0 {
                assert_eq!(map.remove(&key).is_some(), model.remove(&key).is_some());
            } else {
                let replaced = map.insert(object(&key, step)).map(|object| object.version);
                assert_eq!(replaced, model.insert(key.clone(), step));
            }
            assert_eq!(map.len(), model.len());
            assert_eq!(map.get(&key).map(|object| object.version), model.get(&key).copied());
            if let Some((snapshot, keys_before)) = before {
                assert_eq!(keys(&snapshot), keys_before);
                assert_eq!(keys(&map), model.keys().cloned().collect::<Vec<_>>());
                assert_eq!(map.rank("ns-3/"), model.range(..String::from("ns-3/")).count());
                let prefixed: Vec<_> = map.cursor("ns-2/", "ns-2/").map(|o| o.key.to_string()).collect();
                let expected: Vec<_> = model.keys().filter(|key| key.starts_with("ns-2/")).cloned().collect();
                assert_eq!(prefixed, expected);
            }
        }
    }

    #[test]
    fn an_empty_map_answers() {
        let mut map = CowMap::default();
        assert!(map.get("a").is_none());
        assert!(map.remove("a").is_none());
        assert_eq!(map.rank("a"), 0);
        assert_eq!(map.cursor("a", "").count(), 0);
    }
}
