//! How long to wait before the next try.

use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// How waiting times grow: from `first`, doubling, up to `longest`. Each is shortened at random by up to half, so that
/// clients that failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first waiting time.
    pub first: Duration,
    /// No waiting time is longer.
    pub longest: Duration,
}

impl Default for Backoff {
    /// From 800 ms to 30 s, as client-go's reflector.
    fn default() -> Self {
        Self { first: Duration::from_millis(800), longest: Duration::from_secs(30) }
    }
}

/// The tries that failed one after the other.
#[derive(Debug)]
pub(crate) struct Failures {
    backoff: Backoff,
    count: u32,
}

impl Failures {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, count: 0 }
    }

    /// One more failed. Returns how long to wait.
    pub(crate) fn another(&mut self, random: &mut ChaCha8Rng) -> Duration {
        let factor = 2u32.saturating_pow(self.count);
        self.count = self.count.saturating_add(1);
        let longest = self.backoff.first.saturating_mul(factor).min(self.backoff.longest);
        longest.mul_f64(random.random_range(0.5..1.0))
    }

    pub(crate) fn is_none(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Something went well.
    pub(crate) fn reset(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn doubles_up_to_the_longest_and_starts_over() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut failures = Failures::new(Backoff::default());
        for millis in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let (longest, waits) = (Duration::from_millis(millis), failures.another(&mut random));
            assert!(waits >= longest / 2 && waits < longest, "{waits:?} of {longest:?}");
        }
        for _ in 0..100 {
            assert!(failures.another(&mut random) < Duration::from_secs(30));
        }
        failures.reset();
        assert!(failures.is_none() && failures.another(&mut random) < Duration::from_millis(800));
        assert_eq!(failures.count(), 1);
    }

    #[test]
    fn one_seed_waits_alike_and_another_does_not() {
        let waits = |seed| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut failures = Failures::new(Backoff::default());
            [(); 5].map(|()| failures.another(&mut random))
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
    }
}
