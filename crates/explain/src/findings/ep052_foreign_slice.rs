//! A slice of the Service is managed by another controller.

use kube_endpoint_core_model::well_known::LABEL_MANAGED_BY;

use crate::findings::prelude::*;

about! {
    /// The label `endpointslice.kubernetes.io/managed-by` names another controller. Clients use the
    /// endpoints of all slices of a Service.
    EP052 "foreign-slice" Info
    "A slice of the Service is managed by another controller."
}

/// A slice whose label names a controller that is none of Kubernetes' or ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForeignSlice {
    pub slice: Text,
    /// The manager that its label names.
    pub manager: Text,
}

impl Finding for ForeignSlice {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        if !inputs.options.known.slices {
            return Vec::new();
        }
        let found = inputs.slices().iter().filter_map(|slice| {
            let manager = slice.metadata.labels.get(LABEL_MANAGED_BY)?;
            let is_told = inputs.is_of_controller(manager) || inputs.is_kept(slice);
            (!is_told).then(|| Self { slice: slice.metadata.name.clone(), manager: manager.clone() })
        });
        found.collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.label_of_slice(&self.slice, LABEL_MANAGED_BY), read.slice(&self.slice)]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let manager = &self.manager;
        let sentence = format!("Nothing, if {manager} is meant to add endpoints to this Service");
        Remedy::ask(ServiceOwner, sentence)
    }
}

impl fmt::Display for ForeignSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice {} is managed by {}", self.slice, self.manager)
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn slices_of_the_controllers_of_both_sides_are_there_during_a_hand_over() {
        assert!(example("ep052-foreign-slice").finds(Code::ForeignSlice));
        let held = example("ep093-hand-over-held");
        assert!(!held.finds(Code::ForeignSlice));
        let labels = json!({"endpointslice.kubernetes.io/managed-by": "gateway.example.com"});
        let patch = json!({"metadata": {"labels": labels}});
        assert!(held.with("EndpointSlice/web-7kq2x", patch).finds(Code::ForeignSlice));
    }
}
