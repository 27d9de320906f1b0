//! A traffic policy is Local, and some nodes have no endpoint of the Service.

use std::sync::Arc;

use kube_endpoint_core_model::EndpointSlice;

use crate::findings::prelude::*;
use crate::models::traffic::{ServedBy, has_ready};

about! {
    /// With a policy `Local`, the kube-proxy of each node sends clients only to endpoints of its
    /// own node, and drops their connections if there are none. `spec.internalTrafficPolicy` is for
    /// clients of the cluster IP. `spec.externalTrafficPolicy` is for clients from outside: a load
    /// balancer asks each node's health check (`spec.healthCheckNodePort`) and leaves out nodes
    /// without an endpoint, and node ports there do not answer, so the severity is info. If no node
    /// has an endpoint, it is error. It is info, too, if you may not read nodes: other nodes may
    /// exist. Nodes that keep ordinary pods away do not count: those that are cordoned, not ready,
    /// or have a taint with the effect `NoSchedule` or `NoExecute`. So a DaemonSet with a pod on
    /// each other node is no finding. Endpoints on nodes that do not exist get no traffic, and are
    /// a finding even if each node has an endpoint. The overview of the manager's status page does
    /// not check this, because the manager's caches hold no traffic policies.
    EP048 "no-local-endpoint" Warning
    "A traffic policy is Local, and some nodes have no endpoint of the Service."
}

/// A policy `Local`, and nodes whose clients have no endpoint because of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoLocalEndpoint {
    /// The policy that is `Local`.
    pub policy: LocalPolicy,
    /// The number of nodes with an endpoint for their own clients.
    pub with: usize,
    /// The nodes without such an endpoint on which ordinary pods run. Empty if nodes are not known.
    pub without: Vec<Text>,
    /// The number of other nodes without such an endpoint. They keep away pods without tolerations.
    pub closed: usize,
    /// The nodes that endpoints name and that do not exist, if no client is sent to these
    /// endpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Text>,
    /// True if all nodes are known.
    pub are_nodes_known: bool,
    /// True if load balancers leave nodes without an endpoint out, because they ask each node's
    /// health check.
    pub has_health_check: bool,
}

/// A traffic policy of a Service. Prints as the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LocalPolicy {
    /// `spec.internalTrafficPolicy`: clients of the cluster IP.
    Internal,
    /// `spec.externalTrafficPolicy`: clients from outside of the cluster.
    External,
}

impl fmt::Display for LocalPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Internal => "internalTrafficPolicy",
            Self::External => "externalTrafficPolicy",
        })
    }
}

