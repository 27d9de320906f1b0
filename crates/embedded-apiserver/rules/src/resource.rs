//! The resources that the server knows, as one static table: what discovery lists, what a path may name and what
//! rules apply to an object is all read off it.

/// One resource of one API group and version.
#[derive(Debug, PartialEq, Eq)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// API version, such as `v1`.
    pub version: &'static str,
    /// Kind of one object.
    pub kind: &'static str,
    /// The plural name that stands in paths.
    pub plural: &'static str,
    /// The singular name that kubectl accepts.
    pub singular: &'static str,
    /// Short names that kubectl accepts.
    pub short_names: &'static [&'static str],
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether there is a status subresource, which ordinary writes cannot change.
    pub has_status: bool,
    /// Verbs on the main resource. Review kinds are only created and never stored.
    pub verbs: &'static [&'static str],
    /// The plural under which objects are kept. The two views of an event share one store: `events`.
    pub storage: &'static str,
}

const STORED: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const REVIEW: &[&str] = &["create"];

const fn core(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    has_status: bool,
) -> Resource {
    Resource {
        group: "",
        version: "v1",
        kind,
        plural,
        singular,
        short_names,
        categories,
        namespaced,
        has_status,
        verbs: STORED,
        storage: plural,
    }
}

const AUTHORIZATION: &str = "authorization.k8s.io";

const fn review(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
) -> Resource {
    Resource {
        group,
        version: "v1",
        kind,
        plural,
        singular,
        short_names: &[],
        categories: &[],
        namespaced: false,
        has_status: false,
        verbs: REVIEW,
        storage: "",
    }
}

static RESOURCES: [Resource; 13] = [
    core("Namespace", "namespaces", "namespace", &["ns"], &[], false, true),
    core("Node", "nodes", "node", &["no"], &[], false, true),
    core("Pod", "pods", "pod", &["po"], &["all"], true, true),
    core("Service", "services", "service", &["svc"], &["all"], true, true),
    core("Endpoints", "endpoints", "endpoints", &["ep"], &[], true, false),
    core("Event", "events", "event", &["ev"], &[], true, false),
    Resource {
        group: "events.k8s.io",
        version: "v1",
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        categories: &[],
        namespaced: true,
        has_status: false,
        verbs: STORED,
        storage: "events",
    },
    Resource {
        group: "discovery.k8s.io",
        version: "v1",
        kind: "EndpointSlice",
        plural: "endpointslices",
        singular: "endpointslice",
        short_names: &[],
        categories: &[],
        namespaced: true,
        has_status: false,
        verbs: STORED,
        storage: "endpointslices",
    },
    Resource {
        group: "coordination.k8s.io",
        version: "v1",
        kind: "Lease",
        plural: "leases",
        singular: "lease",
        short_names: &[],
        categories: &[],
        namespaced: true,
        has_status: false,
        verbs: STORED,
        storage: "leases",
    },
    review("authentication.k8s.io", "TokenReview", "tokenreviews", "tokenreview"),
    review(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", "subjectaccessreview"),
    review(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", "selfsubjectaccessreview"),
    review(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", "selfsubjectrulesreview"),
];

impl Resource {
    /// `v1` or `group/v1`, as in an object's `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether objects are kept, as opposed to answered and forgotten.
    pub fn is_stored(&self) -> bool {
        !self.storage.is_empty()
    }

    /// `services` or `endpointslices.discovery.k8s.io`, as in the texts of Status errors.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// All resources, in the order in which discovery lists them.
pub fn all() -> &'static [Resource] {
    &RESOURCES
}

/// The resource that a path names.
pub fn by_path(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|r| r.group == group && r.version == version && r.plural == plural)
}

/// The resource of an object, by its `apiVersion` and `kind`.
pub fn by_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    RESOURCES.iter().find(|r| r.group == group && r.version == version && r.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_is_found_by_its_path_and_by_its_kind() {
        for resource in all() {
            assert_eq!(by_path(resource.group, resource.version, resource.plural), Some(resource));
            assert_eq!(by_kind(&resource.api_version(), resource.kind), Some(resource));
        }
        assert_eq!(by_path("", "v2", "pods"), None);
        assert_eq!(by_kind("v1", "Deployment"), None);
    }
}
