//! Which part of the cluster the stores hold, and which lists and watches this takes.

use std::collections::BTreeSet;

use kube_endpoint_core_model::Text;

use crate::{Kind, Shard};

/// The part of the cluster that the stores hold: all namespaces, some, or those of a shard. Nodes
/// are in every view.
///
/// ```
/// use kube_endpoint_informer::{Kind, View};
/// let view = View::of_namespaces(["a", "b"]);
/// assert!(view.contains(Kind::Pods, "a") && !view.contains(Kind::Pods, "c"));
/// assert!(view.contains(Kind::Nodes, ""));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Empty for all namespaces.
    namespaces: BTreeSet<Text>,
    shard: Option<Shard>,
}

impl View {
    /// Only these namespaces; all of them if there are none.
    pub fn of_namespaces(namespaces: impl IntoIterator<Item = impl Into<Text>>) -> Self {
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

    /// The namespaces to which the view is limited; none if it is not limited to named ones.
    pub fn namespaces(&self) -> impl ExactSizeIterator<Item = &Text> {
        self.namespaces.iter()
    }

    /// The shard to which the view is limited.
    pub fn shard(&self) -> Option<&Shard> {
        self.shard.as_ref()
    }

    /// Returns true if the view holds the objects of a kind in a namespace.
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
        let check = |view: &View, kind: Kind, want: &[&str]| {
            let scopes = view.scopes(kind);
            let names: Vec<_> = scopes.iter().map(|scope| scope.namespace().unwrap_or("*")).collect();
            assert_eq!(names, want, "{kind:?}");
        };
        check(&View::default(), Kind::Pods, &["*"]);
        let two = View::of_namespaces(["b", "a", "b"]);
        check(&two, Kind::Pods, &["a", "b"]);
        check(&two, Kind::EndpointSlices, &["a", "b"]);
        check(&two, Kind::Nodes, &["*"]);
        check(&View::of_namespaces([""; 0]), Kind::Services, &["*"]);
    }

    #[test]
    fn a_scope_covers_its_namespace() {
        let scope = Scope::Namespace("a".into());
        assert!(scope.contains("a") && !scope.contains("b") && !scope.contains(""));
        assert!(Scope::All.contains("a") && Scope::All.contains(""));
    }
}
