//! The namespaces that the stores hold, and the lists and watches that they need.

use std::collections::BTreeSet;

use kube_endpoint_core_model::Text;

use crate::Kind;

/// The namespaces whose objects reflectors list and watch, and the stores hold: all or some. Nodes
/// are in no namespace, so reflectors always watch all of them.
///
/// ```
/// use kube_endpoint_informer::{Kind, WatchedNamespaces};
/// let watched = WatchedNamespaces::named(["a", "b"]);
/// assert!(watched.contains(Kind::Pods, "a") && !watched.contains(Kind::Pods, "c"));
/// assert!(watched.contains(Kind::Nodes, ""));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedNamespaces {
    /// Empty for all namespaces.
    namespaces: BTreeSet<Text>,
}

impl WatchedNamespaces {
    /// Returns a set of only these namespaces, or of all if `namespaces` is empty.
    pub fn named(namespaces: impl IntoIterator<Item = impl Into<Text>>) -> Self {
        Self { namespaces: namespaces.into_iter().map(Into::into).collect() }
    }

    /// Returns the names of the namespaces; there are none in a set of all namespaces.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Text> {
        self.namespaces.iter()
    }

    /// Returns true if reflectors watch the objects of a kind in a namespace.
    pub fn contains(&self, kind: Kind, namespace: &str) -> bool {
        !kind.is_namespaced() || self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }

    /// Returns the scopes of the lists and watches of a kind at first. Only Leases have none, until
    /// the stores show which are needed.
    pub(crate) fn scopes(&self, kind: Kind) -> Vec<Scope> {
        if kind == Kind::Leases {
            return Vec::new();
        }
        if self.namespaces.is_empty() || !kind.is_namespaced() {
            return vec![Scope::All];
        }
        self.namespaces.iter().cloned().map(Scope::Namespace).collect()
    }
}

/// The namespace of the Leases of nodes, which nobody lists.
pub(crate) const NODE_LEASES: &str = "kube-node-lease";
/// The most namespaces whose Leases have lists and watches of their own.
const MOST_LEASE_NAMESPACES: usize = 20;

impl WatchedNamespaces {
    /// Returns the scopes of the lists and watches of Leases, if EndpointSelectors of these
    /// namespaces name some.
    ///
    /// A watch of a namespace brings no renewals of nodes. One watch for the cluster costs less
    /// than many, but asks for the right to read all Leases. It is not used if the namespaces are
    /// named, or if it is forbidden: `by_namespace`.
    pub(crate) fn lease_scopes(
        &self,
        namespaces: impl Iterator<Item = Text>,
        by_namespace: bool,
    ) -> Vec<Scope> {
        let namespaces: Vec<Text> = namespaces.filter(|namespace| **namespace != *NODE_LEASES).collect();
        if namespaces.len() > MOST_LEASE_NAMESPACES && self.namespaces.is_empty() && !by_namespace {
            return vec![Scope::All];
        }
        namespaces.into_iter().map(Scope::Namespace).collect()
    }
}

/// The objects that one list and watch covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All objects of the kind.
    All,
    /// The objects in one namespace.
    Namespace(Text),
}

impl Scope {
    /// Returns true if it covers a namespace.
    pub fn contains(&self, namespace: &str) -> bool {
        self.namespace().is_none_or(|own| own == namespace)
    }

    /// Returns the namespace, if the scope covers only one.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::Namespace(namespace) => Some(namespace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_list_and_watch_for_each_namespace_and_one_for_nodes() {
        let check = |watched: &WatchedNamespaces, kind: Kind, want: &[&str]| {
            let scopes = watched.scopes(kind);
            let names: Vec<_> = scopes.iter().map(|scope| scope.namespace().unwrap_or("*")).collect();
            assert_eq!(names, want, "{kind:?}");
        };
        check(&WatchedNamespaces::default(), Kind::Pods, &["*"]);
        let two = WatchedNamespaces::named(["b", "a", "b"]);
        check(&two, Kind::Pods, &["a", "b"]);
        check(&two, Kind::EndpointSlices, &["a", "b"]);
        check(&two, Kind::Nodes, &["*"]);
        check(&WatchedNamespaces::named([""; 0]), Kind::Services, &["*"]);
    }

    #[test]
    fn leases_of_many_namespaces_have_one_watch() {
        let names = |count: usize| (0..count).map(|number| Text::from(format!("n{number:02}")));
        let named = WatchedNamespaces::named(["a"]);
        let check = |watched: &WatchedNamespaces, count: usize, want: usize| {
            assert_eq!(watched.lease_scopes(names(count), true).len(), count);
            let scopes = watched.lease_scopes(names(count), false);
            assert_eq!(scopes.len(), want, "{count}");
            assert_eq!(scopes.contains(&Scope::All), count > 20 && want == 1);
        };
        let all = WatchedNamespaces::default();
        check(&all, 0, 0);
        check(&all, 20, 20);
        check(&all, 21, 1);
        check(&named, 21, 21);
        assert!(all.scopes(Kind::Leases).is_empty());
    }

    #[test]
    fn a_scope_covers_its_namespace() {
        let scope = Scope::Namespace("a".into());
        assert!(scope.contains("a") && !scope.contains("b") && !scope.contains(""));
        assert!(Scope::All.contains("a") && Scope::All.contains(""));
    }
}
