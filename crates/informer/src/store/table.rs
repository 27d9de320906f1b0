//! The objects of one kind, indexed by namespace and name and by the Service that they belong to.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSlice, Endpoints, Lease, Node, ObjectKey, Text};

use crate::{Object, Scope};

/// An object that a [`Table`] can hold.
pub(crate) trait Indexed: Object {
    /// Returns the Service under which the table indexes the object, if any. It is in the object's
    /// namespace.
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

impl Indexed for Lease {
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
    /// The namespaces that have objects.
    namespaces: BTreeMap<Text, NamespaceTable<T>>,
    len: usize,
}

/// The objects of one namespace.
#[derive(Debug)]
struct NamespaceTable<T> {
    items: BTreeMap<Text, Arc<T>>,
    /// The objects of each Service, by its name; those of one Service are sorted by name.
    by_service: BTreeMap<Text, Vec<Arc<T>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { namespaces: BTreeMap::new(), len: 0 }
    }
}

impl<T> Default for NamespaceTable<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), by_service: BTreeMap::new() }
    }
}

/// Returns the keys after `after` that consist of a namespace and the names in a map.
fn names_after<V>(
    names: &BTreeMap<Text, V>,
    namespace: &Text,
    after: &ObjectKey,
) -> impl Iterator<Item = ObjectKey> {
    let start =
        if *namespace == after.namespace { Bound::Excluded(after.name.clone()) } else { Bound::Unbounded };
    let names = names.range((start, Bound::Unbounded));
    names.map(|(name, _)| ObjectKey { namespace: namespace.clone(), name: name.clone() })
}

