//! The service that the controller under test calls: it adds a user agent and delays responses on
//! request.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, header};
use kube_endpoint_embedded_apiserver::{ApiService, Body, EmbeddedApiServer, ServiceError};
use tower::Service;

use super::USER_AGENT;

/// The embedded API server as a tower service, for the controller of a
/// [`Simulation`](super::Simulation).
///
/// Requests without a user agent get [`USER_AGENT`].
#[derive(Clone)]
pub struct ControllerService {
    inner: ApiService,
    lateness: Lateness,
}

/// The delay between a write and its response.
#[derive(Clone, Default)]
pub(super) struct Lateness(Arc<AtomicU64>);

impl Lateness {
    pub(super) fn set(&self, by: Duration) {
        self.0.store(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl ControllerService {
    pub(super) fn new(server: &EmbeddedApiServer, lateness: Lateness) -> Self {
        Self { inner: server.service(), lateness }
    }
}

impl<B> Service<Request<B>> for ControllerService
where
    ApiService: Service<Request<B>, Response = Response<Body>, Error = ServiceError>,
    <ApiService as Service<Request<B>>>::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = ServiceError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, ServiceError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let agent = HeaderValue::from_static(USER_AGENT);
        request.headers_mut().entry(header::USER_AGENT).or_insert(agent);
        let is_write = request.method() != Method::GET;
        let lateness = self.lateness.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let late = lateness.get();
            if is_write && !late.is_zero() {
                tokio::time::sleep(late).await;
            }
            answer
        })
    }
}

impl fmt::Debug for ControllerService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerService").field("late", &self.lateness.get()).finish_non_exhaustive()
    }
}
