//! A pod, as endpoint controllers see it.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::meta::or_default;
use crate::service::Service;
use crate::{
    Intern, Interner, IpFamily, ObjectKey, ResourceVersion, StringMap, Text, Timestamp, address, text, time,
};

/// The fields of a pod that endpoint controllers read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub key: ObjectKey,
    pub uid: Text,
    /// Version of the object behind this view.
    pub resource_version: ResourceVersion,
    /// Labels, which Services select by.
    pub labels: StringMap,
    /// Set while the pod is being deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// The node that it is bound to.
    pub node_name: Option<Text>,
    pub hostname: Option<Text>,
    pub subdomain: Option<Text>,
    /// True if it is in the network of its node.
    pub host_network: bool,
    /// The ports of all containers, then of all restartable init containers, in order.
    pub ports: ContainerPorts,
    pub phase: PodPhase,
    /// `status.podIP`, or `None` if it is absent or invalid.
    pub pod_ip: Option<IpAddr>,
    /// The valid addresses of `status.podIPs`.
    pub pod_ips: Box<[IpAddr]>,
    /// True if `status.podIP` or `status.podIPs` is set, valid or not.
    pub has_pod_ip: bool,
    pub ready: Option<ReadyCondition>,
    /// The fields that few pods have, or `None` if this pod has none of them.
    pub rare: Option<Box<RareFields>>,
}

/// The fields that few pods have. A pod without them pays one pointer for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RareFields {
    /// An invalid entry of `status.podIPs`.
    pub invalid_pod_ip: Option<Text>,
    /// The conditions whose type has a prefix, as `shop.example/leader` has.
    pub conditions: Box<[PrefixedCondition]>,
    /// When the container started that has run for the longest time, if one has restarted. Init
    /// containers do not count.
    pub started: Option<Timestamp>,
}

impl RareFields {
    /// Returns the fields if the pod has any.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// A condition of a pod whose type has a prefix. Kubernetes leaves such conditions to others, and
/// an EndpointSelector can name one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixedCondition {
    /// The type.
    pub kind: Text,
    /// True if its status is `True`.
    pub is_true: bool,
    /// Time of the last change of the status.
    pub last_transition: Option<Timestamp>,
}

/// The ports of a pod. Pods of the same workload share one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerPorts(pub(crate) Arc<[ContainerPort]>);

impl std::ops::Deref for ContainerPorts {
    type Target = [ContainerPort];

    fn deref(&self) -> &[ContainerPort] {
        &self.0
    }
}

impl FromIterator<ContainerPort> for ContainerPorts {
    fn from_iter<I: IntoIterator<Item = ContainerPort>>(ports: I) -> Self {
        Self(ports.into_iter().collect())
    }
}

/// A port of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPort {
    /// Name, or empty.
    #[serde(default, deserialize_with = "text::or_empty")]
    pub name: Text,
    #[serde(default, deserialize_with = "or_default")]
    pub container_port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(default, deserialize_with = "text::or_empty")]
    pub protocol: Text,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum PodPhase {
    /// Not yet running.
    Pending,
    Running,
    /// All containers exited with success; final.
    Succeeded,
    /// All containers exited, at least one with an error; final.
    Failed,
    /// Unknown, or a phase that this crate does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The `Ready` condition of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyCondition {
    /// True if its status is `True`.
    pub is_true: bool,
    /// Time of the last change of the status.
    pub last_transition: Option<Timestamp>,
}

impl Pod {
    /// Returns true if two views are equal apart from their versions, so that no
    /// controller can tell them apart. Restarts of containers count if the pod is ready.
    pub fn same_for_controllers(&self, other: &Self) -> bool {
        // Without this destructuring, somebody could add a field and forget it here.
        let Self {
            key,
            uid,
            resource_version: _,
            labels,
            deletion_timestamp,
            node_name,
            hostname,
            subdomain,
            host_network,
            ports,
            phase,
            pod_ip,
            pod_ips,
            has_pod_ip,
            ready,
            rare: _,
        } = self;
        (ready, phase, has_pod_ip, pod_ip) == (&other.ready, &other.phase, &other.has_pod_ip, &other.pod_ip)
            && *deletion_timestamp == other.deletion_timestamp
            && *pod_ips == other.pod_ips
            && self.conditions() == other.conditions()
            && self.invalid_pod_ip() == other.invalid_pod_ip()
            && (self.started() == other.started() || !self.is_ready())
            && *key == other.key
            && *uid == other.uid
            && *node_name == other.node_name
            && *ports == other.ports
            && *hostname == other.hostname
            && *subdomain == other.subdomain
            && *host_network == other.host_network
            && *labels == other.labels
    }

