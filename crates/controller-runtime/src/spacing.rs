//! The shortest time between writes for a Service, which grows with the number of its pods.
//!
//! The cost of a write for the API server and for all watchers grows with the object: with managed
//! fields, an update of Endpoints with 1,000 addresses takes a kube-apiserver tens of milliseconds
//! of CPU time. When many pods change one after the other, the controller writes the changes of one
//! spacing together. It writes the first change after a quiet time at once, and also every change
//! that is urgent or is not one of a pod.

use std::time::Duration;

/// A Service with fewer pods has no spacing.
const LARGE: usize = 1000;

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
}
