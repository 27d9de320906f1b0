//! The kinds that reflectors watch, and what this crate needs to know about each.

use std::sync::Arc;

use kube_endpoint_core_model::protobuf::{FromProtobuf, ObjectToWrite};
use kube_endpoint_core_model::well_known::SELECTOR_GROUP;
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Endpoints, Intern, Lease, Node, ObjectKey, ObjectMeta, Pod,
    ResourceVersion, Service, Text,
};
use kube_endpoint_tracker::SentObject;
use serde::de::DeserializeOwned;

use crate::cluster::PodServiceEvent;
use crate::store::shared_strings;
use crate::{Cluster, Origin, Scope, StreamEvent};

/// A kind that the informer layer watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Pods,
    Services,
    Nodes,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlices,
    Endpoints,
    /// `kube-endpoint-manager.github.io/v1alpha1` EndpointSelector.
    EndpointSelectors,
    /// `coordination.k8s.io/v1` Lease, of namespaces with an EndpointSelector that names one.
    Leases,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Pods,
        Self::Services,
        Self::Nodes,
        Self::EndpointSlices,
        Self::Endpoints,
        Self::EndpointSelectors,
        Self::Leases,
    ];

    /// Returns the plural resource name, as in paths and in the `kind` label of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Services => "services",
            Self::Nodes => "nodes",
            Self::EndpointSlices => "endpointslices",
            Self::Endpoints => "endpoints",
            Self::EndpointSelectors => "endpointselectors",
            Self::Leases => "leases",
        }
    }
}

impl Kind {
    /// Returns true if objects of this kind are in namespaces.
    pub fn is_namespaced(self) -> bool {
        self != Self::Nodes
    }

    /// Returns true if every API server serves this kind.
    pub(crate) fn is_always_served(self) -> bool {
        !matches!(self, Self::EndpointSlices | Self::EndpointSelectors)
    }

    /// Returns the version of the API.
    pub fn api_version(self) -> &'static str {
        if self == Self::EndpointSelectors { "v1alpha1" } else { "v1" }
    }

    /// Returns the API group, as in an RBAC rule: empty for the core group.
    pub fn api_group(self) -> &'static str {
        match self {
            Self::EndpointSlices => "discovery.k8s.io",
            Self::EndpointSelectors => SELECTOR_GROUP,
            Self::Leases => "coordination.k8s.io",
            Self::Pods | Self::Services | Self::Nodes | Self::Endpoints => "",
        }
    }
}

/// A set of kinds, usually written as an array: `[Kind::Pods, Kind::Services]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// One bit for each kind.
    bits: u8,
}

impl Kinds {
    /// Returns true if a kind is in the set.
    pub fn contains(self, kind: Kind) -> bool {
        self.bits & bit(kind) != 0
    }

    /// Returns true if all kinds of another set are in this one.
    pub(crate) fn contains_all(self, kinds: Self) -> bool {
        kinds.bits & !self.bits == 0
    }

    /// Returns the set with one more kind.
    #[must_use]
    pub fn with(self, kind: Kind) -> Self {
        Self { bits: self.bits | bit(kind) }
    }

    /// Returns the kinds, in the order of [`Kind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }
}

fn bit(kind: Kind) -> u8 {
    1 << kind as u8
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        Self { bits: kinds.into_iter().fold(0, |bits, kind| bits | bit(kind)) }
    }
}

impl<const N: usize> From<[Kind; N]> for Kinds {
    fn from(kinds: [Kind; N]) -> Self {
        kinds.into_iter().collect()
    }
}

/// Where the API server serves a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The path of the list over all namespaces.
    pub path: &'static str,
    pub list_kind: &'static str,
    /// The field selector of lists and watches of all namespaces.
    pub(crate) cluster_field_selector: Option<&'static str>,
}

impl Resource {
    /// Returns the path of the list over a scope.
    pub(crate) fn path_in(&self, scope: &Scope) -> String {
        match (scope, self.path.rsplit_once('/')) {
            (Scope::Namespace(namespace), Some((version, plural))) => {
                format!("{version}/namespaces/{namespace}/{plural}")
            }
            _ => self.path.to_owned(),
        }
    }
}

/// A view that the informer layer can list, watch and store.
pub trait Object:
    DeserializeOwned + FromProtobuf + Intern + Clone + PartialEq + Send + Sync + 'static
{
    /// Its kind.
    const KIND: Kind;
    /// Where the API server serves it.
    const RESOURCE: Resource;
    /// True if the cluster calls handlers even when only the version of an object changed.
    /// Controllers compare the versions of the kinds that they write. Of pods and nodes, which
    /// kubelets write all the time, they need only the view.
    const NOTIFY_EVERY_VERSION: bool;

    /// Returns namespace and name.
    fn key(&self) -> ObjectKey;
    /// Returns the resource version of the object.
    fn resource_version(&self) -> ResourceVersion;
    /// Sets the resource version.
    fn set_resource_version(&mut self, version: ResourceVersion);
    /// Applies an event to the store of this kind.
    fn apply(cluster: &Cluster, origin: Origin, event: StreamEvent<Self>);

    /// Returns the metadata, and the object as a controller writes it, or `None` for a kind that no
    /// controller writes.
    fn as_written(&self) -> Option<(&ObjectMeta, &dyn ObjectToWrite)> {
        None
    }

    /// Returns an object with this metadata and otherwise the content of one that a controller
    /// sent. Returns `None` for a kind that no controller writes, or if `sent` is of another kind.
    fn with_content_of(_metadata: ObjectMeta, _sent: SentObject) -> Option<Self> {
        None
    }

    /// Replaces strings with equal ones of the previous view, which others hold too.
    fn keep_strings(&mut self, _before: &Self) {}

    /// Replaces strings with equal ones that the stores hold.
    fn share_strings(&mut self, _cluster: &Cluster) {}

    /// Drops content that a controller can compute again, before the store holds the object. See
    /// [`Cluster::summarize_endpoints`].
    fn summarize(&mut self) {}

    /// Returns true if the object has a name. Every object of an API server has one.
    fn has_name(&self) -> bool {
        !self.key().name.is_empty()
    }

    /// Returns true if two views are equal apart from their versions and what no controller reads.
    fn same_but_version(&mut self, other: &Self) -> bool {
        let version = self.resource_version();
        self.set_resource_version(other.resource_version());
        let same = self == other;
        self.set_resource_version(version);
        same
    }
}