    /// Returns true if the `Ready` condition is true (upstream `IsPodReady`).
    pub fn is_ready(&self) -> bool {
        self.ready.is_some_and(|condition| condition.is_true)
    }

    /// Returns the conditions whose type has a prefix.
    pub fn conditions(&self) -> &[PrefixedCondition] {
        self.rare.as_ref().map_or(&[], |rare| &rare.conditions)
    }

    /// Returns the first condition of a type that has a prefix.
    pub fn condition(&self, kind: &str) -> Option<&PrefixedCondition> {
        self.conditions().iter().find(|condition| *condition.kind == *kind)
    }

    /// Returns when the container started that has run for the longest time, if the kubelet has
    /// restarted a container and one runs.
    pub fn started(&self) -> Option<Timestamp> {
        self.rare.as_ref()?.started
    }

    /// Returns an invalid entry of `status.podIPs`, if there is one.
    pub fn invalid_pod_ip(&self) -> Option<&Text> {
        self.rare.as_ref()?.invalid_pod_ip.as_ref()
    }

    /// Returns true if the phase is final (upstream `isPodTerminal`). A pod that is being deleted
    /// is not terminal.
    pub fn is_terminal(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Returns true if the pod is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns the addresses of one family, in order.
    pub fn addresses(&self, family: IpFamily) -> impl Iterator<Item = &IpAddr> {
        self.pod_ips.iter().filter(move |ip| IpFamily::of(ip) == family)
    }

    /// Returns true if an address is one of the pod's.
    pub fn has_ip(&self, address: IpAddr) -> bool {
        self.pod_ip == Some(address) || self.pod_ips.contains(&address)
    }

    /// Returns the hostname to publish for a Service (upstream `ShouldSetHostname`), if the pod's
    /// subdomain is the Service's name.
    pub fn hostname_for(&self, service: &Service) -> Option<&Text> {
        let hostname = self.hostname.as_ref()?;
        let subdomain = self.subdomain.as_deref().unwrap_or_default();
        (*subdomain == *service.key.name && self.key.namespace == service.key.namespace).then_some(hostname)
    }
}

impl Intern for Pod {
    fn intern(&mut self, interner: &mut Interner) {
        interner.text(&mut self.key.namespace);
        interner.map(&mut self.labels);
        interner.optional(&mut self.node_name);
        interner.optional(&mut self.subdomain);
        interner.ports(&mut self.ports);
        for condition in self.rare.iter_mut().flat_map(|rare| &mut rare.conditions) {
            interner.text(&mut condition.kind);
        }
    }
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(RawPod::deserialize(deserializer)?.into())
    }
}

#[derive(Deserialize)]
pub(crate) struct RawPod {
    pub(crate) metadata: RawMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) spec: RawSpec,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: RawStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawMeta {
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) name: Text,
    #[serde(default, deserialize_with = "text::or_empty")]
    pub(crate) namespace: Text,
    #[serde(default, deserialize_with = "text::or_empty")]
    pub(crate) uid: Text,
    #[serde(default)]
    pub(crate) resource_version: ResourceVersion,
    #[serde(default)]
    pub(crate) labels: StringMap,
    #[serde(default, deserialize_with = "time::optional")]
    pub(crate) deletion_timestamp: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawSpec {
    #[serde(deserialize_with = "text::non_empty")]
    pub(crate) node_name: Option<Text>,
    #[serde(deserialize_with = "text::non_empty")]
    pub(crate) hostname: Option<Text>,
    #[serde(deserialize_with = "text::non_empty")]
    pub(crate) subdomain: Option<Text>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) host_network: bool,
    #[serde(deserialize_with = "or_default")]
    pub(crate) containers: Vec<RawContainer>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) init_containers: Vec<RawContainer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawContainer {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<ContainerPort>,
    #[serde(default)]
    pub(crate) restart_policy: Option<RestartPolicy>,
}

#[derive(PartialEq, Deserialize)]
pub(crate) enum RestartPolicy {
    Always,
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawStatus {
    pub(crate) phase: Option<PodPhase>,
    #[serde(rename = "podIP", deserialize_with = "text::non_empty")]
    pub(crate) pod_ip: Option<Text>,
    #[serde(rename = "podIPs", deserialize_with = "or_default")]
    pub(crate) pod_ips: Vec<RawIp>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) conditions: Vec<RawCondition>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) container_statuses: Vec<RawContainerStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawContainerStatus {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) restart_count: i32,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) state: RawContainerState,
}

