//! Finds the target ports of a Service in a pod, and compares sets of ports.

use crate::pod::Pod;
use crate::service::{Service, ServicePort, TargetPort};
use crate::slice::EndpointPort;

/// Returns the number of a Service's target port in a pod (upstream `FindPort`). It looks a named
/// port up by name and protocol in the containers, then in the restartable init containers. Returns
/// `None` if the pod has no such port.
pub fn find_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match &port.target_port {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Name(name) => pod
            .ports
            .iter()
            .find(|candidate| candidate.name == *name && candidate.protocol == port.protocol)
            .map(|found| found.container_port),
    }
}

/// Returns the ports of a slice that holds this pod (upstream `getEndpointPorts`), in the Service's
/// order, without those that the pod lacks. So the list can be empty.
pub fn slice_ports(pod: &Pod, service: &Service) -> Vec<EndpointPort> {
    service
        .ports
        .iter()
        .filter_map(|port| {
            find_port(pod, port).map(|number| EndpointPort {
                name: Some(port.name.clone()),
                port: Some(number),
                protocol: Some(port.protocol.clone()),
                app_protocol: port.app_protocol.clone(),
            })
        })
        .collect()
}

/// A set of ports, independent of their order (upstream `PortMapKey`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortSet(Vec<EndpointPort>);

impl PortSet {
    /// Makes a set of a list of ports.
    pub fn new(ports: &[EndpointPort]) -> Self {
        let mut ports = ports.to_vec();
        ports.sort_unstable();
        Self(ports)
    }

    /// Returns the ports, sorted.
    pub fn ports(&self) -> &[EndpointPort] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::ContainerPort;

    fn container_port(name: &str, container_port: i32, protocol: &str) -> ContainerPort {
        ContainerPort { name: name.into(), container_port, protocol: protocol.into() }
    }

    #[test]
    fn a_named_port_is_the_first_with_that_name_and_protocol() {
        let pod = Pod {
            ports: [
                container_port("dns", 53, "UDP"),
                container_port("dns", 5353, "TCP"),
                container_port("dns", 5454, "TCP"),
            ]
            .into_iter()
            .collect(),
            ..Pod::default()
        };
        let check = |target: TargetPort, protocol: &str, want: Option<i32>| {
            let port =
                ServicePort { protocol: protocol.into(), target_port: target, ..ServicePort::default() };
            assert_eq!(find_port(&pod, &port), want);
        };
        check(TargetPort::Number(80), "TCP", Some(80));
        check(TargetPort::Name("dns".into()), "UDP", Some(53));
        check(TargetPort::Name("dns".into()), "TCP", Some(5353));
        check(TargetPort::Name("dns".into()), "SCTP", None);
        check(TargetPort::Name("http".into()), "TCP", None);
    }

    #[test]
    fn a_pod_without_the_named_port_has_no_ports() {
        let service = Service {
            ports: vec![ServicePort { target_port: TargetPort::Name("x".into()), ..ServicePort::default() }],
            ..Service::default()
        };
        assert_eq!(slice_ports(&Pod::default(), &service), []);
    }

    #[test]
    fn sets_ignore_order_and_distinguish_absent_from_empty() {
        let port = |name: Option<&str>, number: i32| EndpointPort {
            name: name.map(Into::into),
            port: Some(number),
            ..EndpointPort::default()
        };
        let check = |a: &[EndpointPort], b: &[EndpointPort], same: bool| {
            assert_eq!(PortSet::new(a) == PortSet::new(b), same);
        };
        check(&[port(None, 1), port(None, 2)], &[port(None, 2), port(None, 1)], true);
        check(&[port(None, 1)], &[port(Some(""), 1)], false);
        check(&[], &[port(None, 1)], false);
        check(&[], &[], true);
    }
}
