//! The rules for Services with at most one ready pod: the one that holds a Lease, or the one whose
//! condition has become true last.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube_endpoint_controllers::ManagerHandle;
use kube_endpoint_core_model::well_known::SELECTOR_CONTROLLER;
use serde_json::Value;

use super::super::Watcher;
use super::super::world::Since;
use super::leases::{Tenure, names};
use super::objects::{Endpoint, Pod, Readiness, Selected, Slice, Source};
use super::{Beside, Broken, Judged};
use crate::history::Manager;

const ONE_READY: &str = "at most one pod is ready for a Service with one leader";
const SERVING: &str = "an endpoint of a Service with one leader serves only if it is ready or being deleted";
const REVIVED: &str = "an endpoint becomes ready only if its pod has held the Lease shortly before";
const DROPPED: &str = "an endpoint stays ready as long as its pod renews the Lease";
const LEADER: &str = "within seconds the ready endpoint is the pod that leads";
const FOLLOWERS: &str = "within seconds the ready endpoints are the pods that do not lead";
const ONE_WRITE: &str = "a change of the leader is one write for each slice";

/// How long a write may come after what caused it, and a sync after what started it, when nothing
/// is wrong: the batch period, and a queue.
const SOON: Duration = Duration::from_secs(2);
/// The same, while something is wrong: late watches and requests, and retries.
const LATE: Duration = Duration::from_secs(150);
/// How long after a change of the EndpointSelector or of the Service the slices may take several
/// writes.
const SETTLING: Duration = Duration::from_secs(30);
/// A holder renews at least this often.
const RENEWS: Duration = Duration::from_secs(4);

/// Counts of the rules that were put to the test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Led {
    /// Writes of slices after which at most one endpoint had to be ready.
    pub exclusive: usize,
    /// Endpoints that became ready, because of a Lease.
    pub promoted: usize,
    /// Writes of slices with a ready endpoint whose pod renewed the Lease.
    pub kept: usize,
    /// Checks of Services with a holder that lives, with one that is dead, and with the newest
    /// condition.
    pub alive: usize,
    pub dead: usize,
    pub newest: usize,
    /// Checks of the Services of followers, with a holder that lives.
    pub followed: usize,
    /// Writes that were counted because the leader had changed.
    pub counted: usize,
}

impl Led {
    fn counts(&mut self) -> [&mut usize; 8] {
        let Self { exclusive, promoted, kept, alive, dead, newest, followed, counted } = self;
        [exclusive, promoted, kept, alive, dead, newest, followed, counted]
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (sum, other) in self.counts().into_iter().zip(other.counts()) {
            *sum += *other;
        }
    }

    /// Returns the smallest of the counts.
    pub fn least(&self) -> usize {
        let mut counts = *self;
        counts.counts().into_iter().map(|count| *count).min().unwrap_or_default()
    }
}

/// A Service and a family.
type Place = (String, String);

/// The state of the rules.
#[derive(Debug, Default)]
pub(super) struct Leading {
    /// The places that have had at most one ready endpoint since their source is exclusive, each
    /// with the time since when it is.
    exclusive: BTreeMap<Place, Duration>,
    /// The writes of each slice since the last change of what may lead: what that is, and their
    /// number.
    writes: BTreeMap<String, (String, usize)>,
    /// The last change of a pod in each namespace.
    pods: BTreeMap<String, Since>,
    led: Led,
}

/// The pods that may be ready endpoints.
pub(super) enum Chosen {
    All,
    /// These: those with a condition, or the leader.
    Some(BTreeSet<String>),
    /// Nobody can tell: the Lease has just changed hands or expired.
    Unknown,
}

impl Chosen {
    pub(super) fn has(&self, pod: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(pods) => pods.contains(pod),
            Self::Unknown => false,
        }
    }

    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }
}

/// The state of a run at a time.
#[derive(Clone, Copy)]
pub(in super::super) struct Calm {
    /// True if no fault is active or has ended a short time ago.
    pub(super) without_fault: bool,
    /// True if no process has started or ended, either.
    pub(super) without_trouble: bool,
}

impl Calm {
    fn slack(self) -> Duration {
        if self.without_fault { SOON } else { LATE }
    }
}

impl Leading {
    /// Notes a change of a pod.
    pub(super) fn pod_changed(&mut self, key: &str, since: Since) {
        self.pods.insert(namespace_of(key).to_owned(), since);
    }

    /// Returns the last change of a pod in the namespace of a Service.
    fn last_of_pods(&self, service: &str) -> Option<Since> {
        self.pods.get(namespace_of(service)).copied()
    }
}

fn namespace_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

