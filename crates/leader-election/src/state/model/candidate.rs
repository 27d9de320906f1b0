//! A candidate with clocks of its own.

use std::sync::LazyLock;

use super::*;

/// Local clocks count from an instant that is far enough from the beginning of tokio's clock.
pub(super) static ORIGIN: LazyLock<Instant> =
    LazyLock::new(|| Instant::now() + Duration::from_secs(1_000_000));

pub(super) struct Candidate {
    pub(super) election: Election,
    /// The number of this candidate's present process: each restart adds one.
    pub(super) process: u64,
    /// Local time is `offset + real time * rate / 1000`.
    pub(super) rate: u64,
    pub(super) offset: Micros,
    pub(super) wall_offset: i64,
    pub(super) suspended_until: Micros,
    pub(super) is_running: bool,
    /// The request that is under way.
    pub(super) request: Option<u64>,
    /// The real time until which this candidate may write.
    pub(super) until: Option<Micros>,
}

impl Candidate {
    pub(super) fn local(&self, now: Micros) -> Instant {
        *ORIGIN + Duration::from_micros(self.offset + now * self.rate / 1000)
    }

    pub(super) fn real(&self, local: Instant) -> Micros {
        let micros = u64::try_from((local - *ORIGIN).as_micros()).unwrap();
        (micros - self.offset) * 1000 / self.rate
    }

    pub(super) fn wall_clock(&self, now: Micros) -> Timestamp {
        let micros = 1_700_000_000_000_000 + self.wall_offset * 1_000_000 + i64::try_from(now).unwrap();
        Timestamp::from_microsecond(micros).unwrap()
    }

    pub(super) fn leads(&self, now: Micros) -> bool {
        self.until.is_some_and(|until| until > now)
    }
}
