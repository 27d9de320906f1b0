//! The shortest time between writes for a Service with many pods.
//!
//! What a write of a large object costs the API server and everyone who watches it grows with the
//! object: with managed fields, an update of Endpoints with 1,000 addresses takes a kube-apiserver
//! tens of milliseconds of CPU time. Where many pods change one after the other, changes that come
//! within the spacing are written together. The first change after a quiet time is written at once,
//! as is every change that is not one of a pod.

use std::time::Duration;

/// Changes of the pods of smaller Services are written at once.
const LARGE: usize = 1000;

/// The time between two writes for a Service that changes of its pods cause, if these are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spacing {
    /// For each pod of the Service.
    pub per_pod: Duration,
    /// The most for a Service. No change of a pod waits longer for this reason.
    pub longest: Duration,
}

impl Spacing {
    /// Each change is written at once.
    pub const NONE: Self = Self::new(Duration::ZERO, Duration::ZERO);

    /// All of it.
    pub const fn new(per_pod: Duration, longest: Duration) -> Self {
        Self { per_pod, longest }
    }

    /// The time between two writes of a Service with so many pods.
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
