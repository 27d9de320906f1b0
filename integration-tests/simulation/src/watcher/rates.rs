//! Bounds the number of requests, to find hot loops.

use std::collections::BTreeMap;
use std::time::Duration;

/// The span of a count of writes.
const SPAN: Duration = Duration::from_secs(60);
/// Writes of the outputs of one Service within the span that need no cause: retries after failures
/// (1.5 s to 5 minutes after the fifteenth), corrections of another client's changes.
const MOST_WRITES: usize = 40;
/// Writes that each change of an input may cause for each of its slices and for its Endpoints, with
/// retries.
const WRITES_OF_A_CHANGE: usize = 4;

/// Writes of one Service's outputs.
#[derive(Debug, Default)]
struct Writes {
    began: Duration,
    number: usize,
    /// The changes when the span began.
    changes: usize,
    /// The maximum number of slices of the Service.
    slices: usize,
}

/// Counts of writes and of changes.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    writes: BTreeMap<String, Writes>,
    changes: usize,
}

impl Rates {
    /// Counts a change of an input, a fault or a start of a process: it may cause writes for every
    /// Service.
    pub(crate) fn change(&mut self) {
        self.changes += 1;
    }

    /// Counts a write, successful or not. `slices` is the number of slices of the Service.
    pub(crate) fn write(&mut self, at: Duration, service: &str, slices: usize) -> Result<(), String> {
        let changes = self.changes;
        let writes = match self.writes.get_mut(service) {
            Some(writes) => writes,
            None => self.writes.entry(service.to_owned()).or_default(),
        };
        if at >= writes.began + SPAN {
            // Causes of the span before may still have effects.
            let changes = writes.changes.max(changes.saturating_sub(20));
            *writes = Writes { began: at, changes, ..Writes::default() };
        }
        writes.number += 1;
        writes.slices = writes.slices.max(slices);
        let causes = changes - writes.changes;
        let limit = MOST_WRITES + (1 + writes.slices) * WRITES_OF_A_CHANGE * (1 + causes);
        if writes.number <= limit {
            return Ok(());
        }
        Err(format!("{} writes in {SPAN:?} after {causes} changes, more than {limit}", writes.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_without_a_change_are_bounded() {
        let mut rates = Rates::default();
        let mut write = |millisecond| rates.write(Duration::from_millis(millisecond), "default/s0", 1);
        assert_eq!((0..48).filter(|at| write(*at).is_ok()).count(), 48);
        assert_eq!(write(48).unwrap_err(), "49 writes in 60s after 0 changes, more than 48");
        assert!(write(60_000).is_ok(), "a new span has begun");
    }

    #[test]
    fn slices_that_are_gone_count_until_the_span_ends() {
        let mut rates = Rates::default();
        let mut write =
            |millisecond, slices| rates.write(Duration::from_millis(millisecond), "default/s0", slices);
        assert!(write(0, 9).is_ok());
        assert_eq!((1..100).filter(|at| write(*at, 1).is_ok()).count(), 79);
        assert!(write(60_000, 1).is_ok());
        assert_eq!((60_001..60_100).filter(|at| write(*at, 1).is_ok()).count(), 47);
    }

    #[test]
    fn changes_allow_more_writes() {
        let mut rates = Rates::default();
        (0..10).for_each(|_| rates.change());
        let mut write = |millisecond| rates.write(Duration::from_millis(millisecond), "default/s0", 1);
        assert_eq!((0..128).filter(|at| write(*at).is_ok()).count(), 128);
        assert!(write(128).is_err());
    }
}
