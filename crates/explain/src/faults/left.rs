//! Looks at slices of other controllers that stay for a Service which names an EndpointSelector,
//! and at those that nobody maintains any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::maker::Keep;
use kube_endpoint_core_model::well_known::{
    ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{Endpoint, EndpointSlice, ObjectKey, Text, address};

use super::Looked;
use crate::Fault;
use crate::hand_over::made_by_controller;
use crate::selection::Selection;

impl Looked<'_> {
    /// Returns a fault for each slice that no take-over deletes, because it is not certain that a
    /// controller made it, or certain that none did.
    pub(super) fn kept_slices(&self) -> impl Iterator<Item = Fault> {
        let name = self.selection.endpoint_selector();
        let slices = self.objects.slices_of(&self.service.key).iter();
        let kept = slices.filter_map(move |slice| Some((name?, slice, self.reason_to_keep(slice)?)));
        kept.map(|(name, slice, (keep, endpoints))| Fault::SliceKept {
            endpoint_selector: name.clone(),
            slice: slice.metadata.name.clone(),
            by: match keep {
                Keep::MadeBy(by) | Keep::Uncertain(by) => Some(by.clone()),
                Keep::Unknown | Keep::Lock => None,
            },
            is_certain: matches!(keep, Keep::MadeBy(_)),
            endpoints,
        })
    }

    /// Returns true if a finding tells that a slice is kept.
    pub(super) fn is_kept(&self, slice: &EndpointSlice) -> bool {
        self.selection.endpoint_selector().is_some() && self.reason_to_keep(slice).is_some()
    }

    /// Returns why a slice is kept, and the Endpoints from which it is mirrored.
    fn reason_to_keep(&self, slice: &EndpointSlice) -> Option<(&Keep, Option<Text>)> {
        let key = &self.service.key;
        if slice.is_managed_by(ENDPOINTSLICE_CONTROLLER) && slice.is_owned_by(self.service) {
            return self.objects.slice_stays(&slice.key()).map(|keep| (keep, None));
        }
        // Another finding tells of mirrored Endpoints that somebody wrote.
        let keep = self.objects.endpoints_stay(key).filter(|keep| keep.is_uncertain());
        let keep = keep.filter(|_| slice.is_managed_by(MIRRORING_CONTROLLER));
        keep.map(|keep| (keep, Some(key.name.clone())))
    }

    /// Returns the fault of slices that nobody maintains and that send clients to pods which are
    /// gone: those that another controller left when the Service began or ceased to name an
    /// EndpointSelector.
    pub(super) fn gone_pods_left(&self) -> Option<Fault> {
        let is_left: &dyn Fn(&EndpointSlice) -> bool = match self.selection {
            Selection::Attached { .. } | Selection::Unusable { .. } => &|slice| {
                let key = &self.service.key;
                let is_mirror_left = || {
                    made_by_controller(self.objects, key)
                        || self.objects.endpoints_stay(key).is_some_and(Keep::is_uncertain)
                };
                slice.is_managed_by(ENDPOINTSLICE_CONTROLLER)
                    || slice.is_managed_by(MIRRORING_CONTROLLER) && is_mirror_left()
            },
            Selection::Own(_) => &|slice| slice.is_managed_by(SELECTOR_CONTROLLER),
            Selection::None | Selection::NotKnown { .. } => return None,
        };
        if !self.options.known.pods {
            return None;
        }
        let (mut slices, mut pods) = (BTreeSet::new(), BTreeSet::new());
        let left = self.objects.slices_of(&self.service.key).iter().filter(|slice| is_left(slice));
        for slice in left {
            let gone = self.gone_pods(slice);
            if !gone.is_empty() {
                slices.insert(slice.metadata.name.clone());
                pods.extend(gone);
            }
        }
        (!pods.is_empty()).then(|| Fault::MissingPodsServed {
            pods: pods.into_iter().collect(),
            none_is_left: self.counts.receiving == Some(0),
            is_attached: self.service.endpoint_selector().is_some(),
            left: slices.into_iter().collect(),
        })
    }

    /// Returns the pods that have gone or ended, or have lost the address, and to which a slice
    /// sends clients.
    fn gone_pods(&self, slice: &Arc<EndpointSlice>) -> BTreeSet<Text> {
        let addresses_sent = self.served.endpoints_of(slice);
        let is_sent = |it: &&Endpoint| it.conditions.ready != Some(false) && addresses_sent(it) > 0;
        let sent = slice.endpoints.iter().filter(is_sent);
        let gone = sent.filter_map(|endpoint| {
            let target = endpoint.target_ref.as_ref().filter(|target| *target.kind == *"Pod")?;
            let namespace = slice.metadata.namespace.clone();
            let pod = self.objects.pod(&ObjectKey { namespace, name: target.name.clone() });
            let is_there = pod.is_some_and(|pod| {
                let mut addresses = endpoint.addresses.iter().filter_map(|it| address::parse_sloppy(it));
                (target.uid.is_empty() || pod.uid == target.uid)
                    && !pod.is_terminal()
                    && addresses.any(|address| pod.has_ip(address))
            });
            (!is_there).then(|| target.name.clone())
        });
        gone.collect()
    }
}
