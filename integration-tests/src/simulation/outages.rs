//! Outages: faults that begin at one time and end at another.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultId, FaultRule, RequestInfo};
use proptest::prelude::*;
use proptest::sample::select;

use super::cluster::is_by_controllers;

/// What fails during an outage. `on` selects the requests.
#[derive(Clone, Debug)]
pub enum Outage {
    /// Every request is lost, and the connections of all watches break.
    Unreachable,
    /// Connections are half-open: open watches fall silent, and no request is answered. `applied` says whether requests are
    /// handled all the same.
    Silent {
        /// Whether the server still handles requests.
        applied: bool,
    },
    /// Requests are refused with a status.
    Refused {
        /// Which requests.
        on: Selection,
        /// HTTP status.
        status: u16,
        /// Seconds to wait, for 429 and 503.
        retry_after: Option<u32>,
    },
    /// Writes are handled and their answers lost.
    AnswersLost {
        /// Which writes.
        on: Selection,
    },
    /// Requests are lost.
    RequestsLost {
        /// Which requests.
        on: Selection,
    },
    /// Watches of one kind send nothing for some seconds after they open, and then everything since.
    Lagging {
        /// Plural name of the kind.
        plural: &'static str,
        /// How long.
        seconds: u64,
    },
    /// Watches of one kind break after some events.
    WatchesBreak {
        /// Plural name of the kind.
        plural: &'static str,
        /// Events of each watch.
        after: usize,
    },
    /// Watches of one kind end with `410 Expired`, and what they would resume from is compacted.
    Expired {
        /// Plural name of the kind.
        plural: &'static str,
    },
    /// Lists return an older state.
    OlderLists {
        /// How many versions older.
        versions: u64,
    },
    /// Streaming lists are not supported, and the second page of a list is refused.
    ContinueRefused {
        /// HTTP status.
        status: u16,
    },
}

/// Requests of one verb, one kind, or both.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    verb: Option<&'static str>,
    plural: Option<&'static str>,
}

impl Selection {
    fn matches(self, request: &RequestInfo) -> bool {
        self.verb.is_none_or(|verb| verb == request.verb)
            && self.plural.is_none_or(|plural| plural == request.plural())
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.verb.unwrap_or("every verb"), self.plural.unwrap_or("every kind"))
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => write!(f, "server unreachable"),
            Self::Silent { applied: true } => {
                write!(f, "connections half-open, requests handled without answer")
            }
            Self::Silent { applied: false } => write!(f, "connections half-open, requests not handled"),
            Self::Refused { on, status, retry_after: None } => write!(f, "{on} refused with {status}"),
            Self::Refused { on, status, retry_after: Some(seconds) } => {
                write!(f, "{on} refused with {status}, Retry-After: {seconds}")
            }
            Self::AnswersLost { on } => write!(f, "{on} handled, answers lost"),
            Self::RequestsLost { on } => write!(f, "{on} lost"),
            Self::Lagging { plural, seconds } => write!(f, "watches of {plural} lag by {seconds} s"),
            Self::WatchesBreak { plural, after } => {
                write!(f, "watches of {plural} break after {after} events")
            }
            Self::Expired { plural } => write!(f, "watches of {plural} expire"),
            Self::OlderLists { versions } => write!(f, "lists are {versions} versions old"),
            Self::ContinueRefused { status } => write!(f, "continue tokens refused with {status}"),
        }
    }
}

const WATCHED: [&str; 5] = ["pods", "services", "nodes", "endpoints", "endpointslices"];
const WRITTEN: [&str; 2] = ["endpoints", "endpointslices"];

