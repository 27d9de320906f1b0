//! Counts the requests of managers, and keeps the latest writes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use kube_endpoint_embedded_apiserver::LoggedRequest;

use super::rates::Rates;

/// The number of kept writes.
const MOST_WRITES: usize = 1000;

/// Requests of managers, without those for Leases.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) rates: Rates,
    /// The number of requests in the current hour.
    hour: usize,
    /// The number of requests since the last call of [`Self::take_span`].
    span: usize,
    /// The writes of outputs in the current hour that a server has accepted.
    accepted: usize,
    /// The processes that have lost the Lease in the current hour.
    pub(super) lost: usize,
    /// The latest writes, for the checks at the end.
    last_writes: Vec<String>,
}

impl Traffic {
    pub(super) fn add(&mut self, logged: &LoggedRequest) {
        let request = &logged.request;
        self.hour += 1;
        self.span += 1;
        if request.is_write() {
            let is_output = matches!(request.plural(), "endpoints" | "endpointslices");
            self.accepted += usize::from(is_output && (200..300).contains(&logged.status));
            if self.last_writes.len() > MOST_WRITES {
                self.last_writes.clear();
            }
            self.last_writes.push(format!(
                "{} {} {} -> {}",
                request.user_agent, request.verb, request.path, logged.status
            ));
        }
    }

    /// Returns the requests of the hour that ends now.
    pub(super) fn take_hour(&mut self) -> usize {
        std::mem::take(&mut self.hour)
    }

    /// Returns the accepted writes of the hour that ends now, and the processes that have lost the
    /// Lease.
    pub(super) fn take_accepted_and_lost(&mut self) -> (usize, usize) {
        (std::mem::take(&mut self.accepted), std::mem::take(&mut self.lost))
    }

    /// Returns the requests since the last call.
    pub(super) fn take_span(&mut self) -> usize {
        std::mem::take(&mut self.span)
    }

    /// Returns the writes since the last call.
    pub(super) fn take_writes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.last_writes)
    }
}

/// The Service that a request asks about: it reads one object.
pub(super) fn asked_about(logged: &LoggedRequest) -> Option<String> {
    let request = &logged.request;
    let service = match (request.verb, request.plural()) {
        ("get", "endpoints" | "services") => request.name.clone(),
        ("get", "endpointslices") => service_in(&request.name).to_owned(),
        _ => return None,
    };
    Some(format!("{}/{service}", request.namespace))
}

/// Returns the Service of an object: the name of a slice begins with that of its Service, and
/// Endpoints have the same name. It is empty if a request, as that of a create, names no object.
pub(super) fn service_in(name: &str) -> &str {
    name.split('-').next().unwrap_or_default()
}

/// The span of a count of questions about one Service.
const SPAN: Duration = Duration::from_secs(60);
/// The number of questions about a Service in that span that need no cause.
const MOST_QUESTIONS: usize = 6;
/// The number of questions that a change of the Service, or of an output by another client, may
/// cause.
const QUESTIONS_OF_A_CHANGE: usize = 4;

/// Questions about one Service. Pods are no reason to ask: the caches have everything that a sync
/// needs.
#[derive(Debug, Default)]
struct Asked {
    began: Duration,
    number: usize,
    /// The times of causes, and the number of questions that each may cause. Causes older than two
    /// spans at the begin of a span do not count.
    causes: VecDeque<(Duration, usize)>,
}

impl Asked {
    fn forget_before(&mut self, time: Duration) {
        while self.causes.front().is_some_and(|(happened, _)| *happened < time) {
            self.causes.pop_front();
        }
    }
}

/// Counts questions about the outputs of Services.
#[derive(Debug, Default)]
pub(super) struct Questions(BTreeMap<String, Asked>);

impl Questions {
    /// Notes a change of a Service, or of an output of it by another client.
    pub(super) fn change(&mut self, at: Duration, service: &str) {
        self.cause(at, service, QUESTIONS_OF_A_CHANGE);
    }

    /// Notes a write that got 404: the controller checks that.
    pub(super) fn not_found(&mut self, at: Duration, service: &str) {
        self.cause(at, service, 1);
    }

    fn cause(&mut self, at: Duration, service: &str, questions: usize) {
        let asked = self.0.entry(service.to_owned()).or_default();
        asked.causes.push_back((at, questions));
        asked.forget_before(at.saturating_sub(SPAN * 3));
    }

    /// Counts a question. The error has the number of questions in the span, if there are too many.
    pub(super) fn ask(&mut self, at: Duration, service: &str) -> Result<(), String> {
        let asked = self.0.entry(service.to_owned()).or_default();
        if at >= asked.began + SPAN {
            (asked.began, asked.number) = (at, 0);
            asked.forget_before(at.saturating_sub(SPAN * 2));
        }
        asked.number += 1;
        let caused: usize = asked.causes.iter().map(|(_, questions)| questions).sum();
        let limit = MOST_QUESTIONS + caused;
        if asked.number <= limit {
            return Ok(());
        }
        Err(format!("{} questions in {SPAN:?}, more than {limit}: {caused} had a cause", asked.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of allowed questions in a row, the first one at `from` milliseconds.
    fn allowed(questions: &mut Questions, from: u64) -> usize {
        let ask = |at: u64| questions.ask(Duration::from_millis(at), "n/s");
        (from..from + 100).map(ask).take_while(Result::is_ok).count()
    }

    #[test]
    fn questions_about_a_service_are_bounded_by_what_causes_them() {
        let mut questions = Questions::default();
        assert_eq!(allowed(&mut questions, 0), 6);
        assert_eq!(allowed(&mut questions, 60_000), 6);
        questions.change(Duration::from_secs(70), "n/s");
        assert_eq!(allowed(&mut questions, 120_000), 10, "the change came in the span before");
        assert_eq!(allowed(&mut questions, 200_000), 6);
        for _ in 0..3 {
            questions.not_found(Duration::from_secs(250), "n/s");
        }
        assert_eq!(allowed(&mut questions, 300_000), 9);
        questions.change(Duration::from_secs(7200), "n/s");
        assert_eq!(allowed(&mut questions, 7_200_000), 10, "nothing was asked for hours before the change");
    }
}
