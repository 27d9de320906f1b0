//! From the views that plans write to `k8s-openapi`'s types.

use k8s_openapi::api::core::v1 as corev1;
use k8s_openapi::api::discovery::v1 as discoveryv1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as metav1;

use crate::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use crate::slice::EndpointHints;
use crate::{
    Endpoint, EndpointPort, EndpointSlice, Endpoints, ObjectMeta, ObjectReference, OwnerReference, StringMap,
    Text,
};

impl From<&EndpointSlice> for discoveryv1::EndpointSlice {
    fn from(slice: &EndpointSlice) -> Self {
        let port = |port: &EndpointPort| discoveryv1::EndpointPort {
            name: optional(&port.name),
            protocol: optional(&port.protocol),
            port: port.port,
            app_protocol: optional(&port.app_protocol),
        };
        Self {
            metadata: object_meta(&slice.metadata),
            address_type: slice.address_type.as_str().to_owned(),
            endpoints: slice.endpoints.iter().map(endpoint).collect::<Vec<_>>().into(),
            ports: Some(slice.ports.iter().map(port).collect()),
        }
    }
}

fn endpoint(endpoint: &Endpoint) -> discoveryv1::Endpoint {
    discoveryv1::Endpoint {
        addresses: endpoint.addresses.iter().map(|address| address.to_string()).collect(),
        conditions: Some(discoveryv1::EndpointConditions {
            ready: endpoint.conditions.ready,
            serving: endpoint.conditions.serving,
            terminating: endpoint.conditions.terminating,
        }),
        deprecated_topology: string_map(&endpoint.deprecated_topology),
        hints: endpoint.hints.as_deref().map(hints),
        hostname: optional(&endpoint.hostname),
        node_name: optional(&endpoint.node_name),
        target_ref: endpoint.target_ref.as_ref().map(object_reference),
        zone: optional(&endpoint.zone),
    }
}

fn hints(hints: &EndpointHints) -> discoveryv1::EndpointHints {
    let zones = hints.for_zones.iter().map(|hint| discoveryv1::ForZone { name: hint.name.to_string() });
    let nodes = hints.for_nodes.iter().map(|hint| discoveryv1::ForNode { name: hint.name.to_string() });
    discoveryv1::EndpointHints {
        for_zones: non_empty_list(zones.collect()),
        for_nodes: non_empty_list(nodes.collect()),
    }
}

impl From<&Endpoints> for corev1::Endpoints {
    fn from(endpoints: &Endpoints) -> Self {
        Self {
            metadata: object_meta(&endpoints.metadata),
            subsets: non_empty_list(endpoints.subsets.listed().into_iter().flatten().map(subset).collect()),
        }
    }
}

fn subset(subset: &EndpointSubset) -> corev1::EndpointSubset {
    let address = |address: &EndpointAddress| corev1::EndpointAddress {
        ip: address.ip.to_string(),
        hostname: non_empty(&address.hostname),
        node_name: optional(&address.node_name),
        target_ref: address.target_ref.as_ref().map(object_reference),
    };
    let port = |port: &EndpointsPort| corev1::EndpointPort {
        name: non_empty(&port.name),
        port: port.port,
        protocol: non_empty(&port.protocol),
        app_protocol: optional(&port.app_protocol),
    };
    corev1::EndpointSubset {
        addresses: non_empty_list(subset.addresses.iter().map(address).collect()),
        not_ready_addresses: non_empty_list(subset.not_ready_addresses.iter().map(address).collect()),
        ports: non_empty_list(subset.ports.iter().map(port).collect()),
    }
}

fn object_meta(metadata: &ObjectMeta) -> metav1::ObjectMeta {
    let owner = |owner: &OwnerReference| metav1::OwnerReference {
        api_version: owner.api_version.to_string(),
        kind: owner.kind.to_string(),
        name: owner.name.to_string(),
        uid: owner.uid.to_string(),
        controller: owner.controller,
        block_owner_deletion: owner.block_owner_deletion,
    };
    let version = metadata.resource_version;
    metav1::ObjectMeta {
        name: non_empty(&metadata.name),
        generate_name: non_empty(&metadata.generate_name),
        namespace: non_empty(&metadata.namespace),
        uid: non_empty(&metadata.uid),
        resource_version: (!version.is_none()).then(|| version.to_string()),
        generation: (metadata.generation != 0).then_some(metadata.generation),
        creation_timestamp: metadata.creation_timestamp.map(metav1::Time),
        deletion_timestamp: metadata.deletion_timestamp.map(metav1::Time),
        labels: string_map(&metadata.labels),
        annotations: string_map(&metadata.annotations),
        owner_references: non_empty_list(metadata.owner_references.iter().map(owner).collect()),
        finalizers: non_empty_list(metadata.finalizers.iter().map(|name| name.to_string()).collect()),
        ..metav1::ObjectMeta::default()
    }
}

fn object_reference(reference: &ObjectReference) -> corev1::ObjectReference {
    corev1::ObjectReference {
        kind: non_empty(&reference.kind),
        namespace: non_empty(&reference.namespace),
        name: non_empty(&reference.name),
        uid: non_empty(&reference.uid),
        api_version: non_empty(&reference.api_version),
        resource_version: non_empty(&reference.resource_version),
        field_path: non_empty(&reference.field_path),
    }
}

fn string_map(map: &StringMap) -> Option<std::collections::BTreeMap<String, String>> {
    let pairs = || map.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    (!map.is_empty()).then(pairs)
}

fn optional(value: &Option<Text>) -> Option<String> {
    value.as_ref().map(|value| value.to_string())
}

fn non_empty(value: &Text) -> Option<String> {
    (!value.is_empty()).then(|| value.to_string())
}

fn non_empty_list<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
