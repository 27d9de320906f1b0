//! Plans what the endpoint selector controller does about slices besides those of its plan: it
//! takes Services over, hands them back, and lets slices shrink while it cannot select.

use std::sync::Arc;

use kube_endpoint_core_model::maker::CONTROLLERS;
use kube_endpoint_core_model::publish::publish_not_ready;
use kube_endpoint_core_model::well_known::{
    ENDPOINT_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectKey, Pod, Service, Text, Writes};
use kube_endpoint_selector::hand_over::{Slices, can_hand_back, shrunk, take_over};

use crate::selection::Selection;
use crate::{Objects, Options};

/// The writes of a hand-over, and what waits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HandOver {
    /// The writes to slices.
    pub slices: Writes<EndpointSlice>,
    /// The deletion of the Endpoints that a controller left.
    pub endpoints: Writes<Endpoints>,
    /// The slices that stay until those of the new controller have ready endpoints.
    pub held: Vec<Arc<EndpointSlice>>,
}

/// The inputs of a hand-over.
pub(crate) struct Inputs<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) service: &'a Service,
    pub(crate) selection: Selection<'a>,
    /// The pods that the Service selects.
    pub(crate) pods: &'a [Arc<Pod>],
    /// The writes of the plan of its slices.
    pub(crate) planned: &'a [&'a Writes<EndpointSlice>],
    pub(crate) options: &'a Options,
}

impl Inputs<'_> {
    pub(crate) fn plan(&self) -> HandOver {
        let known = self.options.known;
        if !known.slices || !known.pods {
            return HandOver::default();
        }
        let Self { objects, service, .. } = *self;
        let existing = objects.slices_of(&service.key);
        let of = |slices: &[Arc<EndpointSlice>]| Slices::of(service, slices, SELECTOR_CONTROLLER);
        match self.selection {
            Selection::Attached { .. } if known.nodes => self.take_over(&of(&self.after(existing))),
            Selection::Unusable { .. } => {
                let pods = |name: &str| self.pod(name);
                let update = shrunk(&of(existing).own, &pods, self.publishes_not_ready());
                HandOver { slices: Writes { update, ..Writes::default() }, ..HandOver::default() }
            }
            Selection::Own(_) => {
                let own = of(existing).own;
                if own.is_empty() {
                    return HandOver::default();
                }
                let can = |slices| can_hand_back(&of(slices), self.pods, self.publishes_not_ready());
                let held = if can(existing) { Vec::new() } else { own.clone() };
                let delete = if can(&self.after(existing)) { own } else { Vec::new() };
                HandOver { slices: Writes { delete, ..Writes::default() }, held, ..HandOver::default() }
            }
            Selection::None => {
                let slices = Writes { delete: of(existing).own, ..Writes::default() };
                HandOver { slices, ..HandOver::default() }
            }
            // Without nodes nobody knows the slices of the EndpointSelector.
            Selection::Attached { .. } | Selection::NotKnown { .. } => HandOver::default(),
        }
    }

    fn take_over(&self, slices: &Slices) -> HandOver {
        let Self { objects, service, .. } = *self;
        let decision = take_over(slices, &|name: &str| self.pod(name), self.publishes_not_ready());
        let is_left = |slice: &Arc<EndpointSlice>| {
            !decision.delete.iter().any(|deleted| deleted.metadata.name == slice.metadata.name)
        };
        let stay = slices.of_pods.iter().filter(|slice| is_left(slice)).chain(&slices.mirrored);
        let held = stay.filter(|_| decision.held).cloned().collect();
        // The controller asks the API server who made a slice, and keeps those of other clients.
        let mut delete = decision.delete;
        delete
            .retain(|slice| is_of_controller(objects.slice_writes.get(&slice.key()).map(|write| &write.by)));
        let left = objects.endpoints.get(&service.key);
        let left = left.filter(|_| decision.endpoints && made_by_controller(objects, &service.key));
        HandOver {
            slices: Writes { delete, ..Writes::default() },
            endpoints: Writes { delete: left.into_iter().cloned().collect(), ..Writes::default() },
            held,
        }
    }

    fn publishes_not_ready(&self) -> bool {
        publish_not_ready(self.service, self.options.slices.tolerate_unready_annotation).0
    }

    fn pod(&self, name: &str) -> Option<Arc<Pod>> {
        let key = ObjectKey { namespace: self.service.key.namespace.clone(), name: name.into() };
        self.objects.pod(&key).cloned()
    }

    /// Returns the slices after the writes of the plan.
    fn after(&self, existing: &[Arc<EndpointSlice>]) -> Vec<Arc<EndpointSlice>> {
        let writes = || self.planned.iter();
        let updated = || writes().flat_map(|writes| &writes.update);
        let replaced = |slice: &&Arc<EndpointSlice>| {
            updated().any(|new| new.metadata.name == slice.metadata.name)
                || writes().flat_map(|writes| &writes.delete).any(|old| Arc::ptr_eq(old, slice))
        };
        let kept = existing.iter().filter(|slice| !replaced(slice)).cloned();
        let created = writes().flat_map(|writes| &writes.create);
        kept.chain(created.chain(updated()).cloned().map(Arc::new)).collect()
    }
}

/// Returns true if a controller made the Endpoints of a Service from pods.
pub(crate) fn made_by_controller(objects: &Objects, key: &ObjectKey) -> bool {
    let Some(endpoints) = objects.endpoints_of(key) else { return false };
    let by = objects.endpoints_writes.get(key).map(|write| &write.by);
    match endpoints.metadata.labels.get(LABEL_ENDPOINTS_MANAGED_BY) {
        Some(manager) => **manager == *ENDPOINT_CONTROLLER && is_of_controller(by),
        // Controllers set the label since Kubernetes 1.33.
        None => by.is_some() && is_of_controller(by) && names_pods(endpoints),
    }
}

/// Returns true if each address of Endpoints names its pod, as in those that a controller made.
pub(crate) fn names_pods(endpoints: &Endpoints) -> bool {
    endpoints.subsets.listed().into_iter().flatten().all(|subset| {
        let mut addresses = subset.addresses.iter().chain(subset.not_ready_addresses.iter());
        addresses.all(|address| address.target_ref.as_ref().is_some_and(|target| *target.kind == *"Pod"))
    })
}

/// Returns true if a controller was the last writer of an object, or nobody knows the writer.
pub(crate) fn is_of_controller(by: Option<&Text>) -> bool {
    by.is_none_or(|by| CONTROLLERS.contains(&&**by))
}
