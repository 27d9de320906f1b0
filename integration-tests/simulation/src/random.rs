//! Makes random choices from a seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A seeded source of choices.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// Creates the source of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Returns a number below `bound`, or 0 if that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }

    /// Returns a number in `first..end`.
    pub(crate) fn between(&mut self, first: u64, end: u64) -> u64 {
        first + self.below(end.saturating_sub(first))
    }

    /// Returns true in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the items.
    ///
    /// # Panics
    ///
    /// If there are no items.
    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }

    /// Returns a number of 1 to `longest`: each order of magnitude is as frequent as the others.
    pub(crate) fn logarithmic(&mut self, longest: u64) -> u64 {
        let part = self.below(1 << 20) as f64 / f64::from(1 << 20);
        (longest as f64).powf(part).round() as u64
    }
}
