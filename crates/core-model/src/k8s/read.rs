//! From `k8s-openapi`'s types to the views.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::api::discovery::v1 as discoveryv1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as metav1;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::de::IgnoredAny;

use super::ConversionError;
use crate::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use crate::node::{RawAllocatable, RawNode, RawNodeCondition, RawQuantity};
use crate::pod::{
    ConditionStatus, ConditionType, ContainerPort, PodPhase, RawCondition, RawContainer, RawIp, RawMeta,
    RawPod, RestartPolicy,
};
use crate::service::{RawPort, RawService, ServiceType, TargetPort};
use crate::slice::{EndpointConditions, EndpointHints, Hint};
use crate::traffic_policies::{RawIngress, RawLoadBalancer, is_local};
use crate::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Endpoints, IpFamily, Node, ObjectMeta,
    ObjectReference, OwnerReference, Pod, ResourceVersion, Service, StringMap, Text, Timestamp, node, pod,
    service, traffic_policies,
};

impl TryFrom<&corev1::Pod> for Pod {
    type Error = ConversionError;

    fn try_from(object: &corev1::Pod) -> Result<Self, ConversionError> {
        let metadata = raw_meta("Pod", &object.metadata)?;
        let spec = object.spec.as_ref().map(pod_spec).unwrap_or_default();
        let status = object.status.as_ref().map(pod_status).unwrap_or_default();
        Ok(RawPod { metadata, spec, status }.into())
    }
}

fn pod_spec(spec: &corev1::PodSpec) -> pod::RawSpec {
    pod::RawSpec {
        node_name: non_empty(&spec.node_name),
        hostname: non_empty(&spec.hostname),
        subdomain: non_empty(&spec.subdomain),
        host_network: spec.host_network.unwrap_or_default(),
        containers: spec.containers.iter().map(container).collect(),
        init_containers: spec.init_containers.iter().flatten().map(container).collect(),
    }
}

fn container(container: &corev1::Container) -> RawContainer {
    let restart_policy = container.restart_policy.as_deref().map(|policy| match policy {
        "Always" => RestartPolicy::Always,
        _ => RestartPolicy::Other,
    });
    let ports = container.ports.iter().flatten().map(|port| ContainerPort {
        name: or_empty(&port.name),
        container_port: port.container_port,
        protocol: or_empty(&port.protocol),
    });
    RawContainer { ports: ports.collect(), restart_policy }
}

fn pod_status(status: &corev1::PodStatus) -> pod::RawStatus {
    let phase = status.phase.as_deref().map(|phase| match phase {
        "Pending" => PodPhase::Pending,
        "Running" => PodPhase::Running,
        "Succeeded" => PodPhase::Succeeded,
        "Failed" => PodPhase::Failed,
        _ => PodPhase::Unknown,
    });
    let conditions = status.conditions.iter().flatten().map(|condition| {
        raw_condition(&condition.type_, &condition.status, condition.last_transition_time.as_ref())
    });
    let containers = status.container_statuses.iter().flatten();
    pod::RawStatus {
        phase,
        pod_ip: non_empty(&status.pod_ip),
        pod_ips: status.pod_ips.iter().flatten().map(|ip| RawIp { ip: text(&ip.ip) }).collect(),
        conditions: conditions.collect(),
        container_statuses: containers
            .map(|container| pod::RawContainerStatus {
                restart_count: container.restart_count,
                state: container.state.as_ref().map(container_state).unwrap_or_default(),
            })
            .collect(),
    }
}

fn container_state(state: &corev1::ContainerState) -> pod::RawContainerState {
    let running = state.running.as_ref();
    let running = running.map(|running| pod::RawRunning { started_at: time(running.started_at.as_ref()) });
    pod::RawContainerState { running }
}

impl TryFrom<&corev1::Node> for Node {
    type Error = ConversionError;

