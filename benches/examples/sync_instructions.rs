//! Syncs of one Service after one of its pods became ready or unready, to be run under a tool that counts instructions:
//!
//! ```sh
//! cargo build --release -p kube-endpoint-benches --example sync_instructions
//! for rounds in 2 12; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/sync_instructions slices full 1000 $rounds
//! done
//! ```
//!
//! The arguments are a step, `full` or `incremental`, the number of pods and a number of rounds; each round flips another pod.
//! The difference of two runs, divided by the difference of the rounds, is the cost of one flip. Steps: `membership` applies
//! the event to the store and reads the pods of the Service, `trigger-time` computes the time to publish, `slices` and
//! `endpoints` plan, `encode-slices` and `encode-endpoints` also encode the planned object. Each step includes `membership`.
//!
//! The memory that the states take is the difference between the two modes in the last `mem_heap_B` of
//! `valgrind --tool=massif target/release/examples/sync_instructions membership MODE 10000 0`.

#![allow(clippy::print_stdout, reason = "this is its output")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use kube_endpoint_benches::{nodes, pods, service};
use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::pod::ReadyCondition;
use kube_endpoint_core_model::protobuf::ObjectToWrite;
use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, IpFamily, Node, ObjectKey, Pod, ResourceVersion, Service, Text, Timestamp,
};
use kube_endpoint_endpoints_controller as endpoints;
use kube_endpoint_endpointslice_controller as slices;
use kube_endpoint_informer::{Cluster, Kind, PodCursor, StreamEvent};
use kube_endpoint_tracker::TriggerTime;

const WORKLOAD: &str = "web";

/// Pods that differ in name, uid, address and node from one that was decoded.
fn many_pods(count: usize) -> Vec<Pod> {
    let template = Pod::clone(&pods(WORKLOAD, 1)[0]);
    let nodes: Vec<Text> = nodes().iter().map(|node| node.name.clone()).collect();
    let pod = |number: usize| {
        let [_, high, middle, low] = u32::try_from(number).unwrap_or_default().to_be_bytes();
        let address = std::net::IpAddr::from([10, high, middle, low]);
        Pod {
            key: ObjectKey { name: format!("{WORKLOAD}-{number:06}").into(), ..template.key.clone() },
            uid: format!("00000000-0000-4000-8000-{number:012}").into(),
            node_name: nodes.get(number % nodes.len()).cloned(),
            pod_ip: Some(address),
            pod_ips: Box::new([address]),
            ..template.clone()
        }
    };
    (0..count).map(pod).collect()
}

/// What a sync reads of the pods.
enum Pods {
    All(Vec<Arc<Pod>>),
    Changed(Vec<ChangedPod>),
}

struct Bed {
    cluster: Cluster,
    service: Arc<Service>,
    nodes: BTreeMap<Text, Arc<Node>>,
    pods: Vec<Pod>,
    cursor: Option<PodCursor>,
    trigger_time: TriggerTime,
    slices: Vec<Arc<EndpointSlice>>,
    slices_state: Option<slices::PlanState>,
    endpoints: Option<Arc<Endpoints>>,
    endpoints_state: Option<endpoints::PlanState>,
    incremental: bool,
    version: u64,
}

impl Bed {
    /// A Service with its slices and Endpoints, and the states of the plans that found nothing to write.
    fn new(count: usize, incremental: bool) -> Self {
        let pods = many_pods(count);
        let cluster = Cluster::new([Kind::Pods, Kind::Services]);
        let service = Service {
            cluster_ip: "10.96.0.1".into(),
            ip_families: vec![IpFamily::IPv4],
            ..service(WORKLOAD)
        };
        let key = service.key.clone();
        cluster.apply_services(StreamEvent::restarted(vec![service], ResourceVersion(1)));
        cluster.apply_pods(StreamEvent::restarted(pods.clone(), ResourceVersion(1)));
        let service = cluster.service(&key).expect("the Service was applied");
        let (all, cursor) = cluster.pods_and_cursor(&service.key);
        let mut bed = Self {
            cluster,
            service,
            nodes: nodes().into_iter().map(|node| (node.name.clone(), node)).collect(),
            pods,
            cursor,
            trigger_time: TriggerTime::default(),
            slices: Vec::new(),
            slices_state: None,
            endpoints: None,
            endpoints_state: None,
            incremental,
            version: 1,
        };
        bed.trigger_time.compute(&bed.service, &all);
        let all = Pods::All(all);
        for _ in 0..2 {
            bed.plan_slices(&all, false);
            bed.plan_endpoints(&all, false);
        }
        bed
    }

