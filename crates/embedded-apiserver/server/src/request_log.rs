//! Logs requests and responses, for assertions in tests.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;

use crate::request::RequestInfo;

/// The maximum number of bytes of each text of a logged request.
const LONGEST_TEXT: usize = 4096;

/// One request and the status of its response.
#[derive(Clone, Debug)]
pub struct LoggedRequest {
    /// When the request arrived, as the time since the server was built.
    pub received: Duration,
    /// When the head of the response was ready, as the time since the server was built.
    pub at: Duration,
    pub request: RequestInfo,
    /// HTTP status of the response; 0 if the connection broke before it.
    pub status: u16,
}

impl LoggedRequest {
    /// Returns the memory that it takes.
    fn bytes(&self) -> usize {
        let texts = self.request.texts();
        size_of::<Self>() + texts.iter().map(|text| text.len()).sum::<usize>() + self.request.user.len()
    }
}

/// A function that the log calls with each new entry.
pub(crate) type Observer = Box<dyn Fn(&LoggedRequest) + Send + Sync>;

/// A bounded log of requests, and counts of writes without that bound.
pub(crate) struct RequestLog {
    max_bytes: usize,
    observer: Option<Observer>,
    state: Mutex<State>,
}

impl std::fmt::Debug for RequestLog {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RequestLog").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<LoggedRequest>,
    bytes: usize,
    writes: BTreeMap<&'static str, usize>,
}

impl RequestLog {
    /// Returns a log that keeps the latest requests, in at most `max_bytes` of memory.
    pub(crate) fn new(max_bytes: usize, observer: Option<Observer>) -> Self {
        Self { max_bytes, observer, state: Mutex::default() }
    }

    /// Adds a request, and cuts its long texts.
    pub(crate) fn push(&self, mut entry: LoggedRequest) {
        entry.request.cut_texts(LONGEST_TEXT);
        let mut state = self.state.lock();
        // The call is under the lock, so that the observer sees the order of the log.
        if let Some(observer) = &self.observer {
            observer(&entry);
        }
        if entry.request.is_write() && entry.request.resource.is_some_and(|r| r.is_stored()) {
            *state.writes.entry(entry.request.plural()).or_default() += 1;
        }
        state.bytes += entry.bytes();
        state.requests.push_back(entry);
        while state.bytes > self.max_bytes
            && let Some(dropped) = state.requests.pop_front()
        {
            state.bytes -= dropped.bytes();
        }
    }

    /// Returns the requests, oldest first.
    pub(crate) fn all(&self) -> Vec<LoggedRequest> {
        self.state.lock().requests.iter().cloned().collect()
    }

    /// Returns the number of writes by plural resource name, including failed ones.
    pub(crate) fn writes(&self) -> BTreeMap<&'static str, usize> {
        self.state.lock().writes.clone()
    }

    /// Clears the log and the counts.
    pub(crate) fn clear(&self) {
        *self.state.lock() = State::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(method: &str, uri: &str) -> LoggedRequest {
        let (parts, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        LoggedRequest {
            received: Duration::ZERO,
            at: Duration::ZERO,
            request: RequestInfo::of(&parts),
            status: 200,
        }
    }

    #[test]
    fn the_log_is_bounded_and_keeps_counting() {
        let log = RequestLog::new(2 * size_of::<LoggedRequest>() + 120, None);
        for (method, uri) in [
            ("POST", "/api/v1/namespaces/a/pods"),
            ("GET", "/api/v1/pods"),
            ("PUT", "/api/v1/namespaces/a/pods/b"),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ] {
            log.push(entry(method, uri));
        }
        let verbs: Vec<_> = log.all().iter().map(|entry| entry.request.verb).collect();
        assert_eq!(verbs, ["update", "create"]);
        assert_eq!(log.writes().into_iter().collect::<Vec<_>>(), [("pods", 2)]);
        log.clear();
        assert!(log.all().is_empty() && log.writes().is_empty());
    }

    #[test]
    fn an_observer_sees_each_request_in_order() {
        let (sender, seen) = std::sync::mpsc::channel();
        let observer = move |entry: &LoggedRequest| sender.send(entry.request.verb).unwrap();
        let log = RequestLog::new(0, Some(Box::new(observer)));
        log.push(entry("POST", "/api/v1/namespaces/a/pods"));
        log.push(entry("DELETE", "/api/v1/namespaces/a/pods/b"));
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["create", "delete"]);
        assert!(log.all().is_empty());
    }

    #[test]
    fn long_uris_do_not_grow_it() {
        let log = RequestLog::new(100_000, None);
        let long = "é".repeat(9_000);
        for _ in 0..100 {
            log.push(entry("GET", &format!("/api/v1/namespaces/a/pods/{long}?labelSelector={long}")));
        }
        let all = log.all();
        assert!(all.iter().map(LoggedRequest::bytes).sum::<usize>() <= 100_000);
        assert!(all.len() > 5, "{}", all.len());
        assert!(all[0].request.texts().iter().all(|text| text.len() <= LONGEST_TEXT));
        assert!(all[0].request.path.starts_with("/api/v1/namespaces/a/pods/é"));
        let none = RequestLog::new(0, None);
        none.push(entry("GET", "/api/v1/pods"));
        assert!(none.all().is_empty());
    }
}