    fn try_from(object: &corev1::Node) -> Result<Self, ConversionError> {
        let metadata = raw_meta("Node", &object.metadata)?;
        let status = object.status.as_ref().map(node_status).unwrap_or_default();
        Ok(RawNode { metadata, status }.into())
    }
}

fn node_status(status: &corev1::NodeStatus) -> node::RawStatus {
    let cpu = status.allocatable.as_ref().and_then(|allocatable| allocatable.get("cpu"));
    let conditions = status.conditions.iter().flatten().map(|condition| {
        let RawCondition { kind, status, .. } = raw_condition(&condition.type_, &condition.status, None);
        RawNodeCondition { kind, status }
    });
    node::RawStatus {
        conditions: conditions.collect(),
        allocatable: RawAllocatable { cpu: cpu.map(|quantity| RawQuantity::Text(text(&quantity.0))) },
    }
}

fn raw_condition(kind: &str, status: &str, last_transition_time: Option<&metav1::Time>) -> RawCondition {
    RawCondition {
        kind: ConditionType::from(kind),
        status: Some(if status == "True" { ConditionStatus::True } else { ConditionStatus::Other }),
        last_transition_time: time(last_transition_time),
    }
}

impl TryFrom<&corev1::Service> for Service {
    type Error = ConversionError;

    fn try_from(object: &corev1::Service) -> Result<Self, ConversionError> {
        let RawMeta { name, namespace, uid, resource_version, labels, deletion_timestamp, .. } =
            raw_meta("Service", &object.metadata)?;
        let annotations = object.metadata.annotations.iter().flatten();
        let metadata = service::RawMeta {
            namespace,
            uid,
            resource_version,
            creation_timestamp: time(object.metadata.creation_timestamp.as_ref()),
            deletion_timestamp,
            labels,
            annotations: annotations
                .filter(|(key, _)| service::is_read(key))
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
            name,
        };
        let spec = object.spec.as_ref().map(|spec| service_spec(&metadata.name, spec)).transpose()?;
        let status = object.status.as_ref().map(service_status).unwrap_or_default();
        Ok(RawService { metadata, spec: spec.unwrap_or_default(), status }.into())
    }
}

fn service_spec(name: &str, spec: &corev1::ServiceSpec) -> Result<service::RawSpec, ConversionError> {
    let family = |value: &String| match value.as_str() {
        "IPv4" => Ok(IpFamily::IPv4),
        "IPv6" => Ok(IpFamily::IPv6),
        other => Err(ConversionError::UnknownValue {
            kind: "Service",
            name: name.to_owned(),
            field: "spec.ipFamilies",
            value: other.to_owned(),
            expected: "IPv4, IPv6",
        }),
    };
    Ok(service::RawSpec {
        selector: spec.selector.as_ref().map(string_map),
        service_type: spec.type_.as_deref().map(|word| match word {
            "ExternalName" => ServiceType::ExternalName,
            _ => ServiceType::WithEndpoints,
        }),
        cluster_ip: or_empty(&spec.cluster_ip),
        other_cluster_ip: spec.cluster_ips.iter().flatten().nth(1).map(|ip| text(ip)),
        ip_families: spec.ip_families.iter().flatten().map(family).collect::<Result<_, _>>()?,
        ports: spec.ports.iter().flatten().map(service_port).collect(),
        publish_not_ready_addresses: spec.publish_not_ready_addresses.unwrap_or_default(),
        traffic_distribution: non_empty(&spec.traffic_distribution),
        internal_local: spec.internal_traffic_policy.as_deref().is_some_and(is_local),
        external_local: spec.external_traffic_policy.as_deref().is_some_and(is_local),
        health_check_node_port: spec.health_check_node_port.unwrap_or_default(),
        external_ips: spec.external_ips.iter().flatten().map(|_| IgnoredAny).collect(),
    })
}

