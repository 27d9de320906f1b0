//! A slice of the Service is owned by another object.

use std::sync::Arc;

use kube_endpoint_core_model::EndpointSlice;
use serde_json::json;

use crate::findings::prelude::*;
use crate::models::selection::Selection;

about! {
    /// The slice carries the labels of the Service and of the controller, and its owner reference
    /// names another uid. The garbage collector deletes it when that owner is gone; the controller
    /// replaces it.
    EP051 "wrong-owner" Warning
    "A slice of the Service is owned by another object."
}

/// A slice of the controller that another object owns, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WrongOwner {
    pub slice: Text,
    /// Kind, name and uid of its owner, or `None` if it has no owner.
    pub owner: Option<String>,
    /// True if it is a slice of the endpoint selector controller.
    pub is_attached: bool,
}

impl Finding for WrongOwner {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        if !inputs.options.known.slices {
            return Vec::new();
        }
        let manager = &inputs.selection.plan_options(inputs.options).manager;
        let is_wrong =
            |slice: &&Arc<EndpointSlice>| slice.is_managed_by(manager) && !slice.is_owned_by(inputs.service);
        let found = inputs.slices().iter().filter(is_wrong).map(|slice| {
            let owner = slice.metadata.owner_references.first();
            Self {
                slice: slice.metadata.name.clone(),
                owner: owner.map(|owner| format!("{} {} ({})", owner.kind, owner.name, owner.uid)),
                is_attached: matches!(inputs.selection, Selection::Attached { .. }),
            }
        });
        found.collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.of("EndpointSlice", &self.slice, ".metadata.ownerReferences", json!(self.owner))]
    }

    /// If no controller runs to replace it, clients use this slice.
    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let controller = if self.is_attached { "endpoint selector" } else { "EndpointSlice" };
        let slice = &self.slice;
        let sentence = format!(
            "Look at the {controller} controller, which replaces slice {slice} if it runs; until then clients use the slice"
        );
        Remedy::ask(ClusterAdministrator, sentence)
    }
}

impl fmt::Display for WrongOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slice = &self.slice;
        match &self.owner {
            Some(owner) => write!(f, "slice {slice} is owned by {owner}, not by this Service"),
            None => write!(f, "slice {slice} has no owner"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_slice_of_somebody_else_needs_no_owner() {
        let restored = example("ep051-wrong-owner");
        assert!(restored.finds(Code::WrongOwner));
        let labels = json!({"endpointslice.kubernetes.io/managed-by": "gateway.example.com"});
        let patch = json!({"metadata": {"labels": labels}});
        let foreign = restored.clone().with("EndpointSlice/web-abcde", patch);
        assert!(!foreign.finds(Code::WrongOwner));
        let owner = json!({"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "uid-service-web",
            "controller": true, "blockOwnerDeletion": true});
        let patch = json!({"metadata": {"ownerReferences": [owner]}});
        let owned = restored.with("EndpointSlice/web-abcde", patch);
        assert!(!owned.finds(Code::WrongOwner));
    }
}
