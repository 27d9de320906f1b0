//! Looks for numbers of target ports that no container declares.

use std::collections::BTreeSet;

use kube_endpoint_core_model::service::TargetPort;

use super::Looked;
use crate::Fault;

impl Looked<'_> {
    /// Returns a fault for each target port whose number no container of the pods declares. A
    /// container may listen on ports that it does not declare, so this says nothing if a pod
    /// declares none; and most declare the wrong protocol, so it looks at the number alone.
    pub(super) fn ports_not_declared(&self) -> Vec<Fault> {
        let mut declared: BTreeSet<i32> = BTreeSet::new();
        for pod in self.pods.iter().filter(|pod| !pod.is_terminal()) {
            match self.objects.container_ports(pod) {
                Some(ports) if !ports.is_empty() => declared.extend(ports),
                _ => return Vec::new(),
            }
        }
        if declared.is_empty() {
            return Vec::new();
        }
        let fault = |port: &kube_endpoint_core_model::service::ServicePort| match port.target_port {
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
}
