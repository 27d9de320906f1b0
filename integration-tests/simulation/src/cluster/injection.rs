//! Carries out the fault of a single request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use http::header::{HeaderValue, USER_AGENT};
use kube::client::Body;
use kube_endpoint_embedded_apiserver::{Fault as ServerFault, FaultRule, RequestInfo, ServiceError};
use tokio::time::Instant;
use tower::ServiceExt;

use super::connection::{Answer, Connection};
use super::request_faults::Due;
use crate::history::{Fault, Kind, RequestFault};
use crate::watcher::SharedWatcher;

/// How many versions older lists go back.
const OLDER_BY: u32 = 10;
/// The time within which a process whose watches have expired lists everything.
const LISTS: Duration = Duration::from_secs(60);
/// The end of the user agent of a request that the server refuses instead of another one.
const REFUSED: &str = " refused";

/// A fault that the watcher knows. It ends when this is dropped, as the sender of a request may
/// give up.
struct Known {
    watcher: SharedWatcher,
    fault: Fault,
    hits: Arc<AtomicUsize>,
    began: Instant,
}

impl Known {
    fn new(watcher: SharedWatcher, fault: Fault, hits: usize) -> Self {
        watcher.lock().fault_begins(&fault);
        Self { watcher, fault, hits: Arc::new(hits.into()), began: Instant::now() }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let hits = self.hits.load(Ordering::Relaxed);
        let mut watcher = self.watcher.lock();
        watcher.fault_ends(&self.fault, hits, self.began.elapsed());
        if hits > 0 {
            watcher.fault_had_effect();
        }
    }
}

impl Connection {
    /// Sends a request at which a fault is due.
    pub(super) async fn inject(self, due: Due, request: Request<Body>) -> Answer {
        self.watcher.lock().request_fault(&due.text());
        match due.fault {
            RequestFault::Killed => {
                if due.handled {
                    let _ = self.clone().pass_on(request).await;
                }
                self.watcher.lock().hinder();
                self.watcher.lock().fault_had_effect();
                self.link.kill();
                std::future::pending().await
            }
            RequestFault::Unanswered => self.unanswered(&due, request).await,
            RequestFault::Conflict | RequestFault::TooManyRequests | RequestFault::InternalError => {
                self.refused(&due, request).await
            }
            RequestFault::OlderLists | RequestFault::WatchesBreak if due.handled => {
                let answer = self.clone().pass_on(request).await;
                self.disturb_watches(due.fault);
                answer
            }
            RequestFault::OlderLists | RequestFault::WatchesBreak => {
                self.disturb_watches(due.fault);
                self.pass_on(request).await
            }
        }
    }

    async fn unanswered(self, due: &Due, request: Request<Body>) -> Answer {
        let (verb, kind, by) = (Some(due.class.verb), Some(due.class.kind), Some(self.link.manager));
        let fault = match due.handled {
            true => Fault::AnswersLost { verb, kind, by },
            false => Fault::RequestsLost { verb, kind, by },
        };
        let _known = Known::new(self.watcher.clone(), fault, 1);
        let error = if due.handled {
            drop(self.clone().pass_on(request).await);
            ServiceError::AnswerLost
        } else {
            ServiceError::RequestLost
        };
        self.link.next_server(self.servers.count, true);
        Err(error)
    }

    /// Answers with a refusal. If the server is to handle the request first, it gets another one
    /// that it refuses.
    async fn refused(self, due: &Due, request: Request<Body>) -> Answer {
        let status = due.fault.status().unwrap_or_default();
        // A server names a pause with this status.
        let retry_after = (status == 429).then_some(1);
        let (verb, kind, by) = (Some(due.class.verb), Some(due.class.kind), Some(self.link.manager));
        let fault = Fault::Refused { verb, kind, by, status, retry_after, server: None };
        let _known = Known::new(self.watcher.clone(), fault, 1);
        if due.class.kind == Kind::Events {
            self.watcher.lock().event_is_refused(&due.class.object);
        }
        let mut refused = Request::new(Body::empty());
        *refused.method_mut() = request.method().clone();
        *refused.uri_mut() = request.uri().clone();
        *refused.headers_mut() = request.headers().clone();
        let agent = refused.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok());
        let agent = HeaderValue::from_str(&format!("{}{REFUSED}", agent.unwrap_or_default()));
        if let Ok(agent) = agent {
            refused.headers_mut().insert(USER_AGENT, agent);
        }
        if due.handled {
            drop(self.clone().pass_on(request).await);
        }
        let is_it = |request: &RequestInfo| request.user_agent.ends_with(REFUSED);
        let rule = self.server.add_fault(FaultRule::new(ServerFault::Refuse { status, retry_after }, is_it));
        let answer = self.server.service().oneshot(refused).await;
        self.server.remove_fault(rule);
        answer
    }

    /// Ends all watches of the process. With [`RequestFault::OlderLists`], it cannot resume them,
    /// and the next list of each kind shows an older state.
    fn disturb_watches(&self, fault: RequestFault) {
        let agent = format!("{} ", self.link.name);
        let is_own = move |request: &RequestInfo| request.user_agent.starts_with(&agent);
        let by = Some(self.link.manager);
        if fault == RequestFault::WatchesBreak {
            let broken = self.server.break_watches(&is_own);
            drop(Known::new(self.watcher.clone(), Fault::WatchesBreak { kind: None, by, after: 0 }, broken));
            return;
        }
        let known = Known::new(self.watcher.clone(), Fault::OlderLists { by, versions: OLDER_BY }, 0);
        let mut rules = Vec::new();
        for kind in Kind::ALL {
            let is_of =
                |request: &RequestInfo, verb: &str| request.verb == verb && request.plural() == kind.word();
            let is_streamed = |request: &RequestInfo| request.parameter("sendInitialEvents").is_some();
            let mut add = |fault, is_it: Box<dyn Fn(&RequestInfo) -> bool + Send + Sync>| {
                let is_own = is_own.clone();
                let rule = FaultRule::new(fault, move |request| is_own(request) && is_it(request));
                rules.push(self.server.add_fault(rule.times(1)));
            };
            add(
                ServerFault::ExpireWatch,
                Box::new(move |request| is_of(request, "watch") && !is_streamed(request)),
            );
            add(
                ServerFault::Refuse { status: 400, retry_after: None },
                Box::new(move |request| is_of(request, "watch") && is_streamed(request)),
            );
            let hits = Arc::clone(&known.hits);
            add(
                ServerFault::ServeOlder { versions: OLDER_BY.into() },
                Box::new(move |request| {
                    // Not the question for the server's version.
                    let is_it = is_of(request, "list") && request.parameter("limit").as_deref() != Some("1");
                    hits.fetch_add(usize::from(is_it), Ordering::Relaxed);
                    is_it
                }),
            );
        }
        self.server.break_watches(&is_own);
        let server = self.server.clone();
        tokio::spawn(async move {
            tokio::time::sleep(LISTS).await;
            for rule in rules {
                server.remove_fault(rule);
            }
            drop(known);
        });
    }
}
