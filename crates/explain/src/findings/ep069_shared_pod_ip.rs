//! Several pods have the same IP address.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kube_endpoint_core_model::address;
use serde_json::json;

use crate::findings::evidence::OBJECTS;
use crate::findings::prelude::*;

about! {
    /// Addresses of pods are unique in a cluster. If the network plugin assigns one twice, the
    /// network sends packets to one of the pods, and kube-proxy takes both for one endpoint. Only
    /// ready pods count that are not in the network of their node, are not being deleted, and whose
    /// node exists: others may have had the address before. If all of the pods are the Service's,
    /// the severity is warning. From a server, `explain` compares the pods of the Service, and
    /// `lint` all pods that it reads; from files, both compare all. Both do so only if you may read
    /// nodes. The overview of the status page does not know which pods are in the network of their
    /// node, and leaves the finding out.
    EP069 "shared-pod-ip" Error
    "Several pods have the same IP address."
}

/// The maximum number of pods in a finding.
const PODS: usize = 20;

/// The maximum number of pods in the sentence.
const NAMED: usize = 3;

/// Pods with the same address, some of them the Service's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedPodIp {
    pub address: Text,
    /// The first 20 pods that have this address, sorted.
    pub pods: Vec<ObjectKey>,
    /// The number of pods that have it.
    pub count: usize,
    /// The number of other addresses that several pods have, too.
    pub more: usize,
    /// True if some of the pods are not the Service's.
    pub with_others: bool,
}

impl Finding for SharedPodIp {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let is_own = |pod: &ObjectKey| {
            pod.namespace == inputs.service.key.namespace
                && inputs.pods.binary_search_by(|own| own.key.name.cmp(&pod.name)).is_ok()
        };
        let addresses: BTreeSet<IpAddr> =
            inputs.pods.iter().flat_map(|pod| pod.pod_ips.iter().copied()).collect();
        let mut shared: Vec<(IpAddr, Vec<&ObjectKey>)> =
            addresses.into_iter().map(|ip| (ip, inputs.across.pods_that_share(ip))).collect();
        // A pod that has ended may have had the address of two pods of others.
        shared.retain(|(_, pods)| pods.iter().any(|pod| is_own(pod)));
        let found = shared.first().map(|(ip, pods)| Self {
            address: address::to_text(ip),
            pods: pods.iter().take(PODS).copied().cloned().collect(),
            count: pods.len(),
            more: shared.len() - 1,
            with_others: shared.iter().flat_map(|(_, pods)| pods).any(|pod| !is_own(pod)),
        });
        found.into_iter().collect()
    }

    fn severity(&self) -> Option<Severity> {
        (!self.with_others).then_some(Severity::Warning)
    }

    fn evidence(&self, _: &Read<'_>) -> Vec<Evidence> {
        let address = |pod| Evidence::new("Pod", pod, ".status.podIP", &json!(self.address));
        self.pods.iter().take(OBJECTS).map(address).collect()
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let selector = format!("status.podIP={}", self.address);
        let pods = Step::kubectl(["get", "pods", "-A", "-o", "wide", "--field-selector", &selector]);
        Remedy::ask(
            ClusterAdministrator,
            "Look at the network plugin, which assigns the addresses (CNI, IPAM): do two nodes have the same range of addresses, or was an address assigned that a pod still had? Then delete all of these pods but one, so that they get others",
        )
        .shown_by([pods])
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl fmt::Display for SharedPodIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<String> = self.pods.iter().take(NAMED).map(ToString::to_string).collect();
        let rest = self.count.saturating_sub(names.len());
        if rest > 0 {
            names.push(format!("{rest} more"));
        }
        let last = names.pop().unwrap_or_default();
        write!(
            f,
            "pods {} and {last} have the same address {}, so one may get what is for another",
            names.join(", "),
            self.address
        )?;
        match self.more {
            0 => Ok(()),
            1 => f.write_str("; one more address belongs to several pods"),
            more => write!(f, "; {more} more addresses belong to several pods"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn pods_that_are_not_ready_or_in_the_network_of_their_node_may_share_an_address() {
        let ready = example("ep069-shared-pod-ip");
        assert!(ready.finds(Code::SharedPodIp));
        let of_node = ready.clone().with("Pod/batch-1", json!({"spec": {"hostNetwork": true}}));
        assert!(!of_node.finds(Code::SharedPodIp));
        let conditions = json!([{"type": "Ready", "status": "False"}]);
        let not_ready = ready.with("Pod/batch-1", json!({"status": {"conditions": conditions}}));
        assert!(!not_ready.finds(Code::SharedPodIp));
    }
}
