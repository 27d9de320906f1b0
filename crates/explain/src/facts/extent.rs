//! How much files have of a cluster: is a kind known in a namespace?

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{ObjectKey, Text};

use crate::facts::options::Known;

/// How much files have of the objects of a kind in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Nothing: it is not known which exist.
    Nothing,
    /// Those of manifests. Others may exist, such as the pods that an operator makes.
    Manifests,
    /// All: one that is not there does not exist.
    All,
}

/// The namespaces in which files have objects of a kind.
#[derive(Clone, Debug, Default)]
pub struct Extents {
    is_everywhere: bool,
    all: BTreeSet<Text>,
    manifests: BTreeSet<Text>,
}

impl Extents {
    /// Notes that the files have all objects, of all namespaces.
    pub fn note_everywhere(&mut self) {
        self.is_everywhere = true;
    }

    /// Notes that the files have all objects of some namespaces.
    pub fn note_all<'n>(&mut self, namespaces: impl IntoIterator<Item = &'n Text>) {
        self.all.extend(namespaces.into_iter().cloned());
    }

    /// Notes that the files have the manifests of some namespaces.
    pub fn note_manifests<'n>(&mut self, namespaces: impl IntoIterator<Item = &'n Text>) {
        self.manifests.extend(namespaces.into_iter().cloned());
    }

    /// Returns how much the files have of a namespace.
    pub fn of(&self, namespace: &str) -> Extent {
        if self.is_everywhere || self.all.contains(namespace) {
            Extent::All
        } else if self.manifests.contains(namespace) {
            Extent::Manifests
        } else {
            Extent::Nothing
        }
    }
}

/// The objects of a cluster that files have.
#[derive(Clone, Debug, Default)]
pub struct FileContents {
    /// The kinds that the files have, by the name of the resource. The reading tells that others
    /// are not known.
    pub kinds: BTreeMap<&'static str, Extents>,
    /// The pods that workloads would make: they have no state, and no addresses.
    pub assumed: BTreeSet<ObjectKey>,
}

impl FileContents {
    /// The resources whose extent matters to explanations.
    pub const RESOURCES: [&str; 5] = ["services", "pods", "endpointslices", "endpoints", "endpointselectors"];

    /// Returns how much the files have of a kind in a namespace.
    pub fn of(&self, resource: &str, namespace: &str) -> Extent {
        self.kinds.get(resource).map_or(Extent::All, |extents| extents.of(namespace))
    }

    fn has(&self, resource: &str, namespace: &str) -> bool {
        self.of(resource, namespace) != Extent::Nothing
    }

    /// Returns the kinds that are known in a namespace, of those that were read.
    pub(crate) fn known_in(&self, namespace: &str, read: Known) -> Known {
        Known {
            pods: read.pods && self.has("pods", namespace),
            nodes: read.nodes,
            slices: read.slices && self.has("endpointslices", namespace),
            endpoints: read.endpoints && self.has("endpoints", namespace),
            selectors: read.selectors && self.has("endpointselectors", namespace),
        }
    }

    /// Returns a sentence for each kind that the files lack in some of these namespaces.
    pub(crate) fn lacking(&self, namespaces: &BTreeSet<&Text>) -> Vec<String> {
        let sentence = |resource: &&str| {
            let lacks = |namespace: &&&Text| !self.has(resource, namespace);
            let lacking: Vec<&str> = namespaces.iter().filter(lacks).map(|it| &***it).collect();
            (!lacking.is_empty()).then(|| {
                let word = if lacking.len() == 1 { "namespace" } else { "namespaces" };
                format!("Not in the files: {resource} of {word} {}.", lacking.join(", "))
            })
        };
        Self::RESOURCES.iter().filter_map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_where_the_files_have_it() {
        let (shop, chart): (Text, Text) = ("shop".into(), "chart".into());
        let mut pods = Extents::default();
        pods.note_all([&shop]);
        pods.note_manifests([&shop, &chart]);
        assert_eq!(
            ["shop", "chart", "pay"].map(|namespace| pods.of(namespace)),
            [Extent::All, Extent::Manifests, Extent::Nothing]
        );
        let contents = FileContents { kinds: [("pods", pods.clone())].into(), ..FileContents::default() };
        assert_eq!(contents.known_in("shop", Known::ALL), Known::ALL);
        assert_eq!(contents.known_in("pay", Known::ALL), Known { pods: false, ..Known::ALL });
        let pay: Text = "pay".into();
        assert_eq!(contents.lacking(&[&shop, &pay].into()), ["Not in the files: pods of namespace pay."]);
        pods.note_everywhere();
        assert_eq!(pods.of("pay"), Extent::All);
    }
}
