//! Authorizes one request, and answers it with a page.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, Uri, header};
use kube_endpoint_core_model::Timestamp;
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::authentication::{Authentication, Peer};
use crate::authorization::{Attributes, Authorization, Decision};
use crate::event_streams::EventStreams;
use crate::limits::Limits;
use crate::mounted::PageRequest;
use crate::pages::{Form, Known, Pages, StatusPage, negotiate};
use crate::path::{OpenPaths, decode};
use crate::respond::{self, Answer};

/// Reads the current time.
pub(crate) type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How many pages the server makes at the same time. A page of metrics takes a few milliseconds of
/// a processor.
const PAGES_AT_ONCE: usize = 2;

/// Answers requests.
pub(crate) struct Service {
    pub(crate) pages: Pages,
    pub(crate) open: OpenPaths,
    pub(crate) authentication: Authentication,
    pub(crate) authorization: Arc<Authorization>,
    pub(crate) clock: WallClock,
    pub(crate) started: Timestamp,
    making: Arc<Semaphore>,
    streams: EventStreams,
}

/// An answer. If its client has not authenticated, its connection closes after the answer.
pub(crate) struct Answered {
    pub(crate) answer: Answer,
    pub(crate) authenticated: bool,
}

impl Service {
    pub(crate) fn new(
        pages: Pages,
        open: OpenPaths,
        authentication: Authentication,
        authorization: Authorization,
        clock: WallClock,
        limits: &Limits,
    ) -> Self {
        let started = clock();
        let making = Arc::new(Semaphore::new(PAGES_AT_ONCE));
        let streams = EventStreams::new(limits);
        let authorization = Arc::new(authorization);
        Self { pages, open, authentication, authorization, clock, started, making, streams }
    }

    /// Answers a request with these parts. `has_body` is true if a body follows.
    pub(crate) async fn answer(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        has_body: bool,
        peer: &Peer,
    ) -> Answered {
        let refused = |answer| Answered { answer, authenticated: false };
        let verb = match *method {
            Method::GET => "get",
            Method::HEAD => "head",
            _ => return refused(respond::method_not_allowed()),
        };
        if has_body {
            return refused(respond::unwanted_body());
        }
        let Some(path) = decode(uri.path()) else { return refused(respond::invalid_path()) };
        let query = uri.query().unwrap_or_default();
        if self.open.contains(&path) {
            // The server does not even look at credentials here: the health of this process must
            // not depend on the API server.
            return refused(self.page(&path, query, headers, Access::nothing()).await);
        }
        let Ok(user) = self.authentication.user(peer, headers).await else {
            return refused(respond::unauthorized());
        };
        let authenticated = !user.is_anonymous();
        let mounted = self.pages.mounted_at(&path);
        let authorized = mounted.map_or(&*path, |mounted| mounted.authorized_path(&path));
        let forbidden = |reason: &str| respond::forbidden(&user.name, verb, authorized, reason);
        if !authenticated && !self.has_page(&path) {
            // So nobody can make this process ask the API server about any number of paths.
            return refused(forbidden(""));
        }
        let answer = match self.authorization.decide(&user, Attributes::Path { verb, path: authorized }).await
        {
            Ok(Decision::Allowed) => {
                let access = Access::of_user(user.clone(), Arc::clone(&self.authorization));
                self.page(&path, query, headers, access).await
            }
            Ok(Decision::Denied(reason)) => forbidden(&reason),
            Err(unanswered) => {
                respond::internal_error(&format!("cannot find out whether this is allowed: {unanswered}"))
            }
        };
        Answered { answer, authenticated }
    }

    /// Returns true if there is a page at the path.
    fn has_page(&self, path: &str) -> bool {
        Known::of(path).is_some() || self.pages.health.has_page(path) || self.pages.mounted_at(path).is_some()
    }

    async fn page(&self, path: &str, query: &str, headers: &HeaderMap, access: Access) -> Answer {
        if let Some(health) = self.pages.health.page(path, query) {
            return respond::text(health.status, health.text);
        }
        if let Some(mounted) = self.pages.mounted_at(path) {
            let reader = access.reader();
            let request = PageRequest { path: path.to_owned(), query: query.to_owned(), access };
            return self.streams.answer(mounted.answer(request).await, Some(reader));
        }
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        let pages = &self.pages;
        match Known::of(path) {
            Some(Known::Metrics) => self.metrics(pages.metrics.as_ref()).await,
            Some(Known::Slis) => self.metrics(pages.slis.as_ref()).await,
            Some(Known::Configz) => respond::json(&pages.configz),
            Some(Known::Flagz) => match negotiate(accept, "Flagz") {
                Some(Form::Text) => respond::text(StatusCode::OK, pages.flagz_text()),
                Some(Form::Json(version)) => respond::json(&pages.flagz_json(version)),
                None => respond::not_acceptable(),
            },
            Some(Known::Statusz) => {
                let Some(form) = negotiate(accept, "Statusz") else { return respond::not_acceptable() };
                let status = match &pages.statusz {
                    Some(page) => self.make(page).await,
                    None => Some(StatusPage::default()),
                };
                let Some(status) = status else { return respond::internal_error("the page was not made") };
                let (started, now) = (self.started, (self.clock)());
                match form {
                    Form::Text => respond::text(StatusCode::OK, pages.statusz_text(started, now, &status)),
                    Form::Json(version) => respond::json(&pages.statusz_json(version, started, now, &status)),
                }
            }
            None => respond::not_found(),
        }
    }

    async fn metrics(&self, page: Option<&crate::Page<String>>) -> Answer {
        let Some(page) = page else { return respond::not_found() };
        match self.make(page).await {
            Some(text) => respond::metrics(text),
            None => respond::internal_error("the page was not made"),
        }
    }

    /// Makes a page on a thread for blocking work, so that the threads of the runtime go on with
    /// the controllers' tasks. Returns `None` if that panicked, or the runtime is shutting down.
    #[expect(
        clippy::disallowed_methods,
        reason = "a page is made for a client on a socket, which no run repeats"
    )]
    async fn make<T: Send + 'static>(&self, page: &crate::Page<T>) -> Option<T> {
        let (page, permit) = (Arc::clone(page), Arc::clone(&self.making).acquire_owned().await.ok()?);
        let made = tokio::task::spawn_blocking(move || {
            let made = page();
            drop(permit);
            made
        });
        made.await.ok()
    }
}
