//! The metrics of leader election: two have the names, labels and meanings of component-base's
//! `metrics/prometheus/clientgo/leaderelection`; [`LEASE_HELD`] and
//! [`LEASE_TAKEN_BACK`] are this crate's own.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

/// Gauge: 1 if this process leads, otherwise 0. Its label `name` is the name of the Lease.
pub const MASTER_STATUS: &str = "leader_election_master_status";
/// Gauge: 1 if somebody holds the Lease, otherwise 0. Its label `name` is the name of the Lease. A
/// standby cannot tell by
/// [`MASTER_STATUS`]: the holder may be another program, or a replica that is not asked.
pub const LEASE_HELD: &str = "leader_election_lease_held";
/// Counter: how often this process took the Lease back from its former process, so 1 at most. Its
/// label `name` is the name of the Lease.
pub const LEASE_TAKEN_BACK: &str = "leader_election_lease_taken_back_total";
/// Counter: renewals before which the leader had to read the Lease. Its label `name` is the name of
/// the Lease.
pub const SLOWPATH: &str = "leader_election_slowpath_total";

/// The metrics of one Lease, registered with the current recorder.
pub(crate) struct LeaseMetrics {
    pub(crate) master: Gauge,
    pub(crate) held: Gauge,
    pub(crate) taken_back: Counter,
    pub(crate) slow_paths: Counter,
}

impl LeaseMetrics {
    pub(crate) fn register(name: &str) -> Self {
        describe_gauge!(
            MASTER_STATUS,
            "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates \
             master. 'name' is the string used to identify the lease. Please make sure to group by name."
        );
        describe_gauge!(
            LEASE_HELD,
            "1 if somebody holds the lease and has renewed it within its duration, 0 if nobody does or the lease cannot be read"
        );
        describe_counter!(
            SLOWPATH,
            "[ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify \
             the lease. Please make sure to group by name."
        );
        describe_counter!(
            LEASE_TAKEN_BACK,
            "1 if this process leads since it took the lease back from its former process, which was killed"
        );
        let metrics = Self {
            master: gauge!(MASTER_STATUS, "name" => name.to_owned()),
            held: gauge!(LEASE_HELD, "name" => name.to_owned()),
            taken_back: counter!(LEASE_TAKEN_BACK, "name" => name.to_owned()),
            slow_paths: counter!(SLOWPATH, "name" => name.to_owned()),
        };
        metrics.master.set(0.0);
        metrics.held.set(0.0);
        metrics
    }
}
