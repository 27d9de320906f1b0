//! Judges by NetworkPolicies the connections of one client to the pods of a Service.

use std::collections::BTreeSet;

use kube_endpoint_core_model::pod::ContainerPort;
use kube_endpoint_core_model::port::find_port;
use kube_endpoint_core_model::service::ServicePort;
use kube_endpoint_core_model::{ObjectKey, Pod, Service, Text};
use serde::Serialize;

use crate::facts::objects::Objects;
use crate::facts::policy::{Direction, End, Lets, Policy};

/// The NetworkPolicies of one namespace that may keep a client from the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Kept {
    /// True if they are about the connections that the client makes, and otherwise about those that
    /// the pods accept.
    pub is_egress: bool,
    /// The namespace of the policies.
    pub namespace: Text,
    pub policies: Vec<Text>,
    /// The ports of the pods, such as `8080 (80 of the Service)`.
    pub ports: Vec<String>,
    /// The number of pods to one of whose ports it may not connect.
    pub pods: usize,
    /// The number of pods that serve.
    pub of_pods: usize,
    /// True if the client may ask no DNS server.
    pub dns: bool,
}

/// The connections of a client to the pods of a Service.
pub(crate) struct Connections {
    /// The policies that may keep the client from them.
    pub(crate) kept: Vec<Kept>,
    /// The reasons why not all is known, as parts of a sentence.
    pub(crate) open: Vec<String>,
}

/// A pod that policies limit, and the pod at the other end.
struct Side<'a> {
    direction: Direction,
    limited: &'a Pod,
    peer: End<'a>,
}

impl Connections {
    /// Looks at the connections of a client to pods. Returns `None` if the client does not exist.
    pub(crate) fn of(
        objects: &Objects,
        service: &Service,
        pods: &[&Pod],
        client: &ObjectKey,
    ) -> Option<Self> {
        let from = objects.pod(client)?;
        // No policy keeps a pod from itself.
        let pods: Vec<&Pod> = pods.iter().copied().filter(|pod| pod.key != from.key).collect();
        let mut kept = Vec::new();
        let mut is_open = false;
        for is_egress in [false, true] {
            let (found, open) = of_direction(objects, service, &pods, from, is_egress);
            kept.extend(Some(found).filter(|kept| !kept.ports.is_empty() || kept.dns));
            is_open |= open;
        }
        let in_node = from.host_network || pods.iter().any(|pod| pod.host_network);
        let namespaces = BTreeSet::from([&service.key.namespace, &client.namespace]);
        let unread = namespaces.into_iter().filter(|it| objects.policies_unread.contains(*it));
        let mut open: Vec<String> =
            unread.map(|namespace| format!("those of namespace {namespace} could not be read")).collect();
        if is_open {
            open.push(match in_node {
                true => {
                    "programs that enforce them treat pods in the network of a node differently".to_owned()
                }
                false => "a rule names namespaces by labels that could not be read".to_owned(),
            });
        }
        if pods.is_empty() {
            open.push("the Service has no other pods here".to_owned());
        }
        Some(Self { kept, open })
    }
}

/// Returns what policies of one direction say, and true if that is not all known.
fn of_direction(
    objects: &Objects,
    service: &Service,
    pods: &[&Pod],
    from: &Pod,
    is_egress: bool,
) -> (Kept, bool) {
    let namespace = if is_egress { &from.key.namespace } else { &service.key.namespace };
    let mut kept = Kept { is_egress, namespace: namespace.clone(), of_pods: pods.len(), ..Kept::default() };
    let policies: Vec<&Policy> = objects.policies_of(namespace).collect();
    let (mut by, mut ports, mut is_open) = (BTreeSet::new(), BTreeSet::new(), false);
    for pod in pods {
        let side = match is_egress {
            true => Side { direction: Direction::Egress, limited: from, peer: end(objects, pod) },
            false => Side { direction: Direction::Ingress, limited: pod, peer: end(objects, from) },
        };
        let about = side.about(&policies);
        let mut is_kept = false;
        for port in &service.ports {
            let Some(asked) = port_of(pod, port) else { continue };
            match about.iter().map(|policy| policy.lets(side.direction, &side.peer, &asked)).max() {
                Some(Lets::No) => {
                    is_kept = true;
                    ports.insert((asked.container_port, port.port));
                }
                Some(Lets::NotKnown) => is_open = true,
                Some(Lets::Yes) | None => {}
            }
        }
        if is_kept {
            kept.pods += 1;
            by.extend(about.iter().map(|policy| policy.name.clone()));
        }
    }
    if is_egress {
        let side = Side { direction: Direction::Egress, limited: from, peer: end(objects, from) };
        let about = side.about(&policies);
        kept.dns = !about.is_empty() && !about.iter().any(|policy| policy.may_let_ask_dns());
        by.extend(about.iter().filter(|_| kept.dns).map(|policy| policy.name.clone()));
    }
    kept.policies = by.into_iter().collect();
    kept.ports = ports.into_iter().map(|(number, of_service)| port_text(number, of_service)).collect();
    (kept, is_open)
}

impl Side<'_> {
    /// Returns the policies that limit the connections.
    fn about<'p>(&self, policies: &[&'p Policy]) -> Vec<&'p Policy> {
        let limits = |policy: &&&Policy| policy.limits(self.direction, &self.limited.labels);
        policies.iter().filter(|_| !self.limited.host_network).filter(limits).copied().collect()
    }
}

fn end<'a>(objects: &'a Objects, pod: &'a Pod) -> End<'a> {
    End {
        namespace: &pod.key.namespace,
        of_namespace: objects.raw.namespaces.get(&pod.key.namespace),
        labels: &pod.labels,
        addresses: &pod.pod_ips,
        host_network: pod.host_network,
    }
}

/// Returns the port of a pod at which it serves a port of the Service.
pub(crate) fn port_of(pod: &Pod, port: &ServicePort) -> Option<ContainerPort> {
    let number = find_port(pod, port)?;
    let declared = pod.ports.iter().find(|it| it.container_port == number && it.protocol == port.protocol);
    Some(ContainerPort {
        name: declared.map(|it| it.name.clone()).unwrap_or_default(),
        container_port: number,
        protocol: port.protocol.clone(),
    })
}

fn port_text(number: i32, of_service: i32) -> String {
    match number == of_service {
        true => number.to_string(),
        false => format!("{number} ({of_service} of the Service)"),
    }
}
