//! Computes the writes of the controllers for one Service, by calling their plans.

use std::sync::Arc;

use kube_endpoint_core_model::maker::{CONTROLLERS, KUBE_ENDPOINT_MANAGER};
use kube_endpoint_core_model::well_known::{ANNOTATION_TRIGGER_TIME, MIRRORING_CONTROLLER};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectKey, Pod, Timestamp, Writes, slice_labels};
use kube_endpoint_endpoints_controller as endpoints;
use kube_endpoint_mirroring as mirroring;
use kube_endpoint_slice_plan as slices;
use kube_endpoint_slice_plan::TopologyState;

use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::models::hand_over::{self, HandOver};
use crate::models::leader::Leads;
use crate::models::selection::Selection;

/// The plans of the controllers that write for a Service.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Planned {
    /// The plan of its slices, if it selects pods, itself or by an EndpointSelector.
    pub slices: Option<slices::Plan>,
    /// The plan of its Endpoints, if it selects pods and is to have some.
    pub endpoints: Option<endpoints::Plan>,
    /// The plan of the slices that mirror its Endpoints.
    pub mirroring: Option<mirroring::Plan>,
    /// The writes of the endpoint selector controller besides those of the plan of its slices.
    pub hand_over: HandOver,
    /// The pods that the readiness of its EndpointSelector chooses, if it has one.
    pub leads: Option<Leads>,
}

impl Planned {
    /// Plans for one name: the Service, its Endpoints, or both may exist. At `now`, the holder of a
    /// Lease may no longer count, and the rehearsal of retired Endpoints may have ended.
    pub fn new(
        objects: &Objects,
        key: &ObjectKey,
        topology: &TopologyState,
        now: Timestamp,
        options: &Options,
    ) -> Self {
        let options = &*options.within(&key.namespace);
        let service = objects.service(key).map(|service| &**service);
        let selection = |service| Selection::of(objects, service, options.known);
        let pods = service.map(|service| selection(service).pods(objects, &key.namespace));
        Self::with_pods(objects, key, &pods.unwrap_or_default(), topology, now, options)
    }

    /// As [`Self::new`] with these pods.
    pub(crate) fn with_pods(
        objects: &Objects,
        key: &ObjectKey,
        pods: &[Arc<Pod>],
        topology: &TopologyState,
        now: Timestamp,
        options: &Options,
    ) -> Self {
        let service = objects.service(key).map(|service| &**service);
        let known = options.known;
        let selection = service.map_or(Selection::None, |service| Selection::of(objects, service, known));
        let selecting = service.filter(|_| selection.selects_pods() && known.pods);
        let publishing = selecting.filter(|service| service.selects_pods() && !options.retires(service, now));
        let existing = objects.endpoints_of(key);
        let mirrored = managed_by(objects, key, MIRRORING_CONTROLLER);
        let mut plan_options = selection.plan_options(options);
        let existing_slices = managed_by(objects, key, &plan_options.manager);
        // The controllers that wrote them are judged by their own rules.
        let of_upstream =
            !existing_slices.is_empty() && existing_slices.iter().all(|slice| is_of_upstream(objects, slice));
        if of_upstream {
            plan_options.to_mut().headless_label_repair = false;
        }
        let leads = selecting.and_then(|_| Leads::of(objects, selection, pods, &existing_slices, now));
        let slices = selecting.map(|service| {
            let ready_pods = leads.as_ref().map(Leads::ready_pods);
            let mut plan = slices::plan(
                &slices::PlanInputs::new(service, pods, &objects.nodes)
                    .with_existing_slices(&existing_slices)
                    .with_options(&plan_options)
                    .with_topology(topology)
                    .with_ready_pods(ready_pods.as_ref()),
            );
            if of_upstream {
                leave_zones(&mut plan, &existing_slices);
            }
            if !(known.nodes && known.slices) {
                plan.sub_plans.iter_mut().for_each(|sub_plan| sub_plan.writes = Writes::default());
            }
            plan
        });
        let planned: Vec<_> =
            slices.iter().flat_map(|plan| &plan.sub_plans).map(|sub_plan| &sub_plan.writes).collect();
        let hand_over = service.map(|service| {
            hand_over::Inputs { objects, service, selection, pods, planned: &planned, options }.plan()
        });
        let hand_over = hand_over.unwrap_or_default();
        let cared = hand_over.endpoints.update.first();
        let to_mirror = cared.or(existing.filter(|_| hand_over.endpoints.is_empty()));
        Self {
            endpoints: publishing.map(|service| {
                let mut plan = endpoints::plan(
                    &endpoints::PlanInputs::new(service, pods)
                        .with_existing(existing)
                        .with_options(&options.endpoints),
                );
                // With upstream's options the controllers write some objects at each sync.
                plan.writes.update.retain(|new| existing.is_none_or(|old| differ(old, new)));
                if !known.endpoints {
                    plan.writes = Writes::default();
                }
                plan
            }),
            mirroring: (known.slices && known.endpoints && (existing.is_some() || !mirrored.is_empty()))
                .then(|| {
                    mirroring::PlanInputs::new(service, to_mirror)
                        .with_existing_slices(&mirrored)
                        .with_options(&options.mirroring)
                })
                // A cache may hold only a summary of Endpoints that another controller has written.
                .filter(|inputs| !mirroring::plan::lacks_content(inputs))
                .map(|inputs| mirroring::plan(&inputs)),
            slices,
            hand_over,
            leads,
        }
    }