/// Implements [`Object`]: the implementations differ in names only.
macro_rules! object {
    ($view:ty, $kind:ident, $path:literal, $list_kind:literal, $every_version:literal,
     |$cluster:ident, $origin:ident, $event:ident| $apply:expr, |$view_of:ident| $key:expr, $($version:ident).+ $(, $methods:ident)*) => {
        impl Object for $view {
            const KIND: Kind = Kind::$kind;
            const RESOURCE: Resource = Resource {
                path: $path,
                list_kind: $list_kind,
                // Each node renews a Lease in this namespace every ten seconds.
                cluster_field_selector: match Kind::$kind {
                    Kind::Leases => Some("metadata.namespace!=kube-node-lease"),
                    _ => None,
                },
            };
            const NOTIFY_EVERY_VERSION: bool = $every_version;

            fn key(&self) -> ObjectKey {
                let $view_of = self;
                $key
            }

            fn resource_version(&self) -> ResourceVersion {
                self.$($version).+
            }

            fn set_resource_version(&mut self, version: ResourceVersion) {
                self.$($version).+ = version;
            }

            fn apply($cluster: &Cluster, $origin: Origin, $event: StreamEvent<Self>) {
                $apply;
            }

            $($methods!();)*
        }
    };
}

/// The methods of a kind that controllers write.
macro_rules! written {
    () => {
        fn as_written(&self) -> Option<(&ObjectMeta, &dyn ObjectToWrite)> {
            Some((&self.metadata, self))
        }

        fn with_content_of(mut metadata: ObjectMeta, sent: SentObject) -> Option<Self> {
            // The writer holds it too until the write has ended, so this may have to clone it.
            let sent: Self = Arc::unwrap_or_clone(sent.downcast().ok()?);
            metadata.share_strings(sent.metadata);
            Some(Self { metadata, ..sent })
        }
    };
}

/// The method of the kind that stores may hold as a summary.
macro_rules! summarized {
    () => {
        fn summarize(&mut self) {
            Endpoints::summarize(self);
        }
    };
}

/// The method of the kind whose strings other kinds share.
macro_rules! keeps_strings {
    () => {
        fn keep_strings(&mut self, before: &Self) {
            shared_strings::keep(self, before);
        }
    };
}

/// The method of a kind with fields that no controller reads.
macro_rules! has_unread_fields {
    () => {
        fn same_but_version(&mut self, other: &Self) -> bool {
            self.same_for_controllers(other)
        }
    };
}

/// The method of the kind that shares strings with pods.
macro_rules! shares_strings {
    () => {
        fn share_strings(&mut self, cluster: &Cluster) {
            cluster.share_with_pods(self);
        }
    };
}

object!(
    Pod,
    Pods,
    "/api/v1/pods",
    "PodList",
    false,
    |cluster, origin, event| cluster.apply_to_index(PodServiceEvent::Pod(origin, event)),
    |pod| pod.key.clone(),
    resource_version,
    keeps_strings,
    has_unread_fields
);
object!(
    Service,
    Services,
    "/api/v1/services",
    "ServiceList",
    true,
    |cluster, origin, event| cluster.apply_to_index(PodServiceEvent::Service(origin, event)),
    |service| service.key.clone(),
    resource_version
);
object!(
    EndpointSelector,
    EndpointSelectors,
    "/apis/kube-endpoint-manager.github.io/v1alpha1/endpointselectors",
    "EndpointSelectorList",
    true,
    |cluster, origin, event| cluster.apply_to_index(PodServiceEvent::Selector(origin, event)),
    |selector| selector.key.clone(),
    resource_version
);
object!(
    Node,
    Nodes,
    "/api/v1/nodes",
    "NodeList",
    false,
    |cluster, origin, event| cluster
        .apply_to(&cluster.inner.nodes, origin, event, |it, change| it.on_node(change)),
    |node| ObjectKey { namespace: Text::default(), name: node.name.clone() },
    resource_version,
    has_unread_fields
);
object!(
    EndpointSlice,
    EndpointSlices,
    "/apis/discovery.k8s.io/v1/endpointslices",
    "EndpointSliceList",
    true,
    |cluster, origin, event| {
        cluster.apply_to(&cluster.inner.endpoint_slices, origin, event, |it, change| {
            it.on_endpoint_slice(change);
        });
    },
    |slice| slice.metadata.key(),
    metadata.resource_version,
    written,
    shares_strings
);
object!(
    Endpoints,
    Endpoints,
    "/api/v1/endpoints",
    "EndpointsList",
    true,
    |cluster, origin, event| {
        cluster.apply_to(&cluster.inner.endpoints, origin, event, |it, change| it.on_endpoints(change));
    },
    |endpoints| endpoints.metadata.key(),
    metadata.resource_version,
    written,
    summarized
);
object!(
    Lease,
    Leases,
    "/apis/coordination.k8s.io/v1/leases",
    "LeaseList",
    false,
    |cluster, origin, event| {
        cluster.apply_to(&cluster.inner.leases, origin, event, |it, change| it.on_lease(change));
    },
    |lease| lease.key.clone(),
    resource_version
);
