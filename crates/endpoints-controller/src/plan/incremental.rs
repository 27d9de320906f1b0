//! A plan from the pods that have changed since the last one. It equals the plan from all pods,
//! except that it has only verdicts on the changed pods, and on those that the change moved beyond
//! the capacity or back. It sorts nothing: it takes addresses out of sorted lists and puts others
//! in, and shares unchanged parts with the object before.

use std::sync::Arc;

use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::publish::publish_not_ready;
use kube_endpoint_core_model::{
    Endpoints, LeftOut, ObjectKey, Pod, PodVerdict, Service, Text, Verdict, Writes, address,
};

use super::address::{address_of, publish, verdict};
use super::change::object;
use super::state::{Address, PlanState};
use super::{Plan, PlanInputs};

impl PlanState {
    /// Plans the sync after the one whose plan left this state. `existing` is the Endpoints object.
    /// `changed` are the pods that have changed in between, each once and sorted by name. `pod`
    /// returns one of the other pods by name: a pod beyond the capacity may take the place of
    /// another one. This ignores [`PlanInputs::pods`] and [`PlanInputs::existing`]. The plan and
    /// the returned state are those of [`plan_and_keep`](super::plan_and_keep) with all pods, but
    /// the plan has only verdicts on the changed pods, and on those that the change moved beyond
    /// the capacity or back.
    ///
    /// Returns `None` if the caller has to plan from all pods, because the object or the Service
    /// are not as the state has them, or because the pods now have several sets of ports, no
    /// addresses at all, or twice the same address and uid.
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
        let may_exceed = self.len() + changed.len() > self.options.capacity;
        let mut verdicts = Vec::with_capacity(changed.len());
        // The places of pods that may be beyond the capacity, by index of the verdict.
        let mut places = Vec::new();
        let (publish_not_ready, _) = publish_not_ready(service, inputs.options.tolerate_unready_annotation);
        for ChangedPod { replaced, now, .. } in changed {
            for before in replaced.iter().chain(now) {
                self.remove(before, service)?;
            }
            let Some(now) = now else { continue };
            let published = match publish(now, service, publish_not_ready) {
                Ok(published) => published,
                Err(reason) => {
                    verdicts.push(PodVerdict { pod: now.key.clone(), verdict: Verdict::LeftOut(reason) });
                    continue;
                }
            };
            if published.ports != self.pod_ports {
                return None;
            }
            let place = Address::of(&published.address)?;
            if self.ready.contains(&place) || self.not_ready.contains(&place) {
                return None;
            }
            let ready = publish_not_ready || now.is_ready();
            if may_exceed {
                places.push((verdicts.len(), place.clone()));
            }
            verdicts.push(verdict(now, ready, published.missing_ports));
            let addresses = if ready { &mut self.ready } else { &mut self.not_ready };
            addresses.insert(place, published.address);
        }
        let (ready, not_ready) = self.counts();
        if ready + not_ready == 0 {
            return None;
        }
        let mut moved = Vec::new();
        let mut make = |name: &Text, ready: bool| {
            let pod = pod(name)?;
            let published = publish(&pod, service, publish_not_ready).ok()?;
            // The pod may have changed since.
            if published.ports != self.pod_ports || ready != (publish_not_ready || pod.is_ready()) {
                return None;
            }
            moved.push(verdict(&pod, ready, published.missing_ports));
            Some(published.address)
        };
        let mut beyond = self.ready.publish(ready, |name| make(name, true))?;
        beyond.extend(self.not_ready.publish(not_ready, |name| make(name, false))?);
        let truncated = self.is_truncated();
        if may_exceed {
            for (index, place) in &places {
                if let Some(one) = verdicts.get_mut(*index)
                    && (self.ready.is_beyond(place) || self.not_ready.is_beyond(place))
                {
                    one.verdict = Verdict::LeftOut(LeftOut::OverCapacity);
                }
            }
            moved.extend(beyond.into_iter().map(|name| PodVerdict {
                pod: ObjectKey { namespace: service.key.namespace.clone(), name },
                verdict: Verdict::LeftOut(LeftOut::OverCapacity),
            }));
            let has_changed = |one: &PodVerdict| {
                changed.binary_search_by(|changed| changed.name.cmp(&one.pod.name)).is_ok()
            };
            verdicts.extend(moved.into_iter().filter(|one| !has_changed(one)));
            verdicts.sort_by(|one, two| one.pod.name.cmp(&two.pod.name));
        }

        let warning = self.warning.clone();
        let mut plan = Plan { ready, not_ready, verdicts, truncated, warning, ..Plan::default() };
        let [ready_before, not_ready_before] = before;
        if self.ready.published == ready_before && self.not_ready.published == not_ready_before {
            // Nothing has changed, so the state shares the addresses with the store again.
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

    /// Removes the address of a pod. Returns `None` if another pod has it.
    fn remove(&mut self, pod: &Pod, service: &Service) -> Option<()> {
        let Some(ip) = address_of(pod, service) else { return Some(()) };
        let place = Address::new(&address::to_text(ip), &pod.uid, &pod.key.name);
        let removed = self.ready.remove(&place).or_else(|| self.not_ready.remove(&place));
        removed.is_none_or(|removed| removed == pod.key.name).then_some(())
    }
}
