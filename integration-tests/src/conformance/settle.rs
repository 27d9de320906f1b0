//! Waits until the controllers have finished writing.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{Api, ConformanceError, Parts, Snapshot, Step, normal};

/// How often to poll the server, and how many requests to send at once.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Minimum interval between two polls of the outputs.
    pub poll: Duration,
    /// The interval as a share of the time so far, if that is longer than `poll`.
    pub growth: f64,
    /// Number of repetitions of one operation that run concurrently.
    pub at_once: usize,
}

impl Pace {
    /// For a server across a network.
    pub const REAL: Self = Self { poll: Duration::from_millis(100), growth: 0.0, at_once: 8 };
    /// For a server in this process under a paused clock: requests in a fixed order, and few polls,
    /// because only polls take real time there.
    pub const IN_PROCESS: Self = Self { poll: Duration::from_millis(500), growth: 0.2, at_once: 1 };
}

/// Waits until the outputs equal `want` and have not changed for the step's quiet time, or until
/// its limit has passed.
///
/// Returns the outputs of `parts` in normal form.
///
/// # Errors
///
/// An error if the server refuses a list.
pub async fn settle(
    api: &Api,
    step: &Step,
    parts: Parts,
    want: &Value,
    pace: &Pace,
) -> Result<Value, ConformanceError> {
    let read = async || {
        let mut form = normal::normal_form(&Snapshot::take(api).await?, api.namespace(), &step.compare);
        parts.mask(&mut form);
        Ok(form)
    };
    settled(step, pace, read, |form| form == want).await
}

/// Waits until what `read` returns is wanted and has not changed for the step's quiet time, or
/// until its limit has passed. Returns the last reading.
///
/// # Errors
///
/// An error of `read`.
pub(super) async fn settled<T: PartialEq>(
    step: &Step,
    pace: &Pace,
    read: impl AsyncFn() -> Result<T, ConformanceError>,
    is_wanted: impl Fn(&T) -> bool,
) -> Result<T, ConformanceError> {
    let (quiet, limit) = (step.quiet(), step.limit());
    let start = Instant::now();
    let (mut last, mut since) = (read().await?, Instant::now());
    loop {
        let now = Instant::now();
        let (waited, same) = (now - start, now - since);
        let is_settled = same >= quiet && (is_wanted(&last) || waited > limit);
        if is_settled || waited > limit + quiet {
            return Ok(last);
        }
        sleep(pace.poll.max(waited.mul_f64(pace.growth))).await;
        let read = read().await?;
        if read != last {
            (last, since) = (read, Instant::now());
        }
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
