//! The namespaces that the stores hold, and the lists and watches that this takes.

use std::collections::BTreeSet;

use kube_endpoint_core_model::Text;

use crate::{Kind, Shard};

/// The namespaces that are listed and watched, and whose objects the stores hold: all, some, or
/// those of a shard. Nodes are in no namespace, so all of them are watched in any case.
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
    shard: Option<Shard>,
}

impl WatchedNamespaces {
    /// Only these namespaces; all of them if there are none.
    pub fn named(namespaces: impl IntoIterator<Item = impl Into<Text>>) -> Self {
        Self { namespaces: namespaces.into_iter().map(Into::into).collect(), shard: None }
    }

    /// Only the namespaces of a shard. If it is a shard of the API server's division
    /// ([`Shard::divided_by_server`]), the server is asked to send only its objects
    /// (`shardSelector`, KEP-5866). The kinds are then listed in pages, since only a list says
    /// whether the server does so. If it does not, it is not asked again, and objects of other
    /// shards are dropped when they arrive.
    pub fn of_shard(shard: Shard) -> Self {
        Self { namespaces: BTreeSet::new(), shard: Some(shard) }
    }

    /// The names of the namespaces; none if all namespaces or those of a shard are watched.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Text> {
        self.namespaces.iter()
    }

    /// The shard whose namespaces are watched.
    pub fn shard(&self) -> Option<&Shard> {
        self.shard.as_ref()
    }

    /// Returns true if the objects of a kind in a namespace are watched.
    pub fn contains(&self, kind: Kind, namespace: &str) -> bool {
        !kind.is_namespaced()
            || ((self.namespaces.is_empty() || self.namespaces.contains(namespace))
                && self.shard.is_none_or(|shard| shard.contains(namespace)))
    }

    /// What each list and watch of a kind covers. There is at least one.
    pub(crate) fn scopes(&self, kind: Kind) -> Vec<Scope> {
        if self.namespaces.is_empty() || !kind.is_namespaced() {
            return vec![Scope::All];
        }
        self.namespaces.iter().cloned().map(Scope::Namespace).collect()
    }
}

/// What one list and watch covers.
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

    /// The namespace, if it covers only one.
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
    fn a_scope_covers_its_namespace() {
        let scope = Scope::Namespace("a".into());
        assert!(scope.contains("a") && !scope.contains("b") && !scope.contains(""));
        assert!(Scope::All.contains("a") && Scope::All.contains(""));
    }
}
