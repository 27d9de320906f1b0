//! The Leases that EndpointSelectors name: who holds each of them, and whether the holder lives.
//!
//! A holder lives as long as it changes its Lease. This compares no time that another host wrote:
//! a record counts for its duration after this process has seen it change. The first record that
//! this process sees may be that of a holder that died long ago, so it proves nothing.
//!
//! The watch may be behind, or have ended. So before a holder counts as dead, a sync reads the
//! Lease from the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::lease::DEFAULT_DURATION;
use kube_endpoint_core_model::{EndpointSelector, Lease, ObjectKey, Readiness, ResourceVersion, Text};
use kube_endpoint_informer::Cluster;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::times::Times;

/// The standing of the holder of a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// This holder lives. The version is that of its last change of the Lease.
    Holder(Text, ResourceVersion),
    /// Nobody knows if this holder lives, if there is one. The published leader stays.
    Unknown(Option<Text>),
    /// The holder has not changed the Lease for its duration, as the watch tells. Read the Lease,
    /// and call [`Leases::read`]. The published leader stays until then.
    Overdue,
    /// Nobody leads.
    Nobody,
}

/// The observation of one Lease by this process.
#[derive(Clone, Debug)]
struct Observed {
    /// The last version, or `None` if there has been none.
    lease: Option<Arc<Lease>>,
    /// When this process saw that the record changed.
    since: Instant,
    /// True until the record changes for the first time.
    is_first: bool,
    /// True if the API server has confirmed that the record has not changed for its duration.
    is_dead: bool,
    /// True if a sync waits for the next change.
    is_awaited: bool,
}

impl Observed {
    fn new(lease: Option<Arc<Lease>>, now: Instant) -> Self {
        Self { lease, since: now, is_first: true, is_dead: false, is_awaited: false }
    }

    fn holder(&self) -> Option<&Text> {
        self.lease.as_ref().map(|lease| &lease.record.holder)
    }

    /// Takes a version of the Lease. Returns true if the endpoints may change.
    fn see(&mut self, lease: &Arc<Lease>, now: Instant) -> bool {
        // A read may have been ahead of the watch.
        if self.lease.as_ref().is_some_and(|before| {
            lease.resource_version < before.resource_version || lease.record == before.record
        }) {
            return false;
        }
        let same_holder = self.holder() == Some(&lease.record.holder);
        let matters = self.is_first || self.is_dead || self.is_awaited || !same_holder;
        *self = Self { is_first: false, ..Self::new(Some(Arc::clone(lease)), now) };
        matters
    }

    /// Returns the time from which the record no longer counts, if it counts now.
    fn deadline(&self) -> Option<Instant> {
        let duration = self.lease.as_ref().map_or(DEFAULT_DURATION, |lease| lease.record.duration());
        let has_holder = self.holder().is_none_or(|holder| !holder.is_empty());
        (has_holder && !self.is_dead).then(|| self.since + duration)
    }

    fn standing(&self, now: Instant) -> Standing {
        match (self.deadline(), self.holder()) {
            (None, _) => Standing::Nobody,
            (Some(deadline), _) if deadline <= now => Standing::Overdue,
            (_, Some(holder)) if !self.is_first => {
                let version = self.lease.as_ref().map(|lease| lease.resource_version);
                Standing::Holder(holder.clone(), version.unwrap_or_default())
            }
            (_, holder) => Standing::Unknown(holder.cloned()),
        }
    }

    /// Takes another first version of the Lease. Returns true if the endpoints may change.
    fn replace(&mut self, lease: &Arc<Lease>, now: Instant) -> bool {
        let is_newer = self.lease.as_ref().is_none_or(|it| it.resource_version < lease.resource_version);
        let same = self.lease.as_ref().is_some_and(|it| it.record == lease.record);
        if is_newer && !same {
            *self = Self::new(Some(Arc::clone(lease)), now);
        }
        is_newer && !same
    }

