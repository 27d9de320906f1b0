//! Delays that grow.

use std::time::Duration;

/// Exponential backoff: delays start at `initial` and double up to `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// The first delay.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Backoff {
    /// A backoff from `initial` to `max`.
    pub const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max }
    }

    /// Returns the delay after one more failure than `failures`.
    pub fn delay(self, failures: u32) -> Duration {
        self.initial.saturating_mul(2_u32.saturating_pow(failures)).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_no_number_of_failures_overflows() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
        let delays = [0, 1, 2, 8, 9, 31, 32, u32::MAX].map(|failures| backoff.delay(failures).as_secs());
        assert_eq!(delays, [1, 2, 4, 256, 300, 300, 300, 300]);
        let long = Backoff::new(Duration::MAX, Duration::MAX);
        assert_eq!(long.delay(u32::MAX), Duration::MAX);
    }
}
