//! The namespaces whose objects of a kind the files have: a dump, or a must-gather, may lack some.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use kube_endpoint_apiserver_rules::manifest::{Contents, Object};
use kube_endpoint_core_model::{ObjectKey, Text};
use kube_endpoint_explain::{Extent, FileContents};

use super::Files;
use super::kind::Kind;

/// A version and a kind.
type Type = (String, String);

/// The namespaces of the objects of one file.
pub(super) struct OfFile {
    /// By the kinds whose objects a server has stored.
    stored: BTreeMap<Type, BTreeSet<Text>>,
    /// By the kinds of typed lists.
    listed: BTreeMap<Type, BTreeSet<Text>>,
    /// The namespace in the name of the file, as dumps and must-gathers have it.
    of_name: Option<Text>,
}

impl OfFile {
    /// Looks at the contents of a file. `below` is the path of the file in a folder that is read.
    pub(super) fn new(contents: &Contents, below: Option<&Path>) -> Self {
        let mut listed: BTreeMap<Type, BTreeSet<Text>> = BTreeMap::new();
        for name in &contents.listed {
            if let Some((kind, version)) = name.split_once(" of ") {
                listed.insert((version.to_owned(), kind.to_owned()), BTreeSet::new());
            }
        }
        let mut stored: BTreeMap<Type, BTreeSet<Text>> = BTreeMap::new();
        for object in &contents.objects {
            let (Some(namespace), of) = (namespace_of(object), type_of(object)) else { continue };
            if let Some(listed) = listed.get_mut(&of) {
                listed.insert(namespace.clone());
            }
            if object.is_stored() {
                stored.entry(of).or_default().insert(namespace);
            }
        }
        Self { stored, listed, of_name: below.and_then(namespace_in) }
    }
}

fn type_of(object: &Object) -> Type {
    let text = |field: &str| object.value[field].as_str().unwrap_or_default().to_owned();
    (text("apiVersion"), text("kind"))
}

fn namespace_of(object: &Object) -> Option<Text> {
    let namespace = object.value["metadata"]["namespace"].as_str();
    namespace.filter(|namespace| !namespace.is_empty()).map(Text::from)
}

/// Returns the namespace in the path of a file: `namespaces/NAMESPACE/core/pods.yaml` of a
/// must-gather, and `NAMESPACE/pods.json` of a dump.
fn namespace_in(path: &Path) -> Option<Text> {
    let folders: Vec<&str> = path.parent()?.iter().filter_map(|part| part.to_str()).collect();
    let of_gathered = folders.iter().position(|part| *part == "namespaces");
    match of_gathered {
        Some(at) => folders.get(at + 1),
        None => folders.last(),
    }
    .map(|name| Text::from(*name))
}

impl Files {
    /// Notes the namespaces whose objects of a kind are all in a file. Stored objects of several
    /// namespaces are those of all: `kubectl get -A` has printed them.
    pub(super) fn cover(&mut self, of: OfFile) {
        let all: BTreeSet<Text> = of.stored.values().flatten().cloned().collect();
        for ((version, kind), namespaces) in &of.stored {
            let of_all = all.len() > 1;
            self.kind(version, kind).extents.note_all(namespaces);
            if of_all {
                self.of_all_namespaces.insert((version.clone(), kind.clone()));
            }
        }
        self.namespaces.extend(all);
        for ((version, kind), namespaces) in of.listed {
            let of_name = of.of_name.clone().filter(|_| namespaces.is_empty());
            let kind = self.kind(&version, &kind);
            kind.is_complete = true;
            let is_namespaced = kind.resource.is_none_or(|resource| resource.namespaced);
            match (namespaces.len(), of_name) {
                (0, Some(namespace)) if is_namespaced => {
                    kind.extents.note_all([&namespace]);
                    self.namespaces.insert(namespace);
                }
                (1, _) => kind.extents.note_all(&namespaces),
                _ => kind.extents.note_everywhere(),
            }
            self.namespaces.extend(namespaces);
        }
    }

    /// Completes what is known, after the last file.
    pub(super) fn finish_extents(&mut self) {
        self.namespaces.extend(self.of_manifests.iter().cloned());
        for (version, kind) in std::mem::take(&mut self.of_all_namespaces) {
            let namespaces = self.namespaces.clone();
            self.kind(&version, &kind).extents.note_all(&namespaces);
        }
        for kind in self.kinds.values_mut().filter(|kind| kind.has_manifests) {
            kind.extents.note_manifests(&self.of_manifests);
        }
        let of_running_pods = std::mem::take(&mut self.of_running_pods);
        if !of_running_pods.is_empty() {
            self.kind("v1", "Pod").extents.note_all(&of_running_pods);
        }
    }

    /// Returns how much the files have of a kind: in a namespace, or of all that they have.
    pub(super) fn extent(&self, kind: &Kind, namespace: Option<&str>) -> Extent {
        match namespace {
            _ if !self.is_known(kind) => Extent::Nothing,
            Some(namespace) => kind.extents.of(namespace),
            None => Extent::All,
        }
    }

    /// Returns what explanations have to know about the files.
    pub(crate) fn contents(&self) -> Arc<FileContents> {
        let named = |resource: &'static str| {
            let kind = self.kinds.values().find(|kind| kind.plural == resource)?;
            self.is_known(kind).then(|| (resource, kind.extents.clone()))
        };
        let assumed = self.assumed.iter().filter_map(|name| name.split_once('/'));
        Arc::new(FileContents {
            kinds: FileContents::RESOURCES.into_iter().filter_map(named).collect(),
            assumed: assumed.map(|(namespace, name)| ObjectKey::new(namespace, name)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_file_may_have_its_namespace() {
        for (path, want) in [
            ("shop/pods.json", Some("shop")),
            ("nodes.json", None),
            ("image/namespaces/shop/core/pods.yaml", Some("shop")),
            ("namespaces/shop.yaml", None),
        ] {
            assert_eq!(namespace_in(Path::new(path)).as_deref(), want, "{path}");
        }
    }
}
