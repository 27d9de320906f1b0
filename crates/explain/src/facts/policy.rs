//! NetworkPolicies: who reaches pods.

mod peer;

use kube_endpoint_core_model::label_selector::LabelSelectorFields;
use kube_endpoint_core_model::pod::ContainerPort;
use kube_endpoint_core_model::{LabelSelector, StringMap, Text};
use serde::Deserialize;
use serde_json::Value;

use crate::facts::json::each;
use peer::Peer;
pub(crate) use peer::{End, Lets};

/// The ports on which DNS servers listen: behind the Service of the cluster's DNS, the port may be
/// another one than 53.
const DNS_PORTS: [i32; 3] = [53, 5353, 8053];

/// A NetworkPolicy. Pods that some policy for incoming connections selects accept only those that
/// a policy admits, and so with outgoing ones.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    pub(crate) pods: LabelSelector,
    /// The rules for incoming connections, or `None` if the policy says nothing about them.
    ingress: Option<Vec<Rule>>,
    /// The rules for outgoing connections.
    egress: Option<Vec<Rule>>,
}

/// Connections of the pods that a policy selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Ingress,
    Egress,
}

#[derive(Clone, Debug)]
struct Rule {
    /// The ports, or `None` for all.
    ports: Option<Vec<Ports>>,
    /// The peers, or `None` for all.
    peers: Option<Vec<Peer>>,
}

#[derive(Clone, Debug)]
struct Ports {
    protocol: Text,
    /// The first and the last number, a name, or `None` for all.
    port: Option<Port>,
}

#[derive(Clone, Debug)]
enum Port {
    Range(i64, i64),
    Name(Text),
}

/// The clients that policies admit to a port of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Admits {
    Nobody,
    /// The peers that rules name.
    Some,
    All,
}

impl Policy {
    /// Reads a policy. Returns `None` if it cannot be read.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let (spec, metadata) = (&object["spec"], &object["metadata"]);
        let rules =
            |field: &str, peers: &str| each(&spec[field]).map(|rule| Rule::read(rule, peers)).collect();
        let (ingress, egress): (Vec<_>, Vec<_>) = (rules("ingress", "from"), rules("egress", "to"));
        let types = spec["policyTypes"].as_array();
        let is_about = |name: &str| types.map(|types| types.iter().any(|it| it == name));
        // Without policyTypes, a policy is about incoming connections, and about outgoing ones if
        // it has rules for them.
        let is_ingress = is_about("Ingress").unwrap_or(true);
        let is_egress = is_about("Egress").unwrap_or(!egress.is_empty());
        let pods = LabelSelectorFields::deserialize(&spec["podSelector"]).ok()?;
        Some(Self {
            namespace: metadata["namespace"].as_str().unwrap_or_default().into(),
            name: metadata["name"].as_str()?.into(),
            pods: LabelSelector::try_from(&pods).ok()?,
            ingress: is_ingress.then_some(ingress),
            egress: is_egress.then_some(egress),
        })
    }

    fn rules(&self, direction: Direction) -> Option<&[Rule]> {
        match direction {
            Direction::Ingress => self.ingress.as_deref(),
            Direction::Egress => self.egress.as_deref(),
        }
    }

    /// Returns true if the policy limits such connections of pods with these labels.
    pub(crate) fn limits(&self, direction: Direction, labels: &StringMap) -> bool {
        self.rules(direction).is_some() && self.pods.matches(labels)
    }

    /// Returns whom the policy admits to a port.
    pub(crate) fn admits(&self, port: &ContainerPort) -> Admits {
        let of = self.ingress.iter().flatten().filter(|rule| rule.is_about(port));
        let admits = |rule: &Rule| if rule.peers.is_some() { Admits::Some } else { Admits::All };
        of.map(admits).max().unwrap_or(Admits::Nobody)
    }

    /// Returns the answer to the question if the pods may connect with a peer, at a port of the pod
    /// that serves.
    pub(crate) fn lets(&self, direction: Direction, peer: &End<'_>, port: &ContainerPort) -> Lets {
        let rules = self.rules(direction).unwrap_or_default().iter();
        let of = rules.filter(|rule| rule.is_about(port)).map(|rule| rule.lets(&self.namespace, peer));
        of.max().unwrap_or(Lets::No)
    }

    /// Returns true if some DNS server may be among those that the pods may ask.
    pub(crate) fn may_let_ask_dns(&self) -> bool {
        self.egress.iter().flatten().any(|rule| match &rule.ports {
            Some(ports) => ports.iter().any(Ports::may_be_dns),
            None => {
                rule.peers.iter().flatten().any(|peer| peer.may_be_dns(&self.namespace))
                    || rule.peers.is_none()
            }
        })
    }

    /// Returns true if the labels of a namespace decide, other than the one with its name.
    pub(crate) fn asks_for_namespaces(&self, direction: Direction) -> bool {
        let rules = self.rules(direction).unwrap_or_default().iter();
        rules.flat_map(|rule| rule.peers.iter().flatten()).any(Peer::asks_for_namespaces)
    }
}

