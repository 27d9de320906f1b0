//! Syncs of one Service after one of its pods became ready or unready, step by step, without a server.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

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

use crate::{nodes, pods, service};

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
#[derive(Debug)]
pub enum Pods {
    /// All that the Service selects.
    All(Vec<Arc<Pod>>),
    /// Those that have changed since the last sync.
    Changed(Vec<ChangedPod>),
}

/// A Service with its pods in a store, and what the last plans left.
pub struct Bed {
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

impl std::fmt::Debug for Bed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Bed").field("pods", &self.pods.len()).finish_non_exhaustive()
    }
}

impl Bed {
    /// A Service with its slices and Endpoints, and the states of the plans that found nothing to write. `incremental` says whether
    /// syncs read the changed pods only.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    pub fn new(count: usize, incremental: bool) -> Self {
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
    ///
    /// # Panics
    ///
    /// If there is no pod of this number.
    pub fn flip(&mut self, number: usize) -> Pods {
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

    /// Computes the time to publish. Returns 1 if there is one.
    pub fn trigger_time(&mut self, pods: &Pods) -> usize {
        let time = match pods {
            Pods::All(pods) => self.trigger_time.compute(&self.service, pods),
            Pods::Changed(pods) => self.trigger_time.compute_changed(&self.service, pods).flatten(),
        };
        usize::from(time.is_some())
    }

    /// Plans the slices, and encodes what is to be written if asked to. Returns the number of slices that are written.
    ///
    /// # Panics
    ///
    /// If the plan is not that of one changed pod.
    pub fn plan_slices(&mut self, pods: &Pods, encode: bool) -> usize {
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

    /// Plans the Endpoints, and encodes them if asked to. Returns 1 if they are written.
    ///
    /// # Panics
    ///
    /// If the plan is not that of one changed pod.
    pub fn plan_endpoints(&mut self, pods: &Pods, encode: bool) -> usize {
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