    /// Takes the answer of the API server. A change proves something only if `is_settled`. Returns
    /// true if the record has changed.
    fn read(&mut self, lease: Option<Lease>, now: Instant, is_settled: bool) -> bool {
        let exists = lease.is_some();
        if let Some(lease) = lease.map(Arc::new) {
            let before = self.since;
            if is_settled {
                self.see(&lease, now);
            } else {
                self.replace(&lease, now);
            }
            if self.since != before {
                return true;
            }
        }
        // The watch may have brought a change meanwhile. Syncs of several Services read one Lease,
        // which has no deadline after the first.
        self.is_dead |= self.deadline().is_some_and(|deadline| deadline <= now);
        if self.is_dead && !exists {
            self.lease = None;
        }
        false
    }
}

/// A Lease that EndpointSelectors of its namespace name.
#[derive(Debug, Default)]
struct Used {
    /// The names of the selectors.
    selectors: BTreeSet<Text>,
    /// `None` until the namespace has been listed.
    observed: Option<Observed>,
}

/// The Leases that EndpointSelectors name.
#[derive(Debug, Default)]
pub(super) struct Leases {
    used: Mutex<BTreeMap<ObjectKey, Used>>,
    /// The times at which a Lease has to be looked at, each at or before its deadline. A renewal
    /// moves none.
    times: Times,
}

/// Returns the key of the Lease on which the readiness of a selector's pods depends, if any.
pub(super) fn lease_of(selector: &EndpointSelector) -> Option<ObjectKey> {
    match &selector.readiness {
        Some(Readiness::Lease { name, .. }) => {
            Some(ObjectKey { namespace: selector.key.namespace.clone(), name: name.clone() })
        }
        _ => None,
    }
}

impl Leases {
    /// Takes a change of an EndpointSelector.
    pub(super) fn selector_changed(
        &self,
        cluster: &Cluster,
        old: Option<&EndpointSelector>,
        new: Option<&EndpointSelector>,
        now: Instant,
    ) {
        let (before, after) = (old.and_then(lease_of), new.and_then(lease_of));
        if before == after {
            return;
        }
        let mut all = self.used.lock();
        if let (Some(lease), Some(selector)) = (before, old)
            && let Some(used) = all.get_mut(&lease)
        {
            used.selectors.remove(&selector.key.name);
            if used.selectors.is_empty() {
                all.remove(&lease);
            }
        }
        if let (Some(lease), Some(selector)) = (after, new) {
            all.entry(lease.clone()).or_default().selectors.insert(selector.key.name.clone());
            drop(all);
            self.find(cluster, &lease, now);
        }
    }

    /// Looks for a Lease in the store, if its namespace has been listed.
    fn find(&self, cluster: &Cluster, key: &ObjectKey, now: Instant) {
        if !cluster.has_listed_leases(&key.namespace) {
            return;
        }
        let lease = cluster.lease(key);
        if let Some(used) = self.used.lock().get_mut(key).filter(|used| used.observed.is_none()) {
            used.observed = Some(Observed::new(lease, now));
            self.arm(key, used);
        }
    }

    /// Looks for the Leases that a list has not shown.
    pub(super) fn listed(&self, cluster: &Cluster, now: Instant) {
        let unseen: Vec<ObjectKey> = {
            let all = self.used.lock();
            let unseen = all.iter().filter(|(_, used)| used.observed.is_none());
            unseen.map(|(key, _)| key.clone()).collect()
        };
        unseen.iter().for_each(|key| self.find(cluster, key, now));
    }

    /// Takes a version of a Lease. It proves that the holder lives only if `is_settled`: the store
    /// shows a list of the namespace that began after the controller. The watch of a standby may
    /// have been behind, and brings the last renewals of a leader that has died since. Returns the
    /// selectors whose endpoints may change. A deleted Lease is one that nobody renews.
    pub(super) fn see(&self, lease: &Arc<Lease>, is_settled: bool, now: Instant) -> Vec<ObjectKey> {
        let mut all = self.used.lock();
        let Some(used) = all.get_mut(&lease.key) else { return Vec::new() };
        let matters = match &mut used.observed {
            Some(observed) if is_settled => observed.see(lease, now),
            // The watch may still bring changes from before this process began.
            Some(observed) => observed.replace(lease, now),
            observed => {
                *observed = Some(Observed::new(Some(Arc::clone(lease)), now));
                true
            }
        };
        let selectors = if matters { selectors_of(&lease.key, used) } else { Vec::new() };
        self.arm(&lease.key, used);
        selectors
    }

