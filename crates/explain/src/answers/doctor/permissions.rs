//! The permissions that functions need.

use std::fmt;

use kube_endpoint_core_model::well_known::SELECTOR_GROUP;

use super::Instance;
use super::loops::runs_beside;

/// A permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    /// The name of the object; empty for all.
    pub name: &'static str,
    /// The namespace; empty for the whole cluster.
    pub namespace: &'static str,
    /// The function that needs it.
    pub function: &'static str,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, name, namespace, .. } = self;
        write!(f, "{verb} {resource}")?;
        if !group.is_empty() {
            write!(f, ".{group}")?;
        }
        if !name.is_empty() {
            write!(f, " {name}")?;
        }
        if !namespace.is_empty() {
            write!(f, " in {namespace}")?;
        }
        Ok(())
    }
}

/// The answer to the question whether a user has a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub permission: Permission,
    pub is_allowed: bool,
}

const DISCOVERY: &str = "discovery.k8s.io";

const fn in_cluster(
    function: &'static str,
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
) -> Permission {
    Permission { verb, group, resource, name: "", namespace: "", function }
}

const fn of_lease(verb: &'static str, name: &'static str) -> Permission {
    let group = "coordination.k8s.io";
    Permission {
        verb,
        group,
        resource: "leases",
        name,
        namespace: "kube-system",
        function: "leader election",
    }
}

/// The permissions of kube-endpoint-manager, as `deploy/base` grants them. The finalizers and the
/// subresource `restricted`, for which only some admission plugins ask, are left out.
pub const FOR_MANAGER: &[Permission] = &[
    in_cluster("inputs", "list", "", "pods"),
    in_cluster("inputs", "watch", "", "pods"),
    in_cluster("inputs", "list", "", "nodes"),
    in_cluster("inputs", "watch", "", "nodes"),
    in_cluster("inputs", "get", "", "services"),
    in_cluster("inputs", "list", "", "services"),
    in_cluster("inputs", "watch", "", "services"),
    in_cluster("Endpoints", "get", "", "endpoints"),
    in_cluster("Endpoints", "list", "", "endpoints"),
    in_cluster("Endpoints", "watch", "", "endpoints"),
    in_cluster("Endpoints", "create", "", "endpoints"),
    in_cluster("Endpoints", "update", "", "endpoints"),
    in_cluster("Endpoints", "delete", "", "endpoints"),
    in_cluster("EndpointSlices", "get", DISCOVERY, "endpointslices"),
    in_cluster("EndpointSlices", "list", DISCOVERY, "endpointslices"),
    in_cluster("EndpointSlices", "watch", DISCOVERY, "endpointslices"),
    in_cluster("EndpointSlices", "create", DISCOVERY, "endpointslices"),
    in_cluster("EndpointSlices", "update", DISCOVERY, "endpointslices"),
    in_cluster("EndpointSlices", "delete", DISCOVERY, "endpointslices"),
    in_cluster("events", "create", "", "events"),
    in_cluster("events", "patch", "", "events"),
    in_cluster("metrics and status", "create", "authentication.k8s.io", "tokenreviews"),
    in_cluster("metrics and status", "create", "authorization.k8s.io", "subjectaccessreviews"),
    of_lease("create", ""),
    of_lease("get", "kube-endpoint-manager"),
    of_lease("watch", "kube-endpoint-manager"),
    of_lease("update", "kube-endpoint-manager"),
];

/// The permissions that kube-endpoint-manager needs besides if it serves EndpointSelectors.
const FOR_SELECTORS: &[Permission] = &[
    in_cluster("EndpointSelectors", "list", SELECTOR_GROUP, "endpointselectors"),
    in_cluster("EndpointSelectors", "watch", SELECTOR_GROUP, "endpointselectors"),
    in_cluster("EndpointSelectors", "get", "", "services"),
];

/// Returns the user as which the pods of kube-endpoint-manager send requests, and the permissions
/// that it needs by their flags. Returns `None` if the pods do not tell the user, or work on single
/// namespaces, which Roles may permit.
pub fn for_manager(pods: &[Instance]) -> Option<(String, Vec<Permission>)> {
    let has = |flag: &str| pods.iter().any(|pod| pod.values(flag).next().is_some());
    let user = pods.iter().find_map(|pod| pod.user.clone())?;
    // Another name or namespace of the Lease.
    let other_lease = ["leader-elect-resource-name", "leader-elect-resource-namespace", "service-selector"];
    let other_lease = other_lease.into_iter().any(has);
    let beside = runs_beside(pods);
    let is_needed =
        |it: &&Permission| !(other_lease && it.resource == "leases" || beside && it.resource == "endpoints");
    let selectors = FOR_SELECTORS.iter().filter(|_| beside);
    let needed = FOR_MANAGER.iter().filter(is_needed).chain(selectors).copied();
    (!has("namespaces")).then(|| (user, needed.collect()))
}

/// The permissions that the commands of the plugin need, in all namespaces.
pub const FOR_PLUGIN: &[Permission] = &[
    in_cluster("explain, lint, diff, top", "list", "", "services"),
    in_cluster("explain, lint, diff, top", "list", "", "pods"),
    in_cluster("explain, lint, diff, top", "list", "", "nodes"),
    in_cluster("explain, lint, diff, top", "list", "", "endpoints"),
    in_cluster("explain, lint, diff, top", "list", DISCOVERY, "endpointslices"),
    in_cluster("explain", "list", "", "events"),
    in_cluster("top", "watch", "", "services"),
    in_cluster("top", "watch", DISCOVERY, "endpointslices"),
    in_cluster("cleanup --yes", "delete", "", "endpoints"),
    in_cluster("cleanup --yes", "delete", DISCOVERY, "endpointslices"),
];
