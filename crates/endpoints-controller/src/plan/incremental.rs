//! A plan from the pods that have changed since the last one. It equals the plan from all pods, except that it has no
//! verdicts. Nothing is sorted: addresses are taken out of sorted lists and put into them, and what does not change is shared with
//! the object before.

use std::sync::Arc;

use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::publish::publish_not_ready;
use kube_endpoint_core_model::{Endpoints, Pod, Service, Text, Writes, address};

use super::address::{address_of, publish};
use super::change::object;
use super::state::{Address, PlanState};
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
        let before = [self.ready.published.clone(), self.not_ready.published.clone()];
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
            if self.ready.contains(&place) || self.not_ready.contains(&place) {
                return None;
            }
            let ready = publish_not_ready || now.is_ready();
            let addresses = if ready { &mut self.ready } else { &mut self.not_ready };
            addresses.insert(place, published.address);
        }
        let (ready, not_ready) = self.counts();
        if ready + not_ready == 0 {
            return None;
        }
        let make =
            |name: &Text| publish(&*pod(name)?, service, publish_not_ready).ok().map(|one| one.address);
        self.ready.publish(ready, make)?;
        self.not_ready.publish(not_ready, make)?;

        let truncated = self.is_truncated();
        let mut plan = Plan { ready, not_ready, truncated, warning: self.warning.clone(), ..Plan::default() };
        let [ready_before, not_ready_before] = before;
        if self.ready.published == ready_before && self.not_ready.published == not_ready_before {
            // What was replaced by its equal is shared with the store again.
            (self.ready.published, self.not_ready.published) = (ready_before, not_ready_before);
            // The annotation tells whether the object is truncated.
            if was_truncated == truncated {
                return Some((plan, self));
            }
        }
        let written = object(service, vec![self.subset()], truncated, Some(existing), inputs.trigger_time);
        plan.writes = Writes { update: vec![written], ..Writes::default() };
        self.planned();
        Some((plan, self))
    }

    /// Removes the address of a pod. None if another pod has it.
    fn remove(&mut self, pod: &Pod, service: &Service) -> Option<()> {
        let Some(ip) = address_of(pod, service) else { return Some(()) };
        let place = Address::new(&address::to_text(ip), &pod.uid, &pod.key.name);
        let removed = self.ready.remove(&place).or_else(|| self.not_ready.remove(&place));
        removed.is_none_or(|removed| removed == pod.key.name).then_some(())
    }
}
