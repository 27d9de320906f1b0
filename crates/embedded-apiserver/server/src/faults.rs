//! Faults: responses that are errors, late, lost or stale, and watches that break or stall, for
//! requests that a matcher selects. A test can add and remove them while the server runs.

use std::ops::Range;
use std::time::Duration;

use kube_endpoint_apiserver_rules::status::Status;
use parking_lot::Mutex;

use crate::request::RequestInfo;
use crate::watches::Ending;

/// The kinds of faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server does not handle the request; the response is an error with this HTTP status. 429
    /// and 5xx may carry a time after which to retry.
    Refuse {
        /// HTTP status code, 400 to 599.
        status: u16,
        /// Seconds for the `Retry-After` header and the details of the Status.
        retry_after: Option<u32>,
    },
    /// The server does not handle the request; the response is this error.
    /// [`refusals`](crate::refusals) has those of admission.
    RefuseWith(Status),
    /// The server handles the request after this delay.
    Delay(Duration),
    /// The server handles the request at once and sends the response after this delay: watchers see
    /// the change before its writer.
    DelayAnswer(Duration),
    /// The server handles the request, then the connection breaks before the response: the client
    /// cannot know if the server applied it.
    ApplyAndLoseAnswer,
    /// The connection breaks before the server handles the request.
    LoseRequest,
    /// The connection stays open and no response ever arrives, as when the peer is gone and sends
    /// no RST.
    NeverAnswer {
        /// True if the server handles the request.
        applied: bool,
    },
    /// The server accepts an update, and changes nothing, as with an admission webhook that undoes
    /// it: the answer is the unchanged object. It still refuses an update with another version than
    /// the object's.
    UndoUpdate,
    /// The watch ends, as after a timeout, after this many events.
    CutWatch {
        /// The number of events, without bookmarks.
        after: usize,
    },
    /// The connection of the watch breaks after this many events.
    BreakWatch {
        /// The number of events, without bookmarks.
        after: usize,
    },
    /// After this many events nothing arrives any more, and the watch does not end, not even at its
    /// timeout: the connection is half-open.
    SilenceWatch {
        /// The number of events, without bookmarks; 0 for a watch that opens and then stays silent.
        after: usize,
    },
    /// The watch opens and sends nothing for this time; then it sends all changes since.
    StallWatch(Duration),
    /// The watch opens and ends at once with the ERROR event `410 Expired`.
    ExpireWatch,
    /// A get or list returns an older state, as a lagging cache does, but none older than the
    /// resource's history.
    ServeOlder {
        /// How many resource versions to go back.
        versions: u64,
    },
}

type Matcher = Box<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

/// A fault and the requests that it applies to.
pub struct FaultRule {
    fault: Fault,
    matcher: Matcher,
    skip: usize,
    times: usize,
    seen: usize,
    span: Range<Duration>,
}

impl FaultRule {
    /// Returns the fault for every request that `matcher` selects.
    pub fn new(fault: Fault, matcher: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static) -> Self {
        Self {
            fault,
            matcher: Box::new(matcher),
            skip: 0,
            times: usize::MAX,
            seen: 0,
            span: Duration::ZERO..Duration::MAX,
        }
    }

    /// Returns the fault for requests of one verb and one plural resource name.
    pub fn on(fault: Fault, verb: &'static str, plural: &'static str) -> Self {
        Self::new(fault, move |request| request.verb == verb && request.plural() == plural)
    }

    /// Skips the first `count` matching requests.
    pub fn after(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// Limits the fault to `count` requests.
    pub fn times(mut self, count: usize) -> Self {
        self.times = count;
        self
    }

    /// Limits the fault to requests that arrive in this span of time since the server was built, as
    /// an outage does. [`Self::after`] and [`Self::times`] do not count other requests.
    pub fn during(mut self, span: Range<Duration>) -> Self {
        self.span = span;
        self
    }

    fn hits(&mut self, request: &RequestInfo, now: Duration) -> bool {
        if !self.span.contains(&now) || !(self.matcher)(request) {
            return false;
        }
        self.seen += 1;
        self.seen > self.skip && self.seen - self.skip <= self.times
    }
}

impl std::fmt::Debug for FaultRule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FaultRule")
            .field("fault", &self.fault)
            .field("skip", &self.skip)
            .field("times", &self.times)
            .field("seen", &self.seen)
            .field("span", &self.span)
            .finish_non_exhaustive()
    }
}

/// The id of a rule, for removing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(u64);

/// The active rules, in the order of their addition. Every rule counts every matching request;
/// several rules can apply to one request.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Rules>);

