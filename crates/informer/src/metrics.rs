//! The metrics of the informer layer, recorded through the `metrics` facade.
//!
//! [`Cluster::new`](crate::Cluster::new) registers the handles once: install the recorder before,
//! or create the cluster inside `metrics::with_local_recorder`.

use metrics::{Counter, Gauge, Unit, counter, describe_counter, describe_gauge, gauge};

use crate::Kind;

/// Events that a store applied, by `kind` and `type` (`applied`, `deleted`, `restarted`,
/// `bookmark`).
pub const EVENTS: &str = "informer_events_total";
/// Number of times that a reflector received an object that it could not decode, by `kind`.
pub const UNDECODABLE: &str = "informer_undecodable_total";
/// Existing objects that the reflector could not decode when it last received them, by `kind`.
pub const UNDECODABLE_OBJECTS: &str = "informer_undecodable_objects";
/// Complete lists that reflectors began, by `kind` and `reason` (see [`RelistReason`]).
pub const RELISTS: &str = "informer_relists_total";
/// Lists and watches that failed, by `kind` and `reason` (see [`WatchErrorReason`]).
pub const WATCH_ERRORS: &str = "informer_watch_errors_total";
/// Objects in a store, by `kind`.
pub const OBJECTS: &str = "informer_objects";
/// Seconds since the server last sent something about a synced kind: an object, a bookmark or a
/// list. The store may be behind by this time. By `kind`.
pub const LAG: &str = "informer_lag_seconds";
/// 1 if a complete list has filled a store, otherwise 0, by `kind`.
pub const SYNCED: &str = "informer_synced";
/// 1 for the reason why the last list or watch of a kind failed, until one succeeds; otherwise 0.
/// By `kind` and `reason` (see [`WatchErrorReason`]).
pub const FAILING: &str = "informer_failing";

/// Namespaces in which the lists or watches of a kind keep failing, while those of others succeed,
/// by `kind`.
pub const UNREADABLE_NAMESPACES: &str = "informer_unreadable_namespaces";

/// The reason why a reflector lists a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelistReason {
    /// The reflector has started and has never listed it.
    Start,
    /// The server no longer keeps the version at which the watch stopped (410).
    Expired,
    /// The server has not reached the version at which the watch stopped, and refused it
    /// repeatedly.
    TooLargeResourceVersion,
    /// The server's version is lower than the one at which the watch stopped, as after a restore of
    /// its storage.
    VersionWentBack,
    /// The server refused the continue token of a list in pages, for another reason than its age,
    /// or repeated the token of an earlier page.
    ContinueRefused,
    /// The watch sent something that is not an event, so events may have been lost.
    InvalidResponse,
    /// The watch fails each time that the reflector resumes it from the version at which it
    /// stopped.
    RepeatedError,
    /// A caller of [`Cluster::relist`](crate::Cluster::relist) requested it: this process became
    /// the leader and does not know the last writes of its predecessor. Or the store may differ
    /// from the server.
    Requested,
}

impl RelistReason {
    const ALL: [Self; 8] = [
        Self::Start,
        Self::Expired,
        Self::TooLargeResourceVersion,
        Self::VersionWentBack,
        Self::ContinueRefused,
        Self::InvalidResponse,
        Self::RepeatedError,
        Self::Requested,
    ];

    /// Returns the value of the `reason` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Expired => "expired",
            Self::TooLargeResourceVersion => "from_the_future",
            Self::VersionWentBack => "version_went_back",
            Self::ContinueRefused => "continue_refused",
            Self::InvalidResponse => "unintelligible",
            Self::RepeatedError => "stuck",
            Self::Requested => "requested",
        }
    }
}

/// The reason why a list or a watch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchErrorReason {
    /// The server could not be reached.
    Unreachable,
    /// The server answered with an error.
    Api,
    /// The response is not what the reflector requested.
    InvalidResponse,
    /// The response ended early.
    Interrupted,
    /// Nothing arrived within the idle timeout.
    IdleTimeout,
}

impl WatchErrorReason {
    const ALL: [Self; 5] =
        [Self::Unreachable, Self::Api, Self::InvalidResponse, Self::Interrupted, Self::IdleTimeout];

