//! Compares the model of kube-proxy with kube-proxy's rules.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use kube_endpoint_core_model::service::ServicePort;
use kube_endpoint_core_model::{EndpointSlice, IpFamily};
use kube_endpoint_explain::consumers::kube_proxy::{KubeProxy, PortRoutes, Through, Unused};
use serde::Deserialize;
use serde_json::Value;

use super::{Recorded, Recording, recording};

const CLIENTS: [(&str, Through); 3] = [
    ("cluster IP", Through::ClusterIp),
    ("external", Through::External),
    ("external from pod", Through::ExternalFromPod),
];

/// The answers by family, by name and protocol of the port, and by client.
pub(super) type Answers = BTreeMap<String, BTreeMap<String, BTreeMap<String, Answer>>>;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Answer {
    /// kube-proxy chooses one of these at random.
    Backends(Vec<SocketAddr>),
    /// `refused` or `dropped`.
    Without(String),
}

/// A question, with the answer of kube-proxy and that of the model. Both are `None` if there is no
/// rule.
struct Row {
    question: String,
    recorded: Option<Answer>,
    modelled: Option<PortRoutes>,
    /// True if kube-proxy sends some client of the port somewhere.
    somebody_is_served: bool,
    /// True if some choice among the entries of the undefined endpoints leaves the client no
    /// endpoint.
    may_have_none: bool,
}

impl Row {
    fn is_same(&self) -> bool {
        match (&self.modelled, &self.recorded) {
            // kube-proxy's choice depends on the order of a Go map, but is always one of these.
            (Some(port), Some(Answer::Backends(recorded))) if !port.undefined.is_empty() => {
                recorded.iter().all(|address| {
                    port.backends.contains(address) || port.unused.iter().any(|(unused, _)| unused == address)
                })
            }
            (Some(port), Some(Answer::Without(_))) if !port.undefined.is_empty() => self.may_have_none,
            (Some(port), Some(Answer::Backends(recorded))) => {
                let mut recorded = recorded.clone();
                recorded.sort_unstable();
                !recorded.is_empty() && recorded == port.backends
            }
            // kube-proxy drops connections that a policy keeps from the endpoints of other nodes,
            // and refuses them if there are none.
            (Some(port), Some(Answer::Without(verdict))) => {
                let is_dropped = self.somebody_is_served;
                port.backends.is_empty() && verdict == if is_dropped { "dropped" } else { "refused" }
            }
            (modelled, recorded) => modelled.is_none() && recorded.is_none(),
        }
    }

    fn kind(&self) -> &'static str {
        match (&self.modelled, &self.recorded) {
            (Some(port), _) if !port.undefined.is_empty() => "undefined",
            (_, None) => "no rule",
            (_, Some(Answer::Backends(_))) => "backends",
            (_, Some(Answer::Without(verdict))) if verdict == "dropped" => "dropped",
            (_, Some(Answer::Without(_))) => "refused",
        }
    }
}

/// Returns true if kube-proxy may have no endpoint for a client, depending on the entries that it
/// chooses of undefined endpoints. The other endpoints must be out of reach for each choice.
/// `answers` are those with each of the slices as the first.
fn may_have_none(port: &PortRoutes, answers: &[PortRoutes]) -> bool {
    let is_out = |of: &PortRoutes, address: &SocketAddr| {
        of.unused
            .iter()
            .any(|(unused, why)| unused == address && matches!(why, Unused::NotReady | Unused::NotLocal))
    };
    let addresses = || port.backends.iter().chain(port.unused.iter().map(|(address, _)| address));
    addresses().all(|address| {
        is_out(port, address)
            || port.undefined.contains(address) && answers.iter().any(|answer| is_out(answer, address))
    })
}

/// Returns true if a port of a Service has an address of one family outside of the cluster.
fn is_external(service: &Value, port: &ServicePort, family: IpFamily) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_of_family = |address: &Value| {
        let address: Option<IpAddr> = address.as_str().and_then(|address| address.parse().ok());
        address.is_some_and(|address| address.is_ipv6() == (family == IpFamily::IPv6))
    };
    let has_node_port = |held: &Value| {
        held["port"] == port.port && held["protocol"] == *port.protocol && held["nodePort"].is_number()
    };
    let is_virtual = |ingress: &Value| ingress["ipMode"] != "Proxy" && is_of_family(&ingress["ip"]);
    list(&service["spec"]["ports"]).iter().any(has_node_port)
        || list(&service["spec"]["externalIPs"]).iter().any(is_of_family)
        || list(&service["status"]["loadBalancer"]["ingress"]).iter().any(is_virtual)
}

