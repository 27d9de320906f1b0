//! Makes the options of the plans from the settings, for the controllers and for explanations of
//! their writes.

use crate::gates::Gate;
use crate::settings::Settings;

/// Returns the options of the endpointslice controller's plan.
#[cfg(any(feature = "endpointslice", feature = "selectors", feature = "ui"))]
pub(crate) fn slices(settings: &Settings) -> kube_endpoint_slice_plan::PlanOptions {
    let is_on = |gate| settings.gates.is_on(gate);
    kube_endpoint_slice_plan::PlanOptions::default()
        .with_max_endpoints_per_slice(settings.max_endpoints_per_slice)
        .with_safe_write_order(is_on(Gate::SafeWriteOrder))
        .with_slice_compaction(is_on(Gate::SliceCompaction))
        .with_headless_label_repair(is_on(Gate::HeadlessLabelRepair))
}

/// Returns the options of the endpoint selector controller's plan.
#[cfg(feature = "selectors")]
pub(crate) fn selectors(settings: &Settings) -> kube_endpoint_slice_plan::PlanOptions {
    let mut options = slices(settings);
    options.manager = kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER.into();
    options
}

/// Returns the options of the endpoints controller's plan.
#[cfg(any(feature = "endpoints", feature = "ui"))]
pub(crate) fn endpoints(settings: &Settings) -> kube_endpoint_endpoints_controller::PlanOptions {
    let is_on = |gate| settings.gates.is_on(gate);
    kube_endpoint_endpoints_controller::PlanOptions::default()
        .with_keep_equal_truncated(is_on(Gate::EndpointsKeepTruncated))
        .with_ignore_reserved_labels(is_on(Gate::EndpointsIgnoreReservedLabels))
}

/// Returns the options of the mirroring controller's plan.
#[cfg(any(feature = "mirroring", feature = "ui"))]
pub(crate) fn mirroring(settings: &Settings) -> kube_endpoint_mirroring::PlanOptions {
    kube_endpoint_mirroring::PlanOptions::default()
        .with_max_endpoints_per_subset(settings.mirroring_max_endpoints_per_subset)
        .with_headless_label_repair(settings.gates.is_on(Gate::HeadlessLabelRepair))
        .with_endpoint_selectors(settings.controllers.contains(&crate::ControllerName::EndpointSelector))
}
