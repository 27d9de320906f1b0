//! Counts the endpoints of a Service that receive traffic, by the models of its consumers, and names
//! the questions that stay open.

mod served;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use kube_endpoint_core_model::slice::EndpointConditions;
use kube_endpoint_core_model::{AddressType, EndpointSlice, IpFamily, Service, Text, address};
use serde::Serialize;

use crate::Known;
use crate::consumers::kube_proxy::{IgnoredSlice, ignores_slice};
use crate::explanation::Counts;
use crate::pod::{PodExplanation, Publication};

pub use served::ServedBy;
pub(crate) use served::{Served, uses};

/// A question about a Service that stays open because a kind of object could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Open {
    /// Does it receive traffic?
    Traffic,
    /// Why does no endpoint receive traffic?
    NoTraffic,
    /// Why do some endpoints receive no traffic?
    LessTraffic,
    /// Should more endpoints receive traffic than those that do?
    MoreTraffic,
}

impl Open {
    /// Returns true if the status of the Service depends on the answer.
    pub fn hides_status(self) -> bool {
        matches!(self, Self::Traffic | Self::MoreTraffic)
    }

    /// Returns the question as the subject of a sentence.
    pub(crate) fn subject(self) -> &'static str {
        match self {
            Self::Traffic => "whether the Service receives traffic",
            Self::NoTraffic => "why no endpoint receives traffic",
            Self::LessTraffic => "why some endpoints receive no traffic",
            Self::MoreTraffic => "whether more endpoints should receive traffic",
        }
    }
}

/// Returns true if kube-proxy uses an endpoint with these conditions while no endpoint is ready.
pub(crate) fn is_last_resort(conditions: EndpointConditions) -> bool {
    conditions.ready == Some(false)
        && conditions.serving != Some(false)
        && conditions.terminating == Some(true)
}

fn is_ready(conditions: EndpointConditions) -> bool {
    conditions.ready != Some(false)
}

pub(crate) fn has_ready(slice: &EndpointSlice) -> bool {
    slice.endpoints.iter().any(|endpoint| is_ready(endpoint.conditions))
}

/// Returns true if some slice has a ready endpoint.
pub(crate) fn any_ready(slices: &[Arc<EndpointSlice>]) -> bool {
    slices.iter().any(|slice| has_ready(slice))
}

/// Returns true if kube-proxy ignores a slice because of its label.
pub(crate) fn is_labelled_headless(service: &Service, slice: &EndpointSlice) -> bool {
    // kube-proxy looks at the label before the family.
    ignores_slice(service, slice, IpFamily::IPv4) == Some(IgnoredSlice::Headless)
}

/// Returns true if the program that serves the Service uses addresses of a slice's type. DNS uses
/// all types.
pub(crate) fn has_family(service: &Service, slice: &EndpointSlice) -> bool {
    let has = |family: &IpFamily| AddressType::from(*family) == slice.address_type;
    ServedBy::of(service) != ServedBy::KubeProxy || service.slice_families().iter().any(has)
}

/// Counts the pods of a Service. If slices are unknown, the number of pods that receive traffic is
/// known only if no pod should receive any.
pub(crate) fn count_pods(service: &Service, pods: &[PodExplanation], known: Known) -> Counts {
    let of = |publication| pods.iter().filter(|pod| pod.publication == publication).count();
    let answers = |pod: &&PodExplanation| pod.publication == Publication::Ready && !pod.runs_nothing;
    let ready = pods.iter().filter(answers).count();
    let may_receive =
        ready > 0 || (!service.is_headless() && pods.iter().any(PodExplanation::is_ending_and_serving));
    let receiving = pods.iter().filter(answers).filter(|pod| pod.is_sent_traffic());
    Counts {
        selected: pods.len(),
        ready,
        not_ready: of(Publication::NotReady) + of(Publication::Ready) - ready,
        left_out: of(Publication::LeftOut),
        receiving: (known.slices || !may_receive).then(|| receiving.count()),
        ending: pods.iter().filter(|pod| pod.is_last_resort()).count(),
        others: 0,
    }
}

/// Counts the ready endpoints that receive traffic, in slices that `manager` does not write, except
/// those of the pods.
pub(crate) fn count_others(
    served: &Served,
    pods: &[PodExplanation],
    slices: &[Arc<EndpointSlice>],
    manager: &str,
) -> usize {
    let foreign = || slices.iter().filter(|slice| !slice.is_managed_by(manager));
    if foreign().next().is_none() {
        return 0;
    }
    let own: BTreeSet<IpAddr> = pods.iter().flat_map(|pod| &pod.addresses).copied().collect();
    let mut others: BTreeSet<&Text> = BTreeSet::new();
    for slice in foreign() {
        let addresses_sent = served.endpoints_of(slice);
        for endpoint in slice.endpoints.iter().filter(|endpoint| is_ready(endpoint.conditions)) {
            let sent = endpoint.addresses.iter().take(addresses_sent(endpoint));
            others
                .extend(sent.filter(|text| address::parse_sloppy(text).is_none_or(|ip| !own.contains(&ip))));
        }
    }
    others.len()
}

/// Counts the endpoints of slices.
pub(crate) fn count_endpoints(served: &Served, slices: &[Arc<EndpointSlice>], known: Known) -> Counts {
    if !known.slices {
        return Counts::default();
    }
    let (mut selected, mut ready, mut receiving, mut ending) = (0, 0, 0, 0);
    for slice in slices {
        let addresses_sent = served.endpoints_of(slice);
        for endpoint in &slice.endpoints {
            let (is_ready, is_sent) = (is_ready(endpoint.conditions), addresses_sent(endpoint) > 0);
            selected += 1;
            ready += usize::from(is_ready);
            receiving += usize::from(is_ready && is_sent);
            ending += usize::from(!is_ready && is_sent);
        }
    }
    Counts {
        selected,
        ready,
        not_ready: selected - ready,
        left_out: 0,
        receiving: Some(receiving),
        ending,
        others: 0,
    }
}

/// Returns true if an endpoint of one of the Service's families receives no traffic and is not
/// being deleted. Somebody may list endpoints of other families on purpose.
pub(crate) fn is_less_than_listed(service: &Service, served: &Served, slices: &[Arc<EndpointSlice>]) -> bool {
    slices.iter().filter(|slice| has_family(service, slice)).any(|slice| {
        let addresses_sent = served.endpoints_of(slice);
        slice.endpoints.iter().any(|endpoint| {
            let conditions = endpoint.conditions;
            if is_ready(conditions) {
                addresses_sent(endpoint) == 0
            } else {
                conditions.terminating != Some(true)
            }
        })
    })
}