/// Asks the model the same questions about a Service as the recording asked kube-proxy of a node.
fn rows(recording: &Recording, recorded: &Recorded, node: &str) -> Vec<Row> {
    let Recorded { service, json, answers, .. } = recorded;
    let policies = service.policies;
    let proxy = KubeProxy { node, zone: &recording.nodes[node], ..KubeProxy::default() };
    let slices = &recording.slices[&*service.key.namespace];
    let is_own = |slice: &&EndpointSlice| slice.service_key().is_some_and(|key| key.name == service.key.name);
    let of_service: Vec<EndpointSlice> = slices.iter().filter(is_own).cloned().collect();
    let mut rows = Vec::new();
    for family in [IpFamily::IPv4, IpFamily::IPv6] {
        let of = |through| proxy.routes(service, policies, slices, family, through).ports;
        let anywhere = of(Through::ExternalFromPod);
        for (client, through) in CLIENTS {
            let routes = of(through);
            for (index, port) in service.ports.iter().enumerate() {
                let name = format!("{}/{}", port.name, port.protocol);
                let of_family = answers[node].get(&format!("{family:?}"));
                let of_port = of_family.and_then(|ports| ports.get(&name));
                let has_address = through == Through::ClusterIp || is_external(json, port, family);
                let modelled = routes.get(index).filter(|_| has_address).cloned();
                let may_have_none = modelled.as_ref().is_some_and(|port| {
                    let answers = |first: &EndpointSlice| {
                        let mut slices = of_service.clone();
                        slices
                            .iter_mut()
                            .filter(|it| **it == *first)
                            .for_each(|it| it.metadata.name = "".into());
                        proxy.routes(service, policies, &slices, family, through).ports.swap_remove(index)
                    };
                    let answers = || of_service.iter().map(answers).collect::<Vec<_>>();
                    !port.undefined.is_empty() && may_have_none(port, &answers())
                });
                rows.push(Row {
                    question: format!("{}, {name}, {family:?}, {client}, on {node}", service.key),
                    recorded: of_port.and_then(|clients| clients.get(client)).cloned(),
                    modelled,
                    may_have_none,
                    somebody_is_served: anywhere.get(index).is_some_and(|port| !port.backends.is_empty()),
                });
            }
        }
    }
    rows
}

#[test]
fn the_model_has_the_answers_of_kube_proxy() {
    let recording = recording();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut differences = Vec::new();
    for recorded in &recording.services {
        for node in recording.nodes.keys() {
            for row in rows(&recording, recorded, node) {
                *kinds.entry(row.kind()).or_default() += 1;
                if !row.is_same() {
                    let Row { question, recorded, modelled, .. } = row;
                    differences.push(format!("{question}:\n  {recorded:?}\n  model: {modelled:?}"));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    let covered =
        [("backends", 1818), ("dropped", 407), ("no rule", 5065), ("refused", 1715), ("undefined", 85)];
    assert_eq!(kinds, BTreeMap::from(covered));
}

/// The model does not refuse if a defined endpoint is ready, or each entry of an undefined one.
#[test]
fn a_refusal_is_accepted_only_if_some_choice_explains_it() {
    let address = |last: u8| SocketAddr::from(([10, 0, 0, last], 80));
    let out =
        |last: u8| PortRoutes { unused: vec![(address(last), Unused::NotReady)], ..PortRoutes::default() };
    let of = |backends: &[u8]| PortRoutes {
        backends: backends.iter().copied().map(address).collect(),
        undefined: vec![address(1)],
        ..PortRoutes::default()
    };
    assert!(may_have_none(&of(&[1]), &[of(&[1]), out(1)]));
    assert!(!may_have_none(&of(&[1, 2]), &[of(&[1, 2]), out(1)]));
    assert!(!may_have_none(&of(&[1]), &[of(&[1])]));
}

#[test]
fn a_service_with_an_external_answer_is_read_as_accessible_from_outside() {
    let mut external = 0;
    for Recorded { service, answers, .. } in &recording().services {
        let clients = answers.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        if clients.into_iter().any(|clients| clients.contains_key("external")) {
            let policies = service.policies;
            assert!(policies.externally_accessible, "{}", service.key);
            external += 1;
        }
    }
    assert!(external > 30, "{external}");
}
