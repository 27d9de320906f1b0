//! The shortest time between writes for a Service: it grows with the number of its pods, and with
//! the time that the API server takes for a write.
//!
//! The cost of a write for the API server and for all watchers grows with the object: with managed
//! fields, an update of Endpoints with 1,000 addresses takes a kube-apiserver tens of milliseconds
//! of CPU time. When many pods change one after the other, the controller writes the changes of one
//! spacing together. It writes the first change after a quiet time at once, and also every change
//! that is not one of a pod.
//!
//! An API server whose CPU is used up answers late. Controllers that wait for their turn then write
//! several changes at once, and a controller that is fast does not, at the cost of everybody. So
//! the writes for one Service are in flight at most a sixth of the time, if they take
//! [`SLOW`] or longer.

use std::time::Duration;

/// A Service with fewer pods has no spacing.
const LARGE: usize = 1000;

/// A write that takes less is not slow: the API server has time.
const SLOW: Duration = Duration::from_millis(20);
/// How many times as long as a slow write the spacing after it is.
const REST: u32 = 5;
/// The longest spacing after a slow write.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The time between two writes for a Service with many pods that changes of its pods cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spacing {
    /// The time for each pod of the Service.
    pub per_pod: Duration,
    /// The longest time for a Service. No change of a pod waits longer for this reason.
    pub longest: Duration,
}

impl Spacing {
    /// The spacing does not depend on the number of pods.
    pub const NONE: Self = Self::new(Duration::ZERO, Duration::ZERO);

    /// Creates a spacing.
    pub const fn new(per_pod: Duration, longest: Duration) -> Self {
        Self { per_pod, longest }
    }

    /// Returns the time between two writes for a Service with this number of pods.
    pub(crate) fn of(self, pods: usize) -> Duration {
        if pods < LARGE {
            return Duration::ZERO;
        }
        self.per_pod.saturating_mul(u32::try_from(pods).unwrap_or(u32::MAX)).min(self.longest)
    }
}

/// Returns the time between a write that took this long and the next one.
pub(crate) fn after(took: Duration) -> Duration {
    if took < SLOW { Duration::ZERO } else { took.saturating_mul(REST).min(LONGEST_REST) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spacing_grows_with_the_service_up_to_a_limit() {
        let spacing = Spacing::new(Duration::from_micros(50), Duration::from_millis(150));
        let check = |pods, micros| {
            assert_eq!(spacing.of(pods), Duration::from_micros(micros), "{pods} pods");
            assert_eq!(Spacing::NONE.of(pods), Duration::ZERO);
        };
        check(0, 0);
        check(999, 0);
        check(1000, 50_000);
        check(2000, 100_000);
        check(3000, 150_000);
        check(100_000, 150_000);
        check(usize::MAX, 150_000);
    }

    #[test]
    fn a_slow_write_is_followed_by_a_rest_up_to_a_limit() {
        let check =
            |took, rest| assert_eq!(after(Duration::from_millis(took)).as_millis(), rest, "{took} ms");
        check(0, 0);
        check(19, 0);
        check(20, 100);
        check(100, 500);
        check(200, 1000);
        check(60_000, 1000);
    }
}
