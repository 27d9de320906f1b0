//! Slices that are behind, or that nobody maintains, send clients to pods that do not exist any
//! more.

use std::collections::BTreeSet;
use std::fmt;

use kube_endpoint_core_model::maker::Keep;
use kube_endpoint_core_model::well_known::{
    ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{EndpointSlice, ObjectKey, Text};
use serde::Serialize;

use super::Finding;
use super::words::{names, start_selector_controller};
use crate::facts::remedy::Person::{ClusterAdministrator, EndpointsWriter};
use crate::facts::remedy::{Remedy, Step};
use crate::findings::code::Severity;
use crate::findings::inputs::FaultInputs;
use crate::models::hand_over::made_by_controller;
use crate::models::selection::Selection;

about! {
    /// The slices are late (EP050), and hold ready endpoints of pods that are none of the
    /// Service's. Their addresses may belong to other pods by now. It is an error if no pod of the
    /// Service receives traffic, and if nobody maintains the slices: kube-controller-manager left
    /// them when the Service lost its selector, or the add-on when it got one.
    EP089 "missing-pods-served" Warning may_be_under_way
    "Slices that are behind, or that nobody maintains, send clients to pods that do not exist any more."
}

/// Pods that slices name and that are none of the Service's, or have gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingPodsServed {
    /// The pods that the slices name.
    pub pods: Vec<Text>,
    /// True if no pod of the Service receives traffic.
    pub none_is_left: bool,
    /// True if the Service names an EndpointSelector.
    pub is_attached: bool,
    /// The slices, if nobody maintains them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Text>,
}

impl Finding for MissingPodsServed {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let known = inputs.options.known;
        if !known.slices || !known.pods {
            return Vec::new();
        }
        Self::of_late_slices(inputs).into_iter().chain(Self::of_left_slices(inputs)).collect()
    }

    fn severity(&self) -> Option<Severity> {
        (self.none_is_left || !self.left.is_empty()).then_some(Severity::Error)
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        match (self.left.is_empty(), self.is_attached) {
            (false, _) => self.remedy_of_left_slices(service),
            (true, true) => start_selector_controller(),
            (true, false) => Remedy::ask(
                ClusterAdministrator,
                "Bring the EndpointSlice controller back, which takes these endpoints out of the slices",
            ),
        }
    }
}

impl fmt::Display for MissingPodsServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, pods) = (self.pods.len(), names(&self.pods));
        if !self.left.is_empty() {
            let (noun, send) = if self.left.len() == 1 { ("slice", "sends") } else { ("slices", "send") };
            let pod = if count == 1 { "pod that has ended" } else { "pods that have ended" };
            let slices = names(&self.left);
            return write!(
                f,
                "{noun} {slices}, which nobody maintains, {send} clients to {count} {pod}: {pods}"
            );
        }
        let (pod, does) = if count == 1 { ("pod", "does") } else { ("pods", "do") };
        write!(
            f,
            "slices send clients to {count} {pod} that the Service does not select or that {does} not exist any more: {pods}"
        )
    }
}

