//! Helpers of the plan's tests: a cluster in Kubernetes' JSON form, and a model of the API server
//! that applies plans write by write.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

pub mod build;
pub mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::{
    AddressType, EndpointSlice, Node, Pod, ReadyPods, Service, Text, Timestamp, Writes,
};
use kube_endpoint_slice_plan::{HintedState, Plan, PlanInputs, PlanOptions, TopologyState, plan};
use serde::Deserialize;

/// The inputs of a plan, as owned values.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    pub service: Service,
    #[serde(default)]
    pub nodes: Vec<Node>,
    #[serde(default)]
    pub pods: Vec<Arc<Pod>>,
    #[serde(default)]
    pub existing_slices: Option<Vec<Arc<EndpointSlice>>>,
    #[serde(default)]
    pub trigger_time: Option<Timestamp>,
    #[serde(skip)]
    pub options: PlanOptions,
    #[serde(skip)]
    pub hinted: HintedState,
    #[serde(skip)]
    pub ready_pods: Option<ReadyPods>,
}

impl ClusterState {
    pub fn plan(&self) -> Plan {
        self.with_inputs(plan)
    }

    pub fn with_inputs<T>(&self, plan: impl FnOnce(&PlanInputs<'_>) -> T) -> T {
        let nodes: BTreeMap<Text, Arc<Node>> =
            self.nodes.iter().map(|node| (node.name.clone(), Arc::new(node.clone()))).collect();
        plan(
            &PlanInputs::new(&self.service, &self.pods, &nodes)
                .with_existing_slices(self.existing_slices.as_deref().unwrap_or_default())
                .with_trigger_time(self.trigger_time)
                .with_options(&self.options)
                .with_topology(&TopologyState::from_nodes(&self.nodes))
                .with_ready_pods(self.ready_pods.as_ref())
                .with_hinted(self.hinted.clone()),
        )
    }

    /// Returns the slices after each single write of a plan, as a client that watches sees them.
    pub fn states(&self, plan: &Plan) -> Vec<Vec<Arc<EndpointSlice>>> {
        let mut slices: BTreeMap<Text, Arc<EndpointSlice>> = BTreeMap::new();
        for slice in self.existing_slices.iter().flatten() {
            slices.insert(slice.metadata.name.clone(), Arc::clone(slice));
        }
        let mut states = Vec::new();
        for sub_plan in &plan.sub_plans {
            let of_type = |slice: &EndpointSlice| slice.address_type == sub_plan.address_type;
            assert!(sub_plan.writes.create.iter().chain(&sub_plan.writes.update).all(of_type));
            carry_out(&sub_plan.writes, &mut slices, &mut states);
        }
        states
    }

    /// Returns the cluster after the writes of a plan.
    pub fn after(&self, plan: &Plan) -> Self {
        let mut after = self.clone();
        if let Some(last) = self.states(plan).pop() {
            after.existing_slices = Some(last);
        }
        after.hinted = plan.hinted.clone();
        after
    }
}

/// Returns the writes of all sub-plans of a plan.
pub fn writes(plan: &Plan) -> Writes<EndpointSlice> {
    let mut all = Writes::default();
    for Writes { create, update, delete } in plan.sub_plans.iter().map(|sub_plan| sub_plan.writes.clone()) {
        all.create.extend(create);
        all.update.extend(update);
        all.delete.extend(delete);
    }
    all
}

/// Carries out writes, and records the slices after each.
fn carry_out(
    writes: &Writes<EndpointSlice>,
    slices: &mut BTreeMap<Text, Arc<EndpointSlice>>,
    states: &mut Vec<Vec<Arc<EndpointSlice>>>,
) {
    for slice in &writes.create {
        assert!(slice.metadata.name.is_empty() && !slice.metadata.generate_name.is_empty());
        let mut made = slice.clone();
        let unused = (0..).map(|n| format!("{}{n:05}", slice.metadata.generate_name));
        made.metadata.name = unused.map(Text::from).find(|name| !slices.contains_key(name)).unwrap();
        made.metadata.uid = made.metadata.name.clone();
        slices.insert(made.metadata.name.clone(), Arc::new(made));
        states.push(slices.values().cloned().collect());
    }
    for slice in &writes.update {
        let old = slices.insert(slice.metadata.name.clone(), Arc::new(slice.clone())).unwrap();
        assert_eq!(old.metadata.uid, slice.metadata.uid);
        assert_eq!(old.metadata.resource_version, slice.metadata.resource_version);
        assert_eq!(old.address_type, slice.address_type, "an address type never changes");
        states.push(slices.values().cloned().collect());
    }
    for slice in &writes.delete {
        assert!(slices.remove(&slice.metadata.name).is_some());
        states.push(slices.values().cloned().collect());
    }
}

/// Address type and name of a pod.
pub type PodAt = (AddressType, Text);

/// Counts the endpoints of each pod by address type; with `ready`, only ready ones.
pub fn published(slices: &[Arc<EndpointSlice>], ready: bool) -> BTreeMap<PodAt, usize> {
    let mut published = BTreeMap::new();
    for slice in slices {
        for endpoint in slice.endpoints.iter().filter(|one| !ready || one.conditions.ready == Some(true)) {
            if let Some(target) = &endpoint.target_ref {
                *published.entry((slice.address_type, target.name.clone())).or_default() += 1;
            }
        }
    }
    published
}

/// Returns the first write after which a pod that is ready before and after the sync is ready in no
/// slice, and these pods.
pub fn missed(cluster: &ClusterState, plan: &Plan) -> Option<(usize, Vec<PodAt>)> {
    let states = cluster.states(plan);
    let ready =
        |slices: &[Arc<EndpointSlice>]| -> BTreeSet<PodAt> { published(slices, true).into_keys().collect() };
    let before = ready(cluster.existing_slices.as_deref().unwrap_or_default());
    let stays: BTreeSet<PodAt> = before.intersection(&ready(states.last()?)).cloned().collect();
    let missed = |state: &Vec<Arc<EndpointSlice>>| -> Vec<PodAt> {
        stays.difference(&ready(state)).cloned().collect()
    };
    states.iter().map(missed).enumerate().find(|(_, missed)| !missed.is_empty())
}
