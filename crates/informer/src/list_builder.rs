//! The complete state of a kind while it comes in.

use std::collections::{BTreeSet, HashMap};

use kube_endpoint_core_model::{ObjectKey, ResourceVersion};

use crate::{Object, StreamEvent};

/// Objects of a list, or of the first part of a watch that begins with the complete state.
#[derive(Debug)]
pub(crate) struct ListBuilder<T> {
    items: Vec<T>,
    /// Where each object is. Made only once an object changes while the state comes in, which is rare.
    index: Option<HashMap<ObjectKey, usize>>,
    undecodable: BTreeSet<ObjectKey>,
}

impl<T> Default for ListBuilder<T> {
    fn default() -> Self {
        Self { items: Vec::new(), index: None, undecodable: BTreeSet::new() }
    }
}

impl<T: Object> ListBuilder<T> {
    /// Takes an object that has not come before, or has gone since.
    pub(crate) fn add(&mut self, item: T) {
        if self.index.is_some() || !self.undecodable.is_empty() {
            self.put(item);
        } else {
            self.items.push(item);
        }
    }

    /// Takes an object that may have come before.
    pub(crate) fn put(&mut self, item: T) {
        let key = item.key();
        self.undecodable.remove(&key);
        let end = self.items.len();
        let at = *self.index().entry(key).or_insert(end);
        match self.items.get_mut(at) {
            Some(slot) => *slot = item,
            None => self.items.push(item),
        }
    }

    /// An object exists but cannot be decoded; perhaps not even its name. An earlier state of it stays.
    pub(crate) fn put_undecodable(&mut self, key: Option<ObjectKey>) {
        self.undecodable.extend(key);
    }

    /// An object is gone.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.undecodable.remove(key);
        let Some(at) = self.index().remove(key) else { return };
        self.items.swap_remove(at);
        if let Some(moved) = self.items.get(at).map(Object::key) {
            self.index().insert(moved, at);
        }
    }

    fn index(&mut self) -> &mut HashMap<ObjectKey, usize> {
        let items = &self.items;
        self.index
            .get_or_insert_with(|| items.iter().enumerate().map(|(at, item)| (item.key(), at)).collect())
    }

    /// Those that could not be decoded.
    pub(crate) fn undecodable(&self) -> &BTreeSet<ObjectKey> {
        &self.undecodable
    }

    /// The state is complete.
    pub(crate) fn finish(self, resource_version: ResourceVersion) -> StreamEvent<T> {
        let undecodable = self.undecodable.into_iter().collect();
        StreamEvent::Restarted { items: self.items, undecodable, resource_version }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_core_model::Node;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn is_the_state_after_all_that_came(steps in prop::collection::vec((0u8..12, 0u8..5), 0..60)) {
            let mut collected = ListBuilder::default();
            let mut items: BTreeMap<String, u64> = BTreeMap::new();
            let mut broken: BTreeSet<String> = BTreeSet::new();
            for (step, (number, what)) in steps.into_iter().enumerate() {
                let (name, version) = (format!("n{number}"), step as u64 + 1);
                let key = ObjectKey::new("", &*name);
                let node =
                    Node { name: (&*name).into(), resource_version: ResourceVersion(version), ..Node::default() };
                match what {
                    0 | 1 if !items.contains_key(&name) => collected.add(node),
                    0..3 => collected.put(node),
                    3 => collected.put_undecodable(Some(key)),
                    _ => collected.remove(&key),
                }
                match what {
                    0..3 => {
                        broken.remove(&name);
                        items.insert(name, version);
                    }
                    3 => {
                        broken.insert(name);
                    }
                    _ => {
                        broken.remove(&name);
                        items.remove(&name);
                    }
                }
            }
            let want = (items.into_iter().collect::<Vec<_>>(), broken.into_iter().collect::<Vec<_>>());
            let StreamEvent::Restarted { items, undecodable, .. } = collected.finish(ResourceVersion(1)) else {
                panic!("no list");
            };
            let mut items: Vec<_> =
                items.into_iter().map(|node: Node| (node.name.to_string(), node.resource_version.0)).collect();
            items.sort();
            let broken = undecodable.into_iter().map(|key| key.name.to_string()).collect();
            prop_assert_eq!((items, broken), want);
        }
    }
}