impl Finding for NoLocalEndpoint {
    /// If no endpoint is ready at all, that is the reason instead.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let (served, policies, known) = (inputs.served, inputs.policies, inputs.options.known);
        if served.by != ServedBy::KubeProxy || !known.slices {
            return Vec::new();
        }
        let with = served.local_nodes.len();
        let is_ready = |slice: &Arc<EndpointSlice>| has_ready(slice);
        if with == 0 && !(inputs.counts.ready > 0 && inputs.slices().iter().any(is_ready)) {
            return Vec::new();
        }
        let nodes = inputs.objects.nodes.values();
        let lacking = nodes.filter(|node| known.nodes && !served.local_nodes.contains(&node.name));
        // Few clients are on nodes that keep pods away, and a DaemonSet leaves them out, too.
        let details = &inputs.objects.raw.nodes;
        let is_open = |name: &Text| details.get(name).is_some_and(|node| !node.keeps_pods_away);
        let (without, closed): (Vec<_>, Vec<_>) = lacking.partition(|node| node.ready && is_open(&node.name));
        let without: Vec<Text> = without.into_iter().map(|node| node.name.clone()).collect();
        // Other clients are sent to endpoints of all nodes.
        let missing = Some(&served.missing_nodes).filter(|_| !policies.uses_cluster());
        let missing: Vec<Text> = missing.into_iter().flatten().cloned().collect();
        if known.nodes && without.is_empty() && missing.is_empty() && with > 0 {
            return Vec::new();
        }
        let external = policies.external_local && policies.externally_accessible;
        let local = [(policies.internal_local, LocalPolicy::Internal), (external, LocalPolicy::External)];
        let of_policy = |policy| Self {
            policy,
            with,
            without: without.clone(),
            closed: closed.len(),
            missing: missing.clone(),
            are_nodes_known: known.nodes,
            has_health_check: policies.has_health_check,
        };
        local.into_iter().filter(|(is_local, _)| *is_local).map(|(_, policy)| of_policy(policy)).collect()
    }

    /// Load balancers leave out nodes without an endpoint.
    fn severity(&self) -> Option<Severity> {
        match self {
            Self { with: 0, .. } => Some(Severity::Error),
            Self { policy: LocalPolicy::External, .. } | Self { are_nodes_known: false, .. } => {
                Some(Severity::Info)
            }
            _ => None,
        }
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let field = match self.policy {
            LocalPolicy::Internal => ".spec.internalTrafficPolicy",
            LocalPolicy::External => ".spec.externalTrafficPolicy",
        };
        std::iter::once(read.service(field, "Local")).chain(read.slices()).collect()
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let Self { policy, with, without, .. } = self;
        let set = format!("set spec.{policy} to Cluster");
        let sentence = match (policy, with) {
            (_, 1..) if without.is_empty() => {
                "Delete the pods of these nodes, or correct the nodeName of the endpoints".to_owned()
            }
            (_, 0) => format!("Write nodeName into the endpoints, or {set}"),
            (LocalPolicy::Internal, _) => {
                format!("Run a pod on each node, for example with a DaemonSet, or {set}")
            }
            (LocalPolicy::External, _) if self.has_health_check => format!(
                "Nothing, if clients use the load balancer, which leaves these nodes out; if they use node ports, {set}"
            ),
            (LocalPolicy::External, _) => {
                format!(
                    "Nothing, if the load balancer leaves nodes out that fail its health check; else {set}"
                )
            }
        };
        Remedy::ask(ServiceOwner, sentence)
    }

    fn traffic_lost(&self) -> TrafficLost {
        match self {
            Self { policy: LocalPolicy::Internal, .. } | Self { with: 0, .. } => TrafficLost::Some,
            _ => TrafficLost::None,
        }
    }
}

impl fmt::Display for NoLocalEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = self.with;
        write!(f, "the Service's {} is Local, and ", self.policy)?;
        if with == 0 {
            return write!(f, "no endpoint names a node that exists, so {}", self.no_answer_on("any node"));
        }
        if !self.are_nodes_known {
            let have = if with == 1 { "node has" } else { "nodes have" };
            return write!(f, "{with} {have} an endpoint; whether there are other nodes could not be read");
        }
        let without = self.without.len();
        if without == 0 {
            let missing = names(&self.missing);
            return write!(
                f,
                "endpoints are on nodes that do not exist, so no client is sent to them: {missing}"
            );
        }
        let (have, it, fails) =
            if without == 1 { ("has", "it", "it fails") } else { ("have", "them", "they fail") };
        let but = match self.closed {
            0 => String::new(),
            1 => " (without 1 that keeps ordinary pods away)".to_owned(),
            more => format!(" (without {more} that keep ordinary pods away)"),
        };
        let so = if self.policy == LocalPolicy::External && self.has_health_check {
            format!(
                "{fails} the load balancer's health check, and clients of the node ports there get no answer"
            )
        } else {
            self.no_answer_on(it)
        };
        let (all, names) = (with + without, names(&self.without));
        write!(f, "{without} of {all} nodes{but} {have} no endpoint, so {so}: {names}")
    }
}

impl NoLocalEndpoint {
    /// Says whose clients get no answer.
    fn no_answer_on(&self, place: &str) -> String {
        match self.policy {
            LocalPolicy::Internal => format!("clients on {place} get no answer"),
            LocalPolicy::External => format!("clients from outside that come to {place} get no answer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_node_that_keeps_pods_away_needs_no_endpoint() {
        let open = example("ep048-no-local-endpoint");
        assert!(open.finds(Code::NoLocalEndpoint));
        let cordoned = open.with("Node/node-b", json!({"spec": {"unschedulable": true}}));
        assert!(!cordoned.finds(Code::NoLocalEndpoint));
    }

    #[test]
    fn without_any_ready_pod_no_policy_is_the_reason() {
        let conditions = json!([{"type": "Ready", "status": "False"}]);
        let not_ready = example("ep048-no-local-endpoint")
            .with("Pod/web-1", json!({"status": {"conditions": conditions}}));
        assert!(!not_ready.finds(Code::NoLocalEndpoint));
    }
}
