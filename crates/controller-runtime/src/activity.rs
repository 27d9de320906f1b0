//! Counts the syncs and writes of a controller since it was created, and the times from changes to
//! their writes. These numbers are for people who watch it; metrics for monitoring are in
//! `metrics.rs` and in the controllers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Each number of milliseconds below this has its own class. Above, each doubling has this many
/// classes.
const CLASSES_PER_DOUBLING: u64 = 8;
const BITS: u32 = CLASSES_PER_DOUBLING.trailing_zeros();
/// The number of classes. The last one begins at about an hour.
const CLASSES: usize = 160;

/// The counts of a controller, which only grow.
pub(crate) struct Activity {
    syncs: AtomicU64,
    errors: AtomicU64,
    writes: AtomicU64,
    /// The number of syncs that published a change, by class of the time from the arrival of its
    /// event to the write.
    latencies: [AtomicU64; CLASSES],
}

impl Default for Activity {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self { syncs: zero(), errors: zero(), writes: zero(), latencies: std::array::from_fn(|_| zero()) }
    }
}

impl Activity {
    pub(crate) fn synced(&self, succeeded: bool) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.errors.fetch_add(u64::from(!succeeded), Ordering::Relaxed);
    }

    pub(crate) fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a change that the controller wrote this long after its event arrived.
    pub(crate) fn published(&self, millis: u64) {
        if let Some(count) = self.latencies.get(class_of(millis)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> ActivityCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ActivityCounts {
            syncs: read(&self.syncs),
            errors: read(&self.errors),
            writes: read(&self.writes),
            latencies: Latencies(self.latencies.iter().map(read).collect()),
        }
    }
}

/// The counts of a controller since it was created. They may be of slightly different moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActivityCounts {
    /// Syncs that have ended.
    pub syncs: u64,
    /// Syncs that have ended with an error.
    pub errors: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Times from the arrival of an event to the write that publishes its change.
    pub latencies: Latencies,
}

/// The numbers of times, by class. A class is one number of milliseconds below 8 ms, and an eighth
/// of a doubling above.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies(Box<[u64]>);

impl Latencies {
    /// Counts times that are given in milliseconds.
    pub fn of(millis: impl IntoIterator<Item = u64>) -> Self {
        let activity = Activity::default();
        millis.into_iter().for_each(|millis| activity.published(millis));
        activity.counts().latencies
    }

    /// Returns the times that were added since `earlier`, as pairs of a class and a number, without
    /// empty classes.
    pub fn since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = (u8, u64)> + 'a {
        let before = |class: usize| earlier.0.get(class).copied().unwrap_or_default();
        let added =
            self.0.iter().enumerate().map(move |(class, now)| (class, now.saturating_sub(before(class))));
        added
            .filter(|(_, added)| *added > 0)
            .map(|(class, added)| (u8::try_from(class).unwrap_or(u8::MAX), added))
    }

    /// Returns the longest time of a class in milliseconds. The last class has no end: for it,
    /// returns the shortest time.
    pub fn millis_of(class: u8) -> u64 {
        let class = u64::from(class).min(CLASSES as u64 - 1);
        if class + 1 == CLASSES as u64 {
            return first_of(class);
        }
        first_of(class + 1) - 1
    }
}

fn class_of(millis: u64) -> usize {
    let Some(power) = millis.checked_ilog2().filter(|power| *power >= BITS) else { return millis as usize };
    let doubling = u64::from(power - BITS + 1);
    let step = (millis >> (power - BITS)) - CLASSES_PER_DOUBLING;
    ((doubling * CLASSES_PER_DOUBLING + step) as usize).min(CLASSES - 1)
}

/// Returns the shortest time of a class in milliseconds.
fn first_of(class: u64) -> u64 {
    let (doubling, step) = (class / CLASSES_PER_DOUBLING, class % CLASSES_PER_DOUBLING);
    match doubling.checked_sub(1) {
        None => class,
        Some(shift) => (CLASSES_PER_DOUBLING + step) << shift,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_a_class_that_is_an_eighth_of_it_at_most() {
        for millis in (0..5_000).chain((5_000..3_900_000).step_by(997)) {
            let class = u8::try_from(class_of(millis)).unwrap();
            let (first, last) = (first_of(class.into()), Latencies::millis_of(class));
            assert!((first..=last).contains(&millis), "{millis}: {first} to {last}");
            assert!(last - first <= millis / 8, "{millis}: {first} to {last}");
        }
    }

    #[test]
    fn the_last_class_has_no_end() {
        for millis in [u64::MAX, 1 << 40, first_of(CLASSES as u64 - 1)] {
            assert_eq!(class_of(millis), CLASSES - 1);
        }
        assert_eq!(Latencies::millis_of(u8::MAX), first_of(CLASSES as u64 - 1));
    }

    #[test]
    fn only_what_was_added_is_returned() {
        let activity = Activity::default();
        activity.published(5);
        let earlier = activity.counts();
        activity.published(5);
        activity.published(100);
        activity.wrote();
        activity.synced(true);
        activity.synced(false);
        let counts = activity.counts();
        assert_eq!((counts.syncs, counts.errors, counts.writes), (2, 1, 1));
        let added: Vec<_> = counts.latencies.since(&earlier.latencies).collect();
        assert_eq!(
            added.iter().map(|(class, n)| (Latencies::millis_of(*class), *n)).collect::<Vec<_>>(),
            [(5, 1), (103, 1)]
        );
        assert_eq!(counts.latencies.since(&Latencies::default()).map(|(_, n)| n).sum::<u64>(), 3);
    }
}
