//! The log of requests and responses, for assertions in tests.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;

use crate::request::RequestInfo;

/// One request and the status of its response.
#[derive(Clone, Debug)]
pub struct LoggedRequest {
    /// When the head of the response was ready, as the time since the server was built.
    pub at: Duration,
    /// The request.
    pub request: RequestInfo,
    /// HTTP status of the response; 0 if the connection broke before it.
    pub status: u16,
}

/// A bounded log of requests, and counts of writes that are not bounded by it.
#[derive(Debug)]
pub(crate) struct RequestLog {
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<LoggedRequest>,
    writes: BTreeMap<&'static str, usize>,
}

impl RequestLog {
    /// A log that keeps the latest `capacity` requests.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, state: Mutex::default() }
    }

    /// Adds a request.
    pub(crate) fn push(&self, entry: LoggedRequest) {
        let mut state = self.state.lock();
        if entry.request.is_write() && entry.request.resource.is_some_and(|r| r.is_stored()) {
            *state.writes.entry(entry.request.plural()).or_default() += 1;
        }
        if self.capacity == 0 {
            return;
        }
        if state.requests.len() == self.capacity {
            state.requests.pop_front();
        }
        state.requests.push_back(entry);
    }

    /// The requests, oldest first.
    pub(crate) fn all(&self) -> Vec<LoggedRequest> {
        self.state.lock().requests.iter().cloned().collect()
    }

    /// The number of writes by plural resource name, including failed ones.
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

    #[test]
    fn it_is_bounded_but_goes_on_counting() {
        let log = RequestLog::new(2);
        for (method, uri) in [
            ("POST", "/api/v1/namespaces/a/pods"),
            ("GET", "/api/v1/pods"),
            ("PUT", "/api/v1/namespaces/a/pods/b"),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ] {
            let (parts, ()) = http::Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
            log.push(LoggedRequest { at: Duration::ZERO, request: RequestInfo::of(&parts), status: 200 });
        }
        let verbs: Vec<_> = log.all().iter().map(|entry| entry.request.verb).collect();
        assert_eq!(verbs, ["update", "create"]);
        assert_eq!(log.writes().into_iter().collect::<Vec<_>>(), [("pods", 2)]);
        log.clear();
        assert!(log.all().is_empty() && log.writes().is_empty());
    }
}
