//! The server as a tower service, which injects faults and writes the request log.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube_endpoint_apiserver_printers::represent::{self, Encoding};
use kube_endpoint_apiserver_rules::status::{Details, Status};
use tower::Service;

use crate::answer::{self, Answer};
use crate::body::Body;
use crate::connection::Connection;
use crate::faults::Fault;
use crate::form;
use crate::guard;
use crate::query::Query;
use crate::request::RequestInfo;
use crate::request_log::LoggedRequest;
use crate::router;
use crate::server::Inner;
use crate::watch_cache::WatchCaches;

/// The maximum size of a request's body in bytes, as upstream's.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// The time limit for a request's body. Upstream has this limit for a whole request.
const BODY_LIMIT: Duration = Duration::from_secs(60);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The connection broke before the response.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A fault broke it before the server handled the request.
    #[error("connection closed before the request was handled")]
    RequestLost,
    /// A fault broke it after the server had handled the request.
    #[error("connection closed before message completed")]
    AnswerLost,
    /// Reading the request's body failed.
    #[error("reading the request's body: {0}")]
    Body(BoxError),
}

impl From<Infallible> for ServiceError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The server as `tower::Service<http::Request<B>>`, for any body. Clones serve the same server.
#[derive(Clone)]
pub struct ApiService {
    inner: Arc<Inner>,
    /// Set for requests of a listener.
    connection: Option<Connection>,
    /// The number of the server, if it is one of several.
    replica: usize,
    caches: WatchCaches,
}

impl std::fmt::Debug for ApiService {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ApiService").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl ApiService {
    pub(crate) fn new(inner: Arc<Inner>, connection: Option<Connection>) -> Self {
        Self { inner, connection, replica: 0, caches: WatchCaches::default() }
    }

    pub(crate) fn of_replica(inner: Arc<Inner>, replica: usize, caches: WatchCaches) -> Self {
        Self { inner, connection: None, replica, caches }
    }
}

impl<B> Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = ServiceError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, ServiceError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { service.serve(request).await })
    }
}

/// The faults injected around the handling of a request.
#[derive(Default)]
struct InjectedFaults {
    refusal: Option<Status>,
    delay: Duration,
    answer_delay: Duration,
    lose_request: bool,
    lose_answer: bool,
    /// `Some` if the response never arrives: true if the server handles the request nevertheless.
    never_answered: Option<bool>,
}

impl InjectedFaults {
    fn of(hits: &[Fault], request: &RequestInfo) -> Self {
        let mut all = Self::default();
        for hit in hits {
            match hit {
                Fault::Refuse { status, retry_after } => {
                    all.refusal = Some(refusal(*status, *retry_after, request));
                }
                Fault::RefuseWith(status) => all.refusal = Some(status.clone()),
                Fault::Delay(delay) => all.delay += *delay,
                Fault::DelayAnswer(delay) => all.answer_delay += *delay,
                Fault::LoseRequest => all.lose_request = true,
                Fault::ApplyAndLoseAnswer => all.lose_answer = true,
                Fault::NeverAnswer { applied } => all.never_answered = Some(*applied),
                _ => {}
            }
        }
        all
    }
}

/// Returns an injected error in the real server's words.
fn refusal(code: u16, retry_after: Option<u32>, request: &RequestInfo) -> Status {
    if let (404, Some(resource), false) = (code, request.resource, request.name.is_empty()) {
        return Status::not_found(resource, &request.name);
    }
    let (reason, message) = match code {
        400 => ("BadRequest", "the request was refused by an injected fault"),
        401 => ("Unauthorized", "Unauthorized"),
        403 => ("Forbidden", "the request was refused by an injected fault"),
        404 => ("NotFound", "the server could not find the requested resource"),
        409 => ("Conflict", "the request was refused by an injected fault"),
        410 => ("Expired", "the request was refused by an injected fault"),
        422 => ("Invalid", "the request was refused by an injected fault"),
        429 => ("TooManyRequests", "too many requests, please try again later"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "the request did not complete within the allotted timeout"),
        _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
    };
    let mut status = Status::new(code, reason, message);
    if let Some(retry_after_seconds) = retry_after {
        status.details = Some(Box::new(Details { retry_after_seconds, ..Details::default() }));
    }
    status
}

