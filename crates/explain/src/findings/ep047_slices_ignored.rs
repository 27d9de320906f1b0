//! kube-proxy ignores slices of the Service because of a label.

use std::sync::Arc;

use kube_endpoint_core_model::EndpointSlice;
use kube_endpoint_core_model::well_known::LABEL_HEADLESS;

use super::NotKnown;
use super::words::each;
use crate::findings::evidence::OBJECTS;
use crate::findings::inputs::is_mirrored;
use crate::findings::prelude::*;
use crate::models::traffic::{ServedBy, UnansweredQuestion, has_ready, is_labelled_headless};

about! {
    /// The Service has a cluster IP, and slices with ready endpoints have the label
    /// `service.kubernetes.io/headless`. kube-proxy watches only slices without it; before
    /// Kubernetes 1.36 it ignores a Service with this label, too. If clients are sent to endpoints
    /// of other slices, the severity is warning. The controllers remove the label from their own
    /// slices (gate `HeadlessLabelRepair`); kube-controller-manager leaves it, and copies it from
    /// Endpoints. [EP050](#ep050-slices-behind) reports slices that the controllers are about to
    /// write.
    EP047 "slices-ignored" Error
    "kube-proxy ignores slices of the Service because of a label."
}

/// Slices with the label of headless Services, although the Service is not headless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlicesIgnored {
    pub slices: Vec<Text>,
    /// The Endpoints that have the label, from which kube-controller-manager mirrors it.
    pub endpoints: Option<Text>,
    /// True if no ready endpoint is left.
    pub none_is_left: bool,
}

impl Finding for SlicesIgnored {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        if inputs.served.by != ServedBy::KubeProxy || !inputs.options.known.slices {
            return Vec::new();
        }
        let is_ignored = |slice: &&Arc<EndpointSlice>| {
            is_labelled_headless(inputs.service, slice) && has_ready(slice) && !inputs.is_due(slice)
        };
        let ignored: Vec<&Arc<EndpointSlice>> = inputs.slices().iter().filter(is_ignored).collect();
        if ignored.is_empty() {
            return Vec::new();
        }
        let endpoints = inputs.objects.endpoints_of(&inputs.service.key);
        let mirrored = endpoints.filter(|endpoints| {
            endpoints.metadata.labels.contains_key(LABEL_HEADLESS) && ignored.iter().any(|it| is_mirrored(it))
        });
        vec![Self {
            endpoints: mirrored.map(|endpoints| endpoints.metadata.name.clone()),
            slices: ignored.into_iter().map(|slice| slice.metadata.name.clone()).collect(),
            none_is_left: inputs.counts.is_down(),
        }]
    }

    fn severity(&self) -> Option<Severity> {
        (!self.none_is_left).then_some(Severity::Warning)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let label = |slice| read.label_of_slice(slice, LABEL_HEADLESS);
        self.slices.iter().take(OBJECTS).map(label).collect()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        if !self.none_is_left {
            let sentence = format!(
                "Remove the label {LABEL_HEADLESS} if kube-proxy should send clients to these endpoints, too"
            );
            return Remedy::ask(EndpointsWriter, sentence);
        }
        // Nobody else serves the Service, whose name the slices carry.
        let label = format!("{LABEL_HEADLESS}-");
        let remove =
            |words: &[&str]| Step::kubectl_in(&service.namespace, [&["label"], words, &[&*label]].concat());
        let of_endpoints = self.endpoints.iter().map(|name| remove(&["endpoints", name]));
        let of_slices = each(&self.slices, |names| remove(&[&["endpointslice"], names].concat()));
        Remedy::new("Remove the label").then(of_endpoints).then(of_slices)
    }

    /// The slices show why no endpoint receives traffic.
    fn explains(&self, other: &Fault) -> bool {
        matches!(other, Fault::NotKnown(NotKnown { open: UnansweredQuestion::NoTraffic, .. }))
    }
}

impl fmt::Display for SlicesIgnored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (noun, have) = if self.slices.len() == 1 { ("slice", "has") } else { ("slices", "have") };
        let slices = names(&self.slices);
        write!(f, "kube-proxy ignores {noun} {slices}, which {have} the label {LABEL_HEADLESS}")
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn slices_of_a_headless_service_have_the_label() {
        let labelled = example("ep047-slices-ignored");
        assert!(labelled.finds(Code::SlicesIgnored));
        let headless = labelled.clone().with("Service/web", json!({"spec": {"clusterIP": "None"}}));
        assert!(!headless.finds(Code::SlicesIgnored));
        let label = json!({"metadata": {"labels": {"service.kubernetes.io/headless": null}}});
        let unlabelled = labelled.with("EndpointSlice/web-by-hand", label);
        assert!(!unlabelled.finds(Code::SlicesIgnored));
    }
}
