//! How many pods and endpoints of a Service receive traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use kube_endpoint_core_model::{Endpoint, EndpointSlice, Service, Text, address};
use serde::Serialize;

use crate::facts::options::{Known, Options};
use crate::findings::PodReason;
use crate::findings::pod::{PodExplanation, Publication};
use crate::models::dead::DeadEndpoint;
use crate::models::traffic::{self, Served, is_ready};

/// Numbers of pods, or of addresses if the Service selects no pods or they are not known. Those
/// that are being deleted count in `deleted` and `ending` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Counts {
    pub selected: usize,
    /// The number that should receive traffic; without a selector, or if pods are not known, the
    /// number that slices hold as ready.
    pub ready: usize,
    /// The number that slices list as not ready, or that answer nobody because no container runs.
    pub not_ready: usize,
    /// The number that slices do not list.
    pub left_out: usize,
    /// How many of the `ready` ones some client is sent to, and of those that an EndpointSelector
    /// no longer chooses, or `None` if that is not known.
    pub receiving: Option<usize>,
    /// How many of the `selected` ones have ended.
    pub ended: usize,
    /// The number that are being deleted.
    pub deleted: usize,
    /// How many of those receive traffic until then, because their clients have no ready endpoint,
    /// or the slices do not show the deletion yet.
    pub ending: usize,
    /// The number of ready endpoints that receive traffic, that the controller did not write, and
    /// that belong to no pod of the Service.
    pub others: usize,
    /// True if it is not known how many receive traffic, and no pod should.
    #[serde(skip)]
    pub(crate) none_is_due: bool,
}

impl Counts {
    /// Returns true if it is known that no endpoint receives traffic.
    pub fn is_down(&self) -> bool {
        self.receiving == Some(0) && self.ending == 0 && self.others == 0
    }

    /// Returns true if no endpoint receives traffic, or would if controllers wrote what they
    /// should.
    pub(crate) fn serves_nobody(&self) -> bool {
        self.is_down() || self.none_is_due
    }
}

/// Counts the pods of a Service. If slices are unknown, the number of pods that receive traffic is
/// known only if no pod should receive any. Files without slices may show another moment than that
/// of the clients, so there it is known only if the Service has no pods.
pub(crate) fn count_pods(service: &Service, pods: &[PodExplanation], options: &Options) -> Counts {
    let known = options.known;
    let (deleted, staying): (Vec<&PodExplanation>, Vec<_>) = pods.iter().partition(|pod| pod.is_deleted);
    let of = |publication| staying.iter().filter(|pod| pod.publication == publication).count();
    let answers = |pod: &&PodExplanation| pod.publication == Publication::Ready && !pod.runs_nothing;
    let ready = staying.iter().copied().filter(answers).count();
    // DNS answers with no endpoint that is not ready.
    let may_end =
        |pod: &&PodExplanation| answers(pod) || !service.is_headless() && pod.is_ending_and_serving();
    let may_receive = ready > 0 || deleted.iter().any(may_end);
    let is_sent = |pod: &&PodExplanation| answers(pod) && pod.is_sent_traffic() || pod.is_still_chosen();
    let receiving = staying.iter().copied().filter(is_sent);
    let is_certain = known.slices || !may_receive && (pods.is_empty() || !options.are_from_files());
    let is_ending = |pod: &&&PodExplanation| pod.is_last_resort() || answers(pod) && pod.is_sent_traffic();
    Counts {
        selected: staying.len(),
        ready,
        not_ready: of(Publication::NotReady) + of(Publication::Ready) - ready,
        left_out: of(Publication::LeftOut),
        receiving: is_certain.then(|| receiving.count()),
        ended: staying.iter().filter(|pod| matches!(pod.reason, Some(PodReason::PodFinished(_)))).count(),
        deleted: deleted.len(),
        ending: deleted.iter().filter(is_ending).count(),
        others: 0,
        none_is_due: !is_certain && !may_receive,
    }
}

/// Counts the ready endpoints that receive traffic, in slices that `manager` does not write, except
/// those of the pods.
pub(crate) fn count_others(
    served: &Served,
    pods: &[PodExplanation],
    slices: &[Arc<EndpointSlice>],
    manager: &str,
    dead: &[DeadEndpoint],
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
            let sent = sent.filter(|_| !is_dead(dead, slice, endpoint));
            others
                .extend(sent.filter(|text| address::parse_sloppy(text).is_none_or(|ip| !own.contains(&ip))));
        }
    }
    others.len()
}

fn is_dead(dead: &[DeadEndpoint], slice: &EndpointSlice, endpoint: &Endpoint) -> bool {
    dead.iter()
        .any(|dead| dead.slice == slice.metadata.name && endpoint.addresses.first() == Some(&dead.address))
}

/// Returns the endpoints of slices, each once, and if clients are sent there: of several entries,
/// one that serves clients counts. An entry that names no pod may be that of any.
fn each_once<'s>(
    served: &Served,
    slices: &'s [Arc<EndpointSlice>],
    dead: &[DeadEndpoint],
) -> Vec<(&'s EndpointSlice, &'s Endpoint, bool)> {
    let of_slice = |slice: &'s Arc<EndpointSlice>| {
        let addresses_sent = served.endpoints_of(slice);
        slice.endpoints.iter().map(move |it| (&**slice, it, addresses_sent(it) > 0))
    };
    let mut all: Vec<_> = slices.iter().flat_map(of_slice).collect();
    all.sort_by_cached_key(|(slice, it, is_sent)| {
        std::cmp::Reverse((is_ready(it.conditions), !is_dead(dead, slice, it), *is_sent))
    });
    let mut seen: BTreeMap<Option<&Text>, BTreeSet<Option<&Text>>> = BTreeMap::new();
    all.retain(|(_, endpoint, _)| {
        let pods = seen.entry(endpoint.addresses.first()).or_default();
        let pod = endpoint.target_ref.as_ref().map(|target| &target.name);
        let is_other = pods.is_empty() || pod.is_some() && !pods.contains(&None) && !pods.contains(&pod);
        pods.insert(pod);
        is_other
    });
    all
}

/// Counts the endpoints of slices, without those that answer nobody among the receiving ones.
pub(crate) fn count_endpoints(
    served: &Served,
    slices: &[Arc<EndpointSlice>],
    known: Known,
    dead: &[DeadEndpoint],
) -> Counts {
    if !known.slices {
        return Counts::default();
    }
    let (mut selected, mut ready, mut receiving, mut deleted, mut ending) = (0, 0, 0, 0, 0);
    for (slice, endpoint, is_sent) in each_once(served, slices, dead) {
        let is_ready = is_ready(endpoint.conditions);
        let is_deleted = traffic::is_deleted(endpoint.conditions);
        selected += usize::from(!is_deleted);
        deleted += usize::from(is_deleted);
        ready += usize::from(is_ready);
        receiving += usize::from(is_ready && is_sent && !is_dead(dead, slice, endpoint));
        ending += usize::from(!is_ready && is_sent);
    }
    Counts {
        selected,
        ready,
        not_ready: selected - ready,
        left_out: 0,
        receiving: Some(receiving),
        ended: 0,
        deleted,
        ending,
        others: 0,
        none_is_due: false,
    }
}
