//! Decides which session a request uses, and when to renew sessions.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::error::ClientError;
use crate::sources::{Found, Session, Sources};

type Outcome = Result<Arc<Session>, Arc<ClientError>>;
/// A renewal under way, which any number of requests may wait for.
type Renewal = Shared<BoxFuture<'static, Outcome>>;

/// The current session and its renewal.
///
/// There is no background task: credentials matter when the client sends a request, so the first
/// request after [`Timeouts::reload`](crate::timeouts::Timeouts::reload) starts a renewal. At most
/// one runs at a time, in a task of its own, so that a caller that gives up a request does not kill
/// a plugin which others wait for.
pub(crate) struct Sessions {
    sources: Sources,
    state: Mutex<State>,
}

struct State {
    session: Arc<Session>,
    /// When the last renewal ended.
    renewed: Instant,
    /// The first request after this moment starts a renewal.
    due: Instant,
    /// True if the server has answered 401 to a request of this session.
    rejected: bool,
    running: Option<Renewal>,
    /// The reason why the last renewal failed, if it did.
    failure: Option<Arc<ClientError>>,
}

impl Sessions {
    /// Reads all sources, and runs the plugin if there is one.
    ///
    /// # Errors
    /// If anything is missing or wrong.
    pub(crate) async fn new(sources: Sources) -> Result<Arc<Self>, ClientError> {
        let session = sources.load(None, true).await?;
        let now = Instant::now();
        let due = due(&session, &sources, now);
        let state = State { session, renewed: now, due, rejected: false, running: None, failure: None };
        Ok(Arc::new(Self { sources, state: Mutex::new(state) }))
    }

    /// Returns the session for a request that is about to be sent.
    ///
    /// While the current session is usable, requests do not wait long: the request that starts a
    /// renewal waits for [`Timeouts::renewal_wait`](crate::timeouts::Timeouts::renewal_wait), the
    /// others do not wait. A session that has expired or that the server has rejected is not
    /// usable, so requests wait for its renewal.
    ///
    /// # Errors
    /// If the session has expired and the last renewal failed.
    pub(crate) async fn current(self: &Arc<Self>) -> Outcome {
        let session = self.usable().await?;
        Ok(session)
    }

    async fn usable(self: &Arc<Self>) -> Outcome {
        let (session, usable, renewal, started) = {
            let mut state = self.state.lock();
            let now = Instant::now();
            let expired = state.session.validity().is_some_and(|validity| validity.end <= now);
            let started = state.running.is_none() && state.due <= now;
            if started {
                state.running = Some(self.start(&state, now));
            }
            let Some(renewal) = state.running.clone() else {
                return match &state.failure {
                    Some(failure) if expired => Err(Arc::clone(failure)),
                    // Also returns a session that the server has rejected, or that came expired
                    // from its plugin, until the next try is due: the server's answer then says
                    // what is wrong.
                    _ => Ok(Arc::clone(&state.session)),
                };
            };
            (Arc::clone(&state.session), !expired && !state.rejected, renewal, started)
        };
        match (usable, started) {
            (true, true) => timeout(self.sources.limits().renewal_wait, renewal).await.unwrap_or(Ok(session)),
            (true, false) => Ok(session),
            (false, _) => renewal.await,
        }
    }

    /// Returns the client certificate and the CAs of the current session.
    pub(crate) fn certificates(&self) -> [Option<Found>; 2] {
        let session = Arc::clone(&self.state.lock().session);
        [self.sources.client_certificate(&session), self.sources.ca(&session)]
    }

    /// Call this when the server has answered 401 to a request of `session`. Before the next
    /// request, the client reads everything again and runs the plugin, but not within
    /// [`Timeouts::retry`](crate::timeouts::Timeouts::retry) of the last renewal. Nothing happens
    /// if another session has replaced this one, or a renewal is under way.
    pub(crate) fn rejected(&self, session: &Arc<Session>) {
        let mut state = self.state.lock();
        if Arc::ptr_eq(&state.session, session) && state.running.is_none() {
            state.rejected = true;
            state.due = self.soon(&state);
        }
    }

    /// Call this when the client could not connect. The server's certificate may have a new CA, so
    /// the client reads the files again.
    pub(crate) fn connection_failed(&self) {
        let mut state = self.state.lock();
        state.due = state.due.min(self.soon(&state));
    }

    /// Returns the earliest time for another renewal, so that a server that always refuses does not
    /// cause one per request.
    fn soon(&self, state: &State) -> Instant {
        state.renewed + self.sources.limits().retry
    }

    fn start(self: &Arc<Self>, state: &State, now: Instant) -> Renewal {
        let (sessions, previous) = (Arc::clone(self), Arc::clone(&state.session));
        let ask_plugin = state.rejected || previous.validity().is_some_and(|validity| validity.renew <= now);
        let task = tokio::spawn(async move {
            let loaded = sessions.sources.load(Some(&previous), ask_plugin).await;
            sessions.finish(loaded, previous)
        });
        async move { task.await.unwrap_or_else(|_| Err(Arc::new(ClientError::Interrupted))) }.boxed().shared()
    }

    fn finish(&self, loaded: Result<Arc<Session>, ClientError>, previous: Arc<Session>) -> Outcome {
        let mut state = self.state.lock();
        let now = Instant::now();
        (state.renewed, state.rejected, state.running) = (now, false, None);
        match loaded {
            Ok(session) => {
                state.failure = None;
                state.due = due(&session, &self.sources, now);
                state.session = Arc::clone(&session);
                Ok(session)
            }
            Err(error) => {
                tracing::warn!(%error, "cannot renew the credentials for the API server; trying again later");
                let error = Arc::new(error);
                state.failure = Some(Arc::clone(&error));
                state.due = now + self.sources.limits().retry;
                let expired = previous.validity().is_some_and(|validity| validity.end <= now);
                if expired { Err(error) } else { Ok(previous) }
            }
        }
    }
}

/// Returns when to renew a session that was made `now`.
fn due(session: &Session, sources: &Sources, now: Instant) -> Instant {
    let limits = sources.limits();
    let reload = now + limits.reload;
    match session.validity() {
        // A plugin whose credentials last no longer than this does not run for every request.
        Some(validity) => reload.min(validity.renew).max(now + limits.retry),
        None => reload,
    }
}
