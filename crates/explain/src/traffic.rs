//! How many endpoints of a Service receive traffic, as kube-proxy chooses them, and what of that is not known.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_endpoint_core_model::slice::EndpointConditions;
use kube_endpoint_core_model::{AddressType, EndpointSlice, IpFamily, Service};
use serde::Serialize;

use crate::explanation::Counts;
use crate::pod::{PodExplanation, Publication};
use crate::proxy::{Offered, Wanted, is_for};
use crate::{Fault, Known, NamedPort, PodReason};

/// What is not known about a Service because a kind of object could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Open {
    /// Whether it receives traffic.
    Traffic,
    /// Why no endpoint receives traffic.
    NoTraffic,
    /// Why some endpoints receive no traffic.
    LessTraffic,
    /// Whether more endpoints should receive traffic than those that do.
    MoreTraffic,
}

impl Open {
    /// Returns true if the status of the Service depends on it.
    pub fn hides_status(self) -> bool {
        matches!(self, Self::Traffic | Self::MoreTraffic)
    }

    /// Returns what is not known, as the subject of a sentence.
    pub(crate) fn subject(self) -> &'static str {
        match self {
            Self::Traffic => "whether the Service receives traffic",
            Self::NoTraffic => "why no endpoint receives traffic",
            Self::LessTraffic => "why some endpoints receive no traffic",
            Self::MoreTraffic => "whether more endpoints should receive traffic",
        }
    }
}

/// Returns true if kube-proxy uses an endpoint with these conditions as long as none is ready.
pub(crate) fn is_last_resort(conditions: EndpointConditions) -> bool {
    conditions.ready == Some(false)
        && conditions.serving != Some(false)
        && conditions.terminating == Some(true)
}

fn is_ready(conditions: EndpointConditions) -> bool {
    conditions.ready != Some(false)
}

/// Counts the pods of a Service. Without slices, it is known that none receives traffic only if none should.
pub(crate) fn count_pods(service: &Service, pods: &[PodExplanation], known: Known) -> Counts {
    let of = |publication| pods.iter().filter(|pod| pod.publication == publication).count();
    let ready = of(Publication::Ready);
    let received = |pod: &&PodExplanation| pod.publication == Publication::Ready && pod.is_held_as_ready();
    let receiving = pods.iter().filter(received).count();
    // DNS, which clients of a headless Service ask, has ready endpoints only.
    let is_alone = receiving == 0;
    let ends =
        |pod: &&PodExplanation| pod.is_last_resort() && (!service.is_headless() || pod.is_held_as_ready());
    let ending = if is_alone { pods.iter().filter(ends).count() } else { 0 };
    let may_receive =
        ready > 0 || (!service.is_headless() && pods.iter().any(PodExplanation::is_ending_and_serving));
    Counts {
        selected: pods.len(),
        ready,
        not_ready: of(Publication::NotReady),
        left_out: of(Publication::LeftOut),
        receiving: (known.slices || !may_receive).then_some(receiving),
        ending,
    }
}

/// Counts the endpoints of slices.
pub(crate) fn count_endpoints(service: &Service, slices: &[Arc<EndpointSlice>], known: Known) -> Counts {
    if !known.slices {
        return Counts::default();
    }
    let wanted = Wanted::by(service);
    let (mut selected, mut ready, mut receiving, mut ending) = (0, 0, 0, 0);
    for slice in slices {
        let count = |wanted: fn(EndpointConditions) -> bool| {
            slice.endpoints.iter().filter(|endpoint| wanted(endpoint.conditions)).count()
        };
        selected += slice.endpoints.len();
        ready += count(is_ready);
        if wanted.uses(&Offered::by(slice)) {
            receiving += count(is_ready);
            ending += count(is_last_resort);
        }
    }
    if receiving > 0 || service.is_headless() {
        ending = 0;
    }
    Counts { selected, ready, not_ready: selected - ready, left_out: 0, receiving: Some(receiving), ending }
}

fn has_ready(slice: &EndpointSlice) -> bool {
    slice.endpoints.iter().any(|endpoint| is_ready(endpoint.conditions))
}

/// Returns the slices with ready endpoints that kube-proxy ignores because of a label.
pub(crate) fn ignored<'a>(
    service: &Service,
    slices: &'a [Arc<EndpointSlice>],
) -> impl Iterator<Item = &'a Arc<EndpointSlice>> {
    let wanted = Wanted::by(service);
    slices.iter().filter(move |slice| {
        matches!(&wanted, Wanted::Slices(wanted) if wanted.ignores(&Offered::by(slice))) && has_ready(slice)
    })
}

/// Returns why kube-proxy uses no slice, or none for some families or ports of the Service, if there are ready endpoints.
pub(crate) fn unused(service: &Service, slices: &[Arc<EndpointSlice>]) -> Vec<Fault> {
    let Wanted::Slices(wanted) = Wanted::by(service) else { return Vec::new() };
    // Those that are ignored because of a label are another fault.
    let ready = slices.iter().filter(|slice| has_ready(slice) && !wanted.ignores(&Offered::by(slice)));
    let mut types: Vec<AddressType> = ready.clone().map(|slice| slice.address_type).collect();
    types.sort_unstable();
    types.dedup();
    if types.is_empty() {
        return Vec::new();
    }
    let of_families =
        wanted.families().iter().partition(|family| types.contains(&AddressType::from(**family)));
    let (present, missing): (Vec<IpFamily>, Vec<IpFamily>) = of_families;
    let is_one_of_several = types.len() > 1;
    let mut faults = Vec::new();
    if !missing.is_empty() {
        let none_is_left = present.is_empty();
        faults.push(Fault::EndpointFamiliesDiffer { missing, has: types, none_is_left });
    }
    // kube-proxy has rules of its own for each family.
    let of_family = |family: &IpFamily| {
        let has_family = |slice: &&Arc<EndpointSlice>| slice.address_type == AddressType::from(*family);
        Held::by(*family, ready.clone().filter(has_family))
    };
    let held: Vec<Held> = present.iter().map(of_family).collect();
    faults.extend(ports_that_differ(wanted.ports(), &held, is_one_of_several));
    faults
}

