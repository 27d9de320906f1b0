//! The options of an elector.

use std::time::Duration;

/// client-go's `JitterFactor`: a standby waits for the retry period and up to this many times the
/// retry period more.
pub(crate) const JITTER_FACTOR: f64 = 1.2;

/// Names the Lease that an elector acquires, and its time limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectorOptions {
    /// The namespace of the Lease.
    pub namespace: String,
    pub name: String,
    /// The holder identity of this process. No other process may have it.
    pub identity: String,
    /// How long a standby waits after the last renewal that it saw
    /// (`--leader-elect-lease-duration`). The elector writes it into the Lease in whole seconds,
    /// rounded down.
    pub lease_duration: Duration,
    /// How long a leader goes on without a successful renewal (`--leader-elect-renew-deadline`).
    pub renew_deadline: Duration,
    /// The time between two attempts to acquire or renew the Lease (`--leader-elect-retry-period`).
    pub retry_period: Duration,
    /// How long a Lease is reserved that has never existed (`--leader-elect-reserve-for`), in whole
    /// seconds. The first candidate then creates it with the holder [`RESERVED`], and all wait
    /// until somebody releases it. Zero: the first candidate leads.
    pub reserve_for: Duration,
}

/// The holder of a reserved Lease, which is no candidate.
pub const RESERVED: &str = "reserved";

/// The reason why an elector refuses its options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidElectorOptions {
    #[error("the {0} of leader election must be greater than zero")]
    Zero(&'static str),
    /// The lease duration is too long for a Lease.
    #[error("the lease duration {0:?} does not fit into a Lease: it must be at most 2147483647 seconds")]
    TooLong(Duration),
    /// The lease duration is too short for the renew deadline.
    #[error(
        "the lease duration {lease_duration:?}, in whole seconds, must be greater than the renew deadline {renew_deadline:?}"
    )]
    RenewDeadline { lease_duration: Duration, renew_deadline: Duration },
    /// The renew deadline is too short for the retry period.
    #[error(
        "the renew deadline {renew_deadline:?} must be greater than {JITTER_FACTOR} times the retry period {retry_period:?}"
    )]
    RetryPeriod { renew_deadline: Duration, retry_period: Duration },
    #[error("the {0} of leader election must not be empty")]
    Empty(&'static str),
    /// A name cannot be part of a path.
    #[error("the lease {0} of leader election is {1:?}: use lower-case letters, digits, `-` and `.`")]
    Name(&'static str, String),
}

impl ElectorOptions {
    /// Returns options with client-go's recommended time limits: a lease duration of 15 s, a renew
    /// deadline of 10 s and a retry period of 2 s.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            reserve_for: Duration::ZERO,
        }
    }

    /// Returns the Lease as `namespace/name`.
    pub fn lease(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns the lease duration in whole seconds, as the Lease has it.
    pub(crate) fn lease_duration_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }

    /// Checks client-go's conditions on the time limits, and that the names can be part of a path.
    ///
    /// # Errors
    ///
    /// The first condition that does not hold.
    pub fn validate(&self) -> Result<(), InvalidElectorOptions> {
        let Self { lease_duration, renew_deadline, retry_period, reserve_for, .. } = self;
        for (what, text) in [("lease namespace", &self.namespace), ("lease name", &self.name)] {
            if text.is_empty() {
                return Err(InvalidElectorOptions::Empty(what));
            }
        }
        if self.identity.is_empty() {
            return Err(InvalidElectorOptions::Empty("identity"));
        }
        for (what, text) in [("namespace", &self.namespace), ("name", &self.name)] {
            let is_valid = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-.".contains(&c);
            if !text.bytes().all(is_valid) || text.starts_with('.') {
                return Err(InvalidElectorOptions::Name(what, text.clone()));
            }
        }
        for (what, limit) in [
            ("lease duration", lease_duration),
            ("renew deadline", renew_deadline),
            ("retry period", retry_period),
        ] {
            if limit.is_zero() {
                return Err(InvalidElectorOptions::Zero(what));
            }
        }
        if lease_duration.as_secs() > i32::MAX as u64 {
            return Err(InvalidElectorOptions::TooLong(*lease_duration));
        }
        if reserve_for.as_secs() > i32::MAX as u64 {
            return Err(InvalidElectorOptions::TooLong(*reserve_for));
        }
        // A standby waits for the seconds that the Lease has, so the fraction does not count.
        if Duration::from_secs(lease_duration.as_secs()) <= *renew_deadline {
            return Err(InvalidElectorOptions::RenewDeadline {
                lease_duration: *lease_duration,
                renew_deadline: *renew_deadline,
            });
        }
        if renew_deadline.as_secs_f64() <= retry_period.as_secs_f64() * JITTER_FACTOR {
            return Err(InvalidElectorOptions::RetryPeriod {
                renew_deadline: *renew_deadline,
                retry_period: *retry_period,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_client_gos() {
        let options = ElectorOptions::new("kube-system", "kube-endpoint-manager", "a");
        assert_eq!(options.validate(), Ok(()));
        assert_eq!(options.lease(), "kube-system/kube-endpoint-manager");
        assert_eq!(options.lease_duration_seconds(), 15);
    }

    #[test]
    fn an_error_says_which_limit_is_wrong() {
        let check = |change: &dyn Fn(&mut ElectorOptions), want: &str| {
            let mut options = ElectorOptions::new("kube-system", "l", "a");
            change(&mut options);
            let got = options.validate().map_or_else(|error| error.to_string(), |()| "valid".to_owned());
            assert_eq!(got, want);
        };
        let ms = Duration::from_millis;
        check(
            &|o| o.lease_duration = ms(10_001),
            "the lease duration 10.001s, in whole seconds, must be greater than the renew deadline 10s",
        );
        check(&|o| o.lease_duration = ms(11_000), "valid");
        check(
            &|o| o.lease_duration = ms(0),
            "the lease duration of leader election must be greater than zero",
        );
        check(
            &|o| o.renew_deadline = ms(0),
            "the renew deadline of leader election must be greater than zero",
        );
        check(&|o| o.retry_period = ms(0), "the retry period of leader election must be greater than zero");
        check(
            &|o| o.renew_deadline = ms(2400),
            "the renew deadline 2.4s must be greater than 1.2 times the retry period 2s",
        );
        check(&|o| o.renew_deadline = ms(2401), "valid");
        let long = Duration::from_secs(1 << 31);
        check(
            &|o| o.lease_duration = long,
            "the lease duration 2147483648s does not fit into a Lease: it must be at most 2147483647 seconds",
        );
        check(&|o| o.identity.clear(), "the identity of leader election must not be empty");
        check(&|o| o.name.clear(), "the lease name of leader election must not be empty");
        check(
            &|o| o.name = "a/b".into(),
            "the lease name of leader election is \"a/b\": use lower-case letters, digits, `-` and `.`",
        );
        check(
            &|o| o.namespace = "..".into(),
            "the lease namespace of leader election is \"..\": use lower-case letters, digits, `-` and `.`",
        );
    }
}
