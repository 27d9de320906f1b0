//! The resources that the server knows, as one static table. Discovery lists it, the router looks
//! paths up in it, and it refers to everything else that depends on the kind of an object: its
//! fields, its patch schema and its strategy.

use crate::patch::schema as patch;
use crate::schema::{GoType, core, discovery, node, other, pod};
use crate::strategy::Strategy;
use crate::strategy::endpoint_selector::{EndpointSelectorStatusStrategy, EndpointSelectorStrategy};
use crate::strategy::endpoints::EndpointsStrategy;
use crate::strategy::endpointslice::EndpointSliceStrategy;
use crate::strategy::event::EventStrategy;
use crate::strategy::lease::LeaseStrategy;
use crate::strategy::namespace::{NamespaceStatusStrategy, NamespaceStrategy};
use crate::strategy::node::{NodeStatusStrategy, NodeStrategy};
use crate::strategy::pod::{PodStatusStrategy, PodStrategy};
use crate::strategy::review::{
    AccessReviewStrategy, LocalAccessReviewStrategy, RequiredFieldStrategy, SelfReviewStrategy,
};
use crate::strategy::service::{ServiceStatusStrategy, ServiceStrategy};

/// One resource of one API group and version.
pub struct Resource {
    /// API group, empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    /// The plural name in paths.
    pub plural: &'static str,
    /// Short names that kubectl accepts.
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    /// True if objects live in a namespace.
    pub namespaced: bool,
    /// Verbs on the main resource. A client only creates reviews, and the server never stores them.
    pub verbs: &'static [&'static str],
    pub(crate) go_type: &'static GoType,
    /// The merge keys of the kind's lists.
    pub(crate) patch_schema: &'static patch::Schema,
    /// The strategy of creates and updates.
    pub(crate) strategy: &'static dyn Strategy,
    /// The strategy of updates of the status subresource, if there is one.
    pub(crate) status_strategy: Option<&'static dyn Strategy>,
}

/// Returns a namespaced resource of the core group with stored objects.
const fn stored(
    plural: &'static str,
    short_names: &'static [&'static str],
    go_type: &'static GoType,
    strategy: &'static dyn Strategy,
) -> Resource {
    Resource {
        group: "",
        version: "v1",
        kind: go_type.name,
        plural,
        short_names,
        categories: &[],
        namespaced: true,
        verbs: &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        go_type,
        patch_schema: &patch::ONLY_METADATA,
        strategy,
        status_strategy: None,
    }
}

const fn review(
    group: &'static str,
    plural: &'static str,
    go_type: &'static GoType,
    strategy: &'static dyn Strategy,
) -> Resource {
    let stored = stored(plural, &[], go_type, strategy);
    Resource { group, namespaced: false, verbs: &["create"], ..stored }
}

/// Namespaces.
pub static NAMESPACES: Resource = Resource {
    namespaced: false,
    verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
    patch_schema: &patch::NAMESPACE,
    status_strategy: Some(&NamespaceStatusStrategy),
    ..stored("namespaces", &["ns"], &core::Namespace, &NamespaceStrategy)
};

/// Nodes.
pub static NODES: Resource = Resource {
    namespaced: false,
    patch_schema: &patch::NODE,
    status_strategy: Some(&NodeStatusStrategy),
    ..stored("nodes", &["no"], &node::Node, &NodeStrategy)
};

/// Pods.
pub static PODS: Resource = Resource {
    categories: &["all"],
    patch_schema: &patch::POD,
    status_strategy: Some(&PodStatusStrategy),
    ..stored("pods", &["po"], &pod::Pod, &PodStrategy)
};

/// Services.
pub static SERVICES: Resource = Resource {
    categories: &["all"],
    patch_schema: &patch::SERVICE,
    status_strategy: Some(&ServiceStatusStrategy),
    ..stored("services", &["svc"], &core::Service, &ServiceStrategy)
};

/// Endpoints.
pub static ENDPOINTS: Resource = stored("endpoints", &["ep"], &core::Endpoints, &EndpointsStrategy);

/// Events of the core group.
pub static EVENTS: Resource = stored("events", &["ev"], &core::Event, &EventStrategy);

/// EndpointSlices.
pub static ENDPOINT_SLICES: Resource = Resource {
    group: "discovery.k8s.io",
    ..stored("endpointslices", &[], &discovery::EndpointSlice, &EndpointSliceStrategy)
};

static LEASES: Resource =
    Resource { group: "coordination.k8s.io", ..stored("leases", &[], &other::Lease, &LeaseStrategy) };

/// EndpointSelectors, a custom resource.
pub static ENDPOINT_SELECTORS: Resource = Resource {
    group: "kube-endpoint-manager.github.io",
    version: "v1alpha1",
    status_strategy: Some(&EndpointSelectorStatusStrategy),
    ..stored("endpointselectors", &["epsel"], &other::EndpointSelector, &EndpointSelectorStrategy)
};

static TOKEN_REVIEWS: Resource = review(
    "authentication.k8s.io",
    "tokenreviews",
    &other::TokenReview,
    &RequiredFieldStrategy { field: "token", message: "token is required for TokenReview in authentication" },
);

