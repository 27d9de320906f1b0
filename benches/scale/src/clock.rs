//! The time of the system. Durations are measured with tokio's clock.

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "it measures real programs, and servers show this time to people"
)]
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Now, as Kubernetes writes times: in seconds.
pub(crate) fn now_in_seconds() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