fn service_status(status: &corev1::ServiceStatus) -> traffic_policies::RawStatus {
    let ingress = status.load_balancer.iter().flat_map(|it| it.ingress.iter().flatten());
    let ingress =
        ingress.map(|it| RawIngress { ip: or_empty(&it.ip), ip_mode: or_empty(&it.ip_mode) }).collect();
    traffic_policies::RawStatus { load_balancer: RawLoadBalancer { ingress } }
}

fn service_port(port: &corev1::ServicePort) -> RawPort {
    RawPort {
        name: or_empty(&port.name),
        protocol: or_empty(&port.protocol),
        port: port.port,
        target_port: match &port.target_port {
            None => TargetPort::default(),
            Some(IntOrString::Int(number)) => TargetPort::Number(*number),
            Some(IntOrString::String(name)) => TargetPort::Name(text(name)),
        },
        app_protocol: optional(&port.app_protocol),
        node_port: port.node_port.unwrap_or_default(),
    }
}

impl TryFrom<&discoveryv1::EndpointSlice> for EndpointSlice {
    type Error = ConversionError;

    fn try_from(object: &discoveryv1::EndpointSlice) -> Result<Self, ConversionError> {
        let address_type = match object.address_type.as_str() {
            "IPv4" => AddressType::IPv4,
            "IPv6" => AddressType::IPv6,
            "FQDN" => AddressType::Fqdn,
            other => {
                return Err(ConversionError::UnknownValue {
                    kind: "EndpointSlice",
                    name: object.metadata.name.clone().unwrap_or_default(),
                    field: "addressType",
                    value: other.to_owned(),
                    expected: "IPv4, IPv6, FQDN",
                });
            }
        };
        let port = |port: &discoveryv1::EndpointPort| EndpointPort {
            name: optional(&port.name),
            protocol: optional(&port.protocol),
            port: port.port,
            app_protocol: optional(&port.app_protocol),
        };
        Ok(Self {
            metadata: object_meta("EndpointSlice", &object.metadata)?,
            address_type,
            // The field is no `Option` before Kubernetes 1.36.
            endpoints: Option::<&Vec<_>>::from(&object.endpoints)
                .into_iter()
                .flatten()
                .map(endpoint)
                .collect(),
            ports: object.ports.iter().flatten().map(port).collect(),
        })
    }
}

fn endpoint(endpoint: &discoveryv1::Endpoint) -> Endpoint {
    let conditions = endpoint.conditions.as_ref().map(|conditions| EndpointConditions {
        ready: conditions.ready,
        serving: conditions.serving,
        terminating: conditions.terminating,
    });
    let hints = endpoint.hints.as_ref().map(|hints| EndpointHints {
        for_zones: hints.for_zones.iter().flatten().map(|zone| Hint { name: text(&zone.name) }).collect(),
        for_nodes: hints.for_nodes.iter().flatten().map(|node| Hint { name: text(&node.name) }).collect(),
    });
    Endpoint {
        addresses: endpoint.addresses.iter().map(|address| text(address)).collect(),
        conditions: conditions.unwrap_or_default(),
        hostname: optional(&endpoint.hostname),
        target_ref: endpoint.target_ref.as_ref().map(object_reference),
        deprecated_topology: optional_map(&endpoint.deprecated_topology),
        node_name: optional(&endpoint.node_name),
        zone: optional(&endpoint.zone),
        hints: hints.map(Box::new),
    }
}

impl TryFrom<&corev1::Endpoints> for Endpoints {
    type Error = ConversionError;

    fn try_from(object: &corev1::Endpoints) -> Result<Self, ConversionError> {
        Ok(Self {
            metadata: object_meta("Endpoints", &object.metadata)?,
            subsets: object.subsets.iter().flatten().map(subset).collect::<Vec<_>>().into(),
        })
    }
}