impl MissingPodsServed {
    /// Looks at slices made from pods that are late, for pods that the Service does not select, or
    /// that do not exist.
    fn of_late_slices(inputs: &FaultInputs<'_>) -> Option<Self> {
        let is_late = || inputs.slices_behind_without_cause().is_some_and(|behind| behind.is_late);
        if !inputs.selection.selects_pods() || !is_late() {
            return None;
        }
        let own: BTreeSet<&Text> = inputs.pods.iter().map(|pod| &pod.key.name).collect();
        let manager = &inputs.selection.plan_options(inputs.options).manager;
        let mut missing: BTreeSet<Text> = BTreeSet::new();
        for slice in inputs.slices().iter().filter(|slice| slice.is_managed_by(manager)) {
            let addresses_sent = inputs.served.endpoints_of(slice);
            let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false));
            for endpoint in ready.filter(|endpoint| addresses_sent(endpoint) > 0) {
                let target = endpoint.target_ref.as_ref().filter(|target| *target.kind == *"Pod");
                missing.extend(target.map(|target| target.name.clone()).filter(|name| !own.contains(name)));
            }
        }
        (!missing.is_empty()).then(|| Self {
            pods: missing.into_iter().collect(),
            none_is_left: inputs.counts.receiving == Some(0),
            is_attached: matches!(inputs.selection, Selection::Attached { .. }),
            left: Vec::new(),
        })
    }

    /// Looks at slices that nobody maintains, for pods that have gone: another controller left them
    /// when the Service began or ceased to name an EndpointSelector.
    fn of_left_slices(inputs: &FaultInputs<'_>) -> Option<Self> {
        let is_left: &dyn Fn(&EndpointSlice) -> bool = match inputs.selection {
            Selection::Attached { .. } | Selection::Unusable { .. } => &|slice| {
                let key = &inputs.service.key;
                let is_mirror_left = || {
                    made_by_controller(inputs.objects, key)
                        || inputs.objects.endpoints_stay(key).is_some_and(Keep::is_uncertain)
                };
                slice.is_managed_by(ENDPOINTSLICE_CONTROLLER)
                    || slice.is_managed_by(MIRRORING_CONTROLLER) && is_mirror_left()
            },
            Selection::Own(_) => &|slice| slice.is_managed_by(SELECTOR_CONTROLLER),
            Selection::None | Selection::NotKnown { .. } => return None,
        };
        let (mut slices, mut pods) = (BTreeSet::new(), BTreeSet::new());
        for slice in inputs.slices().iter().filter(|slice| is_left(slice)) {
            let gone = inputs.gone_pods(slice);
            if !gone.is_empty() {
                slices.insert(slice.metadata.name.clone());
                pods.extend(gone);
            }
        }
        (!pods.is_empty()).then(|| Self {
            pods: pods.into_iter().collect(),
            none_is_left: inputs.counts.receiving == Some(0),
            is_attached: inputs.service.endpoint_selector().is_some(),
            left: slices.into_iter().collect(),
        })
    }

    fn remedy_of_left_slices(&self, service: &ObjectKey) -> Remedy {
        let slices: Vec<&str> = self.left.iter().map(|slice| &**slice).collect();
        let show = Step::kubectl_in(
            &service.namespace,
            [&["get", "endpointslice"], &*slices, &["-o", "yaml", "--show-managed-fields"]].concat(),
        );
        let sentence = match self.is_attached {
            true => {
                "Look why the endpoint selector controller leaves them: does it run, and do its events on the Service name a right that it lacks or another maker? Until then, delete the slices: clients reach addresses that other pods may have by now"
            }
            false => {
                "Look why the endpoint selector controller leaves them: does it run? Until then, delete the slices: clients reach addresses that other pods may have by now"
            }
        };
        Remedy::ask(EndpointsWriter, sentence).shown_by([show])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::findings::Code;
    use crate::findings::testing::example;

    #[test]
    fn controllers_that_run_take_missing_pods_out() {
        let behind = example("ep089-missing-pods-served");
        assert!(behind.finds(Code::MissingPodsServed));
        assert!(!behind.served().finds(Code::MissingPodsServed));
    }

    #[test]
    fn a_slice_that_nobody_maintains_may_hold_a_pod_that_is_there() {
        let left = example("ep089-left-by-an-unknown-program");
        assert!(left.finds(Code::MissingPodsServed));
        let there = json!({
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "node-a",
            "targetRef": {"kind": "Pod", "namespace": "default", "name": "web-1"},
        });
        let kept = left.with("EndpointSlice/web-7kq2x", json!({"endpoints": [there]}));
        assert!(kept.finds(Code::SliceKept) && !kept.finds(Code::MissingPodsServed));
    }
}
