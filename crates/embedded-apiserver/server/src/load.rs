//! Loads objects from files or tests: the server stores them unchanged except for their resource
//! versions.

use std::collections::BTreeSet;

use kube_endpoint_apiserver_rules::resource::{self, NAMESPACES, Resource, SERVICES};
use kube_endpoint_apiserver_rules::strategy;
use serde_json::Value;

use crate::clock::rfc3339;
use crate::metadata::{set, text};
use crate::server::{Inner, key_of};
use crate::store::{Encoded, Store};

/// The reason why loading objects failed. On an error the server loads nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The server does not store this kind.
    #[error("cannot load {name:?}: this server does not store {kind} of {api_version}")]
    UnknownKind {
        /// From the object.
        api_version: String,
        /// From the object.
        kind: String,
        name: String,
    },
    #[error("cannot load a {kind} that has no metadata.name")]
    NoName {
        /// From the object.
        kind: String,
    },
}

/// One object to load.
struct Loaded {
    resource: &'static Resource,
    key: String,
    namespace: String,
    object: Value,
}

/// Flattens lists. Items of a typed list, such as a PodList, get the kind that follows from the
/// list's.
fn flatten(object: Value, out: &mut Vec<Value>) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let (Some(of), true) = (kind.strip_suffix("List"), object["items"].is_array()) else {
        out.push(object);
        return;
    };
    let (of, api_version) = (of.to_owned(), object["apiVersion"].clone());
    let Value::Object(mut fields) = object else { return };
    if let Some(Value::Array(items)) = fields.remove("items") {
        for mut item in items {
            if !of.is_empty() && item.is_object() && item.get("kind").is_none() {
                item["kind"] = of.as_str().into();
                item["apiVersion"] = api_version.clone();
            }
            flatten(item, out);
        }
    }
}

impl Inner {
    fn prepare(&self, mut object: Value) -> Result<Loaded, LoadError> {
        let field = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (field("apiVersion"), field("kind"));
        let name = text(&object, "name").to_owned();
        let Some(resource) = resource::by_kind(&api_version, &kind).filter(|found| found.is_stored()) else {
            return Err(LoadError::UnknownKind { api_version, kind, name });
        };
        if name.is_empty() {
            return Err(LoadError::NoName { kind });
        }
        let mut namespace = String::new();
        if resource.namespaced {
            namespace = match text(&object, "namespace") {
                "" => "default".to_owned(),
                given => given.to_owned(),
            };
            set(&mut object, "namespace", namespace.as_str());
        }
        if text(&object, "uid").is_empty() {
            set(&mut object, "uid", self.random.lock().uid());
        }
        if text(&object, "creationTimestamp").is_empty() {
            set(&mut object, "creationTimestamp", rfc3339(self.now()));
        }
        let key = key_of(resource, &namespace, &name);
        let object = strategy::default_on_read(resource, object, self.settings.families);
        Ok(Loaded { resource, key, namespace, object })
    }

    /// Loads objects. With `initial` they are part of the initial state, which no watch replays;
    /// otherwise watchers see them added.
    pub(crate) fn load(&self, objects: Vec<Value>, initial: bool) -> Result<usize, LoadError> {
        let mut flat = Vec::new();
        objects.into_iter().for_each(|object| flatten(object, &mut flat));
        let mut loaded: Vec<Loaded> = flat.into_iter().map(|o| self.prepare(o)).collect::<Result<_, _>>()?;
        // The objects keep the order of their resource versions; objects without a version come
        // last, in the given order.
        loaded.sort_by_key(|one| text(&one.object, "resourceVersion").parse().unwrap_or(u64::MAX));
        let count = loaded.len();
        let named: BTreeSet<String> =
            loaded.iter().filter(|one| *one.resource == NAMESPACES).map(|one| one.key.clone()).collect();
        let needed: BTreeSet<String> = loaded.iter().map(|one| one.namespace.clone()).collect();
        for namespace in needed.difference(&named).filter(|namespace| !namespace.is_empty()) {
            self.ensure_namespace(namespace, initial);
        }
        for one in loaded {
            self.store_loaded(&one, initial);
        }
        Ok(count)
    }

    fn store_loaded(&self, one: &Loaded, initial: bool) {
        let encoded = Encoded::of(&one.object);
        let table = Store::table_of(one.resource);
        if *one.resource == SERVICES {
            let mut addresses = self.cluster_ips.lock();
            if let Some(previous) = self.current(one.resource, &one.key) {
                addresses.release(&previous.value());
            }
            addresses.occupy(&one.object);
        }
        if let Some(mut kubelet) = self.kubelet_of(one.resource) {
            kubelet.give_up(&one.object);
        }
        let mut store = self.store.lock();
        let meta = store.meta(one.resource, &one.object);
        if initial {
            store.seed(table, &one.key, &encoded, meta);
        } else {
            store.write(table, &one.key, &encoded, meta);
            drop(store);
            self.tell_kubelet(one.resource, &one.key);
        }
    }

    /// Creates a namespace if it does not exist.
    pub(crate) fn ensure_namespace(&self, name: &str, initial: bool) {
        if self.current(&NAMESPACES, name).is_some() {
            return;
        }
        let mut object =
            serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        set(&mut object, "uid", self.random.lock().uid());
        set(&mut object, "creationTimestamp", rfc3339(self.now()));
        // If the rules refuse the name, it comes from loaded objects, which the server takes as
        // they are.
        let decided = strategy::before_create(&NAMESPACES, object.clone());
        let object = decided.map(|decided| decided.object).unwrap_or(object);
        let key = name.to_owned();
        let one = Loaded { resource: &NAMESPACES, key, namespace: String::new(), object };
        self.store_loaded(&one, initial);
    }
}
