//! The time of the change that a sync publishes: the value of the last-change-trigger-time annotation, from which network
//! programming latency is measured. Upstream: `endpointslice/util/trigger_time_tracker.go`.

use std::collections::HashMap;
use std::sync::Arc;

use kube_endpoint_core_model::{ObjectKey, Pod, Service, Text, Timestamp};
use parking_lot::Mutex;

/// The state of each Service at its last sync. Each controller has one of these.
#[derive(Debug, Default)]
pub struct TriggerTimes {
    services: Mutex<HashMap<ObjectKey, State>>,
}

#[derive(Debug, Default)]
struct State {
    service_uid: Text,
    service_time: Option<Timestamp>,
    /// Sorted by pod name.
    pod_times: Vec<(Text, Timestamp)>,
    /// The trigger time of a sync that could not write it.
    carried: Option<Timestamp>,
}

impl TriggerTimes {
    /// The trigger time of a sync. For a new Service, that is its creation; otherwise the earliest of the pods' Ready
    /// transitions and the Service's creation that is newer than at the last call. None means that no timed change happened
    /// and that the annotation must be removed.
    ///
    /// The state is updated whether or not the sync writes anything. Calls for one Service must not overlap, which a work
    /// queue guarantees. A Service that was deleted and recreated is new.
    pub fn compute(&self, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        // Removed, so that the lock is not held during work that grows with the Service.
        let known =
            self.services.lock().remove(&service.key).filter(|state| state.service_uid == service.uid);
        let mut pod_times: Vec<(Text, Timestamp)> = pods
            .iter()
            .filter_map(|pod| Some((pod.key.name.clone(), pod.ready.as_ref()?.last_transition?)))
            .collect();
        if !pod_times.is_sorted_by(|a, b| a.0 <= b.0) {
            pod_times.sort_unstable();
        }
        let trigger = match &known {
            None => service.creation_timestamp,
            Some(state) => {
                let service_time = service.creation_timestamp.filter(|time| Some(*time) > state.service_time);
                earliest_newer(&state.pod_times, &pod_times)
                    .into_iter()
                    .chain(service_time)
                    .chain(state.carried)
                    .min()
            }
        };
        let state = State {
            service_uid: service.uid.clone(),
            service_time: service.creation_timestamp,
            pod_times,
            carried: None,
        };
        self.services.lock().insert(service.key.clone(), state);
        trigger
    }

    /// Keeps a trigger time that could not be written for the next sync. (Upstream loses it.)
    pub fn carry_over(&self, service: &ObjectKey, trigger: Option<Timestamp>) {
        if let Some(state) = self.services.lock().get_mut(service) {
            state.carried = state.carried.into_iter().chain(trigger).min();
        }
    }

    /// Drops the state of a deleted Service.
    pub fn forget(&self, service: &ObjectKey) {
        self.services.lock().remove(service);
    }

    /// The number of Services with state.
    pub fn len(&self) -> usize {
        self.services.lock().len()
    }

    /// Whether there is no state.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The earliest time in `new` that is later than the same pod's in `old`. Both are sorted by name.
fn earliest_newer(old: &[(Text, Timestamp)], new: &[(Text, Timestamp)]) -> Option<Timestamp> {
    let mut old = old.iter().peekable();
    new.iter()
        .filter(|(name, time)| {
            while old.next_if(|(old_name, _)| old_name < name).is_some() {}
            old.peek().is_none_or(|(old_name, old_time)| old_name != name || time > old_time)
        })
        .map(|(_, time)| *time)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_core_model::pod::ReadyCondition;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn service(uid: &str, created: i64) -> Service {
        Service {
            key: ObjectKey::new("n", "s"),
            uid: uid.into(),
            creation_timestamp: Some(at(created)),
            ..Service::default()
        }
    }

    fn pods(times: &[(&str, i64)]) -> Vec<Arc<Pod>> {
        times
            .iter()
            .map(|(name, second)| {
                let ready = Some(ReadyCondition { is_true: true, last_transition: Some(at(*second)) });
                Arc::new(Pod { key: ObjectKey::new("n", *name), ready, ..Pod::default() })
            })
            .collect()
    }

    /// A run of syncs of one tracker: (uid, creation, pods, wanted trigger time).
    #[expect(clippy::type_complexity, reason = "a table reads best as it stands")]
    fn check(syncs: &[(&str, i64, &[(&str, i64)], Option<i64>)]) {
        let tracker = TriggerTimes::default();
        for (step, (uid, created, times, want)) in syncs.iter().enumerate() {
            let got = tracker.compute(&service(uid, *created), &pods(times));
            assert_eq!(got, want.map(at), "step {step}");
        }
    }

    #[test]
    fn a_new_service_has_its_creation_time() {
        check(&[("u", 100, &[("a", 50), ("b", 200)], Some(100))]);
    }

    #[test]
    fn nothing_changed_is_none() {
        check(&[("u", 100, &[("a", 50)], Some(100)), ("u", 100, &[("a", 50)], None)]);
    }

    #[test]
    fn the_earliest_of_the_changed_pods() {
        check(&[
            ("u", 100, &[("a", 50), ("b", 60), ("c", 70)], Some(100)),
            ("u", 100, &[("a", 300), ("b", 60), ("c", 250)], Some(250)),
        ]);
    }

    #[test]
    fn a_pod_that_is_new_counts_and_one_that_left_does_not() {
        check(&[
            ("u", 100, &[("a", 50), ("z", 60)], Some(100)),
            ("u", 100, &[("b", 20), ("z", 60)], Some(20)),
            ("u", 100, &[("z", 60)], None),
        ]);
    }

    #[test]
    fn time_that_goes_backwards_is_no_change() {
        check(&[("u", 100, &[("a", 50)], Some(100)), ("u", 100, &[("a", 40)], None)]);
    }

    #[test]
    fn a_service_recreated_under_its_name_is_new() {
        check(&[("u", 100, &[("a", 50)], Some(100)), ("v", 200, &[("a", 150)], Some(200))]);
    }

    #[test]
    fn pods_may_come_in_any_order() {
        check(&[
            ("u", 100, &[("b", 60), ("a", 50)], Some(100)),
            ("u", 100, &[("c", 70), ("a", 50), ("b", 60)], Some(70)),
        ]);
    }

    #[test]
    fn what_could_not_be_written_is_published_by_the_retry() {
        let tracker = TriggerTimes::default();
        let (service, pods) = (service("u", 100), pods(&[("a", 50)]));
        let trigger = tracker.compute(&service, &pods);
        tracker.carry_over(&service.key, trigger);
        assert_eq!(tracker.compute(&service, &pods), Some(at(100)));
        assert_eq!(tracker.compute(&service, &pods), None);
    }

    #[test]
    fn state_of_a_service_that_is_gone_is_dropped() {
        let tracker = TriggerTimes::default();
        let service = service("u", 100);
        tracker.compute(&service, &[]);
        assert_eq!(tracker.len(), 1);
        tracker.forget(&service.key);
        assert!(tracker.is_empty());
        tracker.carry_over(&service.key, Some(at(1)));
        assert!(tracker.is_empty());
    }
}
