//! One pod: whether it is published, at which address and on which ports.

use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointsPort};
use kube_endpoint_core_model::port::find_port;
use kube_endpoint_core_model::service::TargetPort;
use kube_endpoint_core_model::well_known::CLUSTER_IP_NONE;
use kube_endpoint_core_model::{IpFamily, LeftOut, ObjectReference, Pod, Service, Text, address};

/// How a pod is published.
pub(super) struct Published {
    pub(super) address: EndpointAddress,
    pub(super) ports: Vec<EndpointsPort>,
    /// Names of the Service's ports that the pod lacks.
    pub(super) missing_ports: Vec<Text>,
}

/// Publishes a pod, or says why not. Upstream's `ShouldPodBeInEndpoints`, `podToEndpointAddressForService` and
/// `FindPort` in a row.
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
        return Err(match &pod.invalid_pod_ip {
            // Upstream publishes the text "<nil>" here, which the server refuses along with all other addresses.
            Some(address) => LeftOut::InvalidAddress { address: address.clone() },
            None => LeftOut::NoAddressOfFamily { family },
        });
    };
    let (ports, missing_ports) = ports(pod, service)?;
    let address = EndpointAddress {
        ip: ip.to_string().into(),
        hostname: pod.hostname_for(service).cloned().unwrap_or_default(),
        // Upstream writes an empty name for a pod without a node; the server refuses the object for it.
        node_name: pod.node_name.clone(),
        target_ref: Some(ObjectReference {
            kind: "Pod".into(),
            namespace: pod.key.namespace.clone(),
            name: pod.key.name.clone(),
            uid: pod.uid.clone(),
            ..ObjectReference::default()
        }),
    };
    Ok(Published { address, ports, missing_ports })
}

/// The one family that Endpoints of a Service hold: the first it names; else that of its cluster IP; else, headless,
/// that of the pod.
fn wanted_family(service: &Service, pod: &Pod) -> IpFamily {
    if let Some(first) = service.ip_families.first() {
        return *first;
    }
    if service.is_headless() {
        return pod.pod_ip.as_ref().map_or(IpFamily::IPv4, IpFamily::of);
    }
    if address::is_ipv6(&service.cluster_ip) { IpFamily::IPv6 } else { IpFamily::IPv4 }
}

/// The ports that a pod serves, and the names of those that it lacks. A headless Service may have none at all.
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
