//! Wall-clock time that moves with tokio's clock, so that it stands still where that is paused.

use kube_endpoint_core_model::Timestamp;
use tokio::time::Instant;

/// A wall clock: a point in time that was handed in, and how far tokio's clock has come since.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    origin: Instant,
}

impl Clock {
    /// A clock that reads `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: Instant::now() }
    }

    /// What it reads.
    pub fn now(&self) -> Timestamp {
        self.start.saturating_add(self.origin.elapsed()).unwrap_or(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn moves_with_tokio() {
        let start: Timestamp = "2024-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(start);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().to_string(), "2024-01-01T00:01:30Z");
    }
}
