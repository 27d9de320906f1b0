//! What the informer layer counts, through the `metrics` facade.
//!
//! Handles are made once, by [`Cluster::new`](crate::Cluster::new): install the recorder before, or make the cluster
//! inside `metrics::with_local_recorder`.

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

use crate::Kind;

/// Events that a store took, by `kind` and `type` (`applied`, `deleted`, `restarted`, `bookmark`).
pub const EVENTS: &str = "informer_events_total";
/// Times that an object was delivered that could not be decoded, by `kind`.
pub const UNDECODABLE: &str = "informer_undecodable_total";
/// Objects that exist but could not be decoded when they were last delivered, by `kind`.
pub const UNDECODABLE_OBJECTS: &str = "informer_undecodable_objects";
/// Complete lists that were begun, by `kind` and `reason` (see [`RelistReason`]).
pub const RELISTS: &str = "informer_relists_total";
/// Requests and watches that failed, by `kind` and `reason` (see [`FailureReason`]).
pub const WATCH_ERRORS: &str = "informer_watch_errors_total";
/// Objects in a store, by `kind`.
pub const OBJECTS: &str = "informer_objects";
/// The version up to which a store shows the cluster, by `kind`.
pub const POSITION: &str = "informer_position";
/// Whether a store holds a complete state, by `kind`.
pub const SYNCED: &str = "informer_synced";

/// Why a kind is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelistReason {
    /// It has never been listed.
    Start,
    /// The server no longer keeps the version that the watch stopped at (410).
    Expired,
    /// The server has not reached the version that the watch stopped at, as after a restore of its storage.
    TooLargeResourceVersion,
    /// The watch said something that makes no sense, so that events may have been missed.
    Unintelligible,
    /// The watch fails each time that it is resumed from where it stopped.
    Stuck,
}

impl RelistReason {
    const ALL: [Self; 5] =
        [Self::Start, Self::Expired, Self::TooLargeResourceVersion, Self::Unintelligible, Self::Stuck];

    /// As the label says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Expired => "expired",
            Self::TooLargeResourceVersion => "from_the_future",
            Self::Unintelligible => "unintelligible",
            Self::Stuck => "stuck",
        }
    }
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// No connection, or none that works.
    Unreachable,
    /// The server answered with an error.
    Refused,
    /// The server answered with something else than what was asked for.
    Unintelligible,
    /// The answer broke off.
    Cut,
    /// Nothing came for too long.
    Silent,
}

impl FailureReason {
    const ALL: [Self; 5] = [Self::Unreachable, Self::Refused, Self::Unintelligible, Self::Cut, Self::Silent];

    /// As the label says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Unintelligible => "unintelligible",
            Self::Cut => "cut",
            Self::Silent => "silent",
        }
    }
}

/// Handles of one kind.
pub(crate) struct KindMetrics {
    pub(crate) applied: Counter,
    pub(crate) deleted: Counter,
    pub(crate) restarted: Counter,
    pub(crate) bookmarks: Counter,
    pub(crate) undecodable: Counter,
    pub(crate) undecodable_objects: Gauge,
    pub(crate) objects: Gauge,
    pub(crate) position: Gauge,
    pub(crate) synced: Gauge,
    relists: [Counter; RelistReason::ALL.len()],
    failures: [Counter; FailureReason::ALL.len()],
}

impl KindMetrics {
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
            position: gauge!(POSITION, "kind" => kind),
            synced: gauge!(SYNCED, "kind" => kind),
            relists: RelistReason::ALL
                .map(|reason| counter!(RELISTS, "kind" => kind, "reason" => reason.as_str())),
            failures: FailureReason::ALL
                .map(|reason| counter!(WATCH_ERRORS, "kind" => kind, "reason" => reason.as_str())),
        }
    }

    pub(crate) fn relist(&self, reason: RelistReason) {
        if let Some(counter) = self.relists.get(reason as usize) {
            counter.increment(1);
        }
    }

    pub(crate) fn failure(&self, reason: FailureReason) {
        if let Some(counter) = self.failures.get(reason as usize) {
            counter.increment(1);
        }
    }
}

/// Says what each metric means.
pub(crate) fn describe() {
    describe_counter!(EVENTS, "Events that the store of a kind took.");
    describe_counter!(UNDECODABLE, "Times that an object was delivered that could not be decoded.");
    describe_gauge!(UNDECODABLE_OBJECTS, "Objects that could not be decoded when they were last delivered.");
    describe_counter!(RELISTS, "Complete lists that were begun, by reason.");
    describe_counter!(WATCH_ERRORS, "Lists and watches that failed, by reason.");
    describe_gauge!(OBJECTS, "Objects in the store of a kind.");
    describe_gauge!(POSITION, "The resource version up to which the store of a kind shows the cluster.");
    describe_gauge!(SYNCED, "Whether the store of a kind holds a complete state.");
}
