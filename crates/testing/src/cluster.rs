//! The builder, which holds objects as JSON and the positions of the objects that the next call
//! changes.

use serde::Serialize;
use serde_json::{Map, Value, json};

mod existing;
mod node;
mod pod;
mod service;

/// The creation time of all objects that [`Cluster`] makes.
pub const START_TIME: &str = "2026-01-01T00:00:00Z";

/// Objects of a cluster.
///
/// A call such as [`service`](Self::service) or [`pods`](Self::pods) adds objects and makes them
/// the current ones; calls such as [`not_ready`](Self::not_ready) change all current objects.
/// [`select`](Self::select) makes an object of an earlier call current. A new object gets the
/// namespace of the last call of [`namespace`](Self::namespace), or `default`.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Cluster {
    namespace: String,
    objects: Vec<Value>,
    /// Positions of the current objects.
    current: Vec<usize>,
    last_version: u64,
}

impl Default for Cluster {
    fn default() -> Self {
        Self { namespace: "default".to_owned(), objects: Vec::new(), current: Vec::new(), last_version: 0 }
    }
}

impl Cluster {
    /// Returns a cluster without objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the namespace in which later calls add and select objects.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = namespace.to_owned();
        self.current.clear();
        self
    }

    /// Adds an object: JSON, or a type of `k8s-openapi`. It gets a namespace, a uid, a version and
    /// a creation time if it has none.
    ///
    /// # Panics
    ///
    /// If the value has no `kind` or `metadata.name`, or the object exists.
    #[track_caller]
    pub fn with(mut self, object: impl Serialize) -> Self {
        let object = match serde_json::to_value(object) {
            Ok(object) => object,
            Err(error) => panic!("an object that cannot be serialized: {error}"),
        };
        self.insert(object);
        self
    }

    /// Makes one object the current one.
    ///
    /// # Panics
    ///
    /// If there is no such object.
    #[track_caller]
    pub fn select(mut self, kind: &str, name: &str) -> Self {
        let Some(at) = self.position(kind, name) else { panic!("there is no {kind} {name}") };
        self.current = vec![at];
        self
    }

    /// Removes an object; none is current afterwards.
    ///
    /// # Panics
    ///
    /// If there is no such object.
    #[track_caller]
    pub fn remove(mut self, kind: &str, name: &str) -> Self {
        let Some(at) = self.position(kind, name) else { panic!("there is no {kind} {name}") };
        self.objects.remove(at);
        self.current.clear();
        self
    }

    /// Changes the JSON of the current objects.
    ///
    /// # Panics
    ///
    /// If no object is current.
    #[track_caller]
    pub fn change(mut self, mut change: impl FnMut(&mut Value)) -> Self {
        assert!(!self.current.is_empty(), "no object is current: add or select one first");
        for at in self.current.clone() {
            change(&mut self.objects[at]);
            self.touch(at);
        }
        self
    }

    /// Sets a label of the current objects.
    #[track_caller]
    pub fn label(self, key: &str, value: &str) -> Self {
        self.change(|object| object["metadata"]["labels"][key] = value.into())
    }

    /// Sets an annotation of the current objects.
    #[track_caller]
    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.change(|object| object["metadata"]["annotations"][key] = value.into())
    }

    /// Gives the current objects a deletion timestamp.
    #[track_caller]
    pub fn deleting(self) -> Self {
        self.change(|object| object["metadata"]["deletionTimestamp"] = "2026-01-01T00:10:00Z".into())
    }

    /// Gives the current objects another uid, as if they had been deleted and recreated.
    #[track_caller]
    pub fn recreated(self) -> Self {
        self.change(|object| {
            let uid = format!("{}-again", object["metadata"]["uid"].as_str().unwrap_or_default());
            object["metadata"]["uid"] = uid.into();
        })
    }

    /// Returns all objects, in the order in which they were added.
    pub fn objects(&self) -> &[Value] {
        &self.objects
    }

    /// Returns the objects of one kind and the builder's namespace, in the order in which they were
    /// added.
    pub fn objects_of(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| object["kind"] == *kind && self.is_visible(object))
    }

    /// Returns one object.
    pub fn object(&self, kind: &str, name: &str) -> Option<&Value> {
        self.position(kind, name).map(|at| &self.objects[at])
    }

    pub(crate) fn current_namespace(&self) -> &str {
        &self.namespace
    }

    fn position(&self, kind: &str, name: &str) -> Option<usize> {
        let wanted = |object: &Value| {
            object["kind"] == *kind && object["metadata"]["name"] == *name && self.is_visible(object)
        };
        self.objects.iter().position(wanted)
    }

    fn is_visible(&self, object: &Value) -> bool {
        is_cluster_scoped(object) || object["metadata"]["namespace"] == self.namespace
    }

    /// Adds an object and makes it the current one.
    #[track_caller]
    pub(crate) fn insert(&mut self, mut object: Value) {
        let (Some(kind), Some(name)) = (object["kind"].as_str(), object["metadata"]["name"].as_str()) else {
            panic!("an object needs kind and metadata.name: {object}");
        };
        let (kind, uid) = (kind.to_owned(), format!("uid-{}-{name}", kind.to_lowercase()));
        let name = name.to_owned();
        let namespace = (!is_cluster_scoped(&object)).then(|| self.namespace.clone());
        if let Some(metadata) = object["metadata"].as_object_mut() {
            if let Some(namespace) = namespace {
                metadata.entry("namespace").or_insert_with(|| namespace.into());
            }
            metadata.entry("uid").or_insert_with(|| uid.into());
            metadata.entry("creationTimestamp").or_insert_with(|| START_TIME.into());
        }
        let same = |other: &Value| {
            other["kind"] == *kind
                && other["metadata"]["name"] == *name
                && other["metadata"]["namespace"] == object["metadata"]["namespace"]
        };
        assert!(!self.objects.iter().any(same), "there is a {kind} {name} already");
        let versioned = object["metadata"]["resourceVersion"].is_string();
        self.objects.push(object);
        self.current = vec![self.objects.len() - 1];
        if !versioned {
            self.touch(self.objects.len() - 1);
        }
    }

    /// Gives an object a new version.
    pub(crate) fn touch(&mut self, at: usize) {
        self.last_version += 1;
        self.objects[at]["metadata"]["resourceVersion"] = self.last_version.to_string().into();
    }

    pub(crate) fn replace(&mut self, at: usize, object: Value) {
        self.objects[at] = object;
        self.current = vec![at];
        self.touch(at);
    }

    pub(crate) fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<usize> {
        let wanted = |object: &Value| {
            object["kind"] == *kind
                && object["metadata"]["name"] == *name
                && object["metadata"]["namespace"] == *namespace
        };
        self.objects.iter().position(wanted)
    }

    pub(crate) fn take(&mut self, at: usize) -> Value {
        self.current.clear();
        self.objects.remove(at)
    }

    /// Changes the current objects, and panics unless each is of one of these kinds.
    #[track_caller]
    fn change_only(self, kinds: &[&str], what: &str, change: impl FnMut(&mut Value)) -> Self {
        for at in &self.current {
            let object = &self.objects[*at];
            let kind = object["kind"].as_str().unwrap_or_default();
            assert!(
                kinds.contains(&kind),
                "{what} applies to a {}; the current object is the {kind} {}",
                kinds.join(" or "),
                object["metadata"]["name"]
            );
        }
        self.change(change)
    }
}

pub(crate) fn is_cluster_scoped(object: &Value) -> bool {
    object["kind"] == "Node" || object["kind"] == "Namespace"
}

/// Sets the status of the condition `Ready`.
fn set_ready(object: &mut Value, status: &str) {
    object["status"]["conditions"] =
        json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:05Z"}]);
}

fn string_map(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect::<Map<_, _>>().into()
}
