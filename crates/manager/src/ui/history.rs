//! The last 15 minutes in buckets: queue lengths, writes, and the times from changes to their
//! writes.

use std::collections::{BTreeMap, VecDeque};

use kube_endpoint_controller_runtime::{ActivityCounts, FailingCounts, Latencies};
use kube_endpoint_core_model::Timestamp;
use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_explain::figures::{BUCKET_SECONDS, BUCKETS};
use kube_endpoint_status_page::{HistoryView, Quantiles};

/// The queue and the counts of a controller at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Keys that a worker can take.
    pub(super) queue_depth: usize,
    /// Keys whose last sync failed.
    pub(super) failing: FailingCounts,
    /// The counts since its start.
    pub(super) activity: ActivityCounts,
}

/// Sums of the samples of all controllers. Its size does not depend on the number of syncs and
/// writes.
pub(super) struct History {
    names: Vec<&'static str>,
    /// The buckets, the latest last.
    buckets: VecDeque<Bucket>,
    /// The counts of each controller at the last sample.
    last: Vec<ActivityCounts>,
}

struct Bucket {
    number: i64,
    queue_depth: Vec<usize>,
    writes: Vec<u64>,
    /// The latencies of all controllers, by class, without empty classes.
    latencies: BTreeMap<u8, u64>,
}

fn number_of(time: Timestamp) -> i64 {
    time.as_second().div_euclid(BUCKET_SECONDS)
}

impl History {
    /// Makes an empty history of the controllers with these names.
    pub(super) fn new(names: Vec<&'static str>) -> Self {
        Self { last: vec![ActivityCounts::default(); names.len()], names, buckets: VecDeque::new() }
    }

    /// Adds the samples of all controllers, in the order of the names. Times must not descend.
    pub(super) fn add(&mut self, now: Timestamp, samples: &[Sample]) {
        let number = number_of(now);
        if self.buckets.back().is_none_or(|last| last.number < number) {
            let (queue_depth, writes) = (vec![0; self.names.len()], vec![0; self.names.len()]);
            self.buckets.push_back(Bucket { number, queue_depth, writes, latencies: BTreeMap::new() });
            while self.buckets.len() > BUCKETS {
                self.buckets.pop_front();
            }
        }
        let Some(bucket) = self.buckets.back_mut() else { return };
        let of_controllers = bucket.queue_depth.iter_mut().zip(&mut bucket.writes).zip(&mut self.last);
        for (((depth, writes), last), sample) in of_controllers.zip(samples) {
            *depth = (*depth).max(sample.queue_depth);
            *writes += sample.activity.writes.saturating_sub(last.writes);
            for (class, added) in sample.activity.latencies.since(&last.latencies) {
                *bucket.latencies.entry(class).or_default() += added;
            }
            last.clone_from(&sample.activity);
        }
    }

    /// Returns the buckets up to now, the oldest first. `now` is the time of the clock that dates
    /// the samples. The page shows `wall_clock`.
    pub(super) fn view(&self, now: Timestamp, wall_clock: Timestamp) -> HistoryView {
        let end = self.buckets.back().map_or(number_of(now), |last| last.number.max(number_of(now)));
        let by_number: BTreeMap<i64, &Bucket> =
            self.buckets.iter().map(|bucket| (bucket.number, bucket)).collect();
        let numbers = || (0..BUCKETS).rev().map(|back| end - i64::try_from(back).unwrap_or_default());
        let known = || numbers().map(|number| by_number.get(&number).copied());
        let of_controller = |at: usize| {
            let depth = known().map(|bucket| bucket.and_then(|bucket| bucket.queue_depth.get(at).copied()));
            let writes = known().map(|bucket| bucket.and_then(|bucket| bucket.writes.get(at).copied()));
            (depth.collect(), writes.collect())
        };
        let quantiles = |percent| known().map(|bucket| quantile(&bucket?.latencies, percent)).collect();
        let (mut queue_depth, mut writes) = (BTreeMap::new(), BTreeMap::new());
        for (at, name) in self.names.iter().enumerate() {
            let (depth_of, writes_of) = of_controller(at);
            queue_depth.insert(*name, depth_of);
            writes.insert(*name, writes_of);
        }
        HistoryView {
            bucket_seconds: BUCKET_SECONDS,
            end: rfc3339(wall_clock),
            queue_depth,
            writes,
            latency_millis: Quantiles { p50: quantiles(50), p99: quantiles(99) },
        }
    }
}

/// Returns the milliseconds that this percentage of the times does not exceed, or `None` if there
/// are no times.
fn quantile(latencies: &BTreeMap<u8, u64>, percent: u64) -> Option<u64> {
    let total: u64 = latencies.values().sum();
    let wanted = (total * percent).div_ceil(100);
    let mut seen = 0;
    latencies.iter().find_map(|(class, count)| {
        seen += count;
        (seen >= wanted).then(|| Latencies::millis_of(*class))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn sample(queue_depth: usize, writes: u64, latencies: &[u64]) -> Sample {
        let latencies = Latencies::of(latencies.iter().copied());
        Sample {
            queue_depth,
            activity: ActivityCounts { writes, latencies, ..Default::default() },
            ..Sample::default()
        }
    }

    fn last<T: Clone>(values: &[T], count: usize) -> Vec<T> {
        values[values.len() - count..].to_vec()
    }

    #[test]
    fn a_bucket_has_the_longest_queue_and_the_writes_of_its_time() {
        let mut history = History::new(vec!["a", "b"]);
        for (second, queue, writes) in [(0, 3, 0), (1, 7, 2), (9, 1, 5), (10, 0, 6), (25, 0, 6)] {
            history.add(at(second), &[sample(queue, writes, &[]), sample(0, 0, &[])]);
        }
        let view = history.view(at(31), at(0));
        assert_eq!((view.queue_depth["a"].len(), view.writes["b"].len()), (BUCKETS, BUCKETS));
        assert_eq!(last(&view.queue_depth["a"], 5), [None, Some(7), Some(0), Some(0), None]);
        assert_eq!(last(&view.writes["a"], 5), [None, Some(5), Some(1), Some(0), None]);
        assert_eq!(last(&view.writes["b"], 5), [None, Some(0), Some(0), Some(0), None]);
        assert_eq!(view.end, rfc3339(at(0)));
    }

    #[test]
    fn latencies_are_those_of_the_bucket() {
        let mut history = History::new(vec!["a"]);
        history.add(at(0), &[sample(0, 0, &[])]);
        let mut times: Vec<u64> = (0..100).map(|_| 5).collect();
        times.extend([4000, 4000]);
        history.add(at(1), &[sample(0, 102, &times)]);
        history.add(at(10), &[sample(0, 102, &times)]);
        let view = history.view(at(10), at(10));
        assert_eq!(last(&view.latency_millis.p50, 2), [Some(5), None]);
        assert_eq!(last(&view.latency_millis.p99, 2), [Some(4095), None]);
    }

    #[test]
    fn only_fifteen_minutes_are_kept() {
        let mut history = History::new(vec!["a"]);
        for second in 0..5000 {
            history.add(at(second), &[sample(1, u64::try_from(second).unwrap(), &[])]);
        }
        assert_eq!(history.buckets.len(), BUCKETS);
        assert_eq!(history.view(at(5000), at(5000)).writes["a"].iter().flatten().sum::<u64>(), 890);
    }
}
