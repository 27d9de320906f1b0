//! Tells a cluster that no endpoint controller serves from single Services that wait for one.

use std::collections::BTreeSet;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::facts::age;

/// A Lease that nobody has renewed for this many seconds has no leader. A leader renews it every
/// few seconds, and the clock of the reader may differ.
pub(crate) const SILENCE: i64 = 120;

/// The number of waiting Services that are more than chance.
const SEVERAL: usize = 3;

/// A Lease of a controller that nobody has renewed for long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StaleLease {
    pub lease: ObjectKey,
    /// The seconds since the last renewal.
    pub seconds: i64,
}

/// The Services that wait for a controller, and what else tells if one runs. Those of several parts
/// of a cluster can be [added up](Self::add).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The Services whose slices are late, and the times of their oldest changes.
    late: Vec<(ObjectKey, Option<Timestamp>)>,
    /// The number of Services with a selector.
    selecting: usize,
    /// The last sign that a controller works.
    sign: Option<Timestamp>,
    stale_leases: Vec<StaleLease>,
    hides_number: bool,
}

/// A cluster that no endpoint controller serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Unserved {
    /// The number of Services that wait, or `None` if the reader looked at one only, or may not
    /// know the number.
    pub services: Option<usize>,
    /// The seconds since the last sign that a controller worked, if there is one.
    pub seconds: Option<i64>,
    /// The Leases of the controllers, if nobody holds them any more.
    pub leases: Vec<StaleLease>,
}

impl Waiting {
    pub(crate) fn new(sign: Option<Timestamp>, stale_leases: Vec<StaleLease>) -> Self {
        Self { sign, stale_leases, ..Self::default() }
    }

    /// Counts a Service with a selector. `late` is the time of its oldest change, if its slices do
    /// not show it in time.
    pub(crate) fn count(&mut self, service: &ObjectKey, late: Option<Option<Timestamp>>) {
        self.selecting += 1;
        self.late.extend(late.map(|since| (service.clone(), since)));
    }

    /// Notes the time at which a controller tried in vain to write: it runs.
    pub(crate) fn tried(&mut self, time: Option<Timestamp>) {
        self.sign = self.sign.max(time);
    }

    /// Adds the Services of another part of the same cluster.
    pub fn add(&mut self, other: Self) {
        self.late.extend(other.late);
        self.selecting += other.selecting;
        self.sign = self.sign.max(other.sign);
        self.stale_leases = other.stale_leases;
    }

    /// Lets the root cause not tell how many Services wait.
    pub fn hide_number(&mut self) {
        self.hides_number = true;
    }

    /// Leaves out Services for which `keep` returns false.
    pub fn retain(&mut self, keep: impl Fn(&ObjectKey) -> bool) {
        self.late.retain(|(service, _)| keep(service));
    }

    /// Returns the root cause if no controller serves the cluster: several Services wait, and no
    /// controller has written anything since their changes. Returns `None` if the Services of one
    /// namespace wait and those of others do not, or if a controller has written since then. A
    /// Lease that nobody renews is enough for one Service.
    pub fn unserved(&self, now: Timestamp) -> Option<Unserved> {
        let is_after = |since: Timestamp| self.sign.is_none_or(|sign| since > sign);
        // Nobody knows the time of some changes, such as the deletion of a pod.
        let dated = self.late.iter().filter(|(_, since)| since.is_some_and(is_after));
        let dated: Vec<&ObjectKey> = dated.map(|(service, _)| service).collect();
        let namespaces: BTreeSet<&Text> = dated.iter().map(|service| &service.namespace).collect();
        let are_all = dated.len() > 1 && dated.len() == self.selecting;
        let is_everywhere = dated.len() >= SEVERAL && namespaces.len() > 1;
        let is_unserved = are_all || is_everywhere || (!dated.is_empty() && !self.stale_leases.is_empty());
        is_unserved.then(|| Unserved {
            services: Some(self.late.len()).filter(|_| !self.hides_number),
            seconds: self.sign.map(|sign| age::since(sign, now)),
            leases: self.stale_leases.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(60 * minute).unwrap()
    }

    /// Returns the number of Services of the root cause. The Services are given with the minute of
    /// their oldest change, if they wait.
    fn found(services: &[(&str, Option<i64>)], sign: Option<i64>, has_stale_lease: bool) -> Option<usize> {
        let lease =
            StaleLease { lease: ObjectKey::new("kube-system", "kube-controller-manager"), seconds: 600 };
        let leases = Some(lease).filter(|_| has_stale_lease).into_iter().collect();
        let mut waiting = Waiting::new(sign.map(at), leases);
        for (number, (namespace, since)) in services.iter().enumerate() {
            let key = ObjectKey::new(*namespace, format!("s{number}"));
            waiting.count(&key, since.map(|since| Some(at(since))));
        }
        waiting.unserved(at(100)).and_then(|unserved| unserved.services)
    }

    #[test]
    fn all_services_of_one_namespace_have_one_cause_if_there_are_no_others() {
        assert_eq!(found(&[("a", Some(50)), ("a", Some(60))], Some(40), false), Some(2));
        assert_eq!(found(&[("a", Some(50)), ("a", Some(60)), ("b", None)], Some(40), false), None);
    }

    #[test]
    fn a_lease_that_nobody_renews_is_enough() {
        assert_eq!(found(&[("a", Some(50)), ("b", None)], Some(40), true), Some(1));
    }

    #[test]
    fn parts_of_a_cluster_are_added_up() {
        let mut all = Waiting::new(None, Vec::new());
        for namespace in ["a", "b", "c"] {
            let mut part = Waiting::new(Some(at(40)), Vec::new());
            part.count(&ObjectKey::new(namespace, "s"), Some(Some(at(50))));
            assert_eq!(part.unserved(at(100)), None);
            all.add(part);
        }
        let unserved = all.unserved(at(100)).unwrap();
        assert_eq!((unserved.services, unserved.seconds), (Some(3), Some(3600)));
        // Another part shows that a controller works.
        all.add(Waiting::new(Some(at(90)), Vec::new()));
        assert_eq!(all.unserved(at(100)), None);
    }
}