fn subset(subset: &corev1::EndpointSubset) -> EndpointSubset {
    let address = |address: &corev1::EndpointAddress| EndpointAddress {
        ip: text(&address.ip),
        hostname: or_empty(&address.hostname),
        node_name: optional(&address.node_name),
        target_ref: address.target_ref.as_ref().map(object_reference),
    };
    let port = |port: &corev1::EndpointPort| EndpointsPort {
        name: or_empty(&port.name),
        port: port.port,
        protocol: or_empty(&port.protocol),
        app_protocol: optional(&port.app_protocol),
    };
    EndpointSubset {
        addresses: subset.addresses.iter().flatten().map(address).collect(),
        not_ready_addresses: subset.not_ready_addresses.iter().flatten().map(address).collect(),
        ports: subset.ports.iter().flatten().map(port).collect(),
    }
}

fn raw_meta(kind: &'static str, metadata: &metav1::ObjectMeta) -> Result<RawMeta, ConversionError> {
    Ok(RawMeta {
        name: metadata.name.as_deref().map(text).ok_or(ConversionError::NoName { kind })?,
        namespace: or_empty(&metadata.namespace),
        uid: or_empty(&metadata.uid),
        resource_version: resource_version(kind, metadata)?,
        labels: optional_map(&metadata.labels),
        deletion_timestamp: time(metadata.deletion_timestamp.as_ref()),
    })
}

fn object_meta(kind: &'static str, metadata: &metav1::ObjectMeta) -> Result<ObjectMeta, ConversionError> {
    let owner = |owner: &metav1::OwnerReference| OwnerReference {
        api_version: text(&owner.api_version),
        kind: text(&owner.kind),
        name: text(&owner.name),
        uid: text(&owner.uid),
        controller: owner.controller,
        block_owner_deletion: owner.block_owner_deletion,
    };
    Ok(ObjectMeta {
        name: or_empty(&metadata.name),
        generate_name: or_empty(&metadata.generate_name),
        namespace: or_empty(&metadata.namespace),
        uid: or_empty(&metadata.uid),
        resource_version: resource_version(kind, metadata)?,
        generation: metadata.generation.unwrap_or_default(),
        creation_timestamp: time(metadata.creation_timestamp.as_ref()),
        deletion_timestamp: time(metadata.deletion_timestamp.as_ref()),
        labels: optional_map(&metadata.labels),
        annotations: optional_map(&metadata.annotations),
        owner_references: metadata.owner_references.iter().flatten().map(owner).collect(),
        finalizers: metadata.finalizers.iter().flatten().map(|finalizer| text(finalizer)).collect(),
    })
}

fn resource_version(
    kind: &'static str,
    metadata: &metav1::ObjectMeta,
) -> Result<ResourceVersion, ConversionError> {
    let value = metadata.resource_version.as_deref().unwrap_or_default();
    value.parse().map_err(|_| ConversionError::ResourceVersion {
        kind,
        name: metadata.name.clone().unwrap_or_default(),
        value: value.to_owned(),
    })
}

fn object_reference(reference: &corev1::ObjectReference) -> ObjectReference {
    ObjectReference {
        kind: or_empty(&reference.kind),
        namespace: or_empty(&reference.namespace),
        name: or_empty(&reference.name),
        uid: or_empty(&reference.uid),
        api_version: or_empty(&reference.api_version),
        resource_version: or_empty(&reference.resource_version),
        field_path: or_empty(&reference.field_path),
    }
}

fn string_map(map: &BTreeMap<String, String>) -> StringMap {
    map.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

fn optional_map(map: &Option<BTreeMap<String, String>>) -> StringMap {
    map.as_ref().map(string_map).unwrap_or_default()
}

/// Returns a copy of a string. All empty strings share one value.
fn text(value: &str) -> Text {
    if value.is_empty() { Text::default() } else { Text::from(value) }
}

fn optional(value: &Option<String>) -> Option<Text> {
    value.as_deref().map(text)
}

fn or_empty(value: &Option<String>) -> Text {
    optional(value).unwrap_or_default()
}

fn non_empty(value: &Option<String>) -> Option<Text> {
    optional(value).filter(|value| !value.is_empty())
}

fn time(time: Option<&metav1::Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}
