//! Plans what the endpoint selector controller does about slices besides those of its plan: it
//! takes Services over, hands them back, and cares for slices that nobody maintains.

use std::sync::Arc;

use kube_endpoint_core_model::well_known::{
    ENDPOINT_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY, SELECTOR_CONTROLLER,
};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectKey, Pod, Service, Text, Writes};
use kube_endpoint_selector::caretaker::{Care, Facts, Unmaintained, care_for, care_for_endpoints};
use kube_endpoint_selector::hand_over::{Slices, TakeOver, can_hand_back, take_over};

use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::models::selection::Selection;

/// The writes of a hand-over, and what waits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HandOver {
    /// The writes to slices.
    pub slices: Writes<EndpointSlice>,
    /// The deletion of the Endpoints that a controller left, or their update.
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
                let Slices { own, of_pods, mirrored, .. } = of(existing);
                self.care(Unmaintained { own, of_pods, mirrored })
            }
            Selection::Own(_) => {
                let own = of(existing).own;
                if own.is_empty() {
                    return HandOver::default();
                }
                let can = |slices| can_hand_back(&of(slices), self.pods, self.publishes_not_ready());
                let held = if can(existing) { Vec::new() } else { own.clone() };
                if !can(&self.after(existing)) {
                    return HandOver { held, ..self.care(Unmaintained { own, ..Unmaintained::default() }) };
                }
                let slices = Writes { delete: own, ..Writes::default() };
                HandOver { slices, held, ..HandOver::default() }
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
        let (of_pods, mirrored) = (slices.of_pods.clone(), slices.mirrored.clone());
        match take_over(slices) {
            TakeOver::Complete => HandOver::default(),
            TakeOver::Held => {
                let held = of_pods.iter().chain(&mirrored).cloned().collect();
                HandOver { held, ..self.care(Unmaintained { of_pods, mirrored, ..Unmaintained::default() }) }
            }
            TakeOver::Deletes => {
                let left = objects.endpoints.get(&service.key);
                let left = left.filter(|_| made_by_controller(objects, &service.key));
                HandOver {
                    slices: Writes { delete: self.made_by_controllers(of_pods), ..Writes::default() },
                    endpoints: Writes { delete: left.into_iter().cloned().collect(), ..Writes::default() },
                    held: Vec::new(),
                }
            }
        }
    }

    /// Returns the writes that keep slices which nobody maintains free of dead endpoints.
    fn care(&self, mut slices: Unmaintained) -> HandOver {
        let Self { objects, service, .. } = *self;
        slices.of_pods = self.made_by_controllers(slices.of_pods);
        let facts = Facts {
            pods: |name: &str| self.pod(name),
            is_known: |_: &Text| true,
            publish_not_ready: self.publishes_not_ready(),
        };
        let Care { update, delete, endpoints, .. } = care_for(&slices, &facts);
        let mut left = Writes::default();
        if endpoints
            && made_by_controller(objects, &service.key)
            && let Some(before) = objects.endpoints_of(&service.key)
            && let Some(subsets) = care_for_endpoints(before.subsets.listed().unwrap_or_default(), &facts)
        {
            if subsets.is_empty() {
                left.delete.extend(objects.endpoints.get(&service.key).cloned());
            } else {
                left.update.push(Endpoints { subsets: subsets.into(), ..before.clone() });
            }
        }
        HandOver {
            slices: Writes { update, delete, ..Writes::default() },
            endpoints: left,
            ..HandOver::default()
        }
    }

    /// Returns those of these slices that a controller wrote: the controller asks the API server
    /// who made a slice, and keeps those of other clients.
    fn made_by_controllers(&self, mut slices: Vec<Arc<EndpointSlice>>) -> Vec<Arc<EndpointSlice>> {
        slices.retain(|slice| self.objects.slice_stays(&slice.key()).is_none());
        slices
    }

    fn publishes_not_ready(&self) -> bool {
        self.service.publish_not_ready_addresses
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
    if objects.endpoints_stay(key).is_some() {
        return false;
    }
    match endpoints.metadata.labels.get(LABEL_ENDPOINTS_MANAGED_BY) {
        Some(manager) => **manager == *ENDPOINT_CONTROLLER,
        // Controllers set the label since Kubernetes 1.33.
        None => objects.endpoints_writes.contains_key(key) && names_pods(endpoints),
    }
}

/// Returns true if each address of Endpoints names its pod, as in those that a controller made.
pub(crate) fn names_pods(endpoints: &Endpoints) -> bool {
    endpoints.subsets.listed().into_iter().flatten().all(|subset| {
        let mut addresses = subset.addresses.iter().chain(subset.not_ready_addresses.iter());
        addresses.all(|address| address.target_ref.as_ref().is_some_and(|target| *target.kind == *"Pod"))
    })
}
