//! The path of one pod event through the program, without requests: a Service in the informer's
//! stores, the queue, and the state of its plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt as _;
use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::pod::ReadyCondition;
use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINT_SELECTOR;
use kube_endpoint_core_model::{
    EndpointSelector, EndpointSlice, Endpoints, IpFamily, Node, ObjectKey, Pod, ResourceVersion, Service,
    Text, Timestamp, slice_labels,
};
use kube_endpoint_endpoints_controller as endpoints;
use kube_endpoint_informer::{Cluster, Handler, Kind, PodCursor, PodEvent, StreamEvent};
use kube_endpoint_slice_plan as slices;
use kube_endpoint_tracker::TriggerTime;
use kube_endpoint_workqueue::{WorkQueue, endpoint_slice_rate_limiter};
use serde_json::{Value, json};

use crate::{nodes, pods, service, view};

const WORKLOAD: &str = "web";
/// The number of a Service whose own selector has the label `track`, too, so that pods with other
/// tracks are other label sets.
const CANARY: usize = 1;

/// The size of a namespace.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of Services, including the planned one.
    pub services: usize,
    /// The number of pods of the planned Service.
    pub pods: usize,
    /// The number of pods of the other Services, which get one each in turn.
    pub other_pods: usize,
}

/// The way in which Services select pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selecting {
    /// By selectors of their own.
    Own,
    /// By EndpointSelectors with `matchLabels`.
    Equality,
    /// By EndpointSelectors with `In` and `NotIn`.
    In,
    /// By EndpointSelectors that compare no label with values: with `Exists`.
    Exists,
}

impl Selecting {
    /// Returns the selector of an EndpointSelector for the pods of a workload.
    fn selector(self, workload: &str) -> Value {
        match self {
            Self::Own | Self::Equality => json!({"matchLabels": {"app": workload}}),
            Self::In => json!({"matchExpressions": [
                {"key": "app", "operator": "In", "values": [workload, format!("{workload}-next")]},
                {"key": "track", "operator": "NotIn", "values": ["canary"]},
            ]}),
            // The pods of the planned Service have this label, and no pod has those of the others.
            Self::Exists if workload == WORKLOAD => {
                json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})
            }
            Self::Exists => json!({"matchExpressions": [{"key": workload, "operator": "Exists"}]}),
        }
    }
}

/// The pods that a plan reads.
#[derive(Debug)]
pub enum Pods {
    /// Every pod of the Service.
    All(Vec<Arc<Pod>>),
    /// The pods that have changed since the last plan.
    Changed(Vec<ChangedPod>),
}

/// A Service with up-to-date slices and Endpoints, until a pod changes.
#[derive(Debug)]
pub struct PlannedService {
    cluster: Cluster,
    queue: WorkQueue<ObjectKey>,
    service: Arc<Service>,
    nodes: BTreeMap<Text, Arc<Node>>,
    cursor: Option<PodCursor>,
    trigger_time: TriggerTime,
    slices_state: Option<slices::PlanState>,
    version: u64,
}

/// Queues the Services of each pod that changes, as the controllers do.
struct Queues(WorkQueue<ObjectKey>);

impl Handler for Queues {
    fn on_pod(&self, event: &PodEvent) {
        event.services_to_sync().for_each(|service| self.0.add(service.clone()));
    }
}

impl PlannedService {
    /// Returns a namespace whose Services have no slices and no Endpoints. Callers can plan only
    /// the first Service.
    pub fn without_plans(size: Size) -> Self {
        Self::selecting(size, Selecting::Own)
    }