impl Beside {
    /// Takes a version of a Lease that is not that of the managers.
    pub(in super::super) fn lease_changed(&mut self, at: Duration, key: &str, lease: &Value) {
        self.leases.apply(at, key, lease);
    }

    /// Returns the pods of a Service that an EndpointSelector selects and the slices list.
    pub(super) fn listed<'a>(
        &'a self,
        service: &'a str,
        selected: &'a Selected,
    ) -> impl Iterator<Item = (&'a String, &'a Pod)> {
        let pods = self.pods_in(service).map(|(key, (pod, _))| (key, pod));
        pods.filter(|(_, pod)| {
            selected.has(pod) && !pod.has_ended && self.objects.nodes.contains_key(&pod.node)
        })
    }

    /// Returns the pods that may be ready endpoints of a Service, if nothing has changed shortly
    /// before.
    pub(super) fn chosen(&self, service: &str, selected: &Selected, at: Duration) -> Chosen {
        match &selected.readiness {
            Readiness::All => Chosen::All,
            Readiness::Condition => {
                let leads = |pod: &Pod| pod.leads.as_ref().is_some_and(|(is_true, _)| *is_true);
                let pods = self.listed(service, selected).filter(|(_, pod)| leads(pod));
                Chosen::Some(pods.map(|(key, _)| key.clone()).collect())
            }
            Readiness::Newest => Chosen::Some(self.newest(service, selected).into_iter().collect()),
            Readiness::Lease(lease) => {
                self.holder(service, selected, lease, at).map_or(Chosen::Unknown, Chosen::Some)
            }
            Readiness::Followers(lease) => {
                let Some(leader) = self.holder(service, selected, lease, at) else { return Chosen::Unknown };
                let others = self.listed(service, selected).filter(|(key, _)| !leader.contains(*key));
                Chosen::Some(others.map(|(key, _)| key.clone()).collect())
            }
        }
    }

    /// Returns the selected pod that the holder of a Lease names, if it names one only. Returns
    /// `None` if nobody can tell.
    fn holder(
        &self,
        service: &str,
        selected: &Selected,
        lease: &str,
        at: Duration,
    ) -> Option<BTreeSet<String>> {
        match self.leases.tenures(lease).next() {
            Some(tenure) if at < tenure.from + SOON => None,
            Some(tenure) if at < tenure.end() => {
                let all = self.pods_in(service).filter(|(_, (pod, _))| selected.has(pod));
                let mut named = all.filter(|(key, (pod, _))| names(&tenure.holder, key, pod));
                let one = named.next().filter(|_| named.next().is_none());
                let Some((key, (pod, _))) = one else { return Some(BTreeSet::new()) };
                let leads = tenure.is_of(pod)?;
                Some(leads.then(|| key.clone()).into_iter().collect())
            }
            Some(tenure) if at < tenure.end() + SOON => None,
            _ => Some(BTreeSet::new()),
        }
    }

    /// Returns the pod with the newest true condition. Of several with equal times, one that serves
    /// stays.
    fn newest(&self, service: &str, selected: &Selected) -> Option<String> {
        let serves = |key: &str| {
            let mut own = self.objects.slices_of(service, SELECTOR_CONTROLLER);
            own.any(|slice| slice.endpoints.iter().any(|it| it.is_serving && it.pod == key))
        };
        let mut best: Option<(bool, &str, bool, &String)> = None;
        for (key, pod) in self.listed(service, selected) {
            let Some((true, since)) = &pod.leads else { continue };
            // A pod that is being deleted may have the condition and be ready.
            if !(pod.is_ready || pod.is_terminating) {
                continue;
            }
            let found = (!pod.is_terminating, since.as_str(), serves(key), key);
            // Of equals, the first has the lowest name.
            if best
                .is_none_or(|(stays, since, serves, _)| (found.0, found.1, found.2) > (stays, since, serves))
            {
                best = Some(found);
            }
        }
        best.map(|(_, _, _, key)| key.clone())
    }

    /// Checks a write of an own slice by the rules for one ready pod.
    pub(super) fn judge_leading(&mut self, judged: &Judged<'_>, calm: Calm) -> Result<(), Broken> {
        let Some(slice) = judged.after.or(judged.before) else { return Ok(()) };
        let Some(service) = self.objects.services.get(judged.service) else { return Ok(()) };
        let Some((source, since)) = self.objects.source(judged.service) else { return Ok(()) };
        let place = (judged.service.to_owned(), slice.family.clone());
        let is_known = judged.read.and_then(|read| self.objects.possible_sources(judged.service, read));
        let (Source::Attached(selected), Some([_])) = (source, is_known.as_deref()) else {
            self.leading.exclusive.remove(&place);
            return Ok(());
        };
        if !selected.is_exclusive() || service.publishes_unready {
            self.leading.exclusive.remove(&place);
            return Ok(());
        }
        let selected = selected.clone();
        let follows = |it: &&Endpoint| it.is_serving && !it.is_ready && !it.is_terminating;
        if let Some(follower) = judged.after.and_then(|after| after.endpoints.iter().find(follows)) {
            return Err((SERVING, follower.pod.clone()));
        }
        self.judge_number(&place, since.at)?;
        if let Readiness::Lease(lease) = &selected.readiness {
            self.judge_promoted(judged, lease, calm)?;
            self.judge_dropped(judged, lease, &selected, calm)?;
        }
        if calm.without_trouble && since.at + SETTLING <= judged.at {
            self.judge_writes(judged, &place, &selected)?;
        }
        Ok(())
    }

    /// Checks that at most one endpoint is ready, once it has been so.
    fn judge_number(&mut self, place: &Place, since: Duration) -> Result<(), Broken> {
        let own = self.objects.slices_of(&place.0, SELECTOR_CONTROLLER);
        let own = own.filter(|slice| slice.family == place.1).flat_map(Slice::ready);
        let ready: Vec<&str> = own.map(|it| it.pod.as_str()).collect();
        let (ready, is_several) = (ready.join(" and "), ready.len() > 1);
        if self.leading.exclusive.get(place) != Some(&since) {
            // It comes from more than one.
            if !is_several {
                self.leading.exclusive.insert(place.clone(), since);
            }
            return Ok(());
        }
        self.leading.led.exclusive += 1;
        if is_several { Err((ONE_READY, ready)) } else { Ok(()) }
    }

    /// Checks that the pods of endpoints that become ready have held the Lease shortly before.
    fn judge_promoted(&mut self, judged: &Judged<'_>, lease: &str, calm: Calm) -> Result<(), Broken> {
        let Some(after) = judged.after else { return Ok(()) };
        let was_ready = |it: &&Endpoint| judged.before.is_some_and(|before| before.has_ready(&it.address));
        for endpoint in after.ready().filter(|it| !was_ready(it)) {
            let Some((pod, _)) = self.objects.pods.get(&endpoint.pod) else { continue };
            let has_held = |tenure: &Tenure| {
                names(&tenure.holder, &endpoint.pod, pod) && judged.at <= tenure.end() + calm.slack()
            };
            self.leading.led.promoted += 1;
            if !self.leases.tenures(lease).any(has_held) {
                let tenures: Vec<&Tenure> = self.leases.tenures(lease).collect();
                return Err((REVIVED, format!("{} at {:?}: {tenures:?}", endpoint.pod, judged.at)));
            }
        }
        Ok(())
    }

    /// Checks that an endpoint whose pod renews the Lease stays ready.
    fn judge_dropped(
        &mut self,
        judged: &Judged<'_>,
        lease: &str,
        selected: &Selected,
        calm: Calm,
    ) -> Result<(), Broken> {
        let (Some(read), Some(before)) = (judged.read, judged.before) else { return Ok(()) };
        let Some(tenure) = self.leases.living(lease, judged.at) else { return Ok(()) };
        let is_long = tenure.from + calm.slack() <= judged.at && judged.at <= tenure.last + RENEWS;
        let service = self.objects.services.get(judged.service);
        let Some(service) = service.filter(|_| is_long && !tenure.holder.contains(',')) else {
            return Ok(());
        };
        for endpoint in before.ready() {
            let Some(pod) = self.constant_pod(endpoint, read).filter(|pod| selected.has(pod)) else {
                continue;
            };
            if !names(&tenure.holder, &endpoint.pod, pod) || tenure.is_of(pod) != Some(true) {
                continue;
            }
            // A process that ends between the writes of two families leaves nobody who knows if the
            // pod came or left.
            let mut addresses = pod.addresses.iter().filter(|it| **it != endpoint.address);
            let is_other = |family: &String| *family != before.family;
            if service.families.iter().any(is_other)
                && !addresses.all(|it| {
                    service.families.iter().any(|family| self.objects.publishes(judged.service, family, it))
                })
            {
                continue;
            }
            self.leading.led.kept += 1;
            if !self.objects.publishes(judged.service, &before.family, &endpoint.address) {
                return Err((DROPPED, format!("{} since {:?}", endpoint.pod, tenure.from)));
            }
        }
        Ok(())
    }

    /// Counts the writes of a slice since the last change of what may lead.
    fn judge_writes(
        &mut self,
        judged: &Judged<'_>,
        place: &Place,
        selected: &Selected,
    ) -> Result<(), Broken> {
        let (Some(before), Some(after)) = (judged.before, judged.after) else { return Ok(()) };
        let leader = match &selected.readiness {
            Readiness::Lease(lease) => {
                let is_of = |it: &Tenure| {
                    let pods = self.pods_in(judged.service).map(|(_, (pod, _))| pod);
                    pods.filter(|pod| pod.restarted.is_some()).map(|pod| it.is_of(pod)).collect::<Vec<_>>()
                };
                let holder = self.leases.living(lease, judged.at);
                format!("{:?}", holder.map(|it| (&it.holder, it.from, is_of(it))))
            }
            _ => format!("{:?}", self.newest(judged.service, selected)),
        };
        let state = format!("{leader} {:?}", self.leading.last_of_pods(judged.service));
        let (before_state, number) = self.leading.writes.entry(before.uid.clone()).or_default();
        if *before_state != state {
            (*before_state, *number) = (state, 0);
        }
        *number += 1;
        self.leading.led.counted += 1;
        if *number > 1 {
            let ready = |slice: &Slice| slice.ready().map(|it| it.pod.clone()).collect::<Vec<_>>();
            let detail =
                format!("{place:?} from {:?} to {:?} for {before_state}", ready(before), ready(after));
            return Err((ONE_WRITE, detail));
        }
        Ok(())
    }

    /// Checks the ready endpoints of Services with one leader and of those with its followers, if
    /// nothing has changed since `until`.
    fn judge_leaders(&mut self, at: Duration, until: Duration) -> Result<(), (String, Broken)> {
        let keys: Vec<String> = self.objects.services.keys().cloned().collect();
        for key in keys {
            let Some((Source::Attached(selected), since)) = self.objects.source(&key) else { continue };
            let service = &self.objects.services[&key];
            let changed = self.leading.last_of_pods(&key).map(|since| since.at).max(Some(since.at));
            let is_judged = selected.is_exclusive() || matches!(selected.readiness, Readiness::Followers(_));
            if !is_judged || service.publishes_unready || changed > Some(until) {
                continue;
            }
            let chosen = self.chosen(&key, selected, at);
            if !chosen.is_known() {
                continue;
            }
            for family in &service.families {
                let is_of = |address: &str| address.contains(':') == (family == "IPv6");
                let want: BTreeSet<&str> = self
                    .listed(&key, selected)
                    .filter(|(name, pod)| pod.is_ready && chosen.has(name))
                    .flat_map(|(_, pod)| pod.addresses.iter().map(String::as_str))
                    .filter(|address| is_of(address))
                    .collect();
                let own = self.objects.slices_of(&key, SELECTOR_CONTROLLER);
                let own = own.filter(|slice| slice.family == *family);
                let got: BTreeSet<&str> =
                    own.flat_map(|slice| slice.ready().map(|it| it.address.as_str())).collect();
                if want != got {
                    let detail = format!("{family}: {got:?} and not {want:?}");
                    let rule = if selected.is_exclusive() { LEADER } else { FOLLOWERS };
                    return Err((key.clone(), (rule, detail)));
                }
            }
            let led = &mut self.leading.led;
            match &selected.readiness {
                Readiness::Lease(lease) if self.leases.living(lease, at).is_some() => led.alive += 1,
                Readiness::Lease(_) => led.dead += 1,
                Readiness::Followers(lease) if self.leases.living(lease, at).is_some() => led.followed += 1,
                Readiness::Followers(_) => {}
                _ => led.newest += 1,
            }
        }
        Ok(())
    }
}

