//! The objects of one kind.

use std::collections::BTreeMap;

use anyhow::bail;
use kube_endpoint_apiserver_rules::resource::{self, Resource};
use kube_endpoint_explain::Extents;
use serde_json::Value;

/// An object as JSON, and what selectors ask about it.
pub(super) struct Stored {
    pub(super) json: Box<str>,
    labels: Vec<(Box<str>, Box<str>)>,
    pub(super) is_stored: bool,
    version: u64,
}

impl Stored {
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| **key == *name).map(|(_, value)| &**value)
    }

    pub(super) fn value(&self) -> Value {
        // It was written from a value.
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

/// The objects of one kind, by namespace and name.
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) plural: String,
    pub(super) api_version: String,
    pub(super) kind: String,
    /// The resource, if the rules of API servers know it.
    pub(super) resource: Option<&'static Resource>,
    pub(super) objects: BTreeMap<(Box<str>, Box<str>), Stored>,
    /// The namespaces whose objects the files have.
    pub(super) extents: Extents,
    /// True if a file lists all of them, of a namespace at least.
    pub(super) is_complete: bool,
    /// True if a server has stored one of them.
    pub(super) has_stored: bool,
    /// True if the files have manifests of them, or of workloads that make them.
    pub(super) has_manifests: bool,
}

impl Kind {
    /// Returns a kind without objects.
    pub(super) fn of(version: &str, kind: &str) -> Self {
        let resource = resource::by_kind(version, kind);
        let group = version.split_once('/').map_or("", |(group, _)| group);
        Self {
            group: group.to_owned(),
            plural: resource.map_or_else(|| plural_of(kind), |resource| resource.plural.to_owned()),
            api_version: version.to_owned(),
            kind: kind.to_owned(),
            resource,
            objects: BTreeMap::new(),
            extents: Extents::default(),
            is_complete: false,
            has_stored: false,
            has_manifests: false,
        }
    }

    pub(super) fn has_objects(&self) -> bool {
        !self.objects.is_empty()
    }

    /// Adds an object. A dump may have one several times: the newest stays.
    ///
    /// # Errors
    ///
    /// An error if it is the second manifest of an object.
    pub(super) fn add(&mut self, value: &Value, is_stored: bool) -> anyhow::Result<()> {
        let metadata = &value["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let labels =
            labels.map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()));
        let new = Stored {
            json: value.to_string().into(),
            labels: labels.collect(),
            is_stored,
            version: text("resourceVersion").parse().unwrap_or(0),
        };
        let (namespace, name) = (text("namespace"), text("name"));
        self.has_stored |= is_stored;
        self.has_manifests |= !is_stored;
        let key = (namespace.into(), name.into());
        match self.objects.get(&key) {
            Some(before) if !(before.is_stored && is_stored) => {
                let slash = if namespace.is_empty() { "" } else { "/" };
                bail!("{} {namespace}{slash}{name} is in the files twice: leave one of them out", self.kind)
            }
            Some(before) if before.version > new.version => {}
            _ => drop(self.objects.insert(key, new)),
        }
        Ok(())
    }

    /// Returns an object of a namespace, or of any.
    pub(super) fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Stored> {
        match namespace {
            Some(namespace) => self.objects.get(&(namespace.into(), name.into())),
            None => self.objects.iter().find(|((_, own), _)| **own == *name).map(|(_, object)| object),
        }
    }
}

/// Returns the plural of a kind, as API servers usually have it.
fn plural_of(kind: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    match kind.strip_suffix('y') {
        Some(start) if !start.ends_with(['a', 'e', 'o', 'u']) => format!("{start}ies"),
        _ if kind.ends_with('s') || kind.ends_with('x') || kind.ends_with("ch") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_api_servers() {
        let kinds = ["Deployment", "Ingress", "NetworkPolicy", "Gateway", "HTTPRoute", "EndpointSelector"];
        assert_eq!(
            kinds.map(plural_of),
            ["deployments", "ingresses", "networkpolicies", "gateways", "httproutes", "endpointselectors"]
        );
        assert_eq!(Kind::of("v1", "Endpoints").plural, "endpoints");
    }
}
