//! The pod has no address of the Service's IP family.

use std::net::IpAddr;

use kube_endpoint_core_model::{IpFamily, LeftOut};

use crate::findings::pod_reason::{distinct, first_few};
use crate::findings::prelude::*;

about! {
    /// A slice has addresses of one IP family. The Service asks for a family in which the pod has
    /// no address. A Service cannot change its first family; create it again.
    EP016 "no-address-of-family" Error
    "The pod has no address of the Service's IP family."
}

/// A pod without an address of the Service's family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoAddressOfFamily {
    /// The family that the Service asks for.
    pub family: IpFamily,
    /// The addresses that the pod has.
    pub has: Vec<IpAddr>,
}

impl PodFinding for NoAddressOfFamily {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let LeftOut::NoAddressOfFamily { family } = pod.left_out()? else { return None };
        Some(Self { family: *family, has: pod.pod.pod_ips.to_vec() })
    }

    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        no_address(&format!("{:?}", first.family), all.iter().map(|one| &*one.has))
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.of_service.families(), pod.addresses()]
    }

    fn remedy(all: &[&Self], _: &PodsOf<'_>) -> Remedy {
        let [first, ..] = all else { return Remedy::default() };
        let sentence = format!(
            "Give pods {:?} addresses (dual-stack network), or create the Service with a family that they have",
            first.family
        );
        Remedy::ask(ServiceOwner, sentence)
    }

    fn group(&self) -> Option<String> {
        Some(format!("{:?}", self.family))
    }
}

/// Says which addresses pods have in place of those of other families.
pub(super) fn no_address<'a>(families: &str, has: impl ExactSizeIterator<Item = &'a [IpAddr]>) -> String {
    let pods = if has.len() == 1 { "the pod has" } else { "the pods have" };
    let has = distinct(has.flatten().map(IpAddr::to_string));
    format!("{pods} no {families} address, only {}", first_few(&has))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn an_ipv4_service_needs_an_ipv4_address() {
        let pod = |ips: &[&str]| {
            let ips: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
            json!({"status": {"podIP": ips[0]["ip"], "podIPs": ips}})
        };
        assert_eq!(code_of(pod(&["fd00::1"])), Code::NoAddressOfFamily);
        assert_eq!(code_of(pod(&["fd00::1", "10.0.0.9"])), Code::Published);
    }
}