static SUBJECT_ACCESS_REVIEWS: Resource = review(
    "authorization.k8s.io",
    "subjectaccessreviews",
    &other::SubjectAccessReview,
    &AccessReviewStrategy { names_subject: true },
);

static LOCAL_SUBJECT_ACCESS_REVIEWS: Resource = Resource {
    namespaced: true,
    ..review(
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        &other::LocalSubjectAccessReview,
        &LocalAccessReviewStrategy,
    )
};

static SELF_SUBJECT_REVIEWS: Resource =
    review("authentication.k8s.io", "selfsubjectreviews", &other::SelfSubjectReview, &SelfReviewStrategy);

static SELF_SUBJECT_ACCESS_REVIEWS: Resource = review(
    "authorization.k8s.io",
    "selfsubjectaccessreviews",
    &other::SelfSubjectAccessReview,
    &AccessReviewStrategy { names_subject: false },
);

static SELF_SUBJECT_RULES_REVIEWS: Resource = review(
    "authorization.k8s.io",
    "selfsubjectrulesreviews",
    &other::SelfSubjectRulesReview,
    &RequiredFieldStrategy { field: "namespace", message: "no namespace on request" },
);

static RESOURCES: [&Resource; 15] = [
    &NAMESPACES,
    &NODES,
    &PODS,
    &SERVICES,
    &ENDPOINTS,
    &EVENTS,
    &ENDPOINT_SLICES,
    &LEASES,
    &TOKEN_REVIEWS,
    &SELF_SUBJECT_REVIEWS,
    &SUBJECT_ACCESS_REVIEWS,
    &LOCAL_SUBJECT_ACCESS_REVIEWS,
    &SELF_SUBJECT_ACCESS_REVIEWS,
    &SELF_SUBJECT_RULES_REVIEWS,
    &ENDPOINT_SELECTORS,
];

impl Resource {
    /// Returns the singular name that kubectl accepts.
    pub fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// Returns the path of the group and version: `/api/v1` or `/apis/GROUP/VERSION`.
    pub fn root(&self) -> String {
        format!("{}/{}", if self.group.is_empty() { "/api" } else { "/apis" }, self.api_version())
    }

    /// Returns the package of its internal Go type, as error texts have it.
    pub fn go_package(&self) -> &'static str {
        match self.group {
            "" => "core",
            group => group.split('.').next().unwrap_or(group),
        }
    }

    /// Returns `v1` or `group/v1`, as in an object's `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns true if there is a status subresource, which ordinary writes cannot change.
    pub fn has_status(&self) -> bool {
        self.status_strategy.is_some()
    }

    /// Returns true if the server stores objects. It does not store reviews.
    pub fn is_stored(&self) -> bool {
        self.verbs.len() > 1
    }

    /// Returns true if it is a custom resource: the server reads and writes it in JSON only, and
    /// takes no strategic merge patch for it.
    pub fn is_custom(&self) -> bool {
        *self == ENDPOINT_SELECTORS
    }

    /// Returns the hash of the group, version and kind of stored objects, as discovery shows it, or
    /// `None` if the server does not store objects.
    pub fn storage_version_hash(&self) -> Option<&'static str> {
        // The real server's values: the first eight bytes of the SHA-256 sum of
        // `GROUP/VERSION/KIND`, in base64.
        Some(match self.plural {
            "namespaces" => "Q3oi5N2YM8M=",
            "nodes" => "XwShjMxG9Fs=",
            "pods" => "xPOwRZ+Yhw8=",
            "services" => "0/CO1lhkEBI=",
            "endpoints" => "fWeeMqaN/OA=",
            "events" => "r2yiGXH7wu8=",
            "endpointslices" => "qgS0xkrxYAI=",
            "leases" => "gqkMMb/YqFM=",
            "endpointselectors" => "c5LTuABzggo=",
            _ => return None,
        })
    }

    /// Returns `services` or `endpointslices.discovery.k8s.io`, as in the texts of Status errors.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        (self.group, self.version, self.plural) == (other.group, other.version, other.plural)
    }
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.group_resource())
    }
}

/// Returns all resources, in the order in which discovery lists them.
pub fn all() -> impl ExactSizeIterator<Item = &'static Resource> {
    RESOURCES.into_iter()
}

/// Returns the resource that a path names.
pub fn by_path(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    all().find(|r| r.group == group && r.version == version && r.plural == plural)
}

/// Returns the resource of an object, by its `apiVersion` and `kind`.
pub fn by_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    all().find(|r| r.group == group && r.version == version && r.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_is_found_by_its_path_and_by_its_kind() {
        for resource in all() {
            assert_eq!(by_path(resource.group, resource.version, resource.plural), Some(resource));
            assert_eq!(by_kind(&resource.api_version(), resource.kind), Some(resource));
            assert_eq!(resource.storage_version_hash().is_some(), resource.is_stored());
        }
        assert_eq!(by_path("", "v2", "pods"), None);
        assert_eq!(by_kind("v1", "Deployment"), None);
    }
}
