//! The server's time: a start timestamp plus the time elapsed on tokio's clock, so a paused clock
//! controls it.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// A clock that advances with tokio's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Timestamp,
    anchor: Instant,
}

impl Clock {
    /// Returns a clock whose current time is `start`.
    pub(crate) fn starting_at(start: Timestamp) -> Self {
        Self { start, anchor: Instant::now() }
    }

    /// Returns the time since the server was built.
    pub(crate) fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(self.anchor)
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        self.start.saturating_add(self.elapsed()).unwrap_or(self.start)
    }
}

/// Returns a time in the format of metadata, in whole seconds.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_controls_the_time() {
        let clock = Clock::starting_at("2026-01-02T03:04:05.678Z".parse().unwrap());
        assert_eq!(rfc3339(clock.now()), "2026-01-02T03:04:05Z");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(rfc3339(clock.now()), "2026-01-02T03:05:05Z");
        assert_eq!(clock.elapsed(), Duration::from_secs(60));
    }
}
