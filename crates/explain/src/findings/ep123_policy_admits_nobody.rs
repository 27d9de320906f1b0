//! NetworkPolicies admit nobody to a port of the pods.

use std::collections::BTreeSet;

use kube_endpoint_core_model::Pod;
use kube_endpoint_core_model::port::find_port;
use kube_endpoint_core_model::service::ServicePort;

use crate::facts::policy::{Admits, Direction, Policy};
use crate::findings::evidence::OBJECTS;
use crate::findings::pod::Publication;
use crate::findings::prelude::*;
use crate::models::client::port_of;

about! {
    /// A pod that some NetworkPolicy selects accepts only the connections that one of them admits.
    /// Here none of them admits anybody to a port of the Service, for example since they have no
    /// rule, or rules for other ports. Endpoints are published nevertheless, so clients wait for a
    /// connection and give up. Network plugins enforce policies, or not, so the finding says
    /// *may*. Pods in the network of their node are left out. A policy that admits some clients is
    /// no finding: nobody knows here where yours are, unless you name one
    /// ([EP124](#ep124-client-not-admitted)).
    EP123 "policy-admits-nobody" Warning
    "NetworkPolicies may let nobody reach a port of the pods."
}

/// Ports that NetworkPolicies close for everybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyAdmitsNobody {
    /// The policies that select the pods.
    pub policies: Vec<Text>,
    /// The ports of the Service, such as `80 (http)`.
    pub ports: Vec<String>,
    /// The ports of the pods behind them, such as `8080` or `5353/UDP`.
    #[serde(skip)]
    pub pod_ports: BTreeSet<String>,
    /// The number of pods that receive traffic.
    pub pods: usize,
}

/// Returns the policies about a pod if they admit nobody to a port of the Service.
fn closing<'p>(policies: &[&'p Policy], pod: &Pod, port: &ServicePort) -> Option<Vec<&'p Policy>> {
    let asked = port_of(pod, port)?;
    let about: Vec<&Policy> = policies
        .iter()
        .copied()
        .filter(|it| !pod.host_network && it.limits(Direction::Ingress, &pod.labels))
        .collect();
    let admitted = about.iter().map(|policy| policy.admits(&asked)).max()?;
    (admitted == Admits::Nobody).then_some(about)
}

impl Finding for PolicyAdmitsNobody {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let policies: Vec<_> = inputs.objects.policies_of(&inputs.service.key.namespace).collect();
        // Of a client that somebody names, more is known.
        if policies.is_empty() || inputs.options.from.is_some() {
            return Vec::new();
        }
        let ready = inputs.explained.iter().filter(|pod| pod.publication == Publication::Ready);
        let ready: BTreeSet<&Text> = ready.map(|pod| &pod.name).collect();
        let pods: Vec<&Pod> =
            inputs.pods.iter().filter(|pod| ready.contains(&pod.key.name)).map(|pod| &**pod).collect();
        let (mut ports, mut pod_ports, mut by) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for port in &inputs.service.ports {
            let closed: Option<Vec<_>> = pods.iter().map(|pod| closing(&policies, pod, port)).collect();
            if let Some(closed) = closed.filter(|closed| !closed.is_empty()) {
                by.extend(closed.into_iter().flatten().map(|policy| policy.name.clone()));
                ports.push(match &*port.name {
                    "" => port.port.to_string(),
                    name => format!("{} ({name})", port.port),
                });
                pod_ports.extend(pods.iter().filter_map(|pod| find_port(pod, port)).map(|number| {
                    if *port.protocol == *"TCP" {
                        number.to_string()
                    } else {
                        format!("{number}/{}", port.protocol)
                    }
                }));
            }
        }
        let found = Self { policies: by.into_iter().collect(), ports, pod_ports, pods: pods.len() };
        Some(found).filter(|found| !found.ports.is_empty()).into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        self.policies.iter().take(OBJECTS).map(|policy| read.policy(policy)).collect()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let show = self
            .policies
            .iter()
            .map(|policy| Step::kubectl_in(&service.namespace, ["describe", "networkpolicy", policy]));
        let sentence = format!(
            "Admit the clients to port {} of the pods in a NetworkPolicy, which knows no ports of Services",
            self.pod_ports()
        );
        Remedy::ask(ServiceOwner, sentence).shown_by(show.collect::<Vec<_>>())
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl PolicyAdmitsNobody {
    fn pod_ports(&self) -> String {
        self.pod_ports.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for PolicyAdmitsNobody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (policies, verb) = match &*self.policies {
            [one] => (format!("the NetworkPolicy {one}"), "admits"),
            all => (format!("the NetworkPolicies {}", names(all)), "admit"),
        };
        let pods = if self.pods == 1 { "the pod" } else { "the pods" };
        write!(
            f,
            "{policies} {verb} nobody to port {} of {pods}, so clients may get no answer",
            self.pod_ports()
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_policy_that_admits_some_clients_is_no_finding() {
        let closed = example("ep123-policy-admits-nobody");
        assert!(closed.finds(Code::PolicyAdmitsNobody));
        for ingress in [json!([{"from": [{"podSelector": {}}]}]), json!([{"ports": [{"port": 8080}]}])] {
            let open = closed.clone().with("NetworkPolicy/closed", json!({"spec": {"ingress": ingress}}));
            assert!(!open.finds(Code::PolicyAdmitsNobody), "{ingress}");
        }
        let of_others = json!({"spec": {"podSelector": {"matchLabels": {"app": "db"}}}});
        assert!(!closed.with("NetworkPolicy/closed", of_others).finds(Code::PolicyAdmitsNobody));
    }
}