    /// Flips a pod, and reads the pods of the Service.
    fn flip(&mut self, number: usize) -> Pods {
        let pod = &mut self.pods[number];
        let is_true = !pod.is_ready();
        self.version += 1;
        pod.resource_version = ResourceVersion(self.version);
        let last_transition = Timestamp::from_second(1_800_000_000 + self.version as i64).ok();
        pod.ready = Some(ReadyCondition { is_true, last_transition });
        self.cluster.apply_pods(StreamEvent::Applied(pod.clone()));
        let service = &self.service.key;
        if !self.incremental {
            return Pods::All(self.cluster.pods_of(service));
        }
        let cursor = self.cursor.as_ref().expect("the list has a log");
        let (changed, cursor) = self.cluster.changed_pods(service, cursor).expect("the log has the change");
        self.cursor = Some(cursor);
        Pods::Changed(changed)
    }

    fn trigger_time(&mut self, pods: &Pods) -> usize {
        let time = match pods {
            Pods::All(pods) => self.trigger_time.compute(&self.service, pods),
            Pods::Changed(pods) => self.trigger_time.compute_changed(&self.service, pods).flatten(),
        };
        usize::from(time.is_some())
    }

    fn plan_slices(&mut self, pods: &Pods, encode: bool) -> usize {
        let inputs =
            slices::PlanInputs::new(&self.service, &[], &self.nodes).with_existing_slices(&self.slices);
        let plan = match pods {
            Pods::All(pods) => {
                let inputs = inputs.with_pods(pods);
                if !self.incremental {
                    slices::plan(&inputs)
                } else {
                    let (plan, state) = slices::plan_and_keep(&inputs);
                    self.slices_state = state;
                    plan
                }
            }
            Pods::Changed(pods) => {
                let state = self.slices_state.take().expect("the last plan left a state");
                let (plan, state) = state.plan(&inputs, pods).expect("one slice changes");
                self.slices_state = Some(state);
                plan
            }
        };
        let mut written = 0;
        for writes in plan.sub_plans.into_iter().map(|sub_plan| sub_plan.writes) {
            for (number, mut slice) in writes.create.into_iter().enumerate() {
                slice.metadata.name = format!("{}{number:05}", slice.metadata.generate_name).into();
                self.slices.push(Arc::new(slice));
                written += 1;
            }
            for slice in writes.update {
                if encode {
                    black_box(slice.to_protobuf());
                }
                let found = self.slices.binary_search_by(|old| old.metadata.name.cmp(&slice.metadata.name));
                self.slices[found.expect("an update replaces something")] = Arc::new(slice);
                written += 1;
            }
        }
        written
    }

    fn plan_endpoints(&mut self, pods: &Pods, encode: bool) -> usize {
        let inputs = endpoints::PlanInputs::new(&self.service, &[]);
        let existing = self.endpoints.as_ref();
        let plan = match pods {
            Pods::All(pods) => {
                let inputs = inputs.with_pods(pods);
                if !self.incremental {
                    endpoints::plan::plan(&inputs.with_existing(existing.map(Arc::as_ref)))
                } else {
                    let (plan, state) = endpoints::plan_and_keep(&inputs, existing);
                    self.endpoints_state = state;
                    plan
                }
            }
            Pods::Changed(pods) => {
                let state = self.endpoints_state.take().expect("the last plan left a state");
                let namespace = &self.service.key.namespace;
                let pod = |name: &Text| {
                    self.cluster.pod(&ObjectKey { namespace: namespace.clone(), name: name.clone() })
                };
                let (plan, state) = state.plan(&inputs, existing, pods, pod).expect("one address changes");
                self.endpoints_state = Some(state);
                plan
            }
        };
        let Some(mut written) = plan.writes.create.into_iter().chain(plan.writes.update).next() else {
            return 0;
        };
        if encode {
            black_box(written.to_protobuf());
        }
        self.version += 1;
        written.metadata.resource_version = ResourceVersion(self.version);
        self.endpoints = Some(Arc::new(written));
        1
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [step, mode, count, rounds] = &arguments[..] else { panic!("expected STEP MODE PODS ROUNDS") };
    let count: usize = count.parse().expect("PODS is a number");
    let rounds: usize = rounds.parse().expect("ROUNDS is a number");
    let incremental = match mode.as_str() {
        "full" => false,
        "incremental" => true,
        other => panic!("{other:?} is no mode"),
    };
    let mut bed = Bed::new(count, incremental);
    let mut done = 0;
    for round in 0..rounds {
        // Among the first addresses, so that the flip changes Endpoints that hold no more than a thousand.
        let pods = bed.flip(round * 37 % count.min(500));
        done += match step.as_str() {
            "membership" => usize::from(!matches!(&pods, Pods::All(pods) if pods.is_empty())),
            "trigger-time" => bed.trigger_time(&pods),
            "slices" => bed.plan_slices(&pods, false),
            "encode-slices" => bed.plan_slices(&pods, true),
            "endpoints" => bed.plan_endpoints(&pods, false),
            "encode-endpoints" => bed.plan_endpoints(&pods, true),
            other => panic!("{other:?} is no step"),
        };
        black_box(pods);
    }
    assert_eq!(done, rounds, "each flip is one write");
    println!("{rounds} rounds");
    // What it holds is what the last snapshot of a heap profiler shows.
    std::mem::forget(bed);
}
