//! The Service names an EndpointSelector that does not exist.

use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINT_SELECTOR;
use serde_json::Value;

use super::words::doctor;
use crate::facts::lease::{Lease, LeaseState};
use crate::findings::prelude::*;
use crate::models::selection::{RESOURCE, Selection, is_name, names_in_namespace};

about! {
    /// While a selector is missing, the controller removes endpoints whose pod is gone, makes those
    /// whose pod is not ready unready, and adds none: nobody can say which pods to add. It does the
    /// same in slices that kube-controller-manager left before a hand-over. If the cluster does not
    /// serve EndpointSelectors at all, the message says so: whoever deletes the
    /// CustomResourceDefinition deletes each EndpointSelector. If other namespaces have one of this
    /// name, the message names them. If you may read the Leases of kube-endpoint-manager and of its
    /// add-on in all namespaces, and none is held, the message says that nobody seems to maintain
    /// the endpoints. If you may not read EndpointSelectors, or the manager does not, the finding
    /// is EP001 instead.
    EP090 "endpoint-selector-not-found" Error
    "The Service names an EndpointSelector that does not exist."
}

/// An EndpointSelector that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSelectorNotFound {
    pub endpoint_selector: Text,
    /// False if the cluster does not serve EndpointSelectors.
    pub is_served: bool,
    /// False if no EndpointSelector can have this name.
    pub is_name: bool,
    /// Names of EndpointSelectors of the namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Text>,
    /// Other namespaces with an EndpointSelector of this name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<Text>,
    /// True if it is known that no kube-endpoint-manager holds a Lease.
    #[serde(skip)]
    pub(crate) is_unmaintained: bool,
}

impl Finding for EndpointSelectorNotFound {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let Selection::Unusable { name, object: None } = inputs.selection else { return Vec::new() };
        let objects = inputs.objects;
        let namespace = &inputs.service.key.namespace;
        let key = ObjectKey { namespace: namespace.clone(), name: name.clone() };
        let elsewhere = inputs.options.other_namespaces.then(|| objects.namespaces_of_selector(&key));
        let leases = objects.manager_leases.as_ref().filter(|_| !inputs.options.are_from_files());
        let is_held = |lease: &Lease| lease.state(inputs.now) == LeaseState::Held;
        vec![Self {
            is_unmaintained: leases.is_some_and(|leases| !leases.iter().any(is_held)),
            endpoint_selector: name.clone(),
            is_served: !objects.serves_no_selectors,
            is_name: is_name(name),
            others: objects.some_selectors_of(namespace),
            namespaces: elsewhere.unwrap_or_default(),
        }]
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let name = &self.endpoint_selector;
        vec![read.names_selector(name), read.of("EndpointSelector", name, ".metadata.name", Value::Null)]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let name = &self.endpoint_selector;
        let look = self.is_unmaintained.then(doctor);
        if !self.is_served {
            let definition = Step::kubectl(["get", "customresourcedefinition", RESOURCE]);
            return Remedy::ask(
                ClusterAdministrator,
                format!(
                    "Install the CustomResourceDefinition {RESOURCE}, and create EndpointSelector {name} again, or give the Service a selector in place of the annotation {ANNOTATION_ENDPOINT_SELECTOR}"
                ),
            )
            .shown_by([definition].into_iter().chain(look));
        }
        let sentence = match self.is_name {
            true => format!(
                "Create EndpointSelector {name} in the namespace {}, or correct the annotation {ANNOTATION_ENDPOINT_SELECTOR} of the Service",
                service.namespace
            ),
            false => format!(
                "Correct the annotation {ANNOTATION_ENDPOINT_SELECTOR} of the Service: write the name of an EndpointSelector of its namespace"
            ),
        };
        let all = Step::kubectl_in(&service.namespace, ["get", RESOURCE]);
        Remedy::ask(ServiceOwner, sentence).shown_by([all].into_iter().chain(look))
    }
}

impl fmt::Display for EndpointSelectorNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.endpoint_selector;
        write!(f, "EndpointSelector {name} does not exist, ")?;
        f.write_str(match self.is_unmaintained {
            false => "so endpoints leave and none comes",
            true => {
                "and nobody seems to maintain the endpoints, since no Lease of kube-endpoint-manager is held"
            }
        })?;
        match (self.is_served, self.is_name, names_in_namespace(&self.others)) {
            (false, ..) => f.write_str("; the cluster does not serve EndpointSelectors")?,
            (true, false, _) => f.write_str(", and none can have this name")?,
            (true, true, None) => {}
            (true, true, Some(others)) => write!(f, "; {others}")?,
        }
        match self.namespaces.as_slice() {
            [] => Ok(()),
            [one] => {
                write!(f, "; the namespace {one} has one of this name, which selects pods of that namespace")
            }
            more => write!(
                f,
                "; the namespaces {} have one of this name, which selects pods of its own namespace",
                names(more)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINT_SELECTOR;

    use crate::findings::testing::*;

    #[test]
    fn an_endpoint_selector_of_this_name_is_found() {
        let mistyped = example("ep090-endpoint-selector-not-found");
        assert!(mistyped.finds(Code::EndpointSelectorNotFound));
        let annotations = json!({ANNOTATION_ENDPOINT_SELECTOR: "web-stable"});
        let named = mistyped.with("Service/web", json!({"metadata": {"annotations": annotations}}));
        assert!(!named.finds(Code::EndpointSelectorNotFound));
    }

    #[test]
    fn an_endpoint_selector_that_nobody_may_read_is_not_missing() {
        let unread = example("ep001-without-endpoint-selectors");
        assert!(unread.finds(Code::NotKnown) && !unread.finds(Code::EndpointSelectorNotFound));
    }
}