impl<T: Indexed> Table<T> {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        self.namespaces.get(namespace)?.items.get(name)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns all objects, sorted by namespace and name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.namespaces.values().flat_map(|namespace| namespace.items.values())
    }

    /// Returns the objects that a list and watch covers, sorted by namespace and name.
    pub(crate) fn iter_in(&self, scope: &Scope) -> impl Iterator<Item = &Arc<T>> {
        let one = scope.namespace().and_then(|namespace| self.namespaces.get(namespace));
        let all = (*scope == Scope::All).then(|| self.iter());
        all.into_iter().flatten().chain(one.into_iter().flat_map(|namespace| namespace.items.values()))
    }

    /// Returns at most `limit` keys after `after`, sorted.
    pub(crate) fn keys_after(&self, after: &ObjectKey, limit: usize) -> Vec<ObjectKey> {
        let namespaces = self.namespaces.range(after.namespace.clone()..);
        namespaces
            .flat_map(|(namespace, objects)| names_after(&objects.items, namespace, after))
            .take(limit)
            .collect()
    }

    /// Returns at most `limit` objects after `after`, sorted.
    pub(crate) fn objects_after(&self, after: &ObjectKey, limit: usize) -> Vec<Arc<T>> {
        let namespaces = self.namespaces.range(after.namespace.clone()..);
        let objects = namespaces.flat_map(|(namespace, objects)| {
            let is_first = *namespace == after.namespace;
            let start = if is_first { Bound::Excluded(after.name.clone()) } else { Bound::Unbounded };
            objects.items.range((start, Bound::Unbounded)).map(|(_, object)| object)
        });
        objects.take(limit).cloned().collect()
    }

    /// Returns the keys of at most `limit` Services after `after` that objects belong to, sorted.
    pub(crate) fn owners_after(&self, after: &ObjectKey, limit: usize) -> Vec<ObjectKey> {
        let namespaces = self.namespaces.range(after.namespace.clone()..);
        namespaces
            .flat_map(|(namespace, objects)| names_after(&objects.by_service, namespace, after))
            .take(limit)
            .collect()
    }

    /// Returns the objects of a Service, sorted by name.
    pub(crate) fn by_service(&self, service: &ObjectKey) -> impl Iterator<Item = &Arc<T>> {
        let namespace = self.namespaces.get(&service.namespace);
        let items = namespace.and_then(|namespace| namespace.by_service.get(&service.name));
        items.into_iter().flatten()
    }

    pub(crate) fn put(&mut self, key: ObjectKey, item: Arc<T>) {
        let namespace = self.namespaces.entry(key.namespace).or_default();
        let service = item.index_key();
        let before = namespace.items.insert(key.name.clone(), Arc::clone(&item));
        match before {
            None => self.len += 1,
            Some(before) if before.index_key() != service => {
                namespace.remove_from_service(&before, &key.name);
            }
            Some(_) => {}
        }
        if let Some(service) = service {
            let items = namespace.by_service.entry(service.name).or_default();
            match place(items, &key.name) {
                Ok(at) => items.get_mut(at).into_iter().for_each(|slot| *slot = Arc::clone(&item)),
                Err(at) => {
                    // Most Services have one or two objects.
                    items.reserve_exact(1);
                    items.insert(at, item);
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        let Some(namespace) = self.namespaces.get_mut(&key.namespace) else { return };
        let Some(item) = namespace.items.remove(&key.name) else { return };
        namespace.remove_from_service(&item, &key.name);
        if namespace.items.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        self.len -= 1;
    }

    /// Replaces the objects that a list and watch covers with those of `now`. Returns the replaced
    /// ones, for the caller to drop after it has released the lock.
    pub(crate) fn replace(&mut self, scope: &Scope, mut now: Self) -> Self {
        let Scope::Namespace(name) = scope else { return std::mem::replace(self, now) };
        let before = self.namespaces.remove(name);
        if let Some(namespace) = now.namespaces.remove(name) {
            self.len += namespace.items.len();
            self.namespaces.insert(name.clone(), namespace);
        }
        let len = before.as_ref().map_or(0, |namespace| namespace.items.len());
        self.len -= len;
        Self { namespaces: before.into_iter().map(|namespace| (name.clone(), namespace)).collect(), len }
    }
}

/// Returns the position of a name among objects that are sorted by name, or as an error the
/// position where it belongs.
fn place<T: Indexed>(items: &[Arc<T>], name: &str) -> Result<usize, usize> {
    items.binary_search_by(|item| (*item.key().name).cmp(name))
}

impl<T: Indexed> NamespaceTable<T> {
    fn remove_from_service(&mut self, item: &T, name: &str) {
        let Some(service) = item.index_key() else { return };
        if let Some(items) = self.by_service.get_mut(&service.name) {
            if let Ok(at) = place(items, name) {
                items.remove(at);
            }
            if items.is_empty() {
                self.by_service.remove(&service.name);
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
    fn the_objects_of_one_namespace_are_replaced_at_once() {
        let of = |objects: &[(&str, &str)]| {
            let mut table = Table::default();
            for (namespace, name) in objects {
                let mut slice = (*slice(name, "web")).clone();
                slice.metadata.namespace = (*namespace).into();
                table.put(slice.key(), Arc::new(slice));
            }
            table
        };
        let keys = |table: &Table<EndpointSlice>, scope: &Scope| {
            let keys: Vec<_> = table.iter_in(scope).map(|slice| slice.key().to_string()).collect();
            keys.join(" ")
        };
        let mut table = of(&[("m", "a"), ("n", "a"), ("n", "b")]);
        let scope = Scope::Namespace("n".into());
        let before = table.replace(&scope, of(&[("n", "b"), ("n", "c"), ("n", "d")]));
        assert_eq!((keys(&before, &Scope::All).as_str(), before.len()), ("n/a n/b", 2));
        assert_eq!((keys(&table, &Scope::All).as_str(), table.len()), ("m/a n/b n/c n/d", 4));
        assert_eq!(keys(&table, &scope), "n/b n/c n/d");
        assert_eq!(table.by_service(&ObjectKey::new("n", "web")).count(), 3);
        let before = table.replace(&scope, Table::default());
        assert_eq!((before.len(), table.len(), keys(&table, &scope).as_str()), (3, 1, ""));
        assert_eq!(table.replace(&Scope::All, of(&[("n", "a")])).len(), 1);
        assert_eq!(keys(&table, &Scope::All), "n/a");
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
        assert_eq!((table.len(), table.iter().count(), table.namespaces["n"].by_service.len()), (3, 3, 1));
        for name in ["a", "c", "d"] {
            table.remove(&ObjectKey::new("n", name));
        }
        assert!(table.namespaces.is_empty() && table.len() == 0);
    }
}
