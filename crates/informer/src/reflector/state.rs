//! The state of a reflector, and the transitions when a request ends. Nothing here sends requests,
//! waits or logs.
//!
//! ```text
//!            complete            error: backoff, or relist
//! Streaming ----------> Watching ------------------------> BackingOff, then the state that it holds
//!     |                    ^  ^ |
//!     | unsupported, fails |  | | connection failed
//!     |          last page |  | v
//!     +----------------> Listing Checking
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_core_model::ResourceVersion;
use tokio::time::Instant;

use crate::error::ListWatchError;
use crate::metrics::RelistReason;
use crate::store::list_builder::ListBuilder;

/// A watch that ends earlier than this without an event counts as a failure.
const MIN_WATCH: Duration = Duration::from_secs(1);
/// After this many watches in a row that each lasted for less than [`MIN_WATCH`], the next one
/// waits.
const SHORT_WATCHES: u32 = 5;
/// After this many failures, the reflector relists if the server refuses a watch because its
/// version is too large.
const MAX_TOO_LARGE: u32 = 5;

/// The next step of a reflector.
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
        /// `None` until the server has accepted the watch.
        connection: Option<Connection>,
    },
    /// Compares the server's version with that of the watch, then resumes it.
    Checking {
        /// The version of the list, or of the last event or bookmark.
        from: ResourceVersion,
    },
    /// Waits before it continues with another state. A requested relist cuts the wait short.
    BackingOff {
        delay: Duration,
        /// The part of the delay that the server asked for, which nothing cuts short.
        least: Duration,
        /// The state after the wait.
        next: Box<State<T>>,
    },
}

/// A list between two pages. It survives failures.
#[derive(Debug)]
pub(crate) struct Listing<T> {
    /// The objects of the pages received so far.
    pub(crate) builder: ListBuilder<T>,
    /// The continue token of the next page, or `None` before the first page.
    pub(crate) token: Option<String>,
    /// All continue tokens that the server has sent.
    pub(crate) tokens: BTreeSet<String>,
    /// Maximum number of objects in a page; 0 for all objects in one response.
    pub(crate) limit: u32,
    /// How often this list began again because the server refused a continue token.
    pub(crate) refused_tokens: u32,
}

impl<T> Listing<T> {
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            builder: ListBuilder::default(),
            token: None,
            tokens: BTreeSet::new(),
            limit,
            refused_tokens: 0,
        }
    }
}

/// A watch that the server has accepted and that is past its initial events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) since: Instant,
    /// True if an event or a bookmark has arrived since.
    pub(crate) has_events: bool,
}

impl Connection {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, has_events: false }
    }

    /// Returns true if the watch worked: it delivered something, or stayed open for a while.
    fn worked(self, now: Instant) -> bool {
        self.has_events || now.saturating_duration_since(self.since) >= MIN_WATCH
    }
}

/// Watches in a row that lasted for less than a second each, as behind a proxy that ends a watch
/// with its first event. Without a limit, the reflector would open them as fast as the server
/// answers.
#[derive(Debug, Default)]
pub(crate) struct ShortWatches(u32);

impl ShortWatches {
    /// Counts a watch that ended. Returns how long to wait before the reflector resumes it: after
    /// [`SHORT_WATCHES`] in a row, no two begin within a second.
    pub(crate) fn ended(&mut self, connection: Option<Connection>, now: Instant) -> Duration {
        let Some(connection) = connection else { return Duration::ZERO };
        let rest = MIN_WATCH.saturating_sub(now.saturating_duration_since(connection.since));
        self.0 = if rest.is_zero() { 0 } else { self.0.saturating_add(1) };
        if self.0 > SHORT_WATCHES { rest } else { Duration::ZERO }
    }
}

/// The way in which a watch ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The server closed it.
    Closed,
    /// Nothing arrived for the idle timeout, as on a connection that died unnoticed.
    Idle,
    /// Somebody requested a relist.
    Relist,
}

/// The next step after a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Resume the watch at once.
    Resume,
    /// Compare versions at once, then resume the watch: the connection failed, and another server
    /// may answer now.
    Check,
    /// Send the same request again after a backoff.
    Retry,
    /// Compare versions after a backoff, then resume the watch.
    RetryWithCheck,
    /// The server does not support streaming lists: list in pages, now and from now on.
    DisableStreaming,
    /// The streaming list failed: list in pages this time, after a backoff.
    ListInPages,
    /// Request the complete state again: at once the first time, after a backoff when that happens
    /// repeatedly.
    Relist(RelistReason),
}

impl<T> State<T> {
    /// Returns the state that requests the complete state of the kind.
    pub(crate) fn initial(streaming_list: bool, page_size: u32) -> Self {
        if streaming_list {
            Self::Streaming { builder: ListBuilder::default() }
        } else {
            Self::Listing(Listing::new(page_size))
        }
    }

    /// Returns the state that watches from a version and is not yet connected.
    pub(crate) fn watching(from: ResourceVersion) -> Self {
        Self::Watching { from, connection: None }
    }

    /// Returns the watch connection, once it is past its initial events.
    pub(crate) fn connection(&self) -> Option<Connection> {
        match self {
            Self::Watching { connection, .. } => *connection,
            _ => None,
        }
    }

    /// Returns the next step after a watch ended without an error.
    pub(crate) fn after_end(&self, end: WatchEnd, now: Instant) -> Next {
        match end {
            WatchEnd::Idle => Next::Check,
            WatchEnd::Relist => Next::Relist(RelistReason::Requested),
            WatchEnd::Closed if self.connection().is_some_and(|it| it.worked(now)) => Next::Resume,
            WatchEnd::Closed => Next::RetryWithCheck,
        }
    }

