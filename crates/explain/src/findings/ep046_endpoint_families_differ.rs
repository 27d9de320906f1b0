//! An IP family of the Service has no ready endpoint.

use kube_endpoint_core_model::{AddressType, IpFamily};

use super::words::{addresses, families};
use super::{NotKnown, SliceUnused, UnusedSlice};
use crate::findings::prelude::*;
use crate::models::traffic::UnansweredQuestion;

about! {
    /// The Service has no selector. kube-proxy uses the addresses of the families in
    /// `spec.ipFamilies`, and no domain names. If one of two families has no ready endpoint, the
    /// severity is warning: kube-proxy refuses connections to the cluster IP of that family, unless
    /// a terminating endpoint still serves. The explanation does not check a headless Service,
    /// whose clients ask DNS. Gateways and meshes that read slices themselves may use other
    /// addresses. [EP050](#ep050-slices-behind) reports addresses of the Endpoints that their
    /// mirrored slices lack.
    EP046 "endpoint-families-differ" Error
    "An IP family of the Service has no ready endpoint."
}

/// IP families of a Service in which the endpoints written for it have no address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointFamiliesDiffer {
    /// The IP families of the Service in which no ready endpoint has an address.
    pub missing: Vec<IpFamily>,
    /// The types of the addresses of its ready endpoints.
    pub has: Vec<AddressType>,
    /// True if the Service's first family, which never changes, is among the missing ones.
    pub first_is_missing: bool,
    /// True if the Service has no other families.
    pub none_is_left: bool,
}

impl Finding for EndpointFamiliesDiffer {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let held = inputs.mismatched_endpoints().filter(|held| !held.missing.is_empty());
        let found = held.map(|held| {
            let first = inputs.service.ip_families.first();
            Self {
                first_is_missing: first.is_some_and(|first| held.missing.contains(first)),
                none_is_left: held.families.is_empty(),
                missing: held.missing,
                has: held.types,
            }
        });
        found.into_iter().collect()
    }

    fn severity(&self) -> Option<Severity> {
        (!self.none_is_left).then_some(Severity::Warning)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        std::iter::once(read.families()).chain(read.types_of_slices()).collect()
    }

    /// Nobody can change the first family of a Service, so it may have to be a new one.
    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let missing = families(&self.missing);
        let other = self.has.iter().find(|address_type| **address_type != AddressType::Fqdn);
        let sentence = match other.map(|other| other.as_str()) {
            None => format!(
                "Write {missing} addresses, because kube-proxy ignores domain names, or use a Service with spec.type ExternalName"
            ),
            Some(other) if self.first_is_missing || self.none_is_left => format!(
                "Write ready endpoints with {missing} addresses, or create the Service anew with spec.ipFamilies: [{other}] and without spec.clusterIP and spec.clusterIPs"
            ),
            Some(other) => format!(
                "Write ready endpoints with {missing} addresses, too, or make the Service single-stack: it then keeps {other}, its first family"
            ),
        };
        Remedy::ask(EndpointsWriter, sentence)
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }

    /// The slices show why no endpoint receives traffic, and each of them has other addresses.
    fn explains(&self, other: &Fault) -> bool {
        match other {
            Fault::NotKnown(NotKnown { open, .. }) => *open == UnansweredQuestion::NoTraffic,
            Fault::SliceUnused(SliceUnused { cause, .. }) => matches!(cause, UnusedSlice::Family { .. }),
            _ => false,
        }
    }
}

impl fmt::Display for EndpointFamiliesDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has: Vec<&str> = self.has.iter().copied().map(addresses).collect();
        let (missing, has) = (families(&self.missing), has.join(" and "));
        write!(f, "no ready endpoint has an {missing} address; the ready ones have {has}")
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn clients_of_a_headless_service_use_the_addresses_of_both_families() {
        let other = example("ep046-endpoint-families-differ");
        assert!(other.finds(Code::EndpointFamiliesDiffer));
        let headless = other.with("Service/web", json!({"spec": {"clusterIP": "None"}}));
        assert!(!headless.finds(Code::EndpointFamiliesDiffer));
    }

    #[test]
    fn it_explains_the_slices_that_are_not_used() {
        let all = example("ep046-endpoint-families-differ");
        assert!(!all.finds(Code::SliceUnused));
        let both = json!({"subsets": [{
            "addresses": [{"ip": "fd00::9"}, {"ip": "10.9.0.1"}],
            "ports": [{"port": 8080, "protocol": "TCP"}],
        }]});
        let one = all.with("Endpoints/web", both);
        assert!(one.finds(Code::SliceUnused) && !one.finds(Code::EndpointFamiliesDiffer));
    }
}
