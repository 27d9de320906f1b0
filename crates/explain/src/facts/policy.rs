//! NetworkPolicies: who reaches pods.

use kube_endpoint_core_model::label_selector::LabelSelectorFields;
use kube_endpoint_core_model::pod::ContainerPort;
use kube_endpoint_core_model::{LabelSelector, StringMap, Text};
use serde::Deserialize;
use serde_json::Value;

use crate::facts::json::each;

/// A NetworkPolicy for incoming connections. Pods that some policy selects accept only what a
/// policy admits.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) name: Text,
    pub(crate) pods: LabelSelector,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    /// The ports, or `None` for all.
    ports: Option<Vec<Ports>>,
    /// True if the rule names peers; otherwise it admits all.
    has_peers: bool,
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
    /// Reads a policy. Returns `None` if it says nothing about incoming connections, or cannot be
    /// read.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        // Without policyTypes, a policy is about incoming connections.
        let is_ingress =
            spec["policyTypes"].as_array().is_none_or(|types| types.iter().any(|it| it == "Ingress"));
        let rules = each(&spec["ingress"]).map(Rule::read).collect();
        let pods = LabelSelectorFields::deserialize(&spec["podSelector"]).ok().filter(|_| is_ingress)?;
        let pods = LabelSelector::try_from(&pods).ok()?;
        Some(Self { name: object["metadata"]["name"].as_str()?.into(), pods, rules })
    }

    /// Returns true if the policy is about pods with these labels.
    pub(crate) fn is_about(&self, labels: &StringMap) -> bool {
        self.pods.matches(labels)
    }

    /// Returns whom the policy admits to a port.
    pub(crate) fn admits(&self, port: &ContainerPort) -> Admits {
        let of = self.rules.iter().filter(|rule| rule.is_about(port));
        of.map(|rule| if rule.has_peers { Admits::Some } else { Admits::All }).max().unwrap_or(Admits::Nobody)
    }
}

impl Rule {
    fn read(rule: &Value) -> Self {
        let list = |field: &str| rule[field].as_array().filter(|list| !list.is_empty());
        Self {
            ports: list("ports").map(|ports| ports.iter().map(Ports::read).collect()),
            has_peers: list("from").is_some(),
        }
    }

    fn is_about(&self, port: &ContainerPort) -> bool {
        self.ports.as_ref().is_none_or(|ports| ports.iter().any(|it| it.has(port)))
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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn port(name: &str, number: i32) -> ContainerPort {
        ContainerPort { name: name.into(), container_port: number, protocol: "TCP".into() }
    }

    #[test]
    fn rules_admit_all_some_or_nobody() {
        let check = |ingress: Value, want: Admits| {
            let object = json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}, "ingress": ingress}});
            assert_eq!(Policy::read(&object).unwrap().admits(&port("http", 8080)), want, "{ingress}");
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
    fn a_policy_for_outgoing_connections_is_left_out() {
        let spec = json!({"podSelector": {}, "policyTypes": ["Egress"]});
        assert!(Policy::read(&json!({"metadata": {"name": "p"}, "spec": spec})).is_none());
    }
}