    /// Returns the standing of the holder of a Lease.
    pub(super) fn standing(&self, lease: &ObjectKey, now: Instant) -> Standing {
        let all = self.used.lock();
        let observed = all.get(lease).and_then(|used| used.observed.as_ref());
        observed.map_or(Standing::Unknown(None), |observed| observed.standing(now))
    }

    /// Returns the Lease as it was seen last, or `None` if it does not exist or nobody has seen it.
    pub(super) fn seen(&self, lease: &ObjectKey) -> Option<Arc<Lease>> {
        self.used.lock().get(lease)?.observed.as_ref()?.lease.clone()
    }

    /// Makes [`Self::see`] return the selectors at the next change after a version, even if it is a
    /// renewal. Returns false if the Lease has changed already.
    pub(super) fn tell_next_change(&self, lease: &ObjectKey, version: ResourceVersion) -> bool {
        let mut all = self.used.lock();
        let Some(observed) = all.get_mut(lease).and_then(|used| used.observed.as_mut()) else { return true };
        observed.is_awaited = true;
        observed.lease.as_ref().is_none_or(|lease| lease.resource_version == version)
    }

    /// Takes the answer of the API server to a read of an overdue Lease; see [`Self::see`]. Returns
    /// the selectors whose endpoints may change with it.
    pub(super) fn read(
        &self,
        key: &ObjectKey,
        lease: Option<Lease>,
        is_settled: bool,
        now: Instant,
    ) -> Vec<ObjectKey> {
        let mut all = self.used.lock();
        let Some(used) = all.get_mut(key) else { return Vec::new() };
        let Some(observed) = &mut used.observed else { return Vec::new() };
        let (before, was_first) = (observed.holder().cloned(), observed.is_first);
        let changed = observed.read(lease, now, is_settled);
        let matters = observed.is_dead || (changed && (was_first || observed.holder() != before.as_ref()));
        let selectors = if matters { selectors_of(key, used) } else { Vec::new() };
        self.arm(key, used);
        selectors
    }

    /// Waits until a Lease is overdue. Returns its selectors.
    pub(super) async fn overdue(&self) -> Vec<ObjectKey> {
        loop {
            let lease = self.times.next().await;
            let all = self.used.lock();
            let Some(used) = all.get(&lease) else { continue };
            if used.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
                return selectors_of(&lease, used);
            }
            self.arm(&lease, used);
        }
    }

    /// Makes sure that the deadline of a Lease is not missed.
    fn arm(&self, lease: &ObjectKey, used: &Used) {
        if let Some(deadline) = used.deadline() {
            self.times.set_by(lease, deadline);
        }
    }
}

impl Used {
    fn deadline(&self) -> Option<Instant> {
        self.observed.as_ref().and_then(Observed::deadline)
    }
}

