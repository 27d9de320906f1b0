//! Signs that the controllers work: the last times at which they are known to have written.

use kube_endpoint_core_model::maker::CONTROLLERS;
use kube_endpoint_core_model::well_known::{ENDPOINTSLICE_CONTROLLER, SELECTOR_CONTROLLER};
use kube_endpoint_core_model::{EndpointSlice, ObjectKey, Text, Timestamp};

use crate::facts::details::LastWrite;
use crate::facts::objects::Objects;

/// The last known write of a controller, by the kind that it wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    pub(crate) slices: Option<Timestamp>,
    /// Slices of Services that name an EndpointSelector.
    pub(crate) attached: Option<Timestamp>,
    pub(crate) endpoints: Option<Timestamp>,
}

impl Signs {
    /// Adds other signs: the latest of each counts.
    pub(crate) fn extend(&mut self, other: Self) {
        self.slices = self.slices.max(other.slices);
        self.attached = self.attached.max(other.attached);
        self.endpoints = self.endpoints.max(other.endpoints);
    }

    /// Looks at the field managers of all slices and Endpoints. If those of a slice are not known,
    /// the pods that it holds as ready prove a write: one that became ready at some time is written
    /// later.
    pub(crate) fn of(objects: &Objects, manager: &str) -> Self {
        let mut signs = objects.seen;
        for slice in objects.slices.values().flatten() {
            let sign = if slice.is_managed_by(manager) || slice.is_managed_by(ENDPOINTSLICE_CONTROLLER) {
                &mut signs.slices
            } else if slice.is_managed_by(SELECTOR_CONTROLLER) {
                &mut signs.attached
            } else {
                continue;
            };
            let written = match objects.slice_writes.get(&slice.key()) {
                Some(write) => by_controller(write),
                None => published(objects, slice),
            };
            *sign = (*sign).max(written);
        }
        let writes = objects.endpoints.keys().filter_map(|key| objects.endpoints_writes.get(key));
        let of_endpoints = writes.filter_map(by_controller).max();
        signs.endpoints = signs.endpoints.max(of_endpoints);
        signs
    }
}

/// Returns the time of a write if a controller made it.
pub(crate) fn by_controller(write: &LastWrite) -> Option<Timestamp> {
    CONTROLLERS.contains(&&*write.by).then_some(write.time)
}

/// Returns the last time at which a pod became ready that a slice holds as ready.
fn published(objects: &Objects, slice: &EndpointSlice) -> Option<Timestamp> {
    let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready == Some(true));
    let became_ready = ready.filter_map(|endpoint| {
        let target = endpoint.target_ref.as_ref().filter(|target| *target.kind == *"Pod")?;
        let namespace: &Text = &slice.metadata.namespace;
        let pod = objects.pod(&ObjectKey { namespace: namespace.clone(), name: target.name.clone() })?;
        let ready = pod.ready.filter(|ready| ready.is_true && target.uid == pod.uid)?;
        ready.last_transition
    });
    became_ready.max()
}
