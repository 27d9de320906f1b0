//! Cares for slices and Endpoints that nobody maintains: those of the previous controller while a
//! hand-over waits, and own slices while nobody knows which pods to select. A function of its
//! inputs, without clock, log or client.
//!
//! An address whose pod is gone soon belongs to a pod of another application. So an endpoint leaves
//! when its pod is gone, has ended or has another address. It is not ready while its pod is not,
//! and ready again when its pod is. No endpoint is added: nobody can say which.
//!
//! A slice goes when no endpoint is left in it, but for own slices, which their controller will
//! fill again. Mirrored slices are never edited: the mirroring controller would write them again
//! from the Endpoints. The Endpoints are edited instead, and the slices follow.

use std::net::IpAddr;
use std::slice;
use std::sync::Arc;

use kube_endpoint_core_model::endpoints::EndpointSubset;
use kube_endpoint_core_model::readiness::{conditions_without_selector, endpoint_conditions};
use kube_endpoint_core_model::repack::repack;
use kube_endpoint_core_model::slice::EndpointConditions;
use kube_endpoint_core_model::{Endpoint, EndpointSlice, ObjectReference, Pod, Text};

use crate::hand_over::PodLookup;

/// The facts by which endpoints are judged.
#[derive(Clone, Copy, Debug)]
pub struct Facts<L, K> {
    /// Looks up the pods of the Service's namespace.
    pub pods: L,
    /// Returns true for the uid of a pod if the cache of pods is as new as the object that names
    /// it. A pod that this cache does not show yet is not gone.
    pub is_known: K,
    /// The setting of the Service.
    pub publish_not_ready: bool,
}

/// The slices of a Service that nobody maintains.
#[derive(Clone, Debug, Default)]
pub struct Unmaintained {
    /// Those of this controller.
    pub own: Vec<Arc<EndpointSlice>>,
    /// Those that the endpointslice controller made.
    pub of_pods: Vec<Arc<EndpointSlice>>,
    /// Those that were mirrored from Endpoints.
    pub mirrored: Vec<Arc<EndpointSlice>>,
}

impl Unmaintained {
    /// Returns all of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<EndpointSlice>> {
        self.own.iter().chain(&self.of_pods).chain(&self.mirrored)
    }
}

/// The result of [`care_for`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Care {
    /// Slices to replace, own ones and those of the endpointslice controller.
    pub update: Vec<EndpointSlice>,
    /// Slices of the endpointslice controller whose pods are all gone.
    pub delete: Vec<Arc<EndpointSlice>>,
    /// True if the Endpoints have to be looked at, see [`care_for_endpoints`]: what was mirrored or
    /// made from the same pods is out of date.
    pub endpoints: bool,
    /// True if some endpoints could not be judged, since the cache of pods is too old.
    pub waits: bool,
}

/// Decides what becomes of slices that nobody maintains.
pub fn care_for<L: PodLookup, K: Fn(&Text) -> bool>(slices: &Unmaintained, facts: &Facts<L, K>) -> Care {
    let mut care = Care::default();
    for slice in &slices.own {
        let endpoints = care.judge(slice, |it| facts.endpoint(it, conditions_without_selector));
        care.update.extend(changed(slice, endpoints));
    }
    let by_pod = |pod: &Pod, _: EndpointConditions, publish| endpoint_conditions(pod, None, publish);
    for slice in &slices.of_pods {
        let endpoints = care.judge(slice, |it| facts.endpoint(it, by_pod));
        if endpoints.is_empty() {
            // The endpoints controller made the Endpoints from the same pods.
            care.endpoints |= !slice.endpoints.is_empty();
            care.delete.push(Arc::clone(slice));
        } else if let Some(update) = changed(slice, endpoints) {
            care.endpoints = true;
            care.update.push(update);
        }
    }
    // Mirrored endpoints say only if they are ready.
    let ready = |pod: &Pod, before: EndpointConditions, publish| EndpointConditions {
        ready: endpoint_conditions(pod, None, publish).ready,
        ..before
    };
    for slice in &slices.mirrored {
        let endpoints = care.judge(slice, |it| facts.endpoint(it, ready));
        care.endpoints |= endpoints != slice.endpoints;
    }
    care
}

