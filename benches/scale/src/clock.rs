//! Reads the time of the system. The program measures durations with tokio's clock.

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "it measures real programs, and servers show this time to people"
)]
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Returns the current time as Kubernetes writes it, in seconds.
pub(crate) fn now_in_seconds() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
