//! Compares the Endpoints object with the desired one, and makes the object to write.

use kube_endpoint_core_model::endpoints::EndpointSubset;
use kube_endpoint_core_model::well_known::{
    ANNOTATION_OVER_CAPACITY, ANNOTATION_TRIGGER_TIME, ENDPOINT_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY,
    LABEL_HEADLESS, TRUNCATED,
};
use kube_endpoint_core_model::{Endpoints, ObjectMeta, Service, StringMap, Timestamp, slice_labels, time};

use super::PlanOptions;

/// The content that a Service's Endpoints should have.
pub(super) struct Desired<'a> {
    pub(super) service: &'a Service,
    /// All subsets, in canonical form.
    pub(super) full: &'a [EndpointSubset],
    /// The subsets within the capacity, if not all fit.
    pub(super) truncated: Option<&'a [EndpointSubset]>,
}

impl Desired<'_> {
    /// Returns true if an object has this content already. The comparison ignores the trigger time,
    /// the order of subsets and the resource versions of targets, and the headless label if the
    /// plan follows upstream with reserved labels.
    pub(super) fn is_met_by(&self, existing: &Endpoints, options: &PlanOptions) -> bool {
        let annotated = existing.metadata.annotations.get(ANNOTATION_OVER_CAPACITY);
        let (wanted, annotation_is_right) = match self.truncated {
            Some(truncated) if options.keep_equal_truncated => {
                (truncated, annotated.is_some_and(|value| **value == *TRUNCATED))
            }
            _ => {
                let (ready, not_ready) = existing.subsets.counts();
                let fits = ready + not_ready <= options.capacity;
                (self.full, fits && annotated.is_none())
            }
        };
        annotation_is_right
            && labels_are_right(self.service, &existing.metadata.labels, options)
            && existing.subsets.is_equivalent_to(wanted)
    }
}

/// Returns true if an object has the labels that the Service's Endpoints should have.
fn labels_are_right(service: &Service, existing: &StringMap, options: &PlanOptions) -> bool {
    let managed = existing.get(LABEL_ENDPOINTS_MANAGED_BY).is_some_and(|by| **by == *ENDPOINT_CONTROLLER);
    let own = existing.iter().filter(|(key, _)| !is_own(key));
    let wanted = service.labels.iter().filter(|(key, _)| !options.ignore_reserved_labels || !is_own(key));
    // The label is left over when a Service that is not headless replaces a headless one. Older
    // versions of kube-proxy then ignore the object.
    let headless_is_right =
        !options.ignore_reserved_labels || slice_labels::headless_label_is_right(existing, service);
    managed && headless_is_right && own.eq(wanted)
}

/// Returns the object to write. It keeps the metadata of an existing object that the controller
/// does not set.
pub(super) fn object(
    service: &Service,
    subsets: Vec<EndpointSubset>,
    is_truncated: bool,
    existing: Option<&Endpoints>,
    trigger_time: Option<Timestamp>,
) -> Endpoints {
    let mut metadata = existing.map_or_else(
        || ObjectMeta {
            name: service.key.name.clone(),
            namespace: service.key.namespace.clone(),
            ..ObjectMeta::default()
        },
        |existing| existing.metadata.clone(),
    );
    metadata.labels = labels(service);
    metadata.annotations = match trigger_time {
        Some(trigger_time) => metadata.annotations.with(ANNOTATION_TRIGGER_TIME, time::rfc3339(trigger_time)),
        None => metadata.annotations.without(ANNOTATION_TRIGGER_TIME),
    };
    metadata.annotations = if is_truncated {
        metadata.annotations.with(ANNOTATION_OVER_CAPACITY, TRUNCATED)
    } else {
        metadata.annotations.without(ANNOTATION_OVER_CAPACITY)
    };
    Endpoints { metadata, subsets: subsets.into() }
}

/// Returns the Service's labels and those that the controller sets, which take precedence.
fn labels(service: &Service) -> StringMap {
    let labels = match service.headless_label() {
        Some(value) => service.labels.with(LABEL_HEADLESS, value),
        None => service.labels.without(LABEL_HEADLESS),
    };
    labels.with(LABEL_ENDPOINTS_MANAGED_BY, ENDPOINT_CONTROLLER)
}

/// Returns true if the controller sets a label on Endpoints itself.
fn is_own(label: &str) -> bool {
    matches!(label, LABEL_HEADLESS | LABEL_ENDPOINTS_MANAGED_BY)
}
