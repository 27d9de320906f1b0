//! The pod has an address of one of the Service's IP families only.

use std::net::IpAddr;

use kube_endpoint_core_model::IpFamily;

use crate::findings::pod::Publication;
use crate::findings::prelude::*;
use crate::findings::{ep016_no_address_of_family, words};

about! {
    /// A dual-stack Service has slices of both families. This pod is in those of one family, so
    /// clients that use the other family do not reach it.
    EP029 "some-families-missing" Warning
    "The pod has an address of one of the Service's IP families only."
}

/// A pod without addresses of all families of the Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SomeFamiliesMissing {
    /// The families that the Service asks for and the pod lacks.
    pub missing: Vec<IpFamily>,
    /// The addresses that the pod has.
    pub has: Vec<IpAddr>,
    /// True if the Service's first family, which never changes, is among the missing ones.
    pub first_is_missing: bool,
}

impl PodFinding for SomeFamiliesMissing {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let families = pod.service.ip_families.iter();
        let missing = families.filter(|family| pod.pod.addresses(**family).next().is_none());
        let missing: Vec<_> = missing.copied().collect();
        let first = pod.service.ip_families.first();
        let first_is_missing = first.is_some_and(|first| missing.contains(first));
        let is_published = pod.publication() == Publication::Ready && !missing.is_empty();
        is_published.then(|| Self { missing, has: pod.pod.pod_ips.to_vec(), first_is_missing })
    }

    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        let has = all.iter().map(|one| &*one.has);
        ep016_no_address_of_family::no_address(&words::families(&first.missing), has)
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.of_service.families(), pod.addresses()]
    }

    fn remedy(all: &[&Self], _: &PodsOf<'_>) -> Remedy {
        let [Self { missing, has, first_is_missing }, ..] = all else { return Remedy::default() };
        let has = if has.iter().any(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
        let or = if *first_is_missing {
            format!("create the Service again with {has} alone, since its first family cannot be changed")
        } else {
            format!("make the Service single-stack: it then keeps {has}, its first family")
        };
        Remedy::ask(ServiceOwner, format!("Give all pods {} addresses, or {or}", words::families(missing)))
    }

    fn group(&self) -> Option<String> {
        Some(format!("{:?}", self.missing))
    }

    fn receives_traffic(&self) -> bool {
        true
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_single_stack_service_lacks_no_family() {
        let dual = example("ep029-some-families-missing");
        assert!(dual.finds(Code::SomeFamiliesMissing));
        let single = json!({"spec": {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}});
        assert!(!dual.with("Service/web", single).finds(Code::SomeFamiliesMissing));
    }
}
