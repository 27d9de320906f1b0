//! Target for the plan of slices: histories of a Service whose pods change and whose slices other
//! clients edit.

mod endpoints;
mod history;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arbitrary::{Arbitrary, Unstructured};
use kube_endpoint_core_model::{AddressType, EndpointSlice, Node, Pod, Service, Text, Verdict};
use kube_endpoint_slice_plan::{HintedState, Plan, PlanInputs, TopologyState, plan};

pub use endpoints::plan_endpoints;
use history::{History, Step};

/// Plays a history of up to four steps, and checks the laws of plans after each step.
pub fn plan_slices(bytes: &[u8]) {
    let Ok(history) = History::arbitrary(&mut Unstructured::new(bytes)) else { return };
    let options = history.options();
    let mut slices = Vec::new();
    let mut hinted = HintedState::default();
    for step in &history.steps {
        let step = Step::new(step, std::mem::take(&mut slices), &options);
        let first = step.plan(&step.slices, &hinted);
        slices = step.carried_out(&first);
        step.check(&first, &slices);
        let second = step.plan(&slices, &first.hinted);
        assert!(second.is_empty(), "first\n{first}\nthen\n{second}");
        let mut reversed = step.clone();
        reversed.pods.reverse();
        reversed.nodes.reverse();
        reversed.slices.reverse();
        assert_eq!(reversed.plan(&reversed.slices, &hinted), first, "the order of inputs matters");
        hinted = first.hinted;
    }
}

/// Address type and name of a pod.
type PodAt = (AddressType, Text);

impl Step {
    fn plan(&self, slices: &[Arc<EndpointSlice>], hinted: &HintedState) -> Plan {
        let nodes: BTreeMap<Text, Arc<Node>> =
            self.nodes.iter().map(|node| (node.name.clone(), Arc::new(node.clone()))).collect();
        let topology = TopologyState::from_nodes(&self.nodes, self.options.topology_node_tolerance);
        let inputs = PlanInputs::new(&self.service, &self.pods, &nodes)
            .with_existing_slices(slices)
            .with_options(&self.options)
            .with_topology(&topology)
            .with_hinted(hinted.clone());
        plan(&inputs)
    }

    /// Returns the slices after a plan. Checks that after each single write, every pod is ready
    /// that is ready before and after the plan.
    fn carried_out(&self, plan: &Plan) -> Vec<Arc<EndpointSlice>> {
        let mut slices: BTreeMap<Text, Arc<EndpointSlice>> =
            self.slices.iter().map(|slice| (slice.metadata.name.clone(), Arc::clone(slice))).collect();
        let before = ready(slices.values());
        let mut states = Vec::new();
        for sub_plan in &plan.sub_plans {
            let writes = &sub_plan.writes;
            for created in &writes.create {
                let mut slice = created.clone();
                assert!(slice.metadata.name.is_empty() && slice.metadata.uid.is_empty(), "{plan}");
                let names =
                    (0..).map(|number| Text::from(format!("{}{number:05}", created.metadata.generate_name)));
                slice.metadata.name =
                    names.into_iter().find(|name| !slices.contains_key(name)).unwrap_or_default();
                slice.metadata.uid = slice.metadata.name.clone();
                slices.insert(slice.metadata.name.clone(), Arc::new(slice));
                states.push(ready(slices.values()));
            }
            for updated in &writes.update {
                let old = slices.insert(updated.metadata.name.clone(), Arc::new(updated.clone()));
                let is_version = |old: Arc<EndpointSlice>| {
                    old.metadata.uid == updated.metadata.uid && old.address_type == updated.address_type
                };
                assert!(old.is_some_and(is_version), "{plan}");
                states.push(ready(slices.values()));
            }
            for deleted in &writes.delete {
                assert!(slices.remove(&deleted.metadata.name).is_some(), "{plan}");
                states.push(ready(slices.values()));
            }
        }
        let after = ready(slices.values());
        for (number, state) in states.iter().enumerate() {
            let missing: Vec<_> = before.intersection(&after).filter(|pod| !state.contains(*pod)).collect();
            assert!(missing.is_empty(), "after write {number}, {missing:?} are in no slice:\n{plan}");
        }
        slices.into_values().collect()
    }

    /// Checks that no slice is over the limit, and that the slices publish each wanted endpoint
    /// once.
    fn check(&self, plan: &Plan, slices: &[Arc<EndpointSlice>]) {
        let mut published: BTreeMap<PodAt, usize> = BTreeMap::new();
        for slice in slices {
            assert!(slice.endpoints.len() <= self.options.max_endpoints_per_slice.max(1), "{plan}");
            for target in slice.endpoints.iter().filter_map(|endpoint| endpoint.target_ref.as_ref()) {
                *published.entry((slice.address_type, target.name.clone())).or_default() += 1;
            }
        }
        assert_eq!(published, self.wanted(plan), "{plan}");
        let endpoints: usize = slices.iter().map(|slice| slice.endpoints.len()).sum();
        assert_eq!((plan.endpoints(), plan.slices()), (endpoints, slices.len()), "{plan}");
        assert_eq!(plan.verdicts.len(), self.pods.len());
    }

    fn wanted(&self, plan: &Plan) -> BTreeMap<PodAt, usize> {
        let is_published = |pod: &Pod| {
            let verdict = plan.verdicts.iter().find(|verdict| verdict.pod == pod.key);
            verdict.is_some_and(|one| matches!(one.verdict, Verdict::Published { .. }))
        };
        let of = |service: &Service, pod: &Pod| -> Vec<PodAt> {
            let families = service.slice_families().into_iter();
            let has_address = families.filter(|family| pod.addresses(*family).next().is_some());
            has_address.map(|family| (AddressType::from(family), pod.key.name.clone())).collect()
        };
        let pods = self.pods.iter().filter(|pod| is_published(pod));
        pods.flat_map(|pod| of(&self.service, pod)).map(|at| (at, 1)).collect()
    }
}

fn ready<'a>(slices: impl Iterator<Item = &'a Arc<EndpointSlice>>) -> BTreeSet<PodAt> {
    let of_slice = |slice: &Arc<EndpointSlice>| {
        let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready == Some(true));
        let targets = ready.filter_map(|endpoint| endpoint.target_ref.as_ref());
        targets.map(|target| (slice.address_type, target.name.clone())).collect::<Vec<_>>()
    };
    slices.flat_map(of_slice).collect()
}