/// The ports of the ready endpoints of a family.
struct Held {
    family: IpFamily,
    ports: Vec<NamedPort>,
}

impl Held {
    fn by<'a>(family: IpFamily, slices: impl Iterator<Item = &'a Arc<EndpointSlice>>) -> Self {
        let mut ports: Vec<NamedPort> =
            slices.flat_map(|slice| Offered::by(slice).ports().to_vec()).collect();
        ports.sort_by(by_name);
        ports.dedup();
        Self { family, ports }
    }

    fn lacks(&self, wanted: &NamedPort) -> bool {
        !self.ports.iter().any(|held| is_for(held, wanted))
    }
}

fn by_name(one: &NamedPort, other: &NamedPort) -> Ordering {
    (&one.name, &one.protocol, one.port).cmp(&(&other.name, &other.protocol, other.port))
}

/// Returns which ports all families lack, and which further ones each of them lacks. `is_one_of_several` tells whether there are
/// endpoints of other types, too.
fn ports_that_differ(wanted: &[NamedPort], families: &[Held], is_one_of_several: bool) -> Vec<Fault> {
    let lacked_by_all = |port: &NamedPort| families.iter().all(|held| held.lacks(port));
    let fault = |family: Option<IpFamily>, families: &[Held], lacking: Vec<NamedPort>| {
        let is_wanted = |held: &&NamedPort| wanted.iter().any(|port| is_for(held, port));
        let held = families.iter().flat_map(|held| &held.ports);
        let mut has: Vec<NamedPort> = held.filter(|held| !is_wanted(held)).cloned().collect();
        has.sort_by(by_name);
        has.dedup_by(|other, one| (&one.name, &one.protocol) == (&other.name, &other.protocol));
        let none_is_left = wanted.iter().all(lacked_by_all);
        (!lacking.is_empty()).then_some(Fault::EndpointPortsDiffer {
            wanted: lacking,
            has,
            family,
            none_is_left,
        })
    };
    let only = match families {
        [] => return Vec::new(),
        [one] if is_one_of_several => Some(one.family),
        _ => None,
    };
    let of_all = fault(only, families, wanted.iter().filter(|port| lacked_by_all(port)).cloned().collect());
    let of_one = |held: &Held| {
        let lacks = |port: &&NamedPort| held.lacks(port) && !lacked_by_all(port);
        fault(Some(held.family), std::slice::from_ref(held), wanted.iter().filter(lacks).cloned().collect())
    };
    of_all.into_iter().chain(families.iter().filter_map(of_one)).collect()
}

/// Returns what is not known about a Service, and which kinds would tell.
pub(crate) fn not_known(
    service: &Service,
    slices: &[Arc<EndpointSlice>],
    pods: &[PodExplanation],
    counts: Counts,
    known: Known,
) -> Option<Fault> {
    let selects = service.selects_pods();
    let unread = |kinds: &[(bool, &'static str)]| {
        kinds.iter().filter(|(is_known, _)| !is_known).map(|(_, kind)| *kind).collect::<Vec<_>>()
    };
    let Some(receiving) = counts.receiving else {
        let kinds = if selects {
            unread(&[
                (known.pods, "pods"),
                (known.slices, "endpointslices"),
                (known.nodes || !known.pods, "nodes"),
            ])
        } else {
            unread(&[(known.slices, "endpointslices"), (known.endpoints, "endpoints")])
        };
        return Some(Fault::NotKnown { kinds, open: Open::Traffic });
    };
    let is_mirrored = |slice: &Arc<EndpointSlice>| {
        slice.is_managed_by(kube_endpoint_core_model::well_known::MIRRORING_CONTROLLER)
    };
    let is_due = |pod: &PodExplanation| matches!(pod.reason, Some(PodReason::NotWritten));
    let kinds = if !selects {
        // Slices that are not mirrored have no source that would tell more.
        let matters = slices.is_empty() || slices.iter().any(is_mirrored);
        unread(&[(known.endpoints || !matters, "endpoints")])
    } else if known.pods {
        unread(&[(known.nodes || !pods.iter().any(is_due), "nodes")])
    } else {
        unread(&[(known.pods, "pods")])
    };
    let open = match receiving + counts.ending {
        0 => Open::NoTraffic,
        _ if selects && is_less_than_listed(service, slices) => Open::LessTraffic,
        _ => Open::MoreTraffic,
    };
    (!kinds.is_empty()).then_some(Fault::NotKnown { kinds, open })
}

/// Returns true if an endpoint of one of the Service's families receives no traffic and is not being deleted. Endpoints of other
/// families may be listed on purpose.
fn is_less_than_listed(service: &Service, slices: &[Arc<EndpointSlice>]) -> bool {
    let wanted = Wanted::by(service);
    slices.iter().filter(|slice| wanted.has_type(slice.address_type)).any(|slice| {
        let is_used = wanted.uses(&Offered::by(slice));
        let mut conditions = slice.endpoints.iter().map(|endpoint| endpoint.conditions);
        conditions.any(|it| if is_ready(it) { !is_used } else { it.terminating != Some(true) })
    })
}
