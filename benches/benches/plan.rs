//! Plans the slices of a Service with 5,000 pods: without slices, without changes, and with one changed pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use criterion::Criterion;
use kube_endpoint_benches::{flipped, nodes, pods, read_back, service};
use kube_endpoint_core_model::{EndpointSlice, Node, Pod, ResourceVersion, Service, Text};
use kube_endpoint_endpointslice_controller::{Plan, PlanInputs, TopologyState, plan};

const PODS: usize = 5_000;
const WORKLOAD: &str = "web";

struct Inputs {
    service: Service,
    nodes: BTreeMap<Text, Arc<Node>>,
    topology: TopologyState,
}

impl Inputs {
    fn plan(&self, pods: &[Arc<Pod>], existing_slices: &[Arc<EndpointSlice>]) -> Plan {
        plan(
            &PlanInputs::new(&self.service, pods, &self.nodes)
                .with_existing_slices(existing_slices)
                .with_topology(&self.topology),
        )
    }
}

/// The slices of a plan as the server would store them.
fn carried_out(plan: Plan) -> Vec<Arc<EndpointSlice>> {
    let made = |(number, mut slice): (usize, EndpointSlice)| {
        slice.metadata.name = format!("{}{number:05}", slice.metadata.generate_name).into();
        slice.metadata.uid = format!("uid-{number}").into();
        slice.metadata.resource_version = ResourceVersion(number as u64 + 1);
        slice.metadata.generation = 1;
        slice
    };
    let create = plan.sub_plans.into_iter().flat_map(|sub_plan| sub_plan.writes.create);
    read_back(create.enumerate().map(made).collect())
}

fn plans(criterion: &mut Criterion) {
    let nodes = nodes();
    let inputs = Inputs {
        service: service(WORKLOAD),
        topology: TopologyState::from_nodes(nodes.iter().map(Arc::as_ref), 0.0),
        nodes: nodes.into_iter().map(|node| (node.name.clone(), node)).collect(),
    };
    let pods = pods(WORKLOAD, PODS);
    let slices = carried_out(inputs.plan(&pods, &[]));
    assert_eq!(slices.iter().map(|slice| slice.endpoints.len()).sum::<usize>(), PODS);
    assert!(inputs.plan(&pods, &slices).is_empty());
    let mut one_flipped = pods.clone();
    one_flipped[PODS / 2] = Arc::new(flipped(&pods[PODS / 2], WORKLOAD, PODS / 2, false));
    assert_eq!(inputs.plan(&one_flipped, &slices).write_count(), 1);

    let mut group = criterion.benchmark_group("endpointslice plan, 5,000 pods");
    group.bench_function("cold", |bencher| bencher.iter(|| inputs.plan(&pods, &[])));
    group.bench_function("nothing to do", |bencher| bencher.iter(|| inputs.plan(&pods, &slices)));
    group.bench_function("one pod flipped", |bencher| bencher.iter(|| inputs.plan(&one_flipped, &slices)));
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    plans(&mut criterion);
    criterion.final_summary();
}