    /// Returns the next step after a failed request. `failures` is the number of consecutive
    /// failures before this one.
    pub(crate) fn after_error(&self, error: &ListWatchError, failures: u32, now: Instant) -> Next {
        match (self, error) {
            (_, ListWatchError::Expired(_)) => Next::Relist(RelistReason::Expired),
            (_, ListWatchError::VersionWentBack { .. }) => Next::Relist(RelistReason::VersionWentBack),
            (Self::Watching { connection, .. }, _) => after_watch_error(*connection, error, failures, now),
            (Self::Checking { .. }, ListWatchError::Api { code, .. }) if is_refused(*code) => Next::Resume,
            (Self::Streaming { .. }, _) => after_streaming_error(error),
            (Self::Listing(Listing { token: Some(_), .. }), ListWatchError::Api { code, .. })
                if may_refuse_token(*code) =>
            {
                Next::Relist(RelistReason::ContinueRefused)
            }
            (Self::Listing(_), ListWatchError::SamePage) => Next::Relist(RelistReason::ContinueRefused),
            (Self::Listing(_), ListWatchError::TooLargeResourceVersion(_)) => {
                Next::Relist(RelistReason::TooLargeResourceVersion)
            }
            _ => Next::Retry,
        }
    }

    /// Returns the state that follows, without its delay.
    pub(crate) fn transition(self, next: Next, streaming_list: bool, page_size: u32) -> Self {
        match (next, self) {
            (Next::DisableStreaming | Next::ListInPages, _) => Self::Listing(Listing::new(page_size)),
            // The server did not keep the rest of the list until the reflector had read all pages,
            // and might not do so the next time either.
            (Next::Relist(RelistReason::Expired), Self::Listing(Listing { token: Some(_), .. })) => {
                Self::Listing(Listing::new(0))
            }
            (Next::Relist(RelistReason::ContinueRefused), Self::Listing(listing)) => {
                // The second time, the server sends all objects in one response.
                let limit = if listing.refused_tokens == 0 { listing.limit } else { 0 };
                Self::Listing(Listing { refused_tokens: listing.refused_tokens + 1, ..Listing::new(limit) })
            }
            (Next::Relist(_), Self::Listing(listing)) => Self::Listing(Listing::new(listing.limit)),
            (Next::Relist(_), Self::Watching { .. } | Self::Checking { .. }) => {
                Self::initial(streaming_list, page_size)
            }
            (_, Self::Streaming { .. }) => Self::Streaming { builder: ListBuilder::default() },
            (Next::Check | Next::RetryWithCheck, Self::Watching { from, .. }) => Self::Checking { from },
            (_, Self::Watching { from, .. }) | (Next::Resume, Self::Checking { from }) => {
                Self::watching(from)
            }
            (_, state) => state,
        }
    }

    /// Returns this state after a delay. The server asked for `least` of it.
    pub(crate) fn delayed(self, delay: Duration, least: Duration) -> Self {
        if delay.is_zero() { self } else { Self::BackingOff { delay, least, next: Box::new(self) } }
    }
}

fn after_watch_error(
    connection: Option<Connection>,
    error: &ListWatchError,
    failures: u32,
    now: Instant,
) -> Next {
    use ListWatchError as E;
    match error {
        E::Interrupted(_) if connection.is_some_and(|connection| connection.worked(now)) => Next::Check,
        // The version check finds out if the server will reach the version. If it will and the
        // watch is still refused, another server answers the watch.
        E::TooLargeResourceVersion(_) if failures >= MAX_TOO_LARGE => {
            Next::Relist(RelistReason::TooLargeResourceVersion)
        }
        E::InvalidResponse(_) if connection.is_some() => Next::Relist(RelistReason::InvalidResponse),
        // The server answered the watch with an error, and again when the reflector resumed it,
        // before any event: the watch cannot get past this version.
        E::Api { retry_after: None, .. }
            if failures > 0 && connection.is_some_and(|connection| !connection.has_events) =>
        {
            Next::Relist(RelistReason::RepeatedError)
        }
        // The same server answers, and works. A check would add to its load, or it would refuse the
        // check too.
        E::Api { code, .. } if *code == 429 || *code == 401 || is_refused(*code) => Next::Retry,
        _ => Next::RetryWithCheck,
    }
}

fn after_streaming_error(error: &ListWatchError) -> Next {
    use ListWatchError as E;
    match error {
        E::Api { code, .. } if is_unsupported(*code) => Next::DisableStreaming,
        E::Unreachable(_) | E::Api { code: 401 | 403 | 429, .. } => Next::Retry,
        // Pages may work where a streaming list fails: a server whose watch cache is behind refuses
        // the latter with `TooLargeResourceVersion` until it has caught up, and takes pages from
        // etcd.
        _ => Next::ListInPages,
    }
}

/// Returns true if a status code says that the server does not understand a request, as opposed to
/// one that it does not allow, or not now.
fn is_unsupported(code: u16) -> bool {
    is_refused(code) && code != 403
}

/// Returns true if the server refuses the request for good.
fn is_refused(code: u16) -> bool {
    matches!(code, 400..500) && !matches!(code, 401 | 408 | 410 | 429)
}

/// Returns true if the server may have refused a page because of its continue token. After 502, 503
/// and 504 the token may still be good.
fn may_refuse_token(code: u16) -> bool {
    is_unsupported(code) || matches!(code, 500 | 501 | 505..)
}

#[cfg(test)]
mod tests;