    /// As [`without_plans`](Self::without_plans), for Services that select pods in another way.
    pub fn selecting(size: Size, selecting: Selecting) -> Self {
        let cluster = Cluster::new([Kind::Pods, Kind::Services, Kind::EndpointSelectors]);
        let name = |number: usize| if number == 0 { WORKLOAD.to_owned() } else { format!("other-{number}") };
        let template = Service {
            cluster_ip: "10.96.0.1".into(),
            ip_families: vec![IpFamily::IPv4],
            ..service(WORKLOAD)
        };
        let is_own = selecting == Selecting::Own;
        let selector = |number: usize| {
            let selector = template.selector.as_ref().map(|it| it.with("app", name(number)));
            if number == CANARY { selector.map(|it| it.with("track", "canary")) } else { selector }
        };
        let service = |number: usize| Service {
            key: ObjectKey { name: name(number).into(), ..template.key.clone() },
            uid: format!("uid-of-{}", name(number)).into(),
            selector: selector(number).filter(|_| is_own || number == CANARY),
            annotations: if is_own || number == CANARY {
                template.annotations.clone()
            } else {
                template.annotations.with(ANNOTATION_ENDPOINT_SELECTOR, name(number))
            },
            ..template.clone()
        };
        if !is_own {
            let selector = |number: usize| -> EndpointSelector {
                view(json!({
                    "metadata": {"name": name(number), "namespace": &*template.key.namespace},
                    "spec": {"selector": selecting.selector(&name(number))},
                }))
            };
            let selectors = (0..size.services).map(selector).collect();
            cluster.apply(StreamEvent::restarted(selectors, ResourceVersion(1)));
        }
        let services = (0..size.services).map(service).collect();
        cluster.apply(StreamEvent::restarted(services, ResourceVersion(1)));
        let of_others = (0..size.other_pods).map(|number| 1 + number % (size.services - 1));
        let owners = (0..size.pods).map(|_| 0).chain(of_others);
        cluster.apply(StreamEvent::restarted(many_pods(owners.map(name)), ResourceVersion(1)));
        let queue = WorkQueue::new("bench", endpoint_slice_rate_limiter());
        cluster.add_handler(Arc::new(Queues(queue.clone())));
        let service = cluster.service(&template.key).expect("the Service was applied");
        Self {
            cluster,
            queue,
            service,
            nodes: nodes().into_iter().map(|node| (node.name.clone(), node)).collect(),
            cursor: None,
            trigger_time: TriggerTime::default(),
            slices_state: None,
            version: 1,
        }
    }

    /// As [`without_plans`](Self::without_plans), then plans the slices and the Endpoints, and
    /// flips some pods.
    pub fn new(size: Size) -> Self {
        let mut planned = Self::without_plans(size);
        planned.complete_slices();
        let created = planned.plan_endpoints();
        planned.store_endpoints(created);
        for number in [1, 2] {
            let flipped = planned.flipped(number);
            planned.apply(flipped);
            let changed = planned.read_changed();
            let slices = planned.plan_slices(&changed);
            planned.store_slices(slices);
        }
        planned
    }

    /// Returns the stores.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Plans the slices until there is nothing to write, and keeps the state.
    pub fn complete_slices(&mut self) {
        let all = self.read_all();
        self.trigger_time(&all);
        let created = self.plan_slices(&all);
        self.store_slices(created);
        let updated = self.plan_slices(&all);
        assert!(updated.is_empty() && self.slices_state.is_some(), "the slices are complete");
    }

    /// Changes the readiness of a pod of the Service, and returns it as the next event of the watch
    /// shows it.
    pub fn flipped(&mut self, number: usize) -> Pod {
        let key = ObjectKey { name: pod_name(number), ..self.service.key.clone() };
        let mut pod = Pod::clone(&self.cluster.pod(&key).expect("the pod is stored"));
        self.version += 1;
        pod.resource_version = ResourceVersion(self.version);
        let last_transition = Timestamp::from_second(1_800_000_000 + self.version as i64).ok();
        pod.ready = Some(ReadyCondition { is_true: !pod.is_ready(), last_transition });
        pod
    }

    /// Returns a new pod, as the next event of the watch shows it. It has the labels of the others,
    /// and a further one if there is one.
    pub fn added(&mut self, label: Option<(&str, &str)>) -> Pod {
        let mut pod = self.flipped(0);
        pod.key.name = format!("{WORKLOAD}-new-{}", self.version).into();
        pod.uid = format!("uid-{}", self.version).into();
        if let Some((key, value)) = label {
            pod.labels = pod.labels.with(key, value);
        }
        pod
    }

    /// Replaces every second pod by one of another name, as half of a rollout does. The next plan
    /// moves endpoints between slices.
    pub fn replace_half(&mut self) {
        let pods = self.cluster.pods_of(&self.service.key);
        for pod in pods.iter().step_by(2) {
            self.cluster.apply(StreamEvent::Deleted(Pod::clone(pod)));
        }
        self.version += 1;
        let added = many_pods((0..2 * pods.len()).map(|_| WORKLOAD.to_owned()));
        for pod in added.into_iter().skip(pods.len()).step_by(2) {
            self.cluster.apply(StreamEvent::Applied(pod));
        }
    }

    /// Applies an event about a pod to the stores, which queues the Service, and takes the Service
    /// from the queue.
    ///
    /// # Panics
    ///
    /// If this does not queue exactly the Service.
    pub fn apply(&mut self, pod: Pod) {
        self.cluster.apply(StreamEvent::Applied(pod));
        let key = self.queue.get().now_or_never().flatten().expect("the change queues the Service");
        assert_eq!(key, self.service.key);
        assert!(self.queue.is_empty(), "the change concerns one Service");
        self.queue.done(&key);
        self.queue.forget(&key);
    }

    /// Reads all pods.
    pub fn read_all(&mut self) -> Pods {
        let (pods, cursor) =
            self.cluster.pods_and_cursor(&self.service.key).expect("the Service has a selector");
        self.cursor = cursor;
        Pods::All(pods)
    }

