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
    let (quiet, limit) = (step.quiet(), step.limit());
    let start = Instant::now();
    let (mut last, mut since) = (Value::Null, start);
    loop {
        let snapshot = Snapshot::take(api).await?;
        let mut form = normal::normal_form(&snapshot, api.namespace(), &step.compare);
        parts.mask(&mut form);
        let now = Instant::now();
        if form != last {
            (last, since) = (form, now);
        }
        let (waited, same) = (now - start, now - since);
        let is_settled = same >= quiet && (last == *want || waited > limit);
        if is_settled || waited > limit + quiet {
            return Ok(last);
        }
        sleep(pace.poll.max(waited.mul_f64(pace.growth))).await;
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
