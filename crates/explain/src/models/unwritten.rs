//! Tells which pods the outputs of a Service do not show as they are, and since when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::slice::EndpointConditions;
use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, ObjectKey, ObjectReference, Pod, Service, Text, Timestamp, Writes,
};

use crate::facts::objects::Objects;
use crate::models::leader::Leads;
use crate::models::planned::Planned;

/// Changes that the outputs do not show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unwritten {
    /// The time of the oldest change, or `None` if the times are not known.
    pub(crate) since: Option<Timestamp>,
    /// The pods that slices name, and that do not exist any more. Nothing tells since when.
    pub(crate) gone: BTreeSet<Text>,
    /// True if slices name a pod that was there when the caller read the cluster before.
    pub(crate) just_gone: bool,
}

/// A pod, and what an output says about it.
type Shown<'a> = (&'a ObjectReference, (Vec<&'a Text>, [Option<bool>; 3], Option<&'a Text>));

/// The pods of a Service, whose changes its outputs should show.
#[derive(Clone, Copy)]
pub(crate) struct Changes<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) service: &'a Service,
    /// The pods that the Service selects.
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) leads: Option<&'a Leads>,
}

impl Changes<'_> {
    /// Returns the time at which the outputs should show something else about a pod: of its
    /// readiness, its creation, its deletion, of the Service, or of the leader.
    fn of_pod(&self, pod: &Pod) -> Option<Timestamp> {
        let changed = self.objects.pods_changed.get(&pod.key).copied();
        let ready = pod.ready.and_then(|ready| ready.last_transition);
        let of_pod = ready.max(changed.or(pod.deletion_timestamp))?;
        let of_all = self.service.creation_timestamp.max(self.leads.and_then(|leads| leads.since));
        Some(of_all.map_or(of_pod, |of_all| of_pod.max(of_all)))
    }

    /// Returns the time of the newest change.
    pub(crate) fn newest(&self) -> Option<Timestamp> {
        let of_pods = self.pods.iter().map(|pod| self.of_pod(pod)).max().flatten();
        of_pods.max(self.service.creation_timestamp).max(self.leads.and_then(|leads| leads.since))
    }

    /// Returns what the slices do not show.
    pub(crate) fn of_slices(&self, planned: &Planned) -> Unwritten {
        let existing = self.objects.slices_of(&self.service.key);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let of_pods = planned.slices.iter().flat_map(|plan| &plan.sub_plans).map(|plan| &plan.writes);
        let is_handed_over = self.service.selects_pods() || self.service.endpoint_selector().is_some();
        let hand_over = is_handed_over.then_some(&planned.hand_over.slices);
        for Writes { create, update, delete } in of_pods.chain(hand_over) {
            let updated = |slice: &&Arc<EndpointSlice>| {
                update.iter().any(|new| new.metadata.name == slice.metadata.name)
            };
            let replaced = existing.iter().filter(updated).chain(delete);
            before.extend(replaced.flat_map(|slice| shown_by(slice)));
            after.extend(create.iter().chain(update).flat_map(shown_by));
        }
        let mirrored = planned.mirroring.as_ref().filter(|plan| !plan.writes.is_empty());
        let written = mirrored.and_then(|_| self.objects.endpoints_writes.get(&self.service.key));
        self.between(before, after, written.map(|write| write.time))
    }

    /// Returns what the Endpoints do not show.
    pub(crate) fn of_endpoints(&self, planned: &Planned) -> Unwritten {
        let existing = self.objects.endpoints_of(&self.service.key);
        let written =
            planned.endpoints.iter().flat_map(|plan| plan.writes.create.iter().chain(&plan.writes.update));
        let (before, after) = (existing.into_iter().flat_map(listed_by), written.flat_map(listed_by));
        self.between(before.collect(), after.collect(), None)
    }

    /// Compares what outputs show with what they should. `other` is the time of a change that is
    /// none of a pod.
    fn between(&self, before: Vec<Shown<'_>>, after: Vec<Shown<'_>>, other: Option<Timestamp>) -> Unwritten {
        let mut counts: BTreeMap<(&Text, &Text), BTreeMap<_, i64>> = BTreeMap::new();
        for (sign, shown) in [(-1, before), (1, after)] {
            for (pod, what) in shown {
                *counts.entry((&pod.name, &pod.uid)).or_default().entry(what).or_default() += sign;
            }
        }
        let mut times: Vec<Timestamp> = other.into_iter().collect();
        let (mut gone, mut just_gone) = (BTreeSet::new(), false);
        for ((name, uid), _) in counts.iter().filter(|(_, shown)| shown.values().any(|count| *count != 0)) {
            let key = ObjectKey { namespace: self.service.key.namespace.clone(), name: (*name).clone() };
            match self.objects.pod(&key).filter(|pod| uid.is_empty() || pod.uid == **uid) {
                Some(pod) if self.pods.iter().any(|one| one.key == key) => times.extend(self.of_pod(pod)),
                // Its labels may have changed; nothing tells when.
                Some(_) => {}
                None if self.objects.is_gone(&key, uid) => {
                    gone.insert((*name).clone());
                }
                None => just_gone = true,
            }
        }
        let none = times.is_empty() && gone.is_empty() && !just_gone;
        let since = times.into_iter().min().or(self.newest().filter(|_| none));
        Unwritten { since, gone, just_gone }
    }
}

fn is_pod(target: &&ObjectReference) -> bool {
    *target.kind == *"Pod"
}

fn shown_by(slice: &EndpointSlice) -> impl Iterator<Item = Shown<'_>> {
    slice.endpoints.iter().filter_map(|endpoint| {
        let target = endpoint.target_ref.as_ref().filter(is_pod)?;
        let EndpointConditions { ready, serving, terminating } = endpoint.conditions;
        let conditions = [ready, serving, terminating];
        Some((target, (endpoint.addresses.iter().collect(), conditions, endpoint.node_name.as_ref())))
    })
}

fn listed_by(endpoints: &Endpoints) -> impl Iterator<Item = Shown<'_>> {
    let subsets = endpoints.subsets.listed().unwrap_or_default().iter();
    subsets.flat_map(|subset| {
        let ready = subset.addresses.iter().map(|address| (address, true));
        let addresses = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
        addresses.filter_map(|(address, ready)| {
            let target = address.target_ref.as_ref().filter(is_pod)?;
            Some((target, (vec![&address.ip], [Some(ready), None, None], address.node_name.as_ref())))
        })
    })
}
