//! A cluster in the informer's stores, decoded and applied as reflectors do: nodes, Services, pods,
//! and the EndpointSlices and Endpoints that controllers write for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::protobuf::{Encoded, Envelope, FromProtobuf, ObjectToWrite};
use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, Interner, Node, ObjectKey, ObjectMeta, Pod, ResourceVersion, Service, Text,
    Timestamp,
};
use kube_endpoint_endpoints_controller as endpoints;
use kube_endpoint_informer::{Cluster, Kind, Object, StreamEvent};
use kube_endpoint_slice_plan as slices;
use prost::Message;
use serde_json::json;

/// The numbers of objects, and their variety.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) pods: usize,
    pub(crate) services: usize,
    pub(crate) nodes: usize,
    pub(crate) namespaces: usize,
    /// True if each pod has labels of its own, as the pods of a StatefulSet have.
    pub(crate) unique_labels: bool,
}

/// The stores, and the state that the reflectors keep beside them.
pub(crate) struct Filled {
    cluster: Cluster,
    interners: Vec<Interner>,
}

macro_rules! message {
    ($name:ident { $($field:ident: $kind:ty = ($($attributes:tt)*)),* $(,)? }) => {
        #[derive(Clone, PartialEq, Message)]
        struct $name {
            $(#[prost($($attributes)*)] $field: $kind,)*
        }
    };
}

// The fields of a pod that its view has.
message!(PodMessage {
    metadata: Option<Metadata> = (message, optional, tag = "1"),
    spec: Option<Spec> = (message, optional, tag = "2"),
    status: Option<Status> = (message, optional, tag = "3"),
});
message!(Metadata {
    name: String = (string, tag = "1"),
    namespace: String = (string, tag = "3"),
    uid: String = (string, tag = "5"),
    resource_version: String = (string, tag = "6"),
    labels: BTreeMap<String, String> = (btree_map = "string, string", tag = "11"),
});
message!(Spec {
    containers: Vec<Container> = (message, repeated, tag = "2"),
    node_name: String = (string, tag = "10"),
});
message!(Container { ports: Vec<Port> = (message, repeated, tag = "6") });
message!(Port {
    name: String = (string, tag = "1"),
    container_port: i32 = (int32, tag = "3"),
    protocol: String = (string, tag = "4"),
});
message!(Status {
    phase: String = (string, tag = "1"),
    conditions: Vec<Condition> = (message, repeated, tag = "2"),
    pod_ip: String = (string, tag = "6"),
    pod_ips: Vec<PodIp> = (message, repeated, tag = "12"),
});
message!(Condition {
    kind: String = (string, tag = "1"),
    status: String = (string, tag = "2"),
    last_transition: Option<Time> = (message, optional, tag = "4"),
});
message!(Time { seconds: i64 = (int64, tag = "1") });
message!(PodIp { ip: String = (string, tag = "1") });

impl Size {
    fn namespace(&self, service: usize) -> String {
        format!("namespace-{:03}", service % self.namespaces)
    }

    fn node(&self, number: usize) -> Node {
        let name = format!("ip-10-0-{}-{}.compute.internal", number / 256, number % 256);
        view(json!({
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": format!("zone-{}", number % 3)}},
            "status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }))
    }

    fn service(&self, number: usize) -> Service {
        let name = workload(number);
        view(json!({
            "metadata": {"name": name, "namespace": self.namespace(number), "uid": uid(1, number), "resourceVersion": "7",
                "labels": {"app.kubernetes.io/name": name}},
            "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"],
                "selector": {"app.kubernetes.io/name": name},
                "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}]},
        }))
    }

    fn pod(&self, number: usize) -> PodMessage {
        let service = number % self.services;
        let workload = workload(service);
        let mut labels = BTreeMap::from([("app.kubernetes.io/name".to_owned(), workload.clone())]);
        let name = if self.unique_labels {
            let index = number / self.services;
            let name = format!("{workload}-{index}");
            labels.insert("apps.kubernetes.io/pod-index".to_owned(), index.to_string());
            labels.insert("controller-revision-hash".to_owned(), format!("{workload}-6b75c47d54"));
            labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.clone());
            name
        } else {
            labels.insert("pod-template-hash".to_owned(), "6b75c47d54".to_owned());
            format!("{workload}-6b75c47d54-{number:05x}")
        };
        let ip = format!("10.{}.{}.{}", 1 + number / 65_536, number / 256 % 256, number % 256);
        let ready = Condition {
            kind: "Ready".to_owned(),
            status: "True".to_owned(),
            last_transition: Some(Time { seconds: 1_800_000_000 }),
        };
        let port = Port { name: "http".to_owned(), container_port: 8080, protocol: "TCP".to_owned() };
        PodMessage {
            metadata: Some(Metadata {
                name,
                namespace: self.namespace(service),
                uid: uid(2, number),
                resource_version: (number + 1).to_string(),
                labels,
            }),
            spec: Some(Spec {
                containers: vec![Container { ports: vec![port] }],
                node_name: self.node(number % self.nodes).name.to_string(),
            }),
            status: Some(Status {
                phase: "Running".to_owned(),
                conditions: vec![ready],
                pod_ip: ip.clone(),
                pod_ips: vec![PodIp { ip }],
            }),
        }
    }
}

/// Fills the stores, kind by kind.
pub(crate) fn fill(size: Size) -> Filled {
    let cluster = Cluster::new(Kind::ALL);
    let version = ResourceVersion(1_000_000);
    let mut interners = Vec::new();
    let nodes: Vec<Node> = (0..size.nodes).map(|number| size.node(number)).collect();
    cluster.apply(StreamEvent::restarted(nodes, version));
    let services: Vec<Service> = (0..size.services).map(|number| size.service(number)).collect();
    cluster.apply(StreamEvent::restarted(services, version));

    let mut interner = Interner::default();
    let pods = (0..size.pods).map(|number| size.pod(number).encode_to_vec());
    let pods: Vec<Pod> = pods.map(|bytes| decoded(&bytes, &mut interner)).collect();
    cluster.apply(StreamEvent::restarted(pods, version));
    interners.push(interner);

    let nodes: BTreeMap<Text, Arc<Node>> =
        cluster.nodes().into_iter().map(|node| (node.name.clone(), node)).collect();
    let plan = |key: &ObjectKey| {
        let (service, pods) = (cluster.service(key).expect("it was applied"), cluster.pods_of(key));
        let planned = slices::plan(&slices::PlanInputs::new(&service, &pods, &nodes));
        planned.sub_plans.into_iter().flat_map(|plan| plan.writes.create).collect()
    };
    interners.push(write(&cluster, plan, |slice: &mut EndpointSlice| &mut slice.metadata));

    let plan = |key: &ObjectKey| {
        let (service, pods) = (cluster.service(key).expect("it was applied"), cluster.pods_of(key));
        endpoints::plan::plan(&endpoints::PlanInputs::new(&service, &pods)).writes.create
    };
    interners.push(write(&cluster, plan, |endpoints: &mut Endpoints| &mut endpoints.metadata));
    Filled { cluster, interners }
}

impl Filled {
    /// Returns the numbers of objects, and of strings, maps and lists that the reflectors share.
    pub(crate) fn describe(&self) -> String {
        let counts = Kind::ALL.map(|kind| format!("{} {}", self.cluster.count(kind), kind.name()));
        let parts: usize = self.interners.iter().map(Interner::len).sum();
        format!("{}, {parts} shared parts", counts.join(", "))
    }
}

/// Applies the planned objects of all Services as the list that the server then answers.
fn write<T: Object + ObjectToWrite>(
    cluster: &Cluster,
    plan: impl Fn(&ObjectKey) -> Vec<T>,
    metadata: impl Fn(&mut T) -> &mut ObjectMeta,
) -> Interner {
    let mut interner = Interner::default();
    let mut items: Vec<T> = Vec::new();
    for service in cluster.services() {
        for mut object in plan(&service) {
            let number = items.len();
            let metadata = metadata(&mut object);
            if metadata.name.is_empty() {
                metadata.name = format!("{}{number:05}", metadata.generate_name).into();
            }
            metadata.uid = uid(3, number).into();
            metadata.resource_version = ResourceVersion(number as u64 + 1);
            metadata.creation_timestamp = Some(Timestamp::UNIX_EPOCH);
            let Encoded { body, .. } = object.to_protobuf();
            let mut item: T =
                decoded(Envelope::read(&body).expect("it has an envelope").object, &mut interner);
            item.summarize();
            items.push(item);
        }
    }
    cluster.apply(StreamEvent::restarted(items, ResourceVersion(2_000_000)));
    interner
}

fn decoded<T: FromProtobuf>(bytes: &[u8], interner: &mut Interner) -> T {
    T::from_protobuf(bytes, interner).expect("what is made here can be decoded")
}

fn workload(number: usize) -> String {
    format!("workload-{number:05}")
}

fn uid(kind: usize, number: usize) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

fn view<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_value(json).expect("what is made here can be read")
}
