//! The Service has no selector, and nobody has written endpoints for it.

use std::fmt;

use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;
use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use super::Finding;
use super::words::{each, names};
use crate::facts::remedy::Person::{EndpointsWriter, ServiceOwner};
use crate::facts::remedy::{Remedy, Step};
use crate::findings::evidence::{Evidence, Read};
use crate::findings::inputs::FaultInputs;

about! {
    /// The controllers make no endpoints for a Service without a selector. Somebody else has to
    /// write EndpointSlices, or Endpoints, which the mirroring controller copies.
    EP032 "no-selector" Error
    "The Service has no selector, and nobody has written endpoints for it."
}

/// A Service for which nobody selects pods or writes endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoSelector {
    /// Slices whose names begin with that of the Service, and that name no Service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unlabelled: Vec<Text>,
}

impl Finding for NoSelector {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let known = inputs.options.known;
        let key = &inputs.service.key;
        let nobody_writes = known.slices
            && known.endpoints
            && inputs.slices().is_empty()
            && inputs.objects.endpoints_of(key).is_none();
        if !inputs.is_written_by_others() || !nobody_writes || inputs.names_a_selector_wrongly() {
            return Vec::new();
        }
        vec![Self { unlabelled: inputs.objects.raw.unlabelled_slices(key) }]
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.selector()]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        if self.unlabelled.is_empty() {
            let sentence =
                format!("Set spec.selector, or write an EndpointSlice with the label {LABEL_SERVICE_NAME}");
            return Remedy::ask(ServiceOwner, sentence);
        }
        let sentence = format!(
            "Look at whether the addresses of {} are meant for this Service; if so, label them with {LABEL_SERVICE_NAME}={}",
            names(&self.unlabelled),
            service.name
        );
        Remedy::ask(EndpointsWriter, sentence).shown_by(each(&self.unlabelled, |names| {
            let words = [&["get", "endpointslice"], names, &["-o", "wide"]].concat();
            Step::kubectl_in(&service.namespace, words)
        }))
    }
}

impl fmt::Display for NoSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the Service has no selector, and there are no endpoints for it")?;
        match self.unlabelled.as_slice() {
            [] => Ok(()),
            [one] => write!(f, "; slice {one} names no Service"),
            more => write!(f, "; slices {} name no Service", names(more)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::findings::Code;
    use crate::findings::testing::example;

    #[test]
    fn a_written_slice_that_names_the_service_is_enough() {
        assert!(example("ep032-no-selector").finds(Code::NoSelector));
        let unlabelled = example("ep032-slice-without-label");
        assert!(unlabelled.finds(Code::NoSelector));
        let labels = json!({"metadata": {"labels": {"kubernetes.io/service-name": "web"}}});
        assert!(!unlabelled.with("EndpointSlice/web-1", labels).finds(Code::NoSelector));
    }

    #[test]
    fn a_mistyped_annotation_is_the_cause_instead() {
        let mistyped = example("ep099-annotation-mistyped");
        assert!(mistyped.finds(Code::AnnotationMistyped));
        assert!(!mistyped.finds(Code::NoSelector));
    }
}
