//! The requests of a controller, and faults for them.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule, LoggedRequest, RequestInfo};

use super::{Simulation, USER_AGENT};

impl<C> Simulation<C> {
    /// Returns the controller's requests other than lists, watches and events, as
    /// `VERB RESOURCE STATUS`. The log is empty afterwards.
    pub fn requests(&self) -> Vec<String> {
        self.timed_requests().into_iter().map(|(_, request)| request).collect()
    }

    /// Returns the [`requests`](Self::requests), each with the milliseconds since the server
    /// started.
    pub fn timed_requests(&self) -> Vec<(u128, String)> {
        self.take_log(|request| is_ours(request) && !matches!(request.verb, "list" | "watch"))
    }

    /// Returns the controller's writes other than events, as `VERB RESOURCE STATUS`. The log is
    /// empty afterwards.
    pub fn writes(&self) -> Vec<String> {
        self.timed_writes().into_iter().map(|(_, request)| request).collect()
    }

    /// Returns the [`writes`](Self::writes), each with the milliseconds since the server started.
    pub fn timed_writes(&self) -> Vec<(u128, String)> {
        self.take_log(|request| is_ours(request) && request.is_write())
    }

    fn take_log(&self, wanted: impl Fn(&RequestInfo) -> bool) -> Vec<(u128, String)> {
        let log = self.server.request_log();
        self.server.clear_request_log();
        let line = |it: &LoggedRequest| {
            (it.at.as_millis(), format!("{} {} {}", it.request.verb, it.request.plural(), it.status))
        };
        log.iter().filter(|it| wanted(&it.request)).map(line).collect()
    }

    /// Applies a fault to the controller's next requests with one verb, except those for events.
    pub fn fault(&self, fault: Fault, verb: &'static str, times: usize) {
        let matches = move |request: &RequestInfo| is_ours(request) && request.verb == verb;
        self.server.add_fault(FaultRule::new(fault, matches).times(times));
    }

    /// Applies a fault to the next lists and watches of one resource.
    pub fn fault_watch(&self, fault: Fault, plural: &'static str, times: usize) {
        let matches = move |it: &RequestInfo| it.plural() == plural && matches!(it.verb, "list" | "watch");
        self.server.add_fault(FaultRule::new(fault, matches).times(times));
    }

    /// Stalls the watch of one resource: it delivers nothing for `time`.
    pub async fn stall_watch(&self, plural: &'static str, time: Duration) {
        let server = &self.server;
        server.add_fault(FaultRule::on(Fault::StallWatch(time), "watch", plural).times(1));
        server.close_watches();
        self.pass(Duration::from_millis(50)).await;
    }
}

/// Returns true if the controller sent the request and it is not for an event.
fn is_ours(request: &RequestInfo) -> bool {
    request.user_agent == USER_AGENT && request.plural() != "events"
}