/// Decides what becomes of the subsets of Endpoints that the endpoints controller made and nobody
/// maintains. Returns `None` if they are right. If no subset is left, the Endpoints can go.
pub fn care_for_endpoints<L: PodLookup, K: Fn(&Text) -> bool>(
    subsets: &[EndpointSubset],
    facts: &Facts<L, K>,
) -> Option<Vec<EndpointSubset>> {
    let mut is_changed = false;
    let cared: Vec<EndpointSubset> = subsets
        .iter()
        .map(|subset| {
            let mut cared = EndpointSubset { ports: subset.ports.clone(), ..EndpointSubset::default() };
            let ready = subset.addresses.iter().map(|address| (address, true));
            for (address, was_ready) in
                ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)))
            {
                let is_ready = match facts.fate(address.target_ref.as_ref(), slice::from_ref(&address.ip)) {
                    Fate::Gone => None,
                    Fate::Unknown | Fate::NoPod => Some(was_ready),
                    Fate::Lives(pod) => Some(
                        pod.has_pod_ip
                            && endpoint_conditions(&pod, None, facts.publish_not_ready).ready == Some(true),
                    ),
                };
                is_changed |= is_ready != Some(was_ready);
                match is_ready {
                    Some(true) => cared.addresses.push(address.clone()),
                    Some(false) => cared.not_ready_addresses.push(address.clone()),
                    None => {}
                }
            }
            cared
        })
        .collect();
    is_changed.then(|| repack(&cared))
}

impl Care {
    /// Returns the endpoints that stay in a slice.
    fn judge(&mut self, slice: &EndpointSlice, mut judge: impl FnMut(&Endpoint) -> Judged) -> Vec<Endpoint> {
        let judged = slice.endpoints.iter().filter_map(|endpoint| match judge(endpoint) {
            Judged::Stays(endpoint) => Some(endpoint),
            Judged::Waits => {
                self.waits = true;
                Some(endpoint.clone())
            }
            Judged::Goes => None,
        });
        judged.collect()
    }
}

fn changed(slice: &EndpointSlice, endpoints: Vec<Endpoint>) -> Option<EndpointSlice> {
    (endpoints != slice.endpoints).then(|| EndpointSlice { endpoints, ..slice.clone() })
}

enum Judged {
    Stays(Endpoint),
    Waits,
    Goes,
}

/// The pod behind an endpoint.
enum Fate {
    /// The endpoint names none, so nobody can judge it. Controllers make no such endpoint.
    NoPod,
    /// The cache of pods is too old to tell.
    Unknown,
    /// It does not exist any more, has ended, or has another address.
    Gone,
    /// It exists, with the address of the endpoint or without any.
    Lives(Arc<Pod>),
}

impl<L: PodLookup, K: Fn(&Text) -> bool> Facts<L, K> {
    fn endpoint(
        &self,
        endpoint: &Endpoint,
        conditions: impl Fn(&Pod, EndpointConditions, bool) -> EndpointConditions,
    ) -> Judged {
        let conditions = match self.fate(endpoint.target_ref.as_ref(), &endpoint.addresses) {
            Fate::Gone => return Judged::Goes,
            Fate::Unknown => return Judged::Waits,
            Fate::NoPod => endpoint.conditions,
            Fate::Lives(pod) if pod.has_pod_ip => {
                conditions(&pod, endpoint.conditions, self.publish_not_ready)
            }
            Fate::Lives(pod) => {
                let none = conditions(&pod, endpoint.conditions, false);
                EndpointConditions { ready: Some(false), serving: none.serving.map(|_| false), ..none }
            }
        };
        Judged::Stays(Endpoint { conditions, ..endpoint.clone() })
    }

    /// Judges by the uid: several pods of the host network share an address, and another pod may
    /// have the name by now.
    fn fate(&self, target: Option<&ObjectReference>, addresses: &[Text]) -> Fate {
        let Some(target) = target.filter(|target| *target.kind == *"Pod") else { return Fate::NoPod };
        if !(self.is_known)(&target.uid) {
            return Fate::Unknown;
        }
        let pod = self.pods.pod(&target.name);
        let pod = pod.filter(|pod| !pod.is_terminal() && (target.uid.is_empty() || pod.uid == target.uid));
        match pod {
            Some(pod) if !pod.has_pod_ip || has_address(&pod, addresses) => Fate::Lives(pod),
            _ => Fate::Gone,
        }
    }
}

/// Returns true if a pod has one of the addresses.
pub(crate) fn has_address(pod: &Pod, addresses: &[Text]) -> bool {
    let mut addresses = addresses.iter().filter_map(|address| address.parse::<IpAddr>().ok());
    addresses.any(|address| pod.has_ip(address))
}

#[cfg(test)]
mod tests;
