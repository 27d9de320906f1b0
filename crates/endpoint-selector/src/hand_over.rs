//! Decides which slices a hand-over deletes. A function of its inputs, without clock, log or
//! client.
//!
//! A Service changes hands when it loses its selector and names an EndpointSelector, or the other
//! way round. The controller that begins publishes its slices first; the slices of the other go
//! when nothing that clients need is in them only. Nobody relabels a slice: kube-controller-manager
//! waits for ever for a slice of its own that it can no longer find.
//!
//! There are no time limits. A mistyped label then holds a hand-over, and takes no Service down.
//!
//! Below, a pod is usable if it is ready and not being deleted. With `publish_not_ready`, the
//! setting of the Service, it is usable as long as it runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::address::IpFamily;
use kube_endpoint_core_model::well_known::{ENDPOINTSLICE_CONTROLLER, MIRRORING_CONTROLLER};
use kube_endpoint_core_model::{AddressType, Endpoint, EndpointSlice, OwnerReference, Pod, Service, Text};

use crate::caretaker::has_address;

/// Looks up the pods of the Service's namespace.
pub trait PodLookup {
    /// Returns the pod with a name.
    fn pod(&self, name: &str) -> Option<Arc<Pod>>;
}

impl<F: Fn(&str) -> Option<Arc<Pod>>> PodLookup for F {
    fn pod(&self, name: &str) -> Option<Arc<Pod>> {
        self(name)
    }
}

/// The slices of a Service, by who writes them.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    /// Those of this controller.
    pub own: Vec<Arc<EndpointSlice>>,
    /// Those that the endpointslice controller made for the Service.
    pub of_pods: Vec<Arc<EndpointSlice>>,
    /// Those that were mirrored from Endpoints.
    pub mirrored: Vec<Arc<EndpointSlice>>,
    /// The families of the Service. Nobody makes slices of another one any more.
    pub families: Vec<IpFamily>,
}

impl Slices {
    /// Sorts the slices of a Service. Those of other managers, and those being deleted, are left
    /// out. `manager` is the name of this controller in the label.
    ///
    /// The endpointslice controller deletes slices that an earlier Service of the name left, if
    /// this one has a selector. Without a selector nobody does, so they count, too.
    pub fn of(service: &Service, slices: &[Arc<EndpointSlice>], manager: &str) -> Self {
        let mut sorted = Self { families: service.slice_families(), ..Self::default() };
        let alive = |slice: &&Arc<EndpointSlice>| slice.metadata.deletion_timestamp.is_none();
        for slice in slices.iter().filter(alive) {
            if slice.is_managed_by(manager) {
                sorted.own.push(Arc::clone(slice));
            } else if slice.is_managed_by(ENDPOINTSLICE_CONTROLLER) && is_left_by(service, slice) {
                sorted.of_pods.push(Arc::clone(slice));
            } else if slice.is_managed_by(MIRRORING_CONTROLLER) {
                sorted.mirrored.push(Arc::clone(slice));
            }
        }
        sorted
    }

    /// Returns true if an own endpoint is ready.
    pub(crate) fn own_is_ready(&self) -> bool {
        self.own.iter().flat_map(|slice| &slice.endpoints).any(is_ready)
    }

    /// Keeps only some of the slices of others.
    #[cfg(feature = "controller")]
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&EndpointSlice) -> bool) {
        self.of_pods.retain(|slice| is_kept(slice));
        self.mirrored.retain(|slice| is_kept(slice));
    }

    /// Returns true if other controllers of the cluster have slices of the Service.
    pub fn has_others(&self) -> bool {
        !self.of_pods.is_empty() || !self.mirrored.is_empty()
    }
}

/// Returns true if a slice is one of those that the endpointslice controller made for a Service, or
/// that it would delete if the Service had a selector: an earlier Service of the name owned it.
pub fn is_left_by(service: &Service, slice: &EndpointSlice) -> bool {
    let mut owners = slice.metadata.owner_references.iter();
    let has_name = |owner: &OwnerReference| *owner.kind == *"Service" && owner.name == service.key.name;
    slice.is_owned_by(service) || (!service.selects_pods() && owners.all(has_name))
}

/// The result of [`take_over`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// No slice of another controller is left.
    Complete,
    /// The slices of the endpointslice controller go, and the Endpoints that a controller made,
    /// from which slices are mirrored.
    Deletes,
    /// They stay until an own endpoint is ready.
    Held,
}

/// Decides about a Service that names an EndpointSelector. Call it when the cache shows all own
/// writes.
///
/// Without a ready endpoint of its own, the controller keeps the slices of the others, and
/// [cares](crate::caretaker) for them.
pub fn take_over(slices: &Slices) -> TakeOver {
    if !slices.has_others() {
        return TakeOver::Complete;
    }
    if slices.own_is_ready() { TakeOver::Deletes } else { TakeOver::Held }
}

