//! Looks for annotations of the Service that have no effect.

use kube_endpoint_core_model::maker::{CONTROLLERS, KUBE_ENDPOINT_MANAGER};
use kube_endpoint_core_model::well_known::{ANNOTATION_ENDPOINT_SELECTOR, ANNOTATION_ENDPOINTS};

use super::Looked;
use crate::Fault;
use crate::selection::Selection;

impl Looked<'_> {
    /// Adds annotations with a mistyped key, and one that retires Endpoints in vain.
    pub(super) fn of_annotations(&self, faults: &mut Vec<Fault>) {
        let service = self.service;
        let none_is_left = self.names_a_selector_wrongly() && self.counts.is_down();
        let mistyped = self.objects.unviewed.mistyped_keys(&service.key).iter().cloned();
        faults.extend(mistyped.map(|mistyped| Fault::AnnotationMistyped { mistyped, none_is_left }));
        let Some(value) = service.annotations.get(ANNOTATION_ENDPOINTS).cloned() else { return };
        if service.endpoints_setting().is_err() {
            faults.push(Fault::RetirementIgnored { value, by: None });
        } else if service.selects_pods() && self.options.retires(service, self.now) {
            // Where kube-endpoint-manager writes them, it deletes them.
            let written = self.objects.endpoints_of(&service.key);
            let by = written.and_then(|_| self.objects.endpoints_writes.get(&service.key));
            let by = by.map(|write| &write.by).filter(|by| is_upstreams(by)).cloned();
            faults.extend(by.map(|by| Fault::RetirementIgnored { value, by: Some(by) }));
        }
    }

    /// Returns true if nobody selects pods for the Service because the key of its annotation is
    /// mistyped.
    pub(super) fn names_a_selector_wrongly(&self) -> bool {
        let mut mistyped = self.objects.unviewed.mistyped_keys(&self.service.key).iter();
        matches!(self.selection, Selection::None)
            && mistyped.any(|mistyped| mistyped.meant == ANNOTATION_ENDPOINT_SELECTOR)
    }
}

fn is_upstreams(writer: &str) -> bool {
    writer != KUBE_ENDPOINT_MANAGER && CONTROLLERS.contains(&writer)
}
