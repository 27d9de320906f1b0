//! Flags of leader election.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::values::boolean;
use crate::go_duration;

/// Flags of leader election. They are kube-controller-manager's, except `--leader-elect-identity`,
/// `--leader-elect-identity-file`, `--leader-elect-reserve-for` and the default of the Lease's name.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Leader election")]
pub struct LeaderElectionOptions {
    /// Run the controllers in one of several replicas, the leader [default: true; false with
    /// --embedded or --dry-run]
    #[arg(
        long, value_name = "BOOL", action = ArgAction::Set, value_parser = boolean,
        num_args = 0..=1, require_equals = true, default_missing_value = "true"
    )]
    pub leader_elect: Option<bool>,

    /// How long a standby waits after the last renewal that it saw before it takes the Lease
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration::parse)]
    pub leader_elect_lease_duration: Duration,

    /// How long the leader tries to renew the Lease before it gives up and exits; less than the
    /// lease duration
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration::parse)]
    pub leader_elect_renew_deadline: Duration,

    /// Time between two attempts to acquire or to renew the Lease
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration::parse)]
    pub leader_elect_retry_period: Duration,

    /// If the Lease does not exist yet, create it reserved: the replicas wait this long, or until
    /// somebody releases it. 0 lets the first replica lead
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration::parse)]
    pub leader_elect_reserve_for: Duration,

    /// Kind of the object that serves as lock; only `leases` is supported
    #[arg(long, value_name = "RESOURCE", default_value = "leases")]
    pub leader_elect_resource_lock: String,

    /// Name of the Lease
    #[arg(long, value_name = "NAME", default_value = "kube-endpoint-manager")]
    pub leader_elect_resource_name: String,

    /// Namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,

    /// Identity of this replica in the Lease, unique among replicas; default: the host name and a
    /// random suffix
    #[arg(long, value_name = "NAME")]
    pub leader_elect_identity: Option<String>,

    /// File that this replica locks and leaves its identity in: after a crash, the next process of
    /// its container takes the Lease back at once. It lies in a volume that outlives the container,
    /// and no other replica uses it; default: a crash costs the lease duration
    #[arg(long, value_name = "FILE")]
    pub leader_elect_identity_file: Option<PathBuf>,
}
