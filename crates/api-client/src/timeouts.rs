//! The time limits of the client.

use std::time::Duration;

/// Every time limit of a client. Production uses [`Timeouts::default`]; tests over real sockets use
/// shorter ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// The client probes a connection on which nothing arrived for this long: with a PING on
    /// HTTP/2, by the kernel on HTTP/1.
    pub(crate) probe_after: Duration,
    /// HTTP/2: the client closes a connection whose peer does not answer a PING within this time.
    pub(crate) ping_answer: Duration,
    /// HTTP/1: the time between two TCP keepalive probes.
    pub(crate) keepalive_interval: Duration,
    /// TCP: the kernel closes a connection if data or probes stay unacknowledged for this long.
    pub(crate) tcp_user_timeout: Duration,
    /// The client gives up a request to which no answer has begun after this time, connecting
    /// included. `None`: it waits as long as the connection lives.
    pub(crate) answer: Option<Duration>,
    /// The client reads files that hold credentials again after this time.
    pub(crate) reload: Duration,
    /// At least this much time lies between two attempts to renew credentials, however often the
    /// server refuses them.
    pub(crate) retry: Duration,
    /// A request that starts a renewal ahead of expiry waits this long for it, then continues with
    /// the old credential.
    pub(crate) renewal_wait: Duration,
    /// The client kills a credential plugin after this time.
    pub(crate) plugin: Duration,
    /// The same for a plugin that may ask a person for a password or a login in a browser.
    pub(crate) interactive_plugin: Duration,
    /// The client logs a warning when a plugin has run for this long.
    pub(crate) plugin_warning: Duration,
}

impl Default for Timeouts {
    /// client-go gives up a silent connection after 45 s: 30 s without a frame and 15 s for the
    /// answer to a PING.
    fn default() -> Self {
        Self {
            probe_after: Duration::from_secs(30),
            ping_answer: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(5),
            tcp_user_timeout: Duration::from_secs(45),
            answer: None,
            reload: Duration::from_secs(60),
            retry: Duration::from_secs(5),
            renewal_wait: Duration::from_secs(1),
            plugin: Duration::from_secs(60),
            interactive_plugin: Duration::from_secs(300),
            plugin_warning: Duration::from_secs(5),
        }
    }
}

impl Timeouts {
    /// Returns the defaults, but with a silent connection closed within `limit`, which is at least
    /// 4 s.
    pub(crate) fn silence(limit: Duration) -> Self {
        // The kernel counts in whole seconds.
        let half = Duration::from_secs((limit.as_secs() / 2).max(2));
        Self {
            probe_after: half,
            ping_answer: half,
            keepalive_interval: Duration::from_secs(1),
            tcp_user_timeout: 2 * half,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_connection_is_given_up_within_45_seconds() {
        let limits = Timeouts::default();
        assert_eq!(limits.probe_after, Duration::from_secs(30));
        assert_eq!(limits.ping_answer, Duration::from_secs(10));
        assert_eq!(limits.tcp_user_timeout, Duration::from_secs(45));
        // The kernel looks at the user timeout when a probe is due, so a probe has to be due at
        // that moment.
        let after_first_probe = limits.tcp_user_timeout - limits.probe_after;
        assert_eq!(after_first_probe.as_secs() % limits.keepalive_interval.as_secs(), 0);
    }

    #[test]
    fn a_silent_connection_is_given_up_within_a_shorter_limit() {
        let check = |limit: u64, want: u64| {
            let limits = Timeouts::silence(Duration::from_secs(limit));
            assert_eq!(limits.probe_after + limits.ping_answer, Duration::from_secs(want));
            assert_eq!(limits.tcp_user_timeout, Duration::from_secs(want));
            assert_eq!(
                (limits.tcp_user_timeout - limits.probe_after).as_secs()
                    % limits.keepalive_interval.as_secs(),
                0
            );
            assert_eq!(limits.plugin, Timeouts::default().plugin);
        };
        check(5, 4);
        check(30, 30);
        check(0, 4);
    }

    #[test]
    fn a_plugin_that_hangs_is_reported_before_it_is_killed() {
        let limits = Timeouts::default();
        assert_eq!(limits.plugin_warning, Duration::from_secs(5));
        assert_eq!(limits.plugin, Duration::from_secs(60));
    }
}