    /// Returns the value of the `reason` label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Api => "refused",
            Self::InvalidResponse => "unintelligible",
            Self::Interrupted => "cut",
            Self::IdleTimeout => "silent",
        }
    }
}

/// The metrics of one kind.
pub(crate) struct KindMetrics {
    pub(crate) applied: Counter,
    pub(crate) deleted: Counter,
    pub(crate) restarted: Counter,
    pub(crate) bookmarks: Counter,
    pub(crate) undecodable: Counter,
    pub(crate) undecodable_objects: Gauge,
    pub(crate) objects: Gauge,
    pub(crate) lag: Gauge,
    pub(crate) synced: Gauge,
    pub(crate) unreadable_namespaces: Gauge,
    relists: [Counter; RelistReason::ALL.len()],
    watch_errors: [Counter; WatchErrorReason::ALL.len()],
    failing: [Gauge; WatchErrorReason::ALL.len()],
}

impl KindMetrics {
    /// Returns metrics that nobody sees, for a kind that most programs do not list.
    pub(crate) fn unused(kind: Kind) -> Self {
        metrics::with_local_recorder(&metrics::NoopRecorder, || Self::new(kind))
    }

    pub(crate) fn new(kind: Kind) -> Self {
        let kind = kind.name();
        let events = |what: &'static str| counter!(EVENTS, "kind" => kind, "type" => what);
        Self {
            applied: events("applied"),
            deleted: events("deleted"),
            restarted: events("restarted"),
            bookmarks: events("bookmark"),
            undecodable: counter!(UNDECODABLE, "kind" => kind),
            undecodable_objects: gauge!(UNDECODABLE_OBJECTS, "kind" => kind),
            objects: gauge!(OBJECTS, "kind" => kind),
            lag: gauge!(LAG, "kind" => kind),
            synced: gauge!(SYNCED, "kind" => kind),
            unreadable_namespaces: gauge!(UNREADABLE_NAMESPACES, "kind" => kind),
            relists: RelistReason::ALL
                .map(|reason| counter!(RELISTS, "kind" => kind, "reason" => reason.as_str())),
            watch_errors: WatchErrorReason::ALL
                .map(|reason| counter!(WATCH_ERRORS, "kind" => kind, "reason" => reason.as_str())),
            failing: WatchErrorReason::ALL
                .map(|reason| gauge!(FAILING, "kind" => kind, "reason" => reason.as_str())),
        }
    }

    pub(crate) fn relist(&self, reason: RelistReason) {
        if let Some(counter) = self.relists.get(reason as usize) {
            counter.increment(1);
        }
    }

    pub(crate) fn watch_error(&self, reason: WatchErrorReason) {
        if let Some(counter) = self.watch_errors.get(reason as usize) {
            counter.increment(1);
        }
    }

    /// Records why the last request failed, or `None` if it succeeded.
    pub(crate) fn set_failing(&self, reason: Option<WatchErrorReason>) {
        for (gauge, of) in self.failing.iter().zip(WatchErrorReason::ALL) {
            gauge.set(if reason == Some(of) { 1.0 } else { 0.0 });
        }
    }
}

/// Registers the help texts.
pub(crate) fn describe() {
    describe_counter!(EVENTS, "Events that the store of a kind took.");
    describe_counter!(UNDECODABLE, "Times that an object was delivered that could not be decoded.");
    describe_gauge!(UNDECODABLE_OBJECTS, "Objects that could not be decoded when they were last delivered.");
    describe_counter!(RELISTS, "Complete lists that were begun, by reason.");
    describe_counter!(WATCH_ERRORS, "Lists and watches that failed, by reason.");
    describe_gauge!(OBJECTS, "Objects in the store of a kind.");
    describe_gauge!(
        LAG,
        Unit::Seconds,
        "Time since the API server last sent an object, a bookmark or a list of a kind"
    );
    describe_gauge!(
        FAILING,
        "1 for the reason why the last list or watch of a kind failed, until one succeeds; otherwise 0."
    );
    describe_gauge!(
        UNREADABLE_NAMESPACES,
        "Namespaces in which a kind cannot be listed or watched, although it can in others."
    );
    describe_gauge!(SYNCED, "1 if the store of a kind holds a complete state.");
}
