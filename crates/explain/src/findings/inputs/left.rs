//! The slices of other controllers that stay for a Service which names an EndpointSelector.

use kube_endpoint_core_model::maker::Keep;
use kube_endpoint_core_model::well_known::{ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER};
use kube_endpoint_core_model::{EndpointSlice, Text};
use kube_endpoint_selector::hand_over::is_left_by;

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
        if slice.is_managed_by(ENDPOINTSLICE_CONTROLLER) && is_left_by(self.service, slice) {
            return self.objects.slice_stays(&slice.key()).map(|keep| (keep, None));
        }
        // Another finding tells of mirrored Endpoints that somebody wrote.
        let keep = self.objects.endpoints_stay(key).filter(|keep| keep.is_uncertain());
        let keep = keep.filter(|_| slice.is_managed_by(MIRRORING_CONTROLLER));
        keep.map(|keep| (keep, Some(key.name.clone())))
    }
}
