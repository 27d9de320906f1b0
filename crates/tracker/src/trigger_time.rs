//! The time of the change that a sync publishes: the value of the last-change-trigger-time
//! annotation, from which network programming latency is measured. Upstream:
//! `endpointslice/util/trigger_time_tracker.go`.

use std::sync::Arc;

use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::{Pod, Service, Text, Timestamp};

/// The times that the last sync of one Service saw.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TriggerTime {
    seen: Option<Seen>,
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    service_uid: Text,
    service_time: Option<Timestamp>,
    /// Sorted by pod name. Most Services have few pods, and a map takes more memory for these.
    pod_times: Vec<(Text, Timestamp)>,
    /// The trigger time of a sync that could not write it.
    carried: Option<Timestamp>,
}

/// The trigger time cannot be computed from the changed pods alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedsAllPods;

impl TriggerTime {
    /// Returns the trigger time of a sync. For a new Service it is the creation time. Otherwise it
    /// is the earliest time that is newer than at the last call, among the pods' Ready transitions
    /// and the Service's creation. If the readiness of the pods also depends on a `condition`, the
    /// later transition of the two counts. Returns `None` if none of these times has changed; the
    /// annotation is then removed.
    ///
    /// The state advances whether or not the sync writes anything. A Service that was deleted and
    /// created again under its name is a new one.
    pub fn compute(
        &mut self,
        service: &Service,
        pods: &[Arc<Pod>],
        condition: Option<&str>,
    ) -> Option<Timestamp> {
        let known = self.seen.take().filter(|seen| seen.service_uid == service.uid);
        let mut pod_times = Vec::with_capacity(pods.len());
        pod_times
            .extend(pods.iter().filter_map(|pod| Some((pod.key.name.clone(), ready_since(pod, condition)?))));
        // The pods of a store are sorted, which takes one comparison for each.
        pod_times.sort_unstable_by(|(one, _), (other, _)| Text::cmp(one, other));
        let trigger = match &known {
            None => service.creation_timestamp,
            Some(seen) => {
                let service_time = service.creation_timestamp.filter(|time| Some(*time) > seen.service_time);
                earliest_newer(&seen.pod_times, &pod_times)
                    .into_iter()
                    .chain(service_time)
                    .chain(seen.carried)
                    .min()
            }
        };
        self.seen = Some(Seen {
            service_uid: service.uid.clone(),
            service_time: service.creation_timestamp,
            pod_times,
            carried: None,
        });
        trigger
    }

    /// As [`Self::compute`], if only these pods have changed since its last call. The work grows
    /// with their number; a pod that is new or gone also moves the entries after it, 24 bytes each.
    ///
    /// # Errors
    ///
    /// If the Service is a new one.
    pub fn compute_changed(
        &mut self,
        service: &Service,
        changed: &[ChangedPod],
        condition: Option<&str>,
    ) -> Result<Option<Timestamp>, NeedsAllPods> {
        let seen = self.seen.as_mut().filter(|seen| seen.service_uid == service.uid).ok_or(NeedsAllPods)?;
        let service_time = service.creation_timestamp.filter(|time| Some(*time) > seen.service_time);
        seen.service_time = service.creation_timestamp;
        let mut trigger = service_time.into_iter().chain(seen.carried.take()).min();
        for ChangedPod { name, now, .. } in changed {
            let time = now.as_deref().and_then(|pod| ready_since(pod, condition));
            let before = seen.record(name, time);
            let Some(time) = time else { continue };
            if before.is_none_or(|before| time > before) {
                trigger = trigger.into_iter().chain([time]).min();
            }
        }
        Ok(trigger)
    }

    /// Gives back a trigger time that could not be written, so that the retry publishes it.
    /// (Upstream loses it.) Without a call of [`Self::compute`] before it this is a no-op.
    pub fn carry_over(&mut self, trigger: Option<Timestamp>) {
        if let Some(seen) = &mut self.seen {
            seen.carried = seen.carried.into_iter().chain(trigger).min();
        }
    }

    /// Returns true if no sync has been seen.
    pub fn is_empty(&self) -> bool {
        self.seen.is_none()
    }
}

impl Seen {
    /// Records the time of a pod, or that it has none. Returns the time before.
    fn record(&mut self, pod: &Text, time: Option<Timestamp>) -> Option<Timestamp> {
        match (self.pod_times.binary_search_by(|(name, _)| name.cmp(pod)), time) {
            (Ok(place), Some(time)) => Some(std::mem::replace(&mut self.pod_times[place].1, time)),
            (Ok(place), None) => Some(self.pod_times.remove(place).1),
            (Err(place), Some(time)) => {
                self.pod_times.insert(place, (pod.clone(), time));
                None
            }
            (Err(_), None) => None,
        }
    }
}

