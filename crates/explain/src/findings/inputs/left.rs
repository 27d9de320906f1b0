//! The slices of other controllers that stay for a Service which names an EndpointSelector, and the
//! endpoints of slices whose pods have gone.

use std::collections::BTreeSet;

use kube_endpoint_core_model::maker::Keep;
use kube_endpoint_core_model::well_known::{ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER};
use kube_endpoint_core_model::{Endpoint, EndpointSlice, ObjectKey, Text, address};

use super::FaultInputs;

impl FaultInputs<'_> {
    /// Returns true if no take-over deletes a slice, which a finding tells.
    pub(crate) fn is_kept(&self, slice: &EndpointSlice) -> bool {
        self.reason_to_keep(slice).is_some()
    }

    /// Returns why no take-over deletes a slice, and the Endpoints from which it is mirrored: it is
    /// not certain that a controller made it, or certain that none did.
    pub(crate) fn reason_to_keep(&self, slice: &EndpointSlice) -> Option<(&Keep, Option<Text>)> {
        self.selection.endpoint_selector()?;
        let key = &self.service.key;
        if slice.is_managed_by(ENDPOINTSLICE_CONTROLLER) && slice.is_owned_by(self.service) {
            return self.objects.slice_stays(&slice.key()).map(|keep| (keep, None));
        }
        // Another finding tells of mirrored Endpoints that somebody wrote.
        let keep = self.objects.endpoints_stay(key).filter(|keep| keep.is_uncertain());
        let keep = keep.filter(|_| slice.is_managed_by(MIRRORING_CONTROLLER));
        keep.map(|keep| (keep, Some(key.name.clone())))
    }

    /// Returns the pods that have gone or ended, or have lost the address, and to which a slice
    /// sends clients.
    pub(crate) fn gone_pods(&self, slice: &EndpointSlice) -> BTreeSet<Text> {
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
