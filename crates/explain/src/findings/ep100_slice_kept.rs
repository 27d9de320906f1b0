//! A slice stays beside those of the EndpointSelector, because it is not certain that a controller
//! made it.

use kube_endpoint_core_model::maker::Keep;

use crate::findings::prelude::*;

about! {
    /// The Service names an EndpointSelector, and a slice has the label of kube-controller-manager,
    /// or is mirrored from Endpoints of this name. The add-on deletes what kube-controller-manager
    /// left, and this it keeps: another client wrote it for certain, or one whose name it does not
    /// know wrote it in the form of a controller. Nobody updates such a slice ([other
    /// distributions](compatibility.md#names-of-kube-controller-manager)).
    EP100 "slice-kept" Warning
    "A slice stays beside those of the EndpointSelector, because it is not certain that a controller made it."
}

/// A slice that no take-over deletes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceKept {
    pub endpoint_selector: Text,
    pub slice: Text,
    /// The client that wrote it, or the Endpoints, if that is known.
    pub by: Option<Text>,
    /// True if that is certainly no controller.
    pub is_certain: bool,
    /// The Endpoints from which the slice is mirrored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Text>,
}

impl Finding for SliceKept {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let Some(name) = inputs.selection.endpoint_selector() else { return Vec::new() };
        let kept = inputs.slices().iter().filter_map(|slice| Some((slice, inputs.reason_to_keep(slice)?)));
        let kept = kept.map(|(slice, (keep, endpoints))| Self {
            endpoint_selector: name.clone(),
            slice: slice.metadata.name.clone(),
            by: match keep {
                Keep::MadeBy(by) | Keep::Uncertain(by) => Some(by.clone()),
                Keep::Unknown | Keep::Lock => None,
            },
            is_certain: matches!(keep, Keep::MadeBy(_)),
            endpoints,
        });
        kept.collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.names_selector(&self.endpoint_selector), read.slice(&self.slice)]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let (kind, name, what) = match &self.endpoints {
            Some(name) => ("endpoints", name, format!("the Endpoints {name}")),
            None => ("endpointslice", &self.slice, format!("slice {}", self.slice)),
        };
        let show =
            Step::kubectl_in(&service.namespace, ["get", kind, name, "-o", "yaml", "--show-managed-fields"]);
        let sentence = match &self.by {
            Some(by) if !self.is_certain => format!(
                "If {by} is the program that runs kube-controller-manager here, give kube-endpoint-manager --controller-field-managers={by}, which then deletes what it left; if not, delete {what} once nothing needs it"
            ),
            _ => format!("Delete {what} if it is left over"),
        };
        Remedy::ask(EndpointsWriter, sentence).shown_by([show])
    }
}

impl fmt::Display for SliceKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint_selector, slice, .. } = self;
        let what = match &self.endpoints {
            Some(name) => format!("the Endpoints {name}, from which it is mirrored,"),
            None => "it".to_owned(),
        };
        write!(
            f,
            "slice {slice} stays beside those of EndpointSelector {endpoint_selector}, and nobody updates it: "
        )?;
        match &self.by {
            Some(by) if self.is_certain => {
                write!(f, "{by} wrote {what} and not a controller, although its label says so")
            }
            Some(by) => write!(
                f,
                "{by} wrote {what} in the form of a controller, and may be kube-controller-manager under another name"
            ),
            None => write!(f, "nothing tells who wrote {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_take_over_deletes_what_kube_controller_manager_left() {
        let kept = example("ep100-slice-kept");
        assert!(kept.finds(Code::SliceKept));
        let written = json!({
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "discovery.k8s.io/v1",
            "time": "2026-01-01T00:00:06Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:addressType": {}, "f:endpoints": {}, "f:ports": {}},
        });
        let known = kept.with("EndpointSlice/web-7kq2x", json!({"metadata": {"managedFields": [written]}}));
        assert!(!known.finds(Code::SliceKept));
    }
}
