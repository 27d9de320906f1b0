//! The size of the load, and the times of the lease.

use std::time::Duration;

/// The times of the leader election, as the flags of client-go's leader election name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTimes {
    /// `--leader-elect-lease-duration`
    pub duration: Duration,
    /// `--leader-elect-renew-deadline`
    pub renew_deadline: Duration,
    /// `--leader-elect-retry-period`
    pub retry_period: Duration,
}

impl LeaseTimes {
    /// Returns the flags that set these times.
    pub fn flags(&self) -> Vec<String> {
        let flag = |name: &str, time: Duration| format!("--leader-elect-{name}={}ms", time.as_millis());
        vec![
            flag("lease-duration", self.duration),
            flag("renew-deadline", self.renew_deadline),
            flag("retry-period", self.retry_period),
        ]
    }
}

/// The size of the load and the times of the faults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    pub services: usize,
    /// Number of pods of each Service.
    pub pods_per_service: usize,
    /// Changes of a pod's readiness per second.
    pub flips_per_second: u32,
    /// `--kube-api-qps`
    pub qps: u32,
    pub lease: LeaseTimes,
    /// How long the server is away in a test that takes it away.
    pub outage: Duration,
    /// How long the load runs before and after a fault.
    pub steady: Duration,
    /// How long a replica is idle before its memory is read.
    pub idle: Duration,
    /// Number of clients that open a connection and then send next to nothing.
    pub slow_clients: usize,
    /// True if another scene may run at the same time. For tests whose time limits leave seconds,
    /// and that stop no server.
    pub shares_cores: bool,
}

impl Size {
    /// A load for two cores and a debug build.
    pub const SMALL: Self = Self {
        services: 100,
        pods_per_service: 5,
        flips_per_second: 5,
        qps: 100,
        lease: LeaseTimes {
            duration: Duration::from_secs(3),
            renew_deadline: Duration::from_secs(2),
            retry_period: Duration::from_millis(500),
        },
        outage: Duration::from_secs(4),
        steady: Duration::from_secs(1),
        idle: Duration::from_secs(4),
        slow_clients: 2_000,
        shares_cores: false,
    };

    /// The load of the requirements, with the default times of the lease and the default rate.
    pub const FULL: Self = Self {
        services: 500,
        pods_per_service: 6,
        flips_per_second: 5,
        qps: 20,
        lease: LeaseTimes {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        },
        outage: Duration::from_secs(30),
        steady: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        slow_clients: 10_000,
        shares_cores: false,
    };

    /// [`Self::FULL`] if the environment variable `KEM_PROCESSES` is `full`, otherwise
    /// [`Self::SMALL`].
    pub fn from_environment() -> Self {
        if std::env::var_os("KEM_PROCESSES").is_some_and(|value| value == "full") {
            Self::FULL
        } else {
            Self::SMALL
        }
    }

    /// Returns the same size for a test that shares the cores with another one, unless the size is
    /// the full one.
    pub fn sharing_cores(self) -> Self {
        Self { shares_cores: self != Self::FULL, ..self }
    }

    /// Returns how long a change may wait for its answer after the leader dies without releasing
    /// the lease: the standbys wait for the lease duration, and then have a second, or two if they
    /// share the cores.
    pub fn longest_gap_after_kill(&self) -> Duration {
        self.lease.duration + Duration::from_secs(if self.shares_cores { 2 } else { 1 })
    }
}