impl Rule {
    fn read(rule: &Value, peers: &str) -> Self {
        let list = |field: &str| rule[field].as_array().filter(|list| !list.is_empty());
        Self {
            ports: list("ports").map(|ports| ports.iter().map(Ports::read).collect()),
            peers: list(peers).map(|peers| peers.iter().map(Peer::read).collect()),
        }
    }

    fn is_about(&self, port: &ContainerPort) -> bool {
        self.ports.as_ref().is_none_or(|ports| ports.iter().any(|it| it.has(port)))
    }

    fn lets(&self, namespace: &Text, peer: &End<'_>) -> Lets {
        let Some(peers) = &self.peers else { return Lets::Yes };
        peers.iter().map(|it| it.is(namespace, peer)).max().unwrap_or(Lets::No)
    }
}

impl Ports {
    fn read(ports: &Value) -> Self {
        let port = match (&ports["port"], ports["endPort"].as_i64()) {
            (Value::String(name), _) => Some(Port::Name(name.as_str().into())),
            (number, last) => number.as_i64().map(|first| Port::Range(first, last.unwrap_or(first))),
        };
        Self { protocol: ports["protocol"].as_str().unwrap_or("TCP").into(), port }
    }

    fn has(&self, port: &ContainerPort) -> bool {
        let is_meant = match &self.port {
            None => true,
            Some(Port::Range(first, last)) => (*first..=*last).contains(&port.container_port.into()),
            Some(Port::Name(name)) => *name == port.name,
        };
        is_meant && self.protocol == port.protocol
    }

    fn may_be_dns(&self) -> bool {
        let is_meant = match &self.port {
            None => true,
            Some(Port::Range(first, last)) => {
                DNS_PORTS.iter().any(|port| (*first..=*last).contains(&(*port).into()))
            }
            Some(Port::Name(name)) => name.starts_with("dns"),
        };
        is_meant && matches!(&*self.protocol, "TCP" | "UDP")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn port(name: &str, number: i32) -> ContainerPort {
        ContainerPort { name: name.into(), container_port: number, protocol: "TCP".into() }
    }

    fn policy(spec: Value) -> Policy {
        let mut object = json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": {"podSelector": {}}});
        json_patch::merge(&mut object["spec"], &spec);
        Policy::read(&object).unwrap()
    }

    #[test]
    fn rules_admit_all_some_or_nobody() {
        let check = |ingress: Value, want: Admits| {
            assert_eq!(policy(json!({"ingress": ingress})).admits(&port("http", 8080)), want, "{ingress}");
        };
        check(json!(null), Admits::Nobody);
        check(json!([]), Admits::Nobody);
        check(json!([{}]), Admits::All);
        check(json!([{"from": []}]), Admits::All);
        check(json!([{"from": [{"podSelector": {}}]}]), Admits::Some);
        check(json!([{"ports": [{"port": 9090}]}]), Admits::Nobody);
        check(json!([{"ports": [{"port": 8080, "protocol": "UDP"}]}]), Admits::Nobody);
        check(json!([{"ports": [{"port": "http"}]}]), Admits::All);
        check(json!([{"ports": [{"port": 8000, "endPort": 9000}]}]), Admits::All);
        check(json!([{"ports": [{"protocol": "TCP"}], "from": [{"ipBlock": {}}]}]), Admits::Some);
    }

    #[test]
    fn a_policy_limits_the_connections_that_its_types_or_rules_name() {
        let check = |spec: Value, ingress: bool, egress: bool| {
            let (policy, labels) = (policy(spec.clone()), StringMap::default());
            assert_eq!(policy.limits(Direction::Ingress, &labels), ingress, "{spec}");
            assert_eq!(policy.limits(Direction::Egress, &labels), egress, "{spec}");
        };
        check(json!({}), true, false);
        check(json!({"egress": [{}]}), true, true);
        check(json!({"policyTypes": ["Egress"]}), false, true);
        check(json!({"policyTypes": ["Ingress", "Egress"]}), true, true);
        check(json!({"podSelector": {"matchLabels": {"app": "db"}}}), false, false);
    }

    #[test]
    fn a_policy_may_let_ask_dns_unless_no_rule_can_mean_a_dns_server() {
        let check = |egress: Value, want: bool| {
            assert_eq!(policy(json!({"egress": egress})).may_let_ask_dns(), want, "{egress}");
        };
        let of_namespace =
            |name: &str| json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}});
        check(json!([]), false);
        check(json!([{}]), true);
        check(json!([{"ports": [{"port": 53, "protocol": "UDP"}]}]), true);
        check(json!([{"ports": [{"port": 5353, "protocol": "TCP"}]}]), true);
        check(json!([{"ports": [{"port": "dns", "protocol": "UDP"}]}]), true);
        check(json!([{"ports": [{"port": 8080}]}]), false);
        check(json!([{"to": [{"podSelector": {}}]}]), false);
        check(json!([{"to": [{"ipBlock": {"cidr": "10.96.0.10/32"}}]}]), true);
        check(json!([{"to": [of_namespace("shop")]}]), false);
        check(json!([{"to": [of_namespace("kube-system")]}]), true);
        check(json!([{"to": [{"namespaceSelector": {"matchLabels": {"dns": "yes"}}}]}]), true);
    }
}
