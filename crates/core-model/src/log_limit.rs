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

/// The decision about one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The caller writes the line.
    Write {
        /// A field of the line: how many lines the limit has left out since the last one that the
        /// caller wrote. `None` stands for zero, because `tracing` leaves out such a field.
        left_out: Option<u64>,
    },
    /// The caller must not write the line.
    LeaveOut,
}

impl LogLimit {
    /// The number of lines of one [`PERIOD`](Self::PERIOD) that get through.
    pub const LINES: u32 = 20;
    /// The time in which [`LINES`](Self::LINES) lines get through.
    pub const PERIOD: Duration = Duration::from_secs(60);

    /// Counts a line, and decides if the caller may write it.
    pub fn admit(&self, now: Instant) -> Admission {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        if state.began.is_none_or(|began| now.saturating_duration_since(began) >= Self::PERIOD) {
            (state.began, state.lines) = (Some(now), 0);
        }
        if state.lines == Self::LINES {
            state.left_out += 1;
            return Admission::LeaveOut;
        }
        state.lines += 1;
        let left_out = std::mem::take(&mut state.left_out);
        Admission::Write { left_out: (left_out > 0).then_some(left_out) }
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
        let passed = |second, lines: u32| {
            (0..lines).filter(|_| limit.admit(at(second)) != Admission::LeaveOut).count()
        };
        assert_eq!(passed(0, 5), 5);
        assert_eq!(passed(59, 10_000), 15);
        assert_eq!(limit.admit(at(60)), Admission::Write { left_out: Some(9_985) });
        assert_eq!(limit.admit(at(60)), Admission::Write { left_out: None });
        assert_eq!(passed(60, 100), 18);
        // A minute begins with a line.
        assert_eq!(limit.admit(at(119)), Admission::LeaveOut);
        assert_eq!(limit.admit(at(200)), Admission::Write { left_out: Some(83) });
        assert_eq!(passed(259, 100), 19);
    }
}