#[derive(Default, Deserialize)]
pub(crate) struct RawContainerState {
    #[serde(default)]
    pub(crate) running: Option<RawRunning>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawRunning {
    #[serde(default, deserialize_with = "time::optional")]
    pub(crate) started_at: Option<Timestamp>,
}

#[derive(Deserialize)]
pub(crate) struct RawIp {
    #[serde(default, deserialize_with = "text::or_empty")]
    pub(crate) ip: Text,
}

/// A condition of a pod or a node.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawCondition {
    #[serde(rename = "type")]
    pub(crate) kind: ConditionType,
    #[serde(default)]
    pub(crate) status: Option<ConditionStatus>,
    #[serde(default, deserialize_with = "time::optional")]
    pub(crate) last_transition_time: Option<Timestamp>,
}

#[derive(PartialEq)]
pub(crate) enum ConditionType {
    Ready,
    /// A type with a prefix.
    Prefixed(Text),
    Other,
}

impl From<&str> for ConditionType {
    fn from(kind: &str) -> Self {
        match kind {
            "Ready" => Self::Ready,
            kind if kind.contains('/') => Self::Prefixed(kind.into()),
            _ => Self::Other,
        }
    }
}

impl<'de> Deserialize<'de> for ConditionType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = |kind: &str| Ok::<_, std::convert::Infallible>(Self::from(kind));
        Ok(text::through(deserializer, read)?.unwrap_or(Self::Other))
    }
}

#[derive(PartialEq, Deserialize)]
pub(crate) enum ConditionStatus {
    True,
    #[serde(other)]
    Other,
}

/// Returns the first `Ready` condition.
fn ready_condition(conditions: &[RawCondition]) -> Option<ReadyCondition> {
    conditions.iter().find(|condition| condition.kind == ConditionType::Ready).map(|condition| {
        ReadyCondition {
            is_true: condition.status == Some(ConditionStatus::True),
            last_transition: condition.last_transition_time,
        }
    })
}

/// Returns the conditions whose type has a prefix.
fn prefixed_conditions(conditions: Vec<RawCondition>) -> Box<[PrefixedCondition]> {
    let prefixed = conditions.into_iter().filter_map(|condition| match condition.kind {
        ConditionType::Prefixed(kind) => Some(PrefixedCondition {
            kind,
            is_true: condition.status == Some(ConditionStatus::True),
            last_transition: condition.last_transition_time,
        }),
        ConditionType::Ready | ConditionType::Other => None,
    });
    prefixed.collect()
}

