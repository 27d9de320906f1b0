//! The fields of an object that the server itself reads: for selectors, deletion and the garbage
//! collector.

use kube_endpoint_apiserver_rules::resource::{self, Resource};
use kube_endpoint_apiserver_rules::selector;
use serde_json::Value;

use super::intern::{Interner, Text};

/// The fields that the server stores in addition to an object's bytes.
#[derive(Debug)]
pub(crate) struct Meta {
    pub(crate) uid: Text,
    /// The labels, sorted by key.
    labels: Box<[(Text, Text)]>,
    /// The values of [`selector::selectable_fields`], in the same order; name and namespace are
    /// empty, since they are in the key.
    fields: Box<[Text]>,
    /// The uids of owners whose kinds this server stores; it cannot know whether others exist.
    pub(crate) owners: Box<[Text]>,
    /// True if the object is marked for deletion.
    pub(crate) deleting: bool,
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            uid: "".into(),
            labels: Box::default(),
            fields: Box::default(),
            owners: Box::default(),
            deleting: false,
        }
    }
}

impl Meta {
    /// Reads the fields of an object.
    pub(crate) fn of(resource: &Resource, object: &Value, interner: &mut Interner) -> Self {
        let metadata = &object["metadata"];
        let mut labels: Vec<(Text, Text)> = metadata["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (interner.text(key), interner.text(value.as_str().unwrap_or_default())))
            .collect();
        labels.sort();
        let fields = selector::selectable_fields(resource)
            .iter()
            .map(|field| match *field {
                "metadata.name" | "metadata.namespace" => interner.text(""),
                field => interner.text(selector::field_value(resource, object, field)),
            })
            .collect();
        let owners = metadata["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|owner| owner_is_served(owner))
            .map(|owner| interner.text(owner["uid"].as_str().unwrap_or_default()))
            .collect();
        Self {
            uid: metadata["uid"].as_str().unwrap_or_default().into(),
            labels: labels.into(),
            fields,
            owners,
            deleting: metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()),
        }
    }

    /// Returns the value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let index = self.labels.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&*self.labels[index].1)
    }

    /// Returns the value of a selectable field, by its index in [`selector::selectable_fields`].
    pub(crate) fn field(&self, index: usize) -> Option<&str> {
        self.fields.get(index).map(|value| &**value)
    }
}

/// Returns true if this server stores objects of the kind in an ownerReference.
pub(crate) fn owner_is_served(owner: &Value) -> bool {
    let text = |name: &str| owner[name].as_str().unwrap_or_default();
    resource::by_kind(text("apiVersion"), text("kind")).is_some_and(Resource::is_stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_owners_of_kinds_kept_here_are_remembered() {
        let service = resource::by_path("discovery.k8s.io", "v1", "endpointslices").unwrap();
        let object = json!({"metadata": {"uid": "u", "labels": {"b": "2", "a": "1"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "rs"},
            {"apiVersion": "v1", "kind": "Service", "uid": "svc"},
        ]}});
        let meta = Meta::of(service, &object, &mut Interner::default());
        assert_eq!(meta.owners.iter().map(|uid| &**uid).collect::<Vec<_>>(), ["svc"]);
        assert_eq!((meta.label("a"), meta.label("b"), meta.label("c")), (Some("1"), Some("2"), None));
        assert!(!meta.deleting);
    }
}
