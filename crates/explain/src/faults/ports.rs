//! Looks at the ports of a Service on which its pods do not listen.

use std::collections::BTreeSet;

use kube_endpoint_core_model::Pod;
use kube_endpoint_core_model::service::{ServicePort, TargetPort};

use super::Looked;
use crate::Fault;
use crate::consumers::kube_proxy::number_for;
use crate::traffic::{ServedBy, has_ready};

impl Looked<'_> {
    /// Returns a fault for each target port whose number no container of the pods declares. A
    /// container may listen on ports that it does not declare, so this says nothing if a pod
    /// declares none; and most declare the wrong protocol, so it looks at the number alone.
    pub(super) fn ports_not_declared(&self) -> Vec<Fault> {
        let mut declared: BTreeSet<i32> = BTreeSet::new();
        for pod in self.pods.iter().filter(|pod| !pod.is_terminal()) {
            if pod.ports.is_empty() {
                return Vec::new();
            }
            declared.extend(pod.ports.iter().map(|port| port.container_port));
        }
        if declared.is_empty() {
            return Vec::new();
        }
        let fault = |port: &ServicePort| match port.target_port {
            TargetPort::Number(number) if !declared.contains(&number) => Some(Fault::PortNotDeclared {
                port: port.port,
                name: port.name.clone(),
                target: number,
                declared: declared.iter().copied().collect(),
                not_declared: self.not_declared_by_all(port, number),
            }),
            _ => None,
        };
        self.service.ports.iter().filter_map(fault).collect()
    }

    /// Returns a fault for each port of a headless Service that is not that of its endpoints. The
    /// slices have the ports of the endpoints, also if the target port is a name.
    pub(super) fn headless_ports(&self) -> Vec<Fault> {
        let service = self.service;
        let is_open = self.selection.selects_pods() && !self.options.known.pods;
        if self.served.by != ServedBy::Dns || is_open {
            return Vec::new();
        }
        let has_pod_names = self.pods.iter().any(|pod| pod.hostname.is_some());
        let slices = || self.objects.slices_of(&service.key).iter().filter(|slice| has_ready(slice));
        let fault = |port: &ServicePort| {
            let held = slices().flat_map(|slice| slice.ports.iter());
            let numbers = held.filter_map(|held| number_for(held, port));
            let targets: BTreeSet<u16> = numbers.filter(|number| i32::from(*number) != port.port).collect();
            if targets.is_empty() || self.may_listen(port.port) {
                return None;
            }
            Some(Fault::HeadlessPort {
                port: port.port,
                name: port.name.clone(),
                protocol: port.protocol.clone(),
                targets: targets.into_iter().collect(),
                has_pod_names,
            })
        };
        service.ports.iter().filter_map(fault).collect()
    }

    /// Returns true if all pods declare a port, or if the ports that they declare are not known.
    fn may_listen(&self, number: i32) -> bool {
        let mut pods = self.pods.iter().filter(|pod| !pod.is_terminal()).peekable();
        let declares = |pod: &Pod| pod.ports.iter().any(|port| port.container_port == number);
        pods.peek().is_some() && pods.all(|pod| declares(pod))
    }
}
