//! A plan from the pods that have changed since the last one. It equals the plan from all pods, except that it has no
//! verdicts. Nothing is sorted: addresses are taken out of sorted sets and put into them, and the object is merged from its
//! predecessor and what is new.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointSubset};
use kube_endpoint_core_model::publish::publish_not_ready;
use kube_endpoint_core_model::{Endpoints, Pod, Service, Text, Writes};

use super::address::{address_of, publish};
use super::change::object;
use super::state::{Address, Found, PlanState};
use super::{Plan, PlanInputs};

impl PlanState {
    /// Plans the sync after the one whose plan left this state. `existing` is the Endpoints object, `changed` are the pods that
    /// have changed in between, each once; [`PlanInputs::pods`] and [`PlanInputs::existing`] are not read. `pod` returns one
    /// of the other pods by name: a pod beyond the capacity may take the place of another one. The plan and the returned
    /// state are those of [`plan_and_keep`](super::plan_and_keep) with all pods, but there are no verdicts.
    ///
    /// None if this has to be planned from all pods, because the object or the Service are not as the state has them, or because
    /// the pods now have several sets of ports or no addresses at all.
    pub fn plan(
        mut self,
        inputs: &PlanInputs<'_>,
        existing: Option<&Arc<Endpoints>>,
        changed: &[ChangedPod],
        pod: impl Fn(&Text) -> Option<Arc<Pod>>,
    ) -> Option<(Plan, Self)> {
        let existing = existing?;
        let service = inputs.service;
        if !self.meets(inputs, existing) {
            return None;
        }
        let was_truncated = self.is_truncated();
        let (publish_not_ready, _) = publish_not_ready(service, inputs.options.tolerate_unready_annotation);
        for ChangedPod { replaced, now, .. } in changed {
            for before in replaced.iter().chain(now) {
                self.remove(before, service)?;
            }
            let Some(now) = now else { continue };
            let Ok(published) = publish(now, service, publish_not_ready) else { continue };
            if published.ports != self.pod_ports {
                return None;
            }
            let place = Address::of(&published.address)?;
            let ready = publish_not_ready || now.is_ready();
            if self.ready.contains(&place) || self.not_ready.contains(&place) {
                return None;
            }
            let list = if ready { &mut self.ready } else { &mut self.not_ready };
            list.insert(place.clone());
            self.refresh(place, published.address);
        }
        if was_truncated {
            let make =
                |name: &Text| publish(&*pod(name)?, service, publish_not_ready).ok().map(|one| one.address);
            self.complete(make)?;
        }

        let (ready, not_ready) = self.found();
        let [before] = existing.subsets.as_slice() else { return None };
        let mut plan = Plan {
            ready: ready.len(),
            not_ready: not_ready.len(),
            truncated: self.is_truncated(),
            warning: self.warning.clone(),
            ..Plan::default()
        };
        if plan.ready + plan.not_ready == 0 {
            return None;
        }
        let ready_change = compare(&ready, &before.addresses)?;
        let changes = compare(&not_ready, &before.not_ready_addresses)?
            | ready_change
            // The annotation tells it.
            | (was_truncated != plan.truncated);
        if changes {
            let subset = EndpointSubset {
                addresses: made(ready)?,
                not_ready_addresses: made(not_ready)?,
                ports: self.ports.clone(),
            };
            let written = object(service, vec![subset], plan.truncated, Some(existing), inputs.trigger_time);
            plan.writes = Writes { update: vec![written], ..Writes::default() };
        }
        self.planned(changes);
        Some((plan, self))
    }

    /// Removes the address of a pod. None if another pod has it.
    fn remove(&mut self, pod: &Pod, service: &Service) -> Option<()> {
        let Some(ip) = address_of(pod, service) else { return Some(()) };
        let place = Address::new(&ip.to_string().into(), &pod.uid, &pod.key.name);
        let removed = self.ready.take(&place).or_else(|| self.not_ready.take(&place));
        removed.is_none_or(|removed| removed.name == pod.key.name).then_some(())
    }

    /// Makes those addresses that the object, which was truncated, did not hold so far, with `make`, by name of the pod.
    fn complete(&mut self, make: impl Fn(&Text) -> Option<EndpointAddress>) -> Option<()> {
        let (ready, not_ready) = self.found();
        let missing: BTreeSet<Address> = ready.into_iter().chain(not_ready).filter_map(Result::err).collect();
        for place in missing {
            // The pod may have changed since.
            let made = make(&place.name).filter(|made| Address::of(made).as_ref() == Some(&place))?;
            self.refresh(place, made);
        }
        Some(())
    }
}

/// Whether a list of addresses differs from the one that the object has. None if it differs in something that is not worth a
/// write, but would be written with one.
fn compare(found: &Found<'_>, list: &[EndpointAddress]) -> Option<bool> {
    if found.len() != list.len() {
        return Some(true);
    }
    let mut equal = true;
    for (found, one) in found.iter().zip(list) {
        let Ok(found) = found else { return Some(true) };
        if std::ptr::eq(*found, one) || *found == one {
            continue;
        }
        if !found.same_but_version(one) {
            return Some(true);
        }
        equal = false;
    }
    equal.then_some(false)
}

fn made(found: Found<'_>) -> Option<Vec<EndpointAddress>> {
    found.into_iter().map(|found| found.ok().cloned()).collect()
}