/// A random outage.
pub(super) fn outage() -> impl Strategy<Value = Outage> {
    let any_of = |values: &[&'static str]| prop::option::weighted(0.7, select(values.to_vec()));
    let reads = (any_of(&["get", "list", "watch"]), any_of(&WATCHED));
    let writes = || (select(vec!["create", "update", "delete"]), any_of(&WRITTEN));
    let on = prop_oneof![
        2 => reads.prop_map(|(verb, plural)| Selection { verb, plural }),
        3 => writes().prop_map(|(verb, plural)| Selection { verb: Some(verb), plural }),
        1 => Just(Selection { verb: None, plural: None }),
    ]
    .boxed();
    let on_writes = writes().prop_map(|(verb, plural)| Selection { verb: Some(verb), plural });
    let status = prop_oneof![
        select(vec![400u16, 401, 403, 404, 409, 422, 500]).prop_map(|status| (status, None)),
        (select(vec![429u16, 503]), prop::option::of(select(vec![0u32, 1, 5, 32, 86_400]))),
    ];
    let kind = || select(WATCHED.to_vec());
    prop_oneof![
        3 => Just(Outage::Unreachable),
        2 => any::<bool>().prop_map(|applied| Outage::Silent { applied }),
        8 => (on.clone(), status).prop_map(|(on, (status, retry_after))| Outage::Refused { on, status, retry_after }),
        2 => on_writes.prop_map(|on| Outage::AnswersLost { on }),
        2 => on.prop_map(|on| Outage::RequestsLost { on }),
        2 => (kind(), 1..120u64).prop_map(|(plural, seconds)| Outage::Lagging { plural, seconds }),
        1 => (kind(), 0..4usize).prop_map(|(plural, after)| Outage::WatchesBreak { plural, after }),
        1 => kind().prop_map(|plural| Outage::Expired { plural }),
        1 => (1..20u64).prop_map(|versions| Outage::OlderLists { versions }),
        1 => select(vec![400u16, 410, 500]).prop_map(|status| Outage::ContinueRefused { status }),
    ]
}

impl Outage {
    /// The variant, for counts.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Silent { .. } => "silent",
            Self::Refused { .. } => "refused",
            Self::AnswersLost { .. } => "answers lost",
            Self::RequestsLost { .. } => "requests lost",
            Self::Lagging { .. } => "lagging",
            Self::WatchesBreak { .. } => "watches break",
            Self::Expired { .. } => "expired",
            Self::OlderLists { .. } => "older lists",
            Self::ContinueRefused { .. } => "continue refused",
        }
    }

    /// Adds the faults, and applies them to open watches. `hits` counts the requests and watches that they concern.
    pub(super) fn begin(&self, server: &EmbeddedApiServer, hits: &Arc<AtomicUsize>) -> Vec<FaultId> {
        let add = |fault: Fault, selects: Box<dyn Fn(&RequestInfo) -> bool + Send + Sync>| {
            let hits = Arc::clone(hits);
            let matches = move |request: &RequestInfo| {
                let hit = is_by_controllers(request) && selects(request);
                hits.fetch_add(usize::from(hit), Ordering::Relaxed);
                hit
            };
            server.add_fault(FaultRule::new(fault, matches))
        };
        let watches_of = |plural: &'static str| {
            Box::new(move |request: &RequestInfo| request.verb == "watch" && request.plural() == plural)
        };
        let refuse = |status, retry_after| Fault::Refuse { status, retry_after };
        let hit_now = |count: usize| hits.fetch_add(count, Ordering::Relaxed);
        match *self {
            Self::Unreachable => {
                let id = add(Fault::LoseRequest, Box::new(|_| true));
                hit_now(server.break_watches(|_| true));
                vec![id]
            }
            Self::Silent { applied } => {
                let id = add(Fault::NeverAnswer { applied }, Box::new(|_| true));
                hit_now(server.silence_watches(|_| true));
                vec![id]
            }
            Self::Refused { on, status, retry_after } => {
                vec![add(refuse(status, retry_after), Box::new(move |request| on.matches(request)))]
            }
            Self::AnswersLost { on } => {
                vec![add(Fault::ApplyAndLoseAnswer, Box::new(move |request| on.matches(request)))]
            }
            Self::RequestsLost { on } => {
                let id = add(Fault::LoseRequest, Box::new(move |request| on.matches(request)));
                hit_now(server.break_watches(|request| on.matches(request)));
                vec![id]
            }
            Self::Lagging { plural, seconds } => {
                let stall = Fault::StallWatch(std::time::Duration::from_secs(seconds));
                let id = add(stall, watches_of(plural));
                server.break_watches(watches_of(plural));
                vec![id]
            }
            Self::WatchesBreak { plural, after } => {
                let id = add(Fault::BreakWatch { after }, watches_of(plural));
                server.break_watches(watches_of(plural));
                vec![id]
            }
            Self::Expired { plural } => {
                let id = add(Fault::ExpireWatch, watches_of(plural));
                server.compact();
                server.break_watches(watches_of(plural));
                vec![id]
            }
            Self::OlderLists { versions } => {
                let id = add(Fault::ServeOlder { versions }, Box::new(|request| request.verb == "list"));
                server.compact();
                server.break_watches(|_| true);
                vec![id]
            }
            Self::ContinueRefused { status } => {
                let streams = |request: &RequestInfo| request.parameter("sendInitialEvents").is_some();
                let no_streams = add(refuse(400, None), Box::new(streams));
                let pages = |request: &RequestInfo| request.parameter("continue").is_some();
                let no_pages = add(refuse(status, None), Box::new(pages));
                server.compact();
                server.break_watches(|_| true);
                vec![no_streams, no_pages]
            }
        }
    }
}
