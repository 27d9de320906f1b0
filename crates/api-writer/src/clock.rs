//! The wall clock.

use kube_endpoint_core_model::Timestamp;
use tokio::time::Instant;

/// A wall clock, for times that are shown to people and compared with those of other processes.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Source);

#[derive(Clone, Copy, Debug)]
enum Source {
    /// The time at an instant. The clock adds the time that has passed since then.
    Started {
        start: Timestamp,
        origin: Instant,
    },
    Read(fn() -> Timestamp),
}

impl Clock {
    /// A clock whose current time is `start`, and which advances with tokio's clock, so that tests
    /// can pause it.
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Source::Started { start, origin: Instant::now() })
    }

    /// A clock that calls `read` each time, such as that of the operating system. Unlike
    /// [`Self::starting_at`], it follows the system's clock when someone sets it, and after a
    /// suspension, in which tokio's clock may stand still.
    pub fn reading(read: fn() -> Timestamp) -> Self {
        Self(Source::Read(read))
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match self.0 {
            Source::Started { start, origin } => start.saturating_add(origin.elapsed()).unwrap_or(start),
            Source::Read(read) => read(),
        }
    }
}

/// As [`Clock::starting_at`].
impl From<Timestamp> for Clock {
    fn from(start: Timestamp) -> Self {
        Self::starting_at(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_clock_advances_with_tokios() {
        let start: Timestamp = "2024-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(start);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().to_string(), "2024-01-01T00:01:30Z");
    }

    #[test]
    fn a_clock_that_is_read_follows_when_it_is_set() {
        static SECONDS: AtomicI64 = AtomicI64::new(1_000);
        let clock = Clock::reading(|| Timestamp::from_second(SECONDS.load(Ordering::Relaxed)).unwrap());
        assert_eq!(clock.now().as_second(), 1_000);
        SECONDS.store(500, Ordering::Relaxed);
        assert_eq!(clock.now().as_second(), 500);
    }
}
