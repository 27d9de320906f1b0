//! A store of one kind: objects by namespace and name, and by the object that they belong to.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, ObjectKey, Text};

use crate::Object;

/// An object that can be looked up by the object that it belongs to.
pub(crate) trait StoredByName: Object {
    /// What it belongs to.
    fn owner(&self) -> Option<ObjectKey>;
}

impl StoredByName for EndpointSlice {
    fn owner(&self) -> Option<ObjectKey> {
        self.service_key()
    }
}

impl StoredByName for Endpoints {
    fn owner(&self) -> Option<ObjectKey> {
        None
    }
}

impl StoredByName for Node {
    fn owner(&self) -> Option<ObjectKey> {
        None
    }
}

#[derive(Debug)]
pub(crate) struct Table<T> {
    items: BTreeMap<Text, BTreeMap<Text, Arc<T>>>,
    /// By namespace and name of the owner, then by their own names.
    owned: BTreeMap<ObjectKey, BTreeMap<Text, Arc<T>>>,
    len: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), owned: BTreeMap::new(), len: 0 }
    }
}

impl<T: StoredByName> Table<T> {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.items.get(namespace)?.get(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All objects, sorted by namespace and name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.values().flat_map(BTreeMap::values)
    }

    /// What belongs to an object, sorted by name.
    pub(crate) fn owned_by(&self, owner: &ObjectKey) -> impl Iterator<Item = &Arc<T>> {
        self.owned.get(owner).into_iter().flat_map(BTreeMap::values)
    }

    pub(crate) fn put(&mut self, key: ObjectKey, item: Arc<T>) {
        let owner = item.owner();
        let before = self.items.entry(key.namespace).or_default().insert(key.name.clone(), Arc::clone(&item));
        match before {
            None => self.len += 1,
            Some(before) if before.owner() != owner => self.disown(&before, &key.name),
            Some(_) => {}
        }
        if let Some(owner) = owner {
            self.owned.entry(owner).or_default().insert(key.name, item);
        }
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        let Some(names) = self.items.get_mut(&key.namespace) else { return };
        let Some(item) = names.remove(&key.name) else { return };
        if names.is_empty() {
            self.items.remove(&key.namespace);
        }
        self.len -= 1;
        self.disown(&item, &key.name);
    }

    fn disown(&mut self, item: &T, name: &str) {
        let Some(owner) = item.owner() else { return };
        if let Some(names) = self.owned.get_mut(&owner) {
            names.remove(name);
            if names.is_empty() {
                self.owned.remove(&owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_core_model::ObjectMeta;
    use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;

    fn slice(name: &str, service: &str) -> Arc<EndpointSlice> {
        let labels = [(LABEL_SERVICE_NAME, service)].into_iter().collect();
        let metadata = ObjectMeta { name: name.into(), namespace: "n".into(), labels, ..Default::default() };
        Arc::new(EndpointSlice { metadata, ..Default::default() })
    }

    #[test]
    fn slices_follow_their_label() {
        let mut table = Table::default();
        for (name, service) in [("b", "web"), ("a", "web"), ("c", "db"), ("d", "")] {
            let slice = slice(name, service);
            table.put(slice.key(), slice);
        }
        let check = |table: &Table<EndpointSlice>, service: &str, want: &str| {
            let names: Vec<_> =
                table.owned_by(&ObjectKey::new("n", service)).map(|s| &*s.metadata.name).collect();
            assert_eq!(names.join(" "), want, "{service}");
        };
        check(&table, "web", "a b");
        check(&table, "db", "c");
        check(&table, "", "");
        let moved = slice("a", "db");
        table.put(moved.key(), moved);
        check(&table, "web", "b");
        check(&table, "db", "a c");
        table.remove(&ObjectKey::new("n", "b"));
        table.remove(&ObjectKey::new("n", "gone"));
        check(&table, "web", "");
        assert_eq!((table.len(), table.iter().count(), table.owned.len()), (3, 3, 1));
        for name in ["a", "c", "d"] {
            table.remove(&ObjectKey::new("n", name));
        }
        assert!(table.items.is_empty() && table.owned.is_empty());
    }
}