    /// Reads the pods that have changed since the last call.
    ///
    /// # Panics
    ///
    /// If the Service has too few pods for a log of changes.
    pub fn read_changed(&mut self) -> Pods {
        let cursor = self.cursor.as_ref().expect("the list has a log");
        let changed = self.cluster.changed_pods(&self.service.key, cursor);
        let (changed, cursor) = changed.expect("the log has the change");
        self.cursor = Some(cursor);
        Pods::Changed(changed)
    }

    /// Computes the trigger time.
    pub fn trigger_time(&mut self, pods: &Pods) -> Option<Timestamp> {
        match pods {
            Pods::All(pods) => self.trigger_time.compute(&self.service, pods, None),
            Pods::Changed(pods) => {
                self.trigger_time.compute_changed(&self.service, pods, None).unwrap_or(None)
            }
        }
    }

    /// Reads the stored slices and plans: from all pods, which keeps a state, or from the changed
    /// ones. Returns the slices to write.
    ///
    /// # Panics
    ///
    /// If the state cannot plan the changed pods.
    pub fn plan_slices(&mut self, pods: &Pods) -> Vec<EndpointSlice> {
        let mut existing = self.cluster.slices_of(&self.service.key);
        let options = slices::PlanOptions::default();
        let mut is_planned = slice_labels::planned_by(&options.manager);
        existing.retain(|slice| is_planned(slice));
        let inputs = slices::PlanInputs::new(&self.service, &[], &self.nodes)
            .with_existing_slices(&existing)
            .with_options(&options);
        let (plan, state) = match pods {
            Pods::All(pods) => slices::plan_and_keep(&inputs.with_pods(pods)),
            Pods::Changed(pods) => {
                let state = self.slices_state.take().expect("the last plan left a state");
                let (plan, state) = state.plan(&inputs, pods).expect("one slice changes");
                (plan, Some(state))
            }
        };
        self.slices_state = state;
        let writes = plan.sub_plans.into_iter().map(|sub_plan| sub_plan.writes);
        writes.flat_map(|writes| writes.create.into_iter().chain(writes.update)).collect()
    }

    /// Reads the stored Endpoints and all pods, and plans. Returns the Endpoints to write.
    pub fn plan_endpoints(&self) -> Option<Endpoints> {
        let existing = self.cluster.endpoints(&self.service.key);
        let pods = self.cluster.pods_of(&self.service.key);
        let inputs = endpoints::PlanInputs::new(&self.service, &pods).with_existing(existing.as_deref());
        let plan = endpoints::plan(&inputs);
        plan.writes.create.into_iter().chain(plan.writes.update).next()
    }

    /// Applies the echoes of writes to the stores.
    pub fn store_slices(&mut self, written: Vec<EndpointSlice>) {
        for (number, mut slice) in written.into_iter().enumerate() {
            let metadata = &mut slice.metadata;
            if metadata.name.is_empty() {
                metadata.name = format!("{}{number:05}", metadata.generate_name).into();
                metadata.uid = format!("uid-{number}").into();
            }
            self.version += 1;
            metadata.resource_version = ResourceVersion(self.version);
            metadata.generation += 1;
            self.cluster.apply(StreamEvent::Applied(slice));
        }
    }

    /// Applies the echo of a write to the stores.
    pub fn store_endpoints(&mut self, written: Option<Endpoints>) {
        if let Some(mut written) = written {
            self.version += 1;
            written.metadata.resource_version = ResourceVersion(self.version);
            self.cluster.apply(StreamEvent::Applied(written));
        }
    }
}

fn pod_name(number: usize) -> Text {
    format!("{WORKLOAD}-{number:06}").into()
}

/// Returns one pod for each workload. They differ in name, uid, address and node.
fn many_pods(workloads: impl Iterator<Item = String>) -> Vec<Pod> {
    let template = Pod::clone(&pods(WORKLOAD, 1)[0]);
    let nodes: Vec<Text> = nodes().iter().map(|node| node.name.clone()).collect();
    let pod = |(number, workload): (usize, String)| {
        let [_, high, middle, low] = u32::try_from(number).unwrap_or_default().to_be_bytes();
        let address = std::net::IpAddr::from([10, high, middle, low]);
        let labels = if workload == WORKLOAD {
            template.labels.clone()
        } else {
            template.labels.with("app", workload)
        };
        Pod {
            key: ObjectKey { name: pod_name(number), ..template.key.clone() },
            uid: format!("00000000-0000-4000-8000-{number:012}").into(),
            labels,
            node_name: nodes.get(number % nodes.len()).cloned(),
            pod_ip: Some(address),
            pod_ips: Box::new([address]),
            ..template.clone()
        }
    };
    workloads.enumerate().map(pod).collect()
}