#[derive(Debug, Default)]
struct Rules {
    next: u64,
    rules: Vec<(FaultId, FaultRule)>,
}

/// The faults of one watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchFaults {
    /// The number of events after which it ends, and the way in which it does.
    pub(crate) ending: Option<(usize, Ending)>,
    pub(crate) stall: Option<Duration>,
    pub(crate) expire: bool,
}

impl Faults {
    /// Adds a rule.
    pub(crate) fn add(&self, rule: FaultRule) -> FaultId {
        let mut rules = self.0.lock();
        rules.next += 1;
        let id = FaultId(rules.next);
        rules.rules.push((id, rule));
        id
    }

    /// Removes a rule. Returns true if it existed.
    pub(crate) fn remove(&self, id: FaultId) -> bool {
        let mut rules = self.0.lock();
        let before = rules.rules.len();
        rules.rules.retain(|(known, _)| *known != id);
        rules.rules.len() < before
    }

    /// Removes all rules.
    pub(crate) fn clear(&self) {
        self.0.lock().rules.clear();
    }

    /// Returns the faults that apply to a request that arrives at `now`. Call it once for each
    /// request.
    pub(crate) fn hit(&self, request: &RequestInfo, now: Duration) -> Vec<Fault> {
        let mut rules = self.0.lock();
        rules
            .rules
            .iter_mut()
            .filter_map(|(_, rule)| rule.hits(request, now).then(|| rule.fault.clone()))
            .collect()
    }
}

impl WatchFaults {
    /// Selects the faults that concern an open watch.
    pub(crate) fn of(hits: &[Fault]) -> Self {
        let mut faults = Self::default();
        for hit in hits {
            match hit {
                Fault::CutWatch { after } => faults.ending = Some((*after, Ending::Closed)),
                Fault::BreakWatch { after } => faults.ending = Some((*after, Ending::Broken)),
                Fault::SilenceWatch { after } => faults.ending = Some((*after, Ending::Silent)),
                Fault::StallWatch(stall) => faults.stall = Some(*stall),
                Fault::ExpireWatch => faults.expire = true,
                _ => {}
            }
        }
        faults
    }
}

/// Returns how many versions before the latest a read returns.
pub(crate) fn older_by(hits: &[Fault]) -> Option<u64> {
    hits.iter().find_map(|hit| match hit {
        Fault::ServeOlder { versions } => Some(*versions),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, uri: &str) -> RequestInfo {
        let (parts, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        RequestInfo::of(&parts)
    }

    #[test]
    fn a_rule_applies_after_and_times() {
        let faults = Faults::default();
        let fault = Fault::Refuse { status: 500, retry_after: None };
        let id = faults.add(FaultRule::on(fault, "list", "pods").after(1).times(2));
        let pods = request("GET", "/api/v1/pods");
        assert_eq!(faults.hit(&request("GET", "/api/v1/services"), Duration::ZERO), []);
        let hits: Vec<usize> = (0..5).map(|_| faults.hit(&pods, Duration::ZERO).len()).collect();
        assert_eq!(hits, [0, 1, 1, 0, 0]);
        assert!(faults.remove(id));
        assert!(!faults.remove(id));
    }

    #[test]
    fn an_outage_lasts_for_its_span_of_time() {
        let faults = Faults::default();
        let outage = Duration::from_secs(10)..Duration::from_secs(200);
        faults.add(FaultRule::on(Fault::LoseRequest, "list", "pods").during(outage).after(1));
        let pods = request("GET", "/api/v1/pods");
        let hits = |second| faults.hit(&pods, Duration::from_secs(second)).len();
        assert_eq!([0, 9, 10, 11, 199, 200].map(hits), [0, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn all_rules_that_match_apply() {
        let faults = Faults::default();
        faults.add(FaultRule::new(Fault::Delay(Duration::from_secs(1)), |_| true));
        faults.add(FaultRule::on(Fault::ServeOlder { versions: 3 }, "list", "pods"));
        let hits = faults.hit(&request("GET", "/api/v1/pods"), Duration::ZERO);
        assert_eq!(hits.len(), 2);
        assert_eq!(older_by(&hits), Some(3));
        faults.clear();
        assert!(faults.hit(&request("GET", "/api/v1/pods"), Duration::ZERO).is_empty());
    }

    #[test]
    fn watch_faults_are_combined() {
        let stall = Duration::from_secs(9);
        let faults = WatchFaults::of(&[Fault::BreakWatch { after: 2 }, Fault::StallWatch(stall)]);
        let expected = WatchFaults { ending: Some((2, Ending::Broken)), stall: Some(stall), expire: false };
        assert_eq!(faults, expected);
    }
}
