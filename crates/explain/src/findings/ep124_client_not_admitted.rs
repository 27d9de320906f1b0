//! NetworkPolicies may keep a client that was named from the pods.

use super::words::each;
use crate::findings::evidence::OBJECTS;
use crate::findings::prelude::*;
use crate::models::client::Kept;

about! {
    /// `explain SERVICE --from NAMESPACE/POD` names a client. If policies limit the pods at both
    /// ends of a connection, one has to admit the client to the port of the pods, and one has to
    /// let the client connect to it. A policy has the port of the pods, which may differ from that
    /// of the Service, and a `podSelector` alone means pods of the policy's own namespace. A
    /// client that asks for the Service by its name has to reach a DNS server, too: it may not if
    /// no policy lets it use port 53, or 5353 or 8053, on which some DNS servers listen. Network
    /// plugins enforce policies, or not, so the finding says *may*. Nobody knows here what rules
    /// about pods mean for those in the network of their node.
    EP124 "client-not-admitted" Warning
    "NetworkPolicies may keep the client from the pods."
}

/// A client that NetworkPolicies may keep from the pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientNotAdmitted {
    /// The pod of the client.
    pub client: ObjectKey,
    #[serde(flatten)]
    pub kept: Kept,
}

impl Finding for ClientNotAdmitted {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let Some(client) = &inputs.options.from else { return Vec::new() };
        let kept = inputs.connections().map(|connections| connections.kept).unwrap_or_default();
        kept.into_iter().map(|kept| Self { client: client.clone(), kept }).collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let Kept { namespace, policies, .. } = &self.kept;
        policies.iter().take(OBJECTS).map(|policy| read.policy_of(namespace, policy)).collect()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let Self { client, kept } = self;
        let show = each(&kept.policies, |names| {
            Step::kubectl_in(&kept.namespace, [&["describe", "networkpolicy"], names].concat())
        });
        let ports = kept.ports.join(", ");
        let remedy = match kept.is_egress {
            true => {
                let pods = (!kept.ports.is_empty()).then(|| format!("connect to port {ports} of the pods"));
                let dns = kept.dns.then(|| "ask DNS servers (port 53, UDP and TCP)".to_owned());
                let what: Vec<String> = pods.into_iter().chain(dns).collect();
                let (what, namespace) = (what.join(" and "), &kept.namespace);
                let sentence =
                    format!("Let pods such as {client} {what} in a NetworkPolicy of namespace {namespace}");
                Remedy::ask(PodOwner, sentence)
            }
            false => {
                let elsewhere = match client.namespace == service.namespace {
                    true => String::new(),
                    false => format!(" with a namespaceSelector for {}", client.namespace),
                };
                let sentence = format!(
                    "If pods such as {client} are meant to be clients, admit them to port {ports} in a NetworkPolicy{elsewhere}"
                );
                Remedy::ask(ServiceOwner, sentence)
            }
        };
        remedy.shown_by(show)
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl fmt::Display for ClientNotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, kept } = self;
        let policies = match &*kept.policies {
            [one] => format!("the NetworkPolicy {one} of namespace {} does", kept.namespace),
            all => format!("the NetworkPolicies {} of namespace {} do", names(all), kept.namespace),
        };
        let pods = match (kept.pods, kept.of_pods) {
            (1, 1) => "the pod".to_owned(),
            (pods, all) if pods == all => "the pods".to_owned(),
            (pods, all) => format!("{pods} of {all} pods"),
        };
        let ports = kept.ports.join(", ");
        match (kept.is_egress, kept.ports.is_empty(), kept.dns) {
            (false, ..) => write!(f, "{policies} not admit pod {client} to port {ports} of {pods}")?,
            (true, true, _) => write!(f, "{policies} not let pod {client} ask a DNS server (port 53)")?,
            (true, false, dns) => {
                let dns = if dns { " or ask a DNS server (port 53)" } else { "" };
                write!(f, "{policies} not let pod {client} connect to port {ports} of {pods}{dns}")?;
            }
        }
        f.write_str(match kept.ports.is_empty() {
            true => ", so it may find no address for a name",
            false => ", so it may get no answer",
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_client_that_a_policy_admits_is_none() {
        let closed = example("ep124-client-not-admitted");
        assert!(closed.finds(Code::ClientNotAdmitted));
        assert!(!closed.finds(Code::PolicyAdmitsNobody));
        let admitting = |from: serde_json::Value| json!({"spec": {"ingress": [{"from": [from]}]}});
        for from in [
            json!({"namespaceSelector": {}}),
            json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}, "podSelector": {}}),
            json!({"ipBlock": {"cidr": "10.1.0.0/24"}}),
        ] {
            let open = closed.clone().with("NetworkPolicy/closed", admitting(from.clone()));
            assert!(!open.finds(Code::ClientNotAdmitted), "{from}");
        }
        // The labels of the namespace are not known.
        let team = admitting(json!({"namespaceSelector": {"matchLabels": {"team": "shop"}}}));
        let not_known = closed.with("NetworkPolicy/closed", team);
        assert!(!not_known.finds(Code::ClientNotAdmitted));
        let metadata = json!({"name": "shop", "labels": {"team": "other"}});
        let known = not_known.and(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}));
        assert!(known.finds(Code::ClientNotAdmitted));
    }

    #[test]
    fn what_rules_about_pods_mean_for_the_network_of_a_node_is_not_known() {
        let in_node = json!({"spec": {"hostNetwork": true}});
        let named = example("ep124-client-not-admitted").with("Pod/front-1", in_node);
        assert!(!named.finds(Code::ClientNotAdmitted));
        let nobody = named.with("NetworkPolicy/closed", json!({"spec": {"ingress": []}}));
        assert!(nobody.finds(Code::ClientNotAdmitted));
    }
}
