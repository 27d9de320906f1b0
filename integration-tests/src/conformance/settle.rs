//! Waiting until the controllers have nothing left to write.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{Api, ConformanceError, Parts, Snapshot, Step, normal};

/// How often to look, and how much to ask of the server at once.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The least time between two looks at the outputs.
    pub poll: Duration,
    /// By how much of the time that was waited already two looks may be apart.
    pub growth: f64,
    /// How many of an operation's repetitions are under way at a time.
    pub at_once: usize,
}

impl Pace {
    /// For a server across a real network.
    pub const REAL: Self = Self { poll: Duration::from_millis(100), growth: 0.0, at_once: 8 };
    /// For a server in this process under a paused clock: in a fixed order, and with few looks, because time costs
    /// nothing there and a look does.
    pub const IN_PROCESS: Self = Self { poll: Duration::from_millis(500), growth: 0.2, at_once: 1 };
}

/// Waits until the outputs have stayed the same for the step's quiet time and are `want`, or its limit is over.
///
/// Returns them in normal form, of which only what `parts` write.
///
/// # Errors
///
/// When the server refuses a list.
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