/// When the pod's Ready condition changed last, or the other condition, if that was later.
fn ready_since(pod: &Pod, condition: Option<&str>) -> Option<Timestamp> {
    let ready = pod.ready.and_then(|ready| ready.last_transition);
    ready.max(condition.and_then(|kind| pod.condition(kind)?.last_transition))
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
    use std::collections::BTreeMap;

    use super::*;
    use kube_endpoint_core_model::ObjectKey;
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

    /// A sync: (uid, creation, pods, wanted trigger time).
    type Sync<'a> = (&'a str, i64, &'a [(&'a str, i64)], Option<i64>);

    /// Checks a run of syncs of one tracker.
    fn check(syncs: &[Sync<'_>]) {
        let mut tracker = TriggerTime::default();
        for (step, (uid, created, times, want)) in syncs.iter().enumerate() {
            let got = tracker.compute(&service(uid, *created), &pods(times), None);
            assert_eq!(got, want.map(at), "step {step}");
        }
    }

    #[test]
    fn a_new_service_has_its_creation_time() {
        check(&[("u", 100, &[("a", 50), ("b", 200)], Some(100))]);
    }

    #[test]
    fn without_a_change_there_is_no_trigger_time() {
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
    fn a_retry_publishes_the_trigger_time_of_the_failed_sync() {
        let mut tracker = TriggerTime::default();
        let (service, pods) = (service("u", 100), pods(&[("a", 50)]));
        let trigger = tracker.compute(&service, &pods, None);
        tracker.carry_over(trigger);
        assert_eq!(tracker.compute(&service, &pods, None), Some(at(100)));
        assert_eq!(tracker.compute(&service, &pods, None), None);
    }

    proptest::proptest! {
        #[test]
        fn the_changed_pods_are_enough(
            steps in proptest::collection::vec(
                (0..4i64, proptest::collection::vec((0..8u8, 0..9i64), 0..4), proptest::bool::ANY),
                1..20,
            ),
        ) {
            let (mut all, mut changes) = (TriggerTime::default(), TriggerTime::default());
            let mut listed: BTreeMap<String, i64> = BTreeMap::new();
            for (step, (created, changed, fails)) in steps.into_iter().enumerate() {
                let service = service("u", created);
                let mut names: Vec<String> = changed.iter().map(|(number, _)| format!("p{number}")).collect();
                for (number, second) in changed {
                    // Zero stands for a pod that left, one for a pod without a time.
                    match second {
                        0 => listed.remove(&format!("p{number}")),
                        second => listed.insert(format!("p{number}"), second),
                    };
                }
                names.sort();
                names.dedup();
                let pod = |name: &String, second: &i64| {
                    let mut pod = Pod::clone(&pods(&[(name, *second)])[0]);
                    pod.ready = pod.ready.filter(|_| *second > 1);
                    Arc::new(pod)
                };
                let now: Vec<Arc<Pod>> = listed.iter().map(|(name, second)| pod(name, second)).collect();
                let changed: Vec<ChangedPod> = names
                    .iter()
                    .map(|name| {
                        let now = listed.get(name).map(|second| pod(name, second));
                        ChangedPod { name: name.as_str().into(), now, ..ChangedPod::default() }
                    })
                    .collect();
                let want = all.compute(&service, &now, None);
                if step == 0 {
                    proptest::prop_assert_eq!(changes.compute_changed(&service, &changed, None), Err(NeedsAllPods));
                    changes.compute(&service, &now, None);
                } else {
                    proptest::prop_assert_eq!(changes.compute_changed(&service, &changed, None), Ok(want));
                }
                if fails {
                    all.carry_over(want);
                    changes.carry_over(want);
                }
                proptest::prop_assert_eq!(&all, &changes);
            }
        }
    }

    #[test]
    fn a_service_that_no_sync_has_seen_carries_nothing_over() {
        let mut tracker = TriggerTime::default();
        tracker.carry_over(Some(at(1)));
        assert!(tracker.is_empty());
        tracker.compute(&service("u", 100), &[], None);
        assert!(!tracker.is_empty());
    }

    #[test]
    fn the_later_transition_of_two_conditions_counts() {
        use kube_endpoint_core_model::pod::{PrefixedCondition, RareFields};
        let pod = |ready: i64, leader: i64| {
            let condition = PrefixedCondition {
                kind: "shop.example/leader".into(),
                is_true: true,
                last_transition: Some(at(leader)),
            };
            let rare = RareFields { conditions: [condition].into(), ..RareFields::default() };
            let ready = Some(ReadyCondition { is_true: true, last_transition: Some(at(ready)) });
            Arc::new(Pod { ready, rare: rare.boxed(), ..Pod::default() })
        };
        let service = service("u", 1);
        let times = |condition: Option<&str>| {
            let mut tracker = TriggerTime::default();
            tracker.compute(&service, &[pod(100, 100)], condition);
            [pod(100, 200), pod(300, 200)].map(|pod| tracker.compute(&service, &[pod], condition))
        };
        assert_eq!(times(Some("shop.example/leader")), [Some(at(200)), Some(at(300))]);
        assert_eq!(times(None), [None, Some(at(300))]);
    }
}