impl ApiService {
    async fn serve<B>(self, request: Request<B>) -> Result<Answer, ServiceError>
    where
        B: http_body::Body,
        B::Error: Into<BoxError>,
    {
        let received = self.inner.clock.elapsed();
        let (parts, body) = request.into_parts();
        let mut info = RequestInfo::of(&parts);
        info.replica = self.replica;
        let credential = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let Some(user) = self.inner.reviews.user_of_header(credential) {
            info.user.clone_from(&user.name);
        }
        let hits = self.inner.faults.hit(&info, received);
        let injected = InjectedFaults::of(&hits, &info);
        if !injected.delay.is_zero() {
            tokio::time::sleep(injected.delay).await;
        }
        if injected.lose_request {
            self.log(received, info, 0);
            return Err(ServiceError::RequestLost);
        }
        if injected.never_answered == Some(false) {
            self.log(received, info, 0);
            return self.never_answer().await;
        }
        let answer = match injected.refusal {
            Some(status) => answer::error(encoding_of_errors(&parts), &status),
            None => self.answer(&parts, body, &info, hits).await?,
        };
        self.log(received, info, answer.status().as_u16());
        if !injected.answer_delay.is_zero() {
            tokio::time::sleep(injected.answer_delay).await;
        }
        if injected.lose_answer {
            return Err(ServiceError::AnswerLost);
        }
        if injected.never_answered == Some(true) {
            return self.never_answer().await;
        }
        Ok(answer)
    }

    /// Waits until the listener shuts down, if the request came from one; otherwise for ever.
    async fn never_answer(&self) -> Result<Answer, ServiceError> {
        match &self.connection {
            Some(connection) => connection.closing.clone().wait().await,
            None => std::future::pending().await,
        }
        Err(ServiceError::AnswerLost)
    }

    fn log(&self, received: Duration, request: RequestInfo, status: u16) {
        self.inner.log.push(LoggedRequest { received, at: self.inner.clock.elapsed(), request, status });
    }

    async fn answer<B>(
        &self,
        parts: &Parts,
        body: B,
        info: &RequestInfo,
        faults: Vec<Fault>,
    ) -> Result<Answer, ServiceError>
    where
        B: http_body::Body,
        B::Error: Into<BoxError>,
    {
        if let Some(connection) = &self.connection
            && let Err(status) = self.inner.check_head(connection, parts)
        {
            return Ok(answer::error(encoding_of_errors(parts), &status));
        }
        let Ok(body) = tokio::time::timeout(BODY_LIMIT, collect(body)).await else {
            return Ok(answer::error(encoding_of_errors(parts), &refusal(504, None, info)));
        };
        let body = match body? {
            Some(body) => body,
            None => {
                let message = format!("Request entity too large: limit is {LARGEST_BODY}");
                let status = Status::new(413, "RequestEntityTooLarge", message);
                return Ok(answer::error(encoding_of_errors(parts), &status));
            }
        };
        if self.connection.is_some()
            && !body.is_empty()
            && let Err(status) = guard::check_content_type(&parts.headers)
        {
            return Ok(answer::error(encoding_of_errors(parts), &status));
        }
        let content_type =
            parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let incoming = router::Incoming {
            info,
            headers: &parts.headers,
            query: Query::parse(&info.query),
            content_type: content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase(),
            body,
            connection: self.connection.as_ref(),
            caches: &self.caches,
            faults,
        };
        Ok(match router::route(&self.inner, incoming).await {
            Ok(answer) => answer,
            Err(status) => answer::error(encoding_of_errors(parts), &status),
        })
    }
}

fn encoding_of_errors(parts: &Parts) -> Encoding {
    represent::negotiate_error(&form::accepted(&parts.headers))
}

/// Returns the whole body, or `None` if it is larger than the limit.
async fn collect<B>(body: B) -> Result<Option<Bytes>, ServiceError>
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    match Limited::new(body, LARGEST_BODY).collect().await {
        Ok(collected) => Ok(Some(collected.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Ok(None),
        Err(error) => Err(ServiceError::Body(error)),
    }
}
