//! Collects the complete state of a kind while it arrives.

use std::collections::BTreeSet;

use ahash::HashMap;
use kube_endpoint_core_model::{ObjectKey, ResourceVersion};

use crate::{Object, StreamEvent};

/// The objects of a list, or the initial events of a watch.
#[derive(Debug)]
pub(crate) struct ListBuilder<T> {
    items: Vec<T>,
    /// The position of each object in `items`. Built only when an object changes while the list
    /// arrives, which is rare.
    index: Option<HashMap<ObjectKey, usize>>,
    undecodable: BTreeSet<ObjectKey>,
}

impl<T> Default for ListBuilder<T> {
    fn default() -> Self {
        Self { items: Vec::new(), index: None, undecodable: BTreeSet::new() }
    }
}

impl<T: Object> ListBuilder<T> {
    /// Adds an object that is not in the list.
    pub(crate) fn add(&mut self, item: T) {
        if self.index.is_some() || !self.undecodable.is_empty() {
            self.put(item);
        } else {
            self.items.push(item);
        }
    }

    /// Adds an object, or replaces it.
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

    /// Adds the objects of the next page.
    pub(crate) fn append(&mut self, mut page: Self) {
        if self.items.is_empty() && self.undecodable.is_empty() {
            *self = page;
        } else if self.index.is_none() && self.undecodable.is_empty() && page.undecodable.is_empty() {
            self.items.append(&mut page.items);
        } else {
            page.items.into_iter().for_each(|item| self.put(item));
            self.undecodable.extend(page.undecodable);
        }
    }

    /// Records an object that the reflector cannot decode; its key may be unknown. An earlier view
    /// of it stays in the list.
    pub(crate) fn put_undecodable(&mut self, key: Option<ObjectKey>) {
        self.undecodable.extend(key);
    }

    /// Removes an object.
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

    /// Returns the objects that the reflector could not decode.
    pub(crate) fn undecodable(&self) -> &BTreeSet<ObjectKey> {
        &self.undecodable
    }

    /// Returns the event that restarts a store with this list and version. `before` are the objects
    /// that the reflector could not decode when it last received them before this list.
    pub(crate) fn finish(
        mut self,
        resource_version: ResourceVersion,
        before: BTreeSet<ObjectKey>,
    ) -> StreamEvent<T> {
        let listed = before.into_iter().filter(|key| self.index().contains_key(key)).collect::<Vec<_>>();
        self.undecodable.extend(listed);
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
        fn the_list_is_the_state_after_all_events(steps in prop::collection::vec((0u8..12, 0u8..5), 0..60)) {
            let mut builder = ListBuilder::default();
            let mut items: BTreeMap<String, u64> = BTreeMap::new();
            let mut undecodable_names: BTreeSet<String> = BTreeSet::new();
            for (step, (number, what)) in steps.into_iter().enumerate() {
                let (name, version) = (format!("n{number}"), step as u64 + 1);
                let key = ObjectKey::new("", &*name);
                let node =
                    Node { name: (&*name).into(), resource_version: ResourceVersion(version), ..Node::default() };
                match what {
                    0 | 1 if !items.contains_key(&name) => builder.add(node),
                    0..3 => builder.put(node),
                    3 => builder.put_undecodable(Some(key)),
                    _ => builder.remove(&key),
                }
                match what {
                    0..3 => {
                        undecodable_names.remove(&name);
                        items.insert(name, version);
                    }
                    3 => {
                        undecodable_names.insert(name);
                    }
                    _ => {
                        undecodable_names.remove(&name);
                        items.remove(&name);
                    }
                }
            }
            let want = (items.into_iter().collect::<Vec<_>>(), undecodable_names.into_iter().collect::<Vec<_>>());
            let StreamEvent::Restarted { items, undecodable, .. } = builder.finish(ResourceVersion(1), BTreeSet::new()) else {
                panic!("finish returns a complete state");
            };
            let mut items: Vec<_> =
                items.into_iter().map(|node: Node| (node.name.to_string(), node.resource_version.0)).collect();
            items.sort();
            let names = undecodable.into_iter().map(|key| key.name.to_string()).collect();
            prop_assert_eq!((items, names), want);
        }
    }
}