    /// Returns the writes to slices, of each controller and address type.
    pub fn slice_writes(&self) -> impl Iterator<Item = &Writes<EndpointSlice>> {
        let planned = self.slices.iter().flat_map(|plan| &plan.sub_plans).map(|sub_plan| &sub_plan.writes);
        planned.chain(self.mirroring.iter().map(|plan| &plan.writes)).chain([&self.hand_over.slices])
    }

    /// Returns the writes to Endpoints.
    pub fn endpoints_writes(&self) -> impl Iterator<Item = &Writes<Endpoints>> {
        self.endpoints.iter().map(|plan| &plan.writes).chain([&self.hand_over.endpoints])
    }
}

/// Returns true if kube-controller-manager, or the program that runs it, wrote a slice last.
fn is_of_upstream(objects: &Objects, slice: &EndpointSlice) -> bool {
    let by = objects.slice_writes.get(&slice.key()).map(|write| &*write.by);
    by.is_some_and(|by| CONTROLLERS.contains(&by) && by != KUBE_ENDPOINT_MANAGER)
}

/// Returns the slices of a Service that the controller of this name plans.
fn managed_by(objects: &Objects, key: &ObjectKey, manager: &str) -> Vec<Arc<EndpointSlice>> {
    let mut is_planned = slice_labels::planned_by(manager);
    objects.slices_of(key).iter().filter(|slice| is_planned(slice)).cloned().collect()
}

/// Leaves out the updates that only add zones.
fn leave_zones(plan: &mut slices::Plan, existing: &[Arc<EndpointSlice>]) {
    for sub_plan in &mut plan.sub_plans {
        sub_plan.writes.update.retain(|new| {
            let mut old = existing.iter().filter(|old| old.metadata.name == new.metadata.name);
            old.all(|old| !lacks_only_zones(old, new))
        });
    }
}

/// Returns true if two versions of a slice differ in the zones of endpoints, and the hints that
/// follow from them, only. A node may get its zone after its pods were published, and
/// kube-controller-manager writes no slice for that.
fn lacks_only_zones(old: &EndpointSlice, new: &EndpointSlice) -> bool {
    let zones = |slice: &EndpointSlice| {
        let mut zones: Vec<_> =
            slice.endpoints.iter().map(|it| (it.addresses.clone(), it.zone.clone())).collect();
        zones.sort_unstable();
        zones
    };
    let others = |slice: &EndpointSlice| {
        let mut endpoints = slice.endpoints.clone();
        endpoints.iter_mut().for_each(|endpoint| (endpoint.zone, endpoint.hints) = (None, None));
        endpoints.sort_by(|one, other| one.addresses.cmp(&other.addresses));
        endpoints
    };
    zones(old) != zones(new)
        && old.metadata.labels == new.metadata.labels
        && old.ports == new.ports
        && others(old) == others(new)
}

/// Returns true if two versions of Endpoints differ in more than the trigger time.
pub(crate) fn differ(old: &Endpoints, new: &Endpoints) -> bool {
    let annotations = |endpoints: &Endpoints| endpoints.metadata.annotations.without(ANNOTATION_TRIGGER_TIME);
    old.metadata.labels != new.metadata.labels
        || annotations(old) != annotations(new)
        || new.subsets.listed().is_some_and(|wanted| !old.subsets.is_equivalent_to(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Upstream's controller writes such Endpoints again at each sync, because the Service has a
    /// label that the controller sets itself.
    #[test]
    fn a_write_that_changes_nothing_is_left_out() {
        let service = json!({"kind": "Service", "metadata": {"name": "web", "resourceVersion": "1",
                "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
            "spec": {"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
                "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]}});
        let endpoints = |labels: serde_json::Value| json!({"kind": "Endpoints", "metadata": {"name": "web", "resourceVersion": "2", "labels": labels}});
        let check = |labels: serde_json::Value, want: usize| {
            let objects = Objects::read([service.clone(), endpoints(labels)]).unwrap();
            let key = ObjectKey::new("default", "web");
            let planned =
                Planned::new(&objects, &key, &objects.topology(), Timestamp::MIN, &Options::upstream());
            assert_eq!(planned.endpoints.unwrap().writes.update.len(), want);
        };
        check(json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"}), 0);
        check(json!({}), 1);
    }
}
