//! What an election wants done, and what comes of it.

use std::time::Duration;

use tokio::time::Instant;

use crate::leadership::{Ended, LeaderElectionError};
use crate::lease::Lease;

/// A request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    Get,
    Create(Lease),
    Update(Lease),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Send a request. If no answer arrives within the timeout, the answer is [`Answer::Unknown`].
    Send {
        request: Request,
        timeout: Duration,
        /// True if this is a renewal before which the leader had to read the Lease.
        slow_path: bool,
    },
    /// Wait for an answer or an event, until this time if there is one.
    Wait(Option<Instant>),
    /// The election is over.
    End(Result<Ended, LeaderElectionError>),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The Lease as it is stored.
    Lease(Lease),
    NotFound(String),
    /// The write was not carried out: another client has changed the Lease, or created it, since it
    /// was read.
    Conflict(String),
    /// The request failed. A write may have been carried out all the same if `may_be_applied`.
    Failed {
        why: String,
        may_be_applied: bool,
    },
}
