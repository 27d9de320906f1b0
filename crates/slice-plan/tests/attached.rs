//! The law of attached Services: a Service that names an EndpointSelector gets the slices that it
//! would get with the same labels as its own selector, but for two labels.

use std::sync::Arc;

use kube_endpoint_core_model::well_known::{
    ANNOTATION_ENDPOINT_SELECTOR, ENDPOINTSLICE_CONTROLLER, LABEL_ENDPOINT_SELECTOR, LABEL_MANAGED_BY,
    SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{EndpointSlice, StringMap, Text};
use kube_endpoint_slice_plan::Plan;

use crate::common::ClusterState;
use crate::vectors::{cluster, vectors};

const NAME: &str = "web-stable";

/// Returns a cluster whose Service names an EndpointSelector instead of having a selector. Its own
/// slices belong to the controller of these.
fn attached(cluster: &ClusterState) -> ClusterState {
    let mut attached = cluster.clone();
    attached.service.selector = None;
    attached.service.annotations = attached.service.annotations.with(ANNOTATION_ENDPOINT_SELECTOR, NAME);
    attached.options.manager = SELECTOR_CONTROLLER.into();
    for slice in attached.existing_slices.iter_mut().flatten() {
        let labels = &slice.metadata.labels;
        if labels.get(LABEL_MANAGED_BY).is_some_and(|manager| **manager == *ENDPOINTSLICE_CONTROLLER) {
            let named: StringMap = labels
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .chain([
                    (Text::from(LABEL_MANAGED_BY), Text::from(SELECTOR_CONTROLLER)),
                    (Text::from(LABEL_ENDPOINT_SELECTOR), Text::from(NAME)),
                ])
                .collect();
            Arc::make_mut(slice).metadata.labels = named;
        }
    }
    attached
}

/// Returns a plan without the two labels. `named` counts the slices that had them.
fn without_labels(mut plan: Plan, manager: &str, named: &mut usize) -> Plan {
    let mut strip = |slice: &mut EndpointSlice| {
        let labels = &slice.metadata.labels;
        assert_eq!(labels.get(LABEL_MANAGED_BY).map(|manager| &**manager), Some(manager));
        *named += usize::from(labels.get(LABEL_ENDPOINT_SELECTOR).is_some_and(|name| **name == *NAME));
        let others =
            labels.iter().filter(|(key, _)| ![LABEL_MANAGED_BY, LABEL_ENDPOINT_SELECTOR].contains(&&***key));
        slice.metadata.labels = others.map(|(key, value)| (key.clone(), value.clone())).collect();
    };
    for sub_plan in &mut plan.sub_plans {
        sub_plan.writes.create.iter_mut().chain(&mut sub_plan.writes.update).for_each(&mut strip);
        for slice in &mut sub_plan.writes.delete {
            strip(Arc::make_mut(slice));
        }
    }
    plan
}

#[test]
fn an_attached_service_has_the_plan_of_its_selector_but_for_two_labels() {
    let mut named = 0;
    let mut writes = 0;
    for vector in vectors() {
        for safe_write_order in [false, true] {
            let cluster = cluster(&vector, safe_write_order);
            let own = without_labels(cluster.plan(), ENDPOINTSLICE_CONTROLLER, &mut 0);
            let others = without_labels(attached(&cluster).plan(), SELECTOR_CONTROLLER, &mut named);
            assert_eq!(others, own, "{}", vector.id);
            writes += own.write_count();
        }
    }
    assert!(writes > 1000, "{writes}");
    assert_eq!(named, writes, "each written slice names its EndpointSelector");
}
