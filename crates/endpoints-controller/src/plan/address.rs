//! Decides if a plan publishes a pod, and with which address and ports.

use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointsPort};
use kube_endpoint_core_model::port::find_port;
use kube_endpoint_core_model::service::TargetPort;
use kube_endpoint_core_model::well_known::CLUSTER_IP_NONE;
use kube_endpoint_core_model::{
    IpFamily, LeftOut, ObjectReference, Pod, PodVerdict, Service, Text, Verdict, address,
};

/// A pod that is published.
pub(super) struct Published {
    pub(super) address: EndpointAddress,
    pub(super) ports: Vec<EndpointsPort>,
    /// Names of the Service's ports that the pod lacks.
    pub(super) missing_ports: Vec<Text>,
}

/// Returns the address and the ports of a pod, or why it is not published (upstream
/// `ShouldPodBeInEndpoints`, `podToEndpointAddressForService` and `FindPort`).
pub(super) fn publish(pod: &Pod, service: &Service, publish_not_ready: bool) -> Result<Published, LeftOut> {
    if pod.is_terminal() {
        return Err(LeftOut::Terminal);
    }
    if !pod.has_pod_ip {
        return Err(LeftOut::NoAddress);
    }
    if pod.is_terminating() && !publish_not_ready {
        return Err(LeftOut::Terminating);
    }
    let family = wanted_family(service, pod);
    let Some(ip) = pod.addresses(family).next() else {
        return Err(match pod.invalid_pod_ip() {
            // Upstream publishes the text "<nil>" here, for which the API server refuses the whole
            // object.
            Some(address) => LeftOut::InvalidAddress { address: address.clone() },
            None => LeftOut::NoAddressOfFamily { family },
        });
    };
    let (ports, missing_ports) = ports(pod, service)?;
    let address = EndpointAddress {
        ip: address::to_text(ip),
        hostname: pod.hostname_for(service).cloned().unwrap_or_default(),
        // Upstream writes an empty name for a pod without a node, for which the API server refuses
        // the object.
        node_name: pod.node_name.clone(),
        target_ref: Some(ObjectReference::to_pod(&pod.key, &pod.uid)),
    };
    Ok(Published { address, ports, missing_ports })
}

/// Returns the verdict on a published pod.
pub(super) fn verdict(pod: &Pod, ready: bool, missing_ports: Vec<Text>) -> PodVerdict {
    let (serving, terminating) = (pod.is_ready(), pod.is_terminating());
    PodVerdict {
        pod: pod.key.clone(),
        verdict: Verdict::Published { ready, serving, terminating, missing_ports },
    }
}

/// Returns the one address family of a Service's Endpoints: the first of `spec.ipFamilies`, or else
/// that of the cluster IP. For a headless Service without `spec.ipFamilies` it is that of the pod.
fn wanted_family(service: &Service, pod: &Pod) -> IpFamily {
    if let Some(first) = service.ip_families.first() {
        return *first;
    }
    if service.is_headless() {
        return pod.pod_ip.as_ref().map_or(IpFamily::IPv4, IpFamily::of);
    }
    if address::is_ipv6(&service.cluster_ip) { IpFamily::IPv6 } else { IpFamily::IPv4 }
}

/// Returns the ports that a pod serves, and the names of those that it lacks. Only a headless
/// Service may have no ports.
fn ports(pod: &Pod, service: &Service) -> Result<(Vec<EndpointsPort>, Vec<Text>), LeftOut> {
    let mut found = Vec::with_capacity(service.ports.len());
    let mut missing = Vec::new();
    for port in &service.ports {
        match find_port(pod, port) {
            Some(number) => found.push(EndpointsPort {
                name: port.name.clone(),
                port: number,
                protocol: port.protocol.clone(),
                app_protocol: port.app_protocol.clone(),
            }),
            None => missing.push(port.name.clone()),
        }
    }
    let needs_none = service.ports.is_empty() && *service.cluster_ip == *CLUSTER_IP_NONE;
    if found.is_empty() && !needs_none {
        let wanted = service.ports.iter().filter_map(|port| match &port.target_port {
            TargetPort::Name(name) => Some(name.clone()),
            TargetPort::Number(_) => None,
        });
        return Err(LeftOut::NoPort { wanted: wanted.collect() });
    }
    Ok((found, missing))
}
