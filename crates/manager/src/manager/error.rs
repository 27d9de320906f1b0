//! The errors of building and of running a manager.

use kube_endpoint_leader_election::{InvalidElectorOptions, LeaderElectionError};
use kube_endpoint_workqueue::InvalidRate;
use tokio::task::JoinError;

/// The error of a manager that could not be built, or that ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The client-side rate limit is invalid.
    #[error("invalid client-side rate limit: {0}")]
    Rate(#[from] InvalidRate),
    /// The options of leader election are invalid.
    #[error("invalid leader election: {0}")]
    LeaderElection(#[from] InvalidElectorOptions),
    /// This process was the leader and lost the lease. It must exit; a new process may start.
    #[error(transparent)]
    LeaderElectionLost(LeaderElectionError),
    /// A task panicked. The process should exit, and a supervisor start it again.
    #[error("{name} failed: {error}")]
    TaskFailed {
        name: String,
        #[source]
        error: JoinError,
    },
    /// A task ended without a shutdown. The process should exit, and a supervisor start it again.
    #[error("{name} ended unexpectedly")]
    TaskEnded { name: String },
}

impl ManagerError {
    /// Returns the name of the task that ended or panicked.
    pub(super) fn task(&self) -> Option<&str> {
        match self {
            Self::TaskFailed { name, .. } | Self::TaskEnded { name } => Some(name),
            Self::Rate(_) | Self::LeaderElection(_) | Self::LeaderElectionLost(_) => None,
        }
    }
}