fn selectors_of(lease: &ObjectKey, used: &Used) -> Vec<ObjectKey> {
    let key = |name: &Text| ObjectKey { namespace: lease.namespace.clone(), name: name.clone() };
    used.selectors.iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube_endpoint_core_model::Role;
    use kube_endpoint_core_model::lease::Record;
    use kube_endpoint_informer::{Kind, Scope, StreamEvent};

    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn lease(version: u64, holder: &str, renewal: i32) -> Arc<Lease> {
        let record = Record {
            holder: holder.into(),
            duration_seconds: Some(15),
            transitions: Some(renewal),
            ..Record::default()
        };
        Arc::new(Lease {
            key: ObjectKey::new("ops", "scheduler"),
            resource_version: ResourceVersion(version),
            record,
        })
    }

    /// A standing without the version.
    fn holder(name: &str) -> Standing {
        Standing::Holder(name.into(), ResourceVersion::default())
    }

    fn without_version(standing: Standing) -> Standing {
        match standing {
            Standing::Holder(name, _) => holder(&name),
            standing => standing,
        }
    }

    fn unknown(name: &str) -> Standing {
        Standing::Unknown(Some(name.into()))
    }

    #[test]
    fn the_first_record_proves_nothing_until_it_changes() {
        let start = Instant::now();
        let mut observed = Observed::new(Some(lease(1, "a", 1)), start);
        assert_eq!(observed.standing(start), unknown("a"));
        assert!(observed.see(&lease(2, "a", 2), start + S(2)), "what is published may change");
        assert_eq!(without_version(observed.standing(start + S(2))), holder("a"));
        assert!(!observed.see(&lease(3, "a", 3), start + S(4)), "a renewal changes nothing");
        assert_eq!(without_version(observed.standing(start + S(18))), holder("a"));
        assert_eq!(observed.standing(start + S(19)), Standing::Overdue);
        assert!(observed.see(&lease(4, "b", 4), start + S(20)));
        assert_eq!(without_version(observed.standing(start + S(20))), holder("b"));
    }

    #[test]
    fn a_holder_that_the_api_server_shows_unchanged_is_dead() {
        let start = Instant::now();
        let mut observed = Observed::new(Some(lease(1, "a", 1)), start);
        assert!(
            !observed.read(Some((*lease(1, "a", 1)).clone()), start + S(14), true),
            "it is not overdue yet"
        );
        assert_eq!(observed.standing(start + S(14)), unknown("a"));
        for _ in 0..2 {
            assert!(!observed.read(Some((*lease(1, "a", 1)).clone()), start + S(15), true));
            assert_eq!(observed.standing(start + S(15)), Standing::Nobody);
        }
        assert!(observed.see(&lease(2, "a", 2), start + S(60)), "it has come back");
        assert_eq!(without_version(observed.standing(start + S(60))), holder("a"));
    }

    #[test]
    fn a_read_that_is_ahead_of_the_watch_counts() {
        let start = Instant::now();
        let mut observed = Observed::new(Some(lease(1, "a", 1)), start);
        assert!(observed.read(Some((*lease(9, "b", 9)).clone()), start + S(16), true));
        assert_eq!(without_version(observed.standing(start + S(16))), holder("b"));
        assert!(!observed.see(&lease(5, "a", 5), start + S(17)), "the watch is behind");
        assert_eq!(without_version(observed.standing(start + S(17))), holder("b"));
    }

    #[test]
    fn a_deleted_lease_is_one_that_nobody_renews() {
        let start = Instant::now();
        let mut observed = Observed::new(Some(lease(1, "a", 1)), start);
        observed.see(&lease(2, "a", 2), start);
        assert!(!observed.read(None, start + S(15), true));
        assert_eq!(observed.standing(start + S(15)), Standing::Nobody);
        // One that has never been there.
        let mut absent = Observed::new(None, start);
        assert_eq!(absent.standing(start), Standing::Unknown(None));
        assert_eq!(absent.standing(start + S(15)), Standing::Overdue);
        absent.read(None, start + S(15), true);
        assert_eq!(absent.standing(start + S(15)), Standing::Nobody);
        assert!(absent.see(&lease(1, "a", 1), start + S(16)));
        assert_eq!(without_version(absent.standing(start + S(16))), holder("a"));
    }

    #[test]
    fn an_empty_holder_is_no_leader() {
        let start = Instant::now();
        let mut observed = Observed::new(Some(lease(1, "", 1)), start);
        assert_eq!(observed.standing(start), Standing::Nobody);
        assert!(observed.see(&lease(2, "a", 2), start));
        assert!(observed.see(&lease(3, "", 2), start));
        assert_eq!((observed.standing(start), observed.deadline()), (Standing::Nobody, None));
    }

    #[test]
    fn a_change_of_metadata_is_no_renewal() {
        let start = Instant::now();
        let mut observed = Observed::new(Some(lease(1, "a", 1)), start);
        assert!(!observed.see(&lease(2, "a", 1), start + S(10)));
        assert_eq!(observed.standing(start + S(10)), unknown("a"));
        assert_eq!(observed.standing(start + S(15)), Standing::Overdue);
    }

    /// A store of EndpointSelectors and Leases, and the Leases that the selectors name.
    struct Bed {
        cluster: Cluster,
        leases: Leases,
    }

    impl Bed {
        fn new() -> Self {
            Self { cluster: Cluster::new([Kind::EndpointSelectors]), leases: Leases::default() }
        }

        fn name(&self, selector: &str, lease: &str) {
            let key = ObjectKey::new("ops", selector);
            let old = self.cluster.endpoint_selector(&key);
            let new = EndpointSelector {
                key,
                readiness: (!lease.is_empty())
                    .then(|| Readiness::Lease { name: lease.into(), role: Role::Leader }),
                ..EndpointSelector::default()
            };
            self.cluster.apply(StreamEvent::Applied(new.clone()));
            self.leases.selector_changed(&self.cluster, old.as_deref(), Some(&new), Instant::now());
        }

        fn list(&self, leases: Vec<Arc<Lease>>) {
            let items = leases.iter().map(|lease| (**lease).clone()).collect();
            let scope = Scope::Namespace("ops".into());
            self.cluster.apply_in(&scope, StreamEvent::restarted(items, ResourceVersion(9)));
            leases.iter().for_each(|lease| drop(self.leases.see(lease, true, Instant::now())));
            self.leases.listed(&self.cluster, Instant::now());
        }

        fn standing(&self) -> Standing {
            without_version(self.leases.standing(&ObjectKey::new("ops", "scheduler"), Instant::now()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_overdue_lease_is_reported_once_and_a_renewal_moves_the_time() {
        let bed = Bed::new();
        bed.name("leader", "scheduler");
        bed.list(vec![lease(1, "a", 1)]);
        let start = Instant::now();
        for renewal in 2..20 {
            tokio::time::sleep(S(2)).await;
            bed.leases.see(&lease(renewal, "a", renewal as i32), true, Instant::now());
        }
        let selectors = bed.leases.overdue().await;
        assert_eq!(selectors, [ObjectKey::new("ops", "leader")]);
        assert_eq!(start.elapsed(), S(2 * 18 + 15));
        assert_eq!(bed.standing(), Standing::Overdue);
        let more = tokio::time::timeout(S(600), bed.leases.overdue()).await;
        assert!(more.is_err(), "{more:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_a_list_does_not_show_is_overdue_too() {
        let bed = Bed::new();
        bed.name("leader", "scheduler");
        assert_eq!(bed.standing(), Standing::Unknown(None));
        tokio::time::sleep(S(100)).await;
        assert_eq!(bed.standing(), Standing::Unknown(None), "nobody has listed the namespace");
        bed.list(Vec::new());
        assert_eq!(bed.leases.overdue().await, [ObjectKey::new("ops", "leader")]);
    }

    /// The watch of a standby was behind, and brings the last renewals of a dead leader.
    #[tokio::test(start_paused = true)]
    async fn changes_prove_nothing_until_a_list_is_newer_than_the_process() {
        let bed = Bed::new();
        bed.name("leader", "scheduler");
        bed.list(vec![lease(1, "a", 1)]);
        bed.leases.see(&lease(2, "a", 2), false, Instant::now());
        assert_eq!(bed.standing(), unknown("a"));
        let key = ObjectKey::new("ops", "scheduler");
        bed.leases.read(&key, Some((*lease(3, "a", 3)).clone()), false, Instant::now());
        assert_eq!(bed.standing(), unknown("a"));
        bed.leases.see(&lease(4, "a", 4), true, Instant::now());
        assert_eq!(bed.standing(), holder("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn only_selectors_that_name_a_lease_are_told() {
        let bed = Bed::new();
        bed.name("leader", "scheduler");
        bed.name("other", "elsewhere");
        bed.list(vec![lease(1, "a", 1)]);
        bed.name("second", "scheduler");
        let told = |version, holder: &str| {
            bed.leases.see(&lease(version, holder, version as i32), true, Instant::now())
        };
        let both = [ObjectKey::new("ops", "leader"), ObjectKey::new("ops", "second")];
        assert_eq!(told(2, "b"), both);
        assert!(told(3, "b").is_empty());
        bed.name("leader", "");
        assert_eq!(told(4, "c"), both[1..]);
        bed.name("second", "");
        assert!(told(5, "d").is_empty());
        assert!(bed.leases.used.lock().len() == 1);
    }
}
