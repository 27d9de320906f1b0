//! The objects of one kind, indexed by namespace and name and by the Service that they belong to.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, ObjectKey, Text};

use crate::Object;

/// An object that is stored in a [`Table`].
pub(crate) trait Indexed: Object {
    /// The Service under which the object is indexed, if it is.
    fn index_key(&self) -> Option<ObjectKey>;
}

impl Indexed for EndpointSlice {
    fn index_key(&self) -> Option<ObjectKey> {
        self.service_key()
    }
}

impl Indexed for Endpoints {
    fn index_key(&self) -> Option<ObjectKey> {
        None
    }
}

impl Indexed for Node {
    fn index_key(&self) -> Option<ObjectKey> {
        None
    }
}

#[derive(Debug)]
pub(crate) struct Table<T> {
    items: BTreeMap<Text, BTreeMap<Text, Arc<T>>>,
    /// By the key of the Service, then by name.
    by_service: BTreeMap<ObjectKey, BTreeMap<Text, Arc<T>>>,
    len: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), by_service: BTreeMap::new(), len: 0 }
    }
}

impl<T: Indexed> Table<T> {
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

    /// The keys after `after`, sorted, `limit` at most.
    pub(crate) fn keys_after(&self, after: &ObjectKey, limit: usize) -> Vec<ObjectKey> {
        let namespaces = self.items.range(after.namespace.clone()..);
        let keys = namespaces.flat_map(|(namespace, items)| {
            let start = if *namespace == after.namespace {
                Bound::Excluded(after.name.clone())
            } else {
                Bound::Unbounded
            };
            let names = items.range((start, Bound::Unbounded));
            names.map(|(name, _)| ObjectKey { namespace: namespace.clone(), name: name.clone() })
        });
        keys.take(limit).collect()
    }

    /// The objects of a Service, sorted by name.
    pub(crate) fn by_service(&self, service: &ObjectKey) -> impl Iterator<Item = &Arc<T>> {
        self.by_service.get(service).into_iter().flat_map(BTreeMap::values)
    }

    pub(crate) fn put(&mut self, key: ObjectKey, item: Arc<T>) {
        let service = item.index_key();
        let before = self.items.entry(key.namespace).or_default().insert(key.name.clone(), Arc::clone(&item));
        match before {
            None => self.len += 1,
            Some(before) if before.index_key() != service => self.remove_from_service(&before, &key.name),
            Some(_) => {}
        }
        if let Some(service) = service {
            self.by_service.entry(service).or_default().insert(key.name, item);
        }
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        let Some(names) = self.items.get_mut(&key.namespace) else { return };
        let Some(item) = names.remove(&key.name) else { return };
        if names.is_empty() {
            self.items.remove(&key.namespace);
        }
        self.len -= 1;
        self.remove_from_service(&item, &key.name);
    }

    fn remove_from_service(&mut self, item: &T, name: &str) {
        let Some(service) = item.index_key() else { return };
        if let Some(names) = self.by_service.get_mut(&service) {
            names.remove(name);
            if names.is_empty() {
                self.by_service.remove(&service);
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
    fn slices_are_indexed_by_their_service_label() {
        let mut table = Table::default();
        for (name, service) in [("b", "web"), ("a", "web"), ("c", "db"), ("d", "")] {
            let slice = slice(name, service);
            table.put(slice.key(), slice);
        }
        let check = |table: &Table<EndpointSlice>, service: &str, want: &str| {
            let names: Vec<_> =
                table.by_service(&ObjectKey::new("n", service)).map(|s| &*s.metadata.name).collect();
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
        assert_eq!((table.len(), table.iter().count(), table.by_service.len()), (3, 3, 1));
        for name in ["a", "c", "d"] {
            table.remove(&ObjectKey::new("n", name));
        }
        assert!(table.items.is_empty() && table.by_service.is_empty());
    }
}
