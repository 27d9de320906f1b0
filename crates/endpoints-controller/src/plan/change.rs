//! Whether the existing object has to be written, and the object that is written then.

use kube_endpoint_core_model::endpoints::EndpointSubset;
use kube_endpoint_core_model::repack::{repack, same_but_versions};
use kube_endpoint_core_model::well_known::{
    ANNOTATION_OVER_CAPACITY, ANNOTATION_TRIGGER_TIME, ENDPOINT_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY,
    LABEL_HEADLESS, TRUNCATED,
};
use kube_endpoint_core_model::{Endpoints, ObjectMeta, Service, StringMap, Timestamp, time};

use super::{PlanOptions, capacity};

/// What a Service's Endpoints should say.
pub(super) struct Desired<'a> {
    pub(super) service: &'a Service,
    /// All subsets, in canonical form.
    pub(super) full: &'a [EndpointSubset],
    /// What fits of them, if not all.
    pub(super) truncated: Option<&'a [EndpointSubset]>,
}

impl Desired<'_> {
    /// Whether an object says it already. The trigger time, the headless label, the order of subsets and versions of
    /// targets do not count.
    pub(super) fn is_met_by(&self, existing: &Endpoints, options: &PlanOptions) -> bool {
        let annotated = existing.metadata.annotations.get(ANNOTATION_OVER_CAPACITY);
        let (wanted, annotation_is_right) = match self.truncated {
            Some(truncated) if options.keep_equal_truncated => {
                (truncated, annotated.is_some_and(|value| **value == *TRUNCATED))
            }
            _ => {
                let fits = capacity::count(&existing.subsets) <= options.capacity;
                (self.full, fits && annotated.is_none())
            }
        };
        annotation_is_right
            && self.labels_are_right(&existing.metadata.labels, options)
            && (same_but_versions(&existing.subsets, wanted)
                // Written by somebody else, or in another order. What is left of two subsets after truncation may be
                // the same addresses, so that the wanted subsets are not always canonical either.
                || same_but_versions(&repack(&existing.subsets), &repack(wanted)))
    }

    fn labels_are_right(&self, existing: &StringMap, options: &PlanOptions) -> bool {
        let managed = existing.get(LABEL_ENDPOINTS_MANAGED_BY).is_some_and(|by| **by == *ENDPOINT_CONTROLLER);
        let own = existing.iter().filter(|(key, _)| !is_own(key));
        let wanted =
            self.service.labels.iter().filter(|(key, _)| !options.ignore_reserved_labels || !is_own(key));
        managed && own.eq(wanted)
    }

    /// The object to write. Of an existing one all metadata stay that are not the controller's.
    pub(super) fn object(&self, existing: Option<&Endpoints>, trigger_time: Option<Timestamp>) -> Endpoints {
        let mut metadata = existing.map_or_else(
            || ObjectMeta {
                name: self.service.key.name.clone(),
                namespace: self.service.key.namespace.clone(),
                ..ObjectMeta::default()
            },
            |existing| existing.metadata.clone(),
        );
        metadata.labels = self.labels();
        metadata.annotations = match trigger_time {
            Some(trigger_time) => {
                metadata.annotations.with(ANNOTATION_TRIGGER_TIME, time::rfc3339(trigger_time))
            }
            None => metadata.annotations.without(ANNOTATION_TRIGGER_TIME),
        };
        metadata.annotations = if self.truncated.is_some() {
            metadata.annotations.with(ANNOTATION_OVER_CAPACITY, TRUNCATED)
        } else {
            metadata.annotations.without(ANNOTATION_OVER_CAPACITY)
        };
        Endpoints { metadata, subsets: self.truncated.unwrap_or(self.full).to_vec() }
    }

    /// The Service's labels, but its own where the controller sets one.
    fn labels(&self) -> StringMap {
        let labels = if self.service.is_headless() {
            self.service.labels.with(LABEL_HEADLESS, "")
        } else {
            self.service.labels.without(LABEL_HEADLESS)
        };
        labels.with(LABEL_ENDPOINTS_MANAGED_BY, ENDPOINT_CONTROLLER)
    }
}

/// Whether the controller itself sets a label on Endpoints.
fn is_own(label: &str) -> bool {
    matches!(label, LABEL_HEADLESS | LABEL_ENDPOINTS_MANAGED_BY)
}