impl From<RawPod> for Pod {
    fn from(raw: RawPod) -> Self {
        let RawPod { metadata, spec, status } = raw;
        let sidecars =
            spec.init_containers.into_iter().filter(|c| c.restart_policy == Some(RestartPolicy::Always));
        let ports = spec.containers.into_iter().chain(sidecars).flat_map(|c| c.ports);
        let has_pod_ip = status.pod_ip.is_some() || !status.pod_ips.is_empty();
        let containers = &status.container_statuses;
        let has_restarted = containers.iter().any(|container| container.restart_count > 0);
        let starts = containers.iter().filter_map(|container| container.state.running.as_ref()?.started_at);
        let started = starts.min().filter(|_| has_restarted);
        let mut invalid_pod_ip = None;
        let mut pod_ips = Vec::with_capacity(status.pod_ips.len());
        for RawIp { ip } in status.pod_ips {
            match address::parse_sloppy(&ip) {
                Some(address) => pod_ips.push(address),
                None => invalid_pod_ip = Some(ip),
            }
        }
        Self {
            key: ObjectKey { namespace: metadata.namespace, name: metadata.name },
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            labels: metadata.labels,
            deletion_timestamp: metadata.deletion_timestamp,
            node_name: spec.node_name,
            hostname: spec.hostname,
            subdomain: spec.subdomain,
            host_network: spec.host_network,
            ports: ports.collect(),
            phase: status.phase.unwrap_or_default(),
            pod_ip: status.pod_ip.as_deref().and_then(address::parse_sloppy),
            pod_ips: pod_ips.into(),
            has_pod_ip,
            ready: ready_condition(&status.conditions),
            rare: RareFields { invalid_pod_ip, conditions: prefixed_conditions(status.conditions), started }
                .boxed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn reads_what_controllers_need_and_skips_the_rest() {
        let pod = pod(json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"},
                "annotations": {"note": "skipped"}, "managedFields": [{"fieldsV1": {"f:x": {}}}]},
            "spec": {"nodeName": "node", "hostname": "h", "subdomain": "s", "hostNetwork": true, "volumes": [{"name": "v"}],
                "containers": [{"name": "c", "env": [{"name": "x"}],
                    "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}]}],
                "initContainers": [
                    {"name": "once", "ports": [{"name": "no", "containerPort": 1, "protocol": "TCP"}]},
                    {"name": "side", "restartPolicy": "Always",
                     "ports": [{"name": "admin", "containerPort": 9, "protocol": "UDP"}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.01"}, {"ip": "FD00::1"}, {"ip": "x"}],
                "conditions": [{"type": "Initialized", "status": "True"},
                    {"type": "shop.example/leader", "status": "True", "lastTransitionTime": "2024-01-02T00:00:00Z"},
                    {"type": "shop.example/warm", "status": "Unknown"},
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}]}
        }));
        insta::assert_debug_snapshot!(pod);
    }

    #[test]
    fn nulls_and_absent_parts_are_empty() {
        let sparse = pod(json!({"metadata": {"name": "p", "namespace": "n"}}));
        let nulls = pod(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": null, "labels": null, "deletionTimestamp": null},
            "spec": {"nodeName": null, "containers": null, "initContainers": null, "hostname": ""},
            "status": {"phase": null, "podIP": null, "podIPs": null, "conditions": null}
        }));
        assert_eq!(sparse, nulls);
        assert_eq!(
            pod(json!({"metadata": {"name": "p", "namespace": "n"}, "spec": null, "status": null})),
            sparse
        );
        assert!(!sparse.has_pod_ip && !sparse.is_ready() && !sparse.is_terminal());
    }

    #[test]
    fn unknown_words_are_not_errors() {
        let pod = pod(json!({"metadata": {"name": "p"}, "status": {"phase": "Paused", "conditions": [
            {"type": "Brand/New", "status": "Maybe"}, {"type": "Ready", "status": "Unknown"}]}}));
        assert_eq!(pod.phase, PodPhase::Unknown);
        assert!(!pod.is_ready());
    }

    #[test]
    fn a_pod_is_ready_by_its_condition_and_terminal_by_its_phase() {
        let check = |status: serde_json::Value, ready: bool, terminal: bool| {
            let pod = pod(json!({"metadata": {"name": "p"}, "status": &status}));
            assert_eq!((pod.is_ready(), pod.is_terminal()), (ready, terminal), "{status}");
        };
        check(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), true, false);
        check(
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}),
            false,
            false,
        );
        check(
            json!({"phase": "Running", "conditions": [{"type": "ContainersReady", "status": "True"}]}),
            false,
            false,
        );
        check(json!({"phase": "Running", "conditions": [{"type": "Ready"}]}), false, false);
        // Readiness and phase are independent.
        check(json!({"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "True"}]}), true, true);
        check(json!({"phase": "Failed"}), false, true);
        check(json!({"phase": "Pending"}), false, false);
        check(json!({"phase": "Unknown"}), false, false);
    }

    #[test]
    fn a_hostname_is_published_for_the_service_named_as_the_subdomain() {
        let check = |hostname: &str, subdomain: &str, service: (&str, &str), want: bool| {
            let pod = Pod {
                key: ObjectKey::new("n", "p"),
                hostname: (!hostname.is_empty()).then(|| hostname.into()),
                subdomain: (!subdomain.is_empty()).then(|| subdomain.into()),
                ..Pod::default()
            };
            let service = Service { key: ObjectKey::new(service.0, service.1), ..Service::default() };
            assert_eq!(pod.hostname_for(&service).is_some(), want);
        };
        check("h", "web", ("n", "web"), true);
        check("", "web", ("n", "web"), false);
        check("h", "", ("n", "web"), false);
        check("h", "other", ("n", "web"), false);
        check("h", "web", ("m", "web"), false);
    }

    /// A store holds a view in an [`Arc`](std::sync::Arc), which adds two counters. Allocators
    /// round the sum up to 224 bytes.
    #[test]
    fn a_view_fits_into_224_bytes() {
        assert!(size_of::<Pod>() + 2 * size_of::<usize>() + size_of::<usize>() <= 224);
    }
}
