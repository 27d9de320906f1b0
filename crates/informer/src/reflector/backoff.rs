//! Delays between retries.

use std::time::Duration;

use kube_endpoint_core_model::Backoff;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A run of consecutive failures.
#[derive(Debug)]
pub(crate) struct Failures {
    backoff: Backoff,
    count: u32,
}

impl Failures {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, count: 0 }
    }

    /// Counts a failure. Returns the delay before the next attempt, shortened by a random part of
    /// up to half, so that clients that failed together do not retry together.
    pub(crate) fn next_delay(&mut self, random: &mut ChaCha8Rng) -> Duration {
        let delay = self.backoff.delay(self.count);
        self.count = self.count.saturating_add(1);
        delay.mul_f64(random.random_range(0.5..1.0))
    }

    /// Returns the number of consecutive failures.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Ends the run: an attempt succeeded.
    pub(crate) fn reset(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::ReflectorOptions;

    #[test]
    fn delays_double_up_to_the_maximum_and_start_over_after_a_reset() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut failures = Failures::new(ReflectorOptions::new(0).backoff);
        for millis in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let (longest, delay) = (Duration::from_millis(millis), failures.next_delay(&mut random));
            assert!(delay >= longest / 2 && delay < longest, "{delay:?} of {longest:?}");
        }
        for _ in 0..100 {
            assert!(failures.next_delay(&mut random) < Duration::from_secs(30));
        }
        failures.reset();
        assert_eq!(failures.count(), 0);
        assert!(failures.next_delay(&mut random) < Duration::from_millis(800));
        assert_eq!(failures.count(), 1);
    }

    #[test]
    fn equal_seeds_give_equal_delays() {
        let delays = |seed| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut failures = Failures::new(ReflectorOptions::new(0).backoff);
            [(); 5].map(|()| failures.next_delay(&mut random))
        };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
    }
}
