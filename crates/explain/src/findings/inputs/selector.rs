//! Selectors that match no pod.

use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINT_SELECTOR;
use kube_endpoint_core_model::{LabelSelector, StringMap, Text};

use super::FaultInputs;
use crate::models::near::NoPods;
use crate::models::selection::Selection;

impl FaultInputs<'_> {
    /// Returns the selector of the Service, if it is known that it selects no pod.
    pub(crate) fn selector_without_pods(&self) -> Option<&StringMap> {
        match self.selection {
            Selection::Own(selector) => self.is_without_pods().then_some(selector),
            _ => None,
        }
    }

    /// Returns name and selector of the EndpointSelector of the Service, if it is known that it
    /// selects no pod.
    pub(crate) fn endpoint_selector_without_pods(&self) -> Option<(&Text, &LabelSelector)> {
        match self.selection {
            Selection::Attached { name, selector, .. } => self.is_without_pods().then_some((name, selector)),
            _ => None,
        }
    }

    fn is_without_pods(&self) -> bool {
        self.is_selecting() && self.options.known.pods && self.pods.is_empty()
    }

    /// Returns the likely reason why no pod has the labels of the selector.
    pub(crate) fn why_no_pod(&self) -> NoPods {
        let selector = self.service.selector.clone().unwrap_or_default();
        self.nearly_matching.cause(&selector, &self.service.labels)
    }

    /// Returns true if nobody selects pods for the Service because the key of its annotation is
    /// mistyped.
    pub(crate) fn names_a_selector_wrongly(&self) -> bool {
        let mut mistyped = self.objects.raw.mistyped_keys(&self.service.key).iter();
        matches!(self.selection, Selection::None)
            && mistyped.any(|mistyped| mistyped.meant == ANNOTATION_ENDPOINT_SELECTOR)
    }
}