impl Watcher {
    /// Returns the state of the run for the rules.
    pub(super) fn calm(&self, at: Duration) -> Calm {
        let is_recent = self.last_fault.is_some_and(|last| at < last + LATE);
        let without_fault = !self.trouble.is_active() && !is_recent;
        let without_trouble = self.trouble.is_settled(at, self.authors.since());
        Calm { without_fault, without_trouble: without_fault && without_trouble }
    }

    /// Checks that the ready endpoint is the pod that leads, if a process writes and nothing is
    /// wrong.
    pub(crate) fn check_leading(&mut self, handles: &[(Manager, ManagerHandle)]) {
        self.settle_pending(None);
        let at = self.now();
        let calm = self.calm(at);
        let is_writing = handles.iter().any(|(manager, handle)| {
            *manager != Manager::K && *handle.leading().borrow() && handle.has_synced()
        });
        let Some(beside) = &mut self.beside else { return };
        if !calm.without_trouble || !is_writing {
            return;
        }
        let until = at.saturating_sub(SOON);
        if let Err((service, (rule, detail))) = beside.judge_leaders(at, until) {
            self.fails(rule, &service, detail);
        }
    }

    /// Returns the counts of the rules for Services with one ready pod that were put to the test.
    pub(crate) fn tested_leading(&self) -> Led {
        self.beside.as_ref().map(|it| it.leading.led).unwrap_or_default()
    }
}
