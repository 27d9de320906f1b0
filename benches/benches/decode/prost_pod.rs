//! The other shape of a decoder of pods: messages derived with prost that hold only the fields of
//! the view.

use std::collections::BTreeMap;

use kube_endpoint_core_model::pod::{ContainerPort, PodPhase, ReadyCondition};
use kube_endpoint_core_model::{Intern, Interner, ObjectKey, Pod, Timestamp, address};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct RawPod {
    #[prost(message, required, tag = "1")]
    metadata: RawMeta,
    #[prost(message, required, tag = "2")]
    spec: RawSpec,
    #[prost(message, required, tag = "3")]
    status: RawStatus,
}

#[derive(Clone, PartialEq, Message)]
struct RawMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "9")]
    deletion_timestamp: Option<RawTime>,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct RawTime {
    #[prost(int64, optional, tag = "1")]
    seconds: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct RawSpec {
    #[prost(message, repeated, tag = "2")]
    containers: Vec<RawContainer>,
    #[prost(string, tag = "10")]
    node_name: String,
    #[prost(string, tag = "16")]
    hostname: String,
    #[prost(string, tag = "17")]
    subdomain: String,
    #[prost(message, repeated, tag = "20")]
    init_containers: Vec<RawContainer>,
}

#[derive(Clone, PartialEq, Message)]
struct RawContainer {
    #[prost(message, repeated, tag = "6")]
    ports: Vec<RawPort>,
    #[prost(string, tag = "24")]
    restart_policy: String,
}

#[derive(Clone, PartialEq, Message)]
struct RawPort {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, tag = "3")]
    container_port: i32,
    #[prost(string, tag = "4")]
    protocol: String,
}

#[derive(Clone, PartialEq, Message)]
struct RawStatus {
    #[prost(string, tag = "1")]
    phase: String,
    #[prost(message, repeated, tag = "2")]
    conditions: Vec<RawCondition>,
    #[prost(string, tag = "6")]
    pod_ip: String,
    #[prost(message, repeated, tag = "12")]
    pod_ips: Vec<RawIp>,
}

#[derive(Clone, PartialEq, Message)]
struct RawCondition {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    status: String,
    #[prost(message, optional, tag = "4")]
    last_transition: Option<RawTime>,
}

#[derive(Clone, PartialEq, Message)]
struct RawIp {
    #[prost(string, tag = "1")]
    ip: String,
}

fn time(time: Option<RawTime>) -> Option<Timestamp> {
    time?.seconds.and_then(|seconds| Timestamp::from_second(seconds).ok())
}

/// Decodes a pod and makes its view. It drops invalid addresses: the benchmark compares only the
/// cost.
pub(crate) fn view(item: &[u8], interner: &mut Interner) -> Pod {
    let RawPod { metadata, spec, status } = RawPod::decode(item).expect("a recorded pod can be decoded");
    let optional = |text: String| (!text.is_empty()).then(|| text.into());
    let sidecars = spec.init_containers.into_iter().filter(|container| container.restart_policy == "Always");
    let ports = spec.containers.into_iter().chain(sidecars).flat_map(|container| container.ports);
    let ports = ports.map(|port| ContainerPort {
        name: port.name.into(),
        container_port: port.container_port,
        protocol: port.protocol.into(),
    });
    let ready = status.conditions.into_iter().find(|condition| condition.kind == "Ready");
    let mut pod = Pod {
        key: ObjectKey::new(metadata.namespace, metadata.name),
        uid: metadata.uid.into(),
        resource_version: metadata.resource_version.parse().expect("a recorded version is a number"),
        labels: metadata.labels.into_iter().collect(),
        deletion_timestamp: time(metadata.deletion_timestamp),
        node_name: optional(spec.node_name),
        hostname: optional(spec.hostname),
        subdomain: optional(spec.subdomain),
        host_network: false,
        ports: ports.collect(),
        phase: if status.phase == "Running" { PodPhase::Running } else { PodPhase::Unknown },
        pod_ip: address::parse_sloppy(&status.pod_ip),
        has_pod_ip: !status.pod_ip.is_empty() || !status.pod_ips.is_empty(),
        pod_ips: status.pod_ips.iter().filter_map(|it| address::parse_sloppy(&it.ip)).collect(),
        ready: ready.map(|condition| ReadyCondition {
            is_true: condition.status == "True",
            last_transition: time(condition.last_transition),
        }),
        owner: Default::default(),
        rare: None,
    };
    pod.intern(interner);
    pod
}
