//! Settings of leader election.

use std::time::Duration;

use super::error::InvalidOption;
use crate::go_duration;
use crate::options::LeaderElectionOptions;

/// client-go's `leaderelection.JitterFactor`, as a percentage of the retry period: a retry waits up
/// to this much longer than the period.
const JITTER_PERCENT: u32 = 120;

/// `kubectl diagnose-svc doctor` takes a Lease that lasts less for one of a program.
const SHORTEST_RESERVATION: Duration = Duration::from_secs(3600);

/// The settings with which replicas elect the one that writes. The rules are those of client-go's
/// package `leaderelection`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElectionSettings {
    pub namespace: String,
    pub name: String,
    /// The identity of this replica in the Lease. If it is `None`, the manager makes one from the
    /// host name and its seed. Candidates on one host that may share a seed call
    /// [`Self::set_default_identity`] first.
    pub identity: Option<String>,
    /// The identity of a process that is known to have ended: the manager takes its Lease back.
    /// [`Self::open_identity_file`] sets it.
    pub former: Option<String>,
    /// The time that a standby waits after the last renewal that it saw, before it takes the Lease.
    pub lease_duration: Duration,
    /// The time for which the leader tries to renew before it gives up; less than `lease_duration`.
    pub renew_deadline: Duration,
    /// Time between two attempts; 1.2 times this is less than `renew_deadline`.
    pub retry_period: Duration,
    /// How long a Lease is reserved that does not exist yet; zero if the first replica leads.
    pub reserve_for: Duration,
}

impl Default for LeaderElectionSettings {
    /// Returns the Lease `kube-system/kube-endpoint-manager` with kube-controller-manager's
    /// durations.
    fn default() -> Self {
        Self {
            namespace: "kube-system".into(),
            name: "kube-endpoint-manager".into(),
            identity: None,
            former: None,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            reserve_for: Duration::ZERO,
        }
    }
}

impl TryFrom<&LeaderElectionOptions> for LeaderElectionSettings {
    type Error = InvalidOption;

    /// Makes the checks of client-go's `NewLeaderElector` and component-base's
    /// `ValidateLeaderElectionConfiguration`.
    fn try_from(options: &LeaderElectionOptions) -> Result<Self, InvalidOption> {
        let (lease, renew, retry) = (
            options.leader_elect_lease_duration,
            options.leader_elect_renew_deadline,
            options.leader_elect_retry_period,
        );
        let invalid = |option: &str, duration: Duration, why: String| {
            InvalidOption::new(option, go_duration::format(duration), why)
        };
        if retry.is_zero() {
            return Err(invalid("--leader-elect-retry-period", retry, "it must be greater than 0".into()));
        }
        if renew <= retry * JITTER_PERCENT / 100 {
            let why = format!(
                "it must be greater than 1.2 times --leader-elect-retry-period, which is {}",
                go_duration::format(retry)
            );
            return Err(invalid("--leader-elect-renew-deadline", renew, why));
        }
        // The Lease stores whole seconds, so a fraction does not count.
        if Duration::from_secs(lease.as_secs()) <= renew {
            let why = format!(
                "it must be greater, in whole seconds, than --leader-elect-renew-deadline, which is {}",
                go_duration::format(renew)
            );
            return Err(invalid("--leader-elect-lease-duration", lease, why));
        }
        if lease.as_secs() > i32::MAX as u64 {
            return Err(invalid("--leader-elect-lease-duration", lease, "it is too long".into()));
        }
        let reserve = options.leader_elect_reserve_for;
        if !reserve.is_zero() && reserve < SHORTEST_RESERVATION || reserve.as_secs() > i32::MAX as u64 {
            let why = "write 0, or from 1h to 596523h; the reservation ends when somebody releases the Lease";
            return Err(invalid("--leader-elect-reserve-for", reserve, why.into()));
        }
        let lock = &*options.leader_elect_resource_lock;
        if lock != "leases" {
            return Err(InvalidOption::new(
                "--leader-elect-resource-lock",
                lock,
                "the only lock is `leases`",
            ));
        }
        let named = |option: &str, value: &str| {
            if is_object_name(value) {
                return Ok(value.to_owned());
            }
            let why = "write a name of lower-case letters, digits, `-` and `.`, at most 253 characters long";
            Err(InvalidOption::new(option, value, why))
        };
        let identity = options.leader_elect_identity.clone();
        if identity.as_deref().is_some_and(|identity| identity.trim().is_empty()) {
            return Err(InvalidOption::new("--leader-elect-identity", "", "it must not be empty"));
        }
        Ok(Self {
            namespace: named("--leader-elect-resource-namespace", &options.leader_elect_resource_namespace)?,
            name: named("--leader-elect-resource-name", &options.leader_elect_resource_name)?,
            identity,
            former: None,
            lease_duration: lease,
            renew_deadline: renew,
            retry_period: retry,
            reserve_for: reserve,
        })
    }
}

/// Returns true if the text is a DNS subdomain, as names of Leases are.
pub(super) fn is_object_name(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.iter().all(|byte| alphanumeric(*byte) || *byte == b'-')
            && bytes.first().is_some_and(|byte| alphanumeric(*byte))
            && bytes.last().is_some_and(|byte| alphanumeric(*byte))
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_subdomains() {
        let check = |text: &str, want: bool| assert_eq!(is_object_name(text), want, "{text}");
        check("kube-endpoint-manager", true);
        check("a.b", true);
        check("0", true);
        check("", false);
        check("a..b", false);
        check("-a", false);
        check("a-", false);
        check("A", false);
        check("a/b", false);
        check(&"a".repeat(254), false);
    }
}
