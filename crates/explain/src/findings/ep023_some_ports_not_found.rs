//! The pod lacks some of the container ports that the Service asks for.

use kube_endpoint_core_model::Service;
use kube_endpoint_core_model::pod::ContainerPort;
use kube_endpoint_core_model::service::TargetPort;

use crate::findings::pod::{Publication, ports_of};
use crate::findings::pod_reason::{DeadPort, NamedPort, list, name_port, not_found, patch_ports};
use crate::findings::prelude::*;

about! {
    /// The Service has several ports, and the pod has only some of them. It receives traffic at
    /// these, and the controller lists it in a slice for this set of ports. It is an error if no
    /// pod has a port: clients of this port get no answer.
    EP023 "some-ports-not-found" Warning
    "The pod lacks some of the container ports that the Service asks for."
}

/// A pod that lacks some of the ports that the Service asks for by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SomePortsNotFound {
    /// The ports that the Service asks for and the pod lacks.
    pub wanted: Vec<NamedPort>,
    /// The named ports that the pod has.
    pub has: Vec<NamedPort>,
    /// True if other pods of the Service have one of the wanted ports.
    pub elsewhere: bool,
    /// The ports of the Service that no pod has.
    pub dead: Vec<DeadPort>,
    /// The names of ports of the pod to which no port of the Service leads.
    pub free: Vec<Text>,
}

impl PodFinding for SomePortsNotFound {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let missing = pod.missing_ports();
        if missing.is_empty() || pod.publication() != Publication::Ready {
            return None;
        }
        let wanted = pod.wanted(|port| missing.contains(&port.name));
        Some(Self {
            elsewhere: pod.others_have(&wanted),
            wanted,
            has: ports_of(pod.pod),
            dead: dead_ports(pod, missing),
            free: free_ports(pod),
        })
    }

    fn message(all: &[&Self]) -> String {
        let [Self { wanted, has, elsewhere, dead, .. }, ..] = all else { return String::new() };
        if dead.is_empty() {
            return not_found(wanted, has, *elsewhere);
        }
        let ports: Vec<String> = dead.iter().map(DeadPort::to_string).collect();
        let targets: Vec<String> = dead.iter().map(|port| format!("{:?}", port.target)).collect();
        let (word, have) = if dead.len() == 1 { ("port", "has") } else { ("ports", "have") };
        format!(
            "{word} {} of the Service {have} no endpoint: no pod has a container port named {}; the pod has {}",
            ports.join(" and "),
            targets.join(" or "),
            list(has)
        )
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.of_service.ports(), pod.ports()]
    }

    fn remedy(all: &[&Self], _: &PodsOf<'_>) -> Remedy {
        let [Self { wanted, has, elsewhere, free, .. }, ..] = all else { return Remedy::default() };
        Remedy::ask(ServiceOwner, name_port(wanted, has, *elsewhere, Some(free)))
    }

    fn severity(&self) -> Option<Severity> {
        (!self.dead.is_empty()).then_some(Severity::Error)
    }

    fn receives_traffic(&self) -> bool {
        true
    }

    fn patch(&self, service: &Service) -> Option<Step> {
        patch_ports(service, &self.wanted, &self.has)
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

/// Returns those of the missing ports that no pod has.
fn dead_ports(pod: &Judged<'_>, missing: &[Text]) -> Vec<DeadPort> {
    let missing = pod.service.ports.iter().filter(|port| missing.contains(&port.name));
    let dead = missing.filter_map(|port| match &port.target_port {
        TargetPort::Name(target) if !pod.ports_of_pods.contains(&(&**target, &*port.protocol)) => {
            Some(DeadPort { port: port.port, name: port.name.clone(), target: target.clone() })
        }
        _ => None,
    });
    dead.collect()
}

/// Returns the names of the pod's ports to which no port of the Service leads.
fn free_ports(pod: &Judged<'_>) -> Vec<Text> {
    let is_used = |one: &ContainerPort| {
        pod.service.ports.iter().any(|port| match &port.target_port {
            TargetPort::Name(name) => *name == one.name,
            TargetPort::Number(number) => *number == one.container_port,
        })
    };
    let free = pod.pod.ports.iter().filter(|one| !one.name.is_empty() && !is_used(one));
    free.map(|one| one.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_pod_with_one_of_two_ports_lacks_some() {
        let some = example("ep023-name-of-no-pod");
        assert!(some.finds(Code::SomePortsNotFound));
        let one = json!({"spec": {"ports": [{"name": "other", "port": 80, "targetPort": 8080}]}});
        assert!(!some.with("Service/web", one).finds(Code::SomePortsNotFound));
    }
}
