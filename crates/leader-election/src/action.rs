//! The requests that the state machine asks the elector to send, and their answers.

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

/// Tells the elector what to do next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Send a request. If no answer arrives within the timeout, the answer is [`Answer::Unknown`].
    Send {
        request: Request,
        timeout: Duration,
        /// True if this renews the Lease after the leader had to read it.
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
    /// The API server refused the write: another client has changed or created the Lease since this
    /// candidate read it.
    Conflict(String),
    /// The request failed. If `may_be_applied`, the API server may have carried out the write
    /// nevertheless.
    Failed {
        why: String,
        may_be_applied: bool,
    },
}
