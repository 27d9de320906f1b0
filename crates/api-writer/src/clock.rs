//! Wall-clock time that advances with tokio's clock, so that tests can pause it.

use kube_endpoint_core_model::Timestamp;
use tokio::time::Instant;

/// A wall clock: a given start time plus the time that has passed on tokio's clock since.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    origin: Instant,
}

impl Clock {
    /// A clock whose current time is `start`.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: Instant::now() }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.start.saturating_add(self.origin.elapsed()).unwrap_or(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_clock_advances_with_tokios() {
        let start: Timestamp = "2024-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(start);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().to_string(), "2024-01-01T00:01:30Z");
    }
}
