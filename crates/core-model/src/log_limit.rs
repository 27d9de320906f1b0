//! A limit for lines of the log that any object of the cluster can cause.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lets 20 lines of a kind through in a minute and counts the others, so that neither 10,000
/// objects nor one that changes all the time fill the log. The caller hands in the time.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When the current minute began.
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    /// The number of lines of one [`PERIOD`](Self::PERIOD) that get through.
    pub const LINES: u32 = 20;
    /// The time in which [`LINES`](Self::LINES) lines get through.
    pub const PERIOD: Duration = Duration::from_secs(60);

    /// Returns `None` if the caller must leave the line out. Otherwise it returns how many lines
    /// the limit has left out since the last one that got through: `Some(None)` stands for zero,
    /// because `tracing` leaves out a field that is `None`.
    pub fn admit(&self, now: Instant) -> Option<Option<u64>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        if state.began.is_none_or(|began| now.saturating_duration_since(began) >= Self::PERIOD) {
            (state.began, state.lines) = (Some(now), 0);
        }
        if state.lines == Self::LINES {
            state.left_out += 1;
            return None;
        }
        state.lines += 1;
        let left_out = std::mem::take(&mut state.left_out);
        Some((left_out > 0).then_some(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do to count from")]
    fn twenty_lines_pass_in_a_minute_and_the_next_one_tells_how_many_did_not() {
        let limit = LogLimit::default();
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let passed = |second, lines: u32| (0..lines).filter(|_| limit.admit(at(second)).is_some()).count();
        assert_eq!(passed(0, 5), 5);
        assert_eq!(passed(59, 10_000), 15);
        assert_eq!(limit.admit(at(60)), Some(Some(9_985)));
        assert_eq!(limit.admit(at(60)), Some(None));
        assert_eq!(passed(60, 100), 18);
        // A minute begins with a line.
        assert_eq!(limit.admit(at(119)), None);
        assert_eq!(limit.admit(at(200)), Some(Some(83)));
        assert_eq!(passed(259, 100), 19);
    }
}
