//! The pod's address is not an IP address.

use kube_endpoint_core_model::LeftOut;

use crate::findings::pod_reason::{distinct, first_few};
use crate::findings::prelude::*;

about! {
    /// An entry of the pod's `status.podIPs` is not an IP address. The API server would refuse a
    /// slice that contains it.
    EP015 "invalid-address" Error
    "The pod's address is not an IP address."
}

/// A pod whose address is no IP address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvalidAddress {
    /// The text in place of the address.
    pub address: Text,
}

impl PodFinding for InvalidAddress {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let LeftOut::InvalidAddress { address } = pod.left_out()? else { return None };
        Some(Self { address: address.clone() })
    }

    fn message(all: &[&Self]) -> String {
        let addresses = distinct(all.iter().map(|one| format!("{:?}", one.address)));
        match all.len() {
            1 => format!("the pod's address {} is not an IP address", first_few(&addresses)),
            _ => format!("the pods' addresses are not IP addresses: {}", first_few(&addresses)),
        }
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.field(".status.podIP", &*self.address)]
    }

    fn remedy(_: &[&Self], _: &PodsOf<'_>) -> Remedy {
        let sentence = "Correct what writes the pod's status: the kubelet or the network plugin";
        Remedy::ask(ClusterAdministrator, sentence)
    }

    fn group(&self) -> Option<String> {
        Some(String::new())
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_name_is_no_address_and_leading_zeros_are_allowed() {
        let pod = |ip: &str| json!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
        assert_eq!(code_of(pod("web-1.example")), Code::InvalidAddress);
        assert_eq!(code_of(pod("10.0.0.010")), Code::Published);
    }
}
