//! The state of a reflector, and what follows when a request ends. Nothing here sends requests, waits or logs.
//!
//! ```text
//!            complete            error: backoff, or relist
//! Streaming ----------> Watching ------------------------> BackingOff, then the state that it holds
//!     |                    ^
//!     | unsupported, fails | last page
//!     +----------------> Listing
//! ```

use std::time::Duration;

use kube_endpoint_core_model::ResourceVersion;
use tokio::time::Instant;

use crate::error::ListWatchError;
use crate::list_builder::ListBuilder;
use crate::metrics::RelistReason;

/// A watch that ends earlier than this without an event counts as a failure.
const MIN_WATCH: Duration = Duration::from_secs(1);

/// What a reflector does next.
#[derive(Debug)]
pub(crate) enum State<T> {
    /// Requests the next page of a list.
    Listing(Listing<T>),
    /// Requests a watch that begins with the complete state, or receives that state.
    Streaming {
        /// The initial events received so far.
        builder: ListBuilder<T>,
    },
    /// Requests a watch from a version, or receives its events.
    Watching {
        /// The version of the list, or of the last event or bookmark.
        from: ResourceVersion,
        /// None until the server has accepted the watch.
        connection: Option<Connection>,
    },
    /// Waits before it continues with another state.
    BackingOff {
        /// How long to wait.
        delay: Duration,
        /// The state after the wait.
        next: Box<State<T>>,
    },
}

/// A list between two pages. It survives failures.
#[derive(Debug)]
pub(crate) struct Listing<T> {
    /// The objects of the pages received so far.
    pub(crate) builder: ListBuilder<T>,
    /// The continue token of the next page; none before the first page.
    pub(crate) token: Option<String>,
    /// Maximum number of objects in a page; 0 for all objects in one response.
    pub(crate) limit: u32,
}

impl<T> Listing<T> {
    pub(crate) fn new(limit: u32) -> Self {
        Self { builder: ListBuilder::default(), token: None, limit }
    }
}

/// A watch that the server has accepted and that is past its initial events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) since: Instant,
    /// Whether an event or a bookmark has arrived since.
    pub(crate) has_events: bool,
}

impl Connection {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, has_events: false }
    }

    /// Whether the watch worked: it delivered something, or stayed open for a while.
    fn worked(self, now: Instant) -> bool {
        self.has_events || now.saturating_duration_since(self.since) >= MIN_WATCH
    }
}

/// What follows a request that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Resume the watch at once.
    Resume,
    /// Send the same request again after a backoff.
    Retry,
    /// Send the same request again after the delay that the server asked for.
    RetryAfter(Duration),
    /// Streaming lists are not supported: list in pages, now and from now on.
    DisableStreaming,
    /// The streaming list failed: list in pages this time, after a backoff.
    ListInPages,
    /// Request the complete state again: at once the first time, after a backoff when that happens repeatedly.
    Relist(RelistReason),
}

impl<T> State<T> {
    /// The state in which the complete state has to be requested.
    pub(crate) fn initial(streaming_list: bool, page_size: u32) -> Self {
        if streaming_list {
            Self::Streaming { builder: ListBuilder::default() }
        } else {
            Self::Listing(Listing::new(page_size))
        }
    }

    /// Watching from a version, not yet connected.
    pub(crate) fn watching(from: ResourceVersion) -> Self {
        Self::Watching { from, connection: None }
    }

    /// The watch connection, once it is past its initial events.
    pub(crate) fn connection(&self) -> Option<Connection> {
        match self {
            Self::Watching { connection, .. } => *connection,
            _ => None,
        }
    }

    /// What follows when the server closed a watch, or nothing arrived on it for the idle timeout.
    pub(crate) fn after_end(&self, now: Instant) -> Next {
        if self.connection().is_some_and(|connection| connection.worked(now)) {
            Next::Resume
        } else {
            Next::Retry
        }
    }

    /// What follows a failed request. `failures` is the number of consecutive failures before this one.
    pub(crate) fn after_error(&self, error: &ListWatchError, failures: u32, now: Instant) -> Next {
        use ListWatchError as E;
        let connection = self.connection();
        let is_streaming = matches!(self, Self::Streaming { .. });
        match error {
            E::Interrupted(_) if connection.is_some_and(|connection| connection.worked(now)) => Next::Resume,
            E::Expired(_) => Next::Relist(RelistReason::Expired),
            E::TooLargeResourceVersion(_) => Next::Relist(RelistReason::TooLargeResourceVersion),
            E::InvalidResponse(_) if connection.is_some() => Next::Relist(RelistReason::InvalidResponse),
            E::Api { code, .. } if is_streaming && is_unsupported(*code) => Next::DisableStreaming,
            // A watch that returned an error, was resumed and returned an error again before any event cannot get past
            // what it meets at this version.
            E::Api { retry_after: None, .. }
                if failures > 0 && connection.is_some_and(|connection| !connection.has_events) =>
            {
                Next::Relist(RelistReason::RepeatedError)
            }
            E::Api { retry_after: Some(delay), .. } => Next::RetryAfter(*delay),
            E::Unreachable(_) | E::Api { code: 401 | 403 | 429, .. } => Next::Retry,
            // Whatever fails about a streaming list may not fail about pages.
            _ if is_streaming => Next::ListInPages,
            _ => Next::Retry,
        }
    }

    /// The state that follows, without its delay.
    pub(crate) fn transition(self, next: Next, streaming_list: bool, page_size: u32) -> Self {
        match (next, self) {
            (Next::DisableStreaming | Next::ListInPages, _) => Self::Listing(Listing::new(page_size)),
            // The server did not keep the rest of the list for as long as the pages took to read, and might not the next
            // time either.
            (Next::Relist(RelistReason::Expired), Self::Listing(Listing { token: Some(_), .. })) => {
                Self::Listing(Listing::new(0))
            }
            (Next::Relist(_), Self::Listing(listing)) => Self::Listing(Listing::new(listing.limit)),
            (Next::Relist(_), Self::Watching { .. }) => Self::initial(streaming_list, page_size),
            (_, Self::Streaming { .. }) => Self::Streaming { builder: ListBuilder::default() },
            (_, Self::Watching { from, .. }) => Self::watching(from),
            (_, state) => state,
        }
    }

    /// The state after a delay.
    pub(crate) fn delayed(self, delay: Duration) -> Self {
        if delay.is_zero() { self } else { Self::BackingOff { delay, next: Box::new(self) } }
    }
}

/// Whether a status code says that the server does not understand a request, as opposed to not allowing it or not now.
fn is_unsupported(code: u16) -> bool {
    matches!(code, 400..500) && !matches!(code, 401 | 403 | 408 | 410 | 429)
}

#[cfg(test)]
mod tests;