/// Returns true if [`take_over`] can delete all slices of the others that it may: the own slices
/// have a ready endpoint, and every ready endpoint of the others that the EndpointSelector selects.
/// `selected` are the pods that it selects.
///
/// Unlike [`take_over`], this needs no cache that shows the latest writes, if it shows the slices
/// that the API server has: the pods that it does not show yet are in none of the others' slices.
pub fn is_published(slices: &Slices, selected: &[Arc<Pod>], publish_not_ready: bool) -> bool {
    let has_all = |others: &[_]| has_all(&slices.own, others, &slices.families, selected, publish_not_ready);
    // The next write may take out another one.
    let stays =
        |it: &Endpoint| is_ready(it) && is_usable(it, &|name: &str| named(selected, name), publish_not_ready);
    slices.own.iter().flat_map(|slice| &slice.endpoints).any(stays)
        && has_all(&slices.of_pods)
        && has_all(&slices.mirrored)
}

/// Decides about a Service that has a selector of its own again: returns true if the own slices can
/// go. `selected` are the pods that the Service selects.
///
/// They can go when none of them has a ready endpoint, or when the slices of the endpointslice
/// controller have every ready endpoint of them that the Service selects. If it selects none of
/// these pods but others, the first of those has to be there.
pub fn can_hand_back(slices: &Slices, selected: &[Arc<Pod>], publish_not_ready: bool) -> bool {
    let serves = |side: &[Arc<EndpointSlice>]| side.iter().flat_map(|it| &it.endpoints).any(is_ready);
    let is_expected = |pod: &Arc<Pod>| {
        let has_address = slices.families.iter().any(|family| pod.addresses(*family).next().is_some());
        has_address && !pod.is_terminal() && is_usable_pod(pod, publish_not_ready)
    };
    !serves(&slices.own)
        || has_all(&slices.of_pods, &slices.own, &slices.families, selected, publish_not_ready)
            && (serves(&slices.of_pods) || !selected.iter().any(is_expected))
}

/// Returns true if one side's slices have every ready endpoint of the side that leaves, in one of
/// the families, whose pod is usable and among the selected ones, which are sorted by name.
fn has_all(
    stays: &[Arc<EndpointSlice>],
    leaves: &[Arc<EndpointSlice>],
    families: &[IpFamily],
    selected: &[Arc<Pod>],
    publish_not_ready: bool,
) -> bool {
    type Published<'a> = (AddressType, &'a Text);
    let published: BTreeSet<Published<'_>> = stays
        .iter()
        .flat_map(|slice| slice.endpoints.iter().map(|endpoint| (slice.address_type, endpoint)))
        .filter(|(_, endpoint)| is_ready(endpoint))
        .flat_map(|(family, endpoint)| endpoint.addresses.iter().map(move |address| (family, address)))
        .collect();
    let selected = |name: &str| named(selected, name);
    let is_made = |slice: &&Arc<EndpointSlice>| {
        families.iter().any(|family| AddressType::from(*family) == slice.address_type)
    };
    leaves.iter().filter(is_made).all(|slice| {
        let is_needed = |it: &&Endpoint| is_ready(it) && is_usable(it, &selected, publish_not_ready);
        let needed = slice.endpoints.iter().filter(is_needed);
        needed.flat_map(|it| &it.addresses).all(|address| published.contains(&(slice.address_type, address)))
    })
}

/// Returns a pod of pods that are sorted by name.
fn named(pods: &[Arc<Pod>], name: &str) -> Option<Arc<Pod>> {
    let at = pods.binary_search_by(|pod| (*pod.key.name).cmp(name));
    at.ok().and_then(|at| pods.get(at)).cloned()
}

/// Returns true if clients use an endpoint; absent means ready, as the API says.
pub(crate) fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready.unwrap_or(true)
}

/// Returns the pod that an endpoint stands for, if it still exists with one of the addresses and
/// has not ended.
fn pod_of(endpoint: &Endpoint, pods: &impl PodLookup) -> Option<Arc<Pod>> {
    let target = endpoint.target_ref.as_ref().filter(|target| *target.kind == *"Pod")?;
    let pod = pods.pod(&target.name).filter(|pod| target.uid.is_empty() || pod.uid == target.uid)?;
    (!pod.is_terminal() && has_address(&pod, &endpoint.addresses)).then_some(pod)
}

/// Returns true if the pod of an endpoint is usable now, whatever the slice says.
pub(crate) fn is_usable(endpoint: &Endpoint, pods: &impl PodLookup, publish_not_ready: bool) -> bool {
    pod_of(endpoint, pods).is_some_and(|pod| is_usable_pod(&pod, publish_not_ready))
}

fn is_usable_pod(pod: &Pod, publish_not_ready: bool) -> bool {
    publish_not_ready || (pod.is_ready() && !pod.is_terminating())
}

#[cfg(test)]
mod tests;
