//! Several containers of a pod have a port of the name that the Service asks for.

use kube_endpoint_core_model::service::TargetPort;

use crate::facts::raw::Serving;
use crate::findings::evidence;
use crate::findings::inputs::ReadyPod;
use crate::findings::prelude::*;

about! {
    /// A name may occur once in each container. The controllers take the port of the first
    /// container of the pod that has the name, then those of restartable init containers.
    EP087 "port-name-ambiguous" Warning
    "Several containers of a pod have a port of the name that the Service asks for."
}

/// The name of a target port that several containers of a pod have, with different numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortNameAmbiguous {
    pub name: Text,
    /// The container to whose port the Service sends clients.
    pub first: OfContainer,
    pub others: Vec<OfContainer>,
    /// The pods that have these containers.
    pub pods: Vec<Text>,
}

/// A container and the number of one of its ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfContainer {
    pub container: Text,
    pub port: i32,
}

impl Finding for PortNameAmbiguous {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let Some(pods) = inputs.ready_pods() else { return Vec::new() };
        let mut asked: Vec<(&Text, &Text)> = Vec::new();
        for port in &inputs.service.ports {
            if let TargetPort::Name(name) = &port.target_port
                && !asked.contains(&(name, &port.protocol))
            {
                asked.push((name, &port.protocol));
            }
        }
        asked.into_iter().filter_map(|(name, protocol)| Self::of(&pods, name, protocol)).collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let port = |pod, of: &OfContainer| {
            let container = evidence::item(".spec.containers", "name", &*of.container, "");
            let field = evidence::item(&format!("{container}.ports"), "name", &*self.name, ".containerPort");
            read.of("Pod", pod, field, of.port)
        };
        let pod = self.pods.first().into_iter();
        let all =
            pod.flat_map(|pod| std::iter::once(&self.first).chain(&self.others).map(move |of| port(pod, of)));
        all.collect()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let all = std::iter::once(&self.first).chain(&self.others);
        let containers: Vec<&str> = all.map(|it| &*it.container).collect();
        let sentence = format!(
            "Give the port {:?} another name in all of the containers {} but the one that serves these clients",
            self.name,
            containers.join(", ")
        );
        let pod = self.pods.first();
        let shown = pod.map(|pod| Step::kubectl_in(&service.namespace, ["describe", "pod", pod]));
        Remedy::ask(PodOwner, sentence).shown_by(shown)
    }
}

impl fmt::Display for PortNameAmbiguous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, first, others, pods } = self;
        let others: Vec<String> = others.iter().map(|it| format!("{} ({})", it.container, it.port)).collect();
        write!(
            f,
            "several containers of {} {} name a port {name:?}: the Service sends clients to {} ({}), the first, and not to {}",
            if pods.len() == 1 { "pod" } else { "pods" },
            names(pods),
            first.container,
            first.port,
            others.join(", ")
        )
    }
}

impl PortNameAmbiguous {
    /// Returns the containers of the first pod in which the name has several numbers, and all pods
    /// that have the same.
    fn of(pods: &[ReadyPod<'_>], name: &Text, protocol: &Text) -> Option<Self> {
        let is_ambiguous = |holders: &[OfContainer]| match holders {
            [first, others @ ..] => others.iter().any(|it| it.port != first.port),
            [] => false,
        };
        let of_pod = |(pod, serving): &ReadyPod<'_>| (pod.key.name.clone(), holders(serving, name, protocol));
        let ambiguous = pods.iter().map(of_pod).filter(|(_, holders)| is_ambiguous(holders));
        let ambiguous: Vec<(Text, Vec<OfContainer>)> = ambiguous.collect();
        let (_, all) = ambiguous.first()?;
        let (first, others) = all.split_first()?;
        let same = ambiguous.iter().filter(|(_, it)| it == all);
        Some(Self {
            name: name.clone(),
            first: first.clone(),
            others: others.to_vec(),
            pods: same.map(|(pod, _)| pod.clone()).collect(),
        })
    }
}

/// Returns the containers that have a port of a name and protocol, in the order in which the name
/// is looked up.
fn holders(serving: &Serving, name: &Text, protocol: &Text) -> Vec<OfContainer> {
    let of = serving.containers.iter().flat_map(|container| {
        let own = container.ports.iter().filter(|port| port.name == *name && port.protocol == *protocol);
        own.map(|port| OfContainer { container: container.name.clone(), port: port.container_port })
    });
    of.collect()
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_name_may_occur_once_for_each_protocol() {
        let tcp = example("ep087-port-name-ambiguous");
        assert!(tcp.finds(Code::PortNameAmbiguous));
        let container = |name: &str, port: i32, protocol: &str| {
            let port = json!({"name": "http", "containerPort": port, "protocol": protocol});
            json!({"name": name, "image": "example.com/app", "ports": [port]})
        };
        let containers = json!([container("exporter", 9090, "UDP"), container("app", 8080, "TCP")]);
        let udp = tcp.with("Pod/web-1", json!({"spec": {"containers": containers}}));
        assert!(!udp.finds(Code::PortNameAmbiguous));
    }
}
