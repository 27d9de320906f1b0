//! The service that sends requests: it adds the current token and uses connections with the current
//! certificates.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use kube::client::Body;
use tokio::time::{Instant, timeout};
use tower::{BoxError, Service};

use crate::error::{ConnectError, NoAnswer};
use crate::sessions::Sessions;

/// Sends each request with the session that is current at that moment, once.
///
/// After a rotation, new requests use new connections, with the new certificate. Requests under
/// way, watches among them, stay on the old connections until they end; client-go closes those and
/// so cuts its watches off.
#[derive(Clone)]
pub(crate) struct Transport {
    sessions: Arc<Sessions>,
    /// The URL of the server without a path, for errors.
    server: Arc<str>,
    /// The time within which an answer has to begin.
    limit: Option<Duration>,
}

impl Transport {
    pub(crate) fn new(sessions: Arc<Sessions>, server: &Uri, limit: Option<Duration>) -> Self {
        let scheme = server.scheme_str().unwrap_or("http");
        let server = format!("{scheme}://{}", server.authority().map_or("", |authority| authority.as_str()));
        Self { sessions, server: server.into(), limit }
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (sessions, server, limit) = (Arc::clone(&self.sessions), Arc::clone(&self.server), self.limit);
        async move {
            let session = sessions.current().await?;
            if let Some(authorization) = &session.authorization {
                request.headers_mut().insert(AUTHORIZATION, authorization.clone());
            }
            let logged = tracing::enabled!(tracing::Level::DEBUG)
                .then(|| (request.method().clone(), request.uri().clone(), Instant::now()));
            let answer = (session.pool)(request);
            let answer = match limit {
                None => answer.await,
                Some(limit) => timeout(limit, answer).await.map_err(|_| NoAnswer { server: Arc::clone(&server), limit })?,
            };
            if let Some((method, uri, sent)) = logged {
                let status = answer.as_ref().map(|answer| answer.status().as_u16()).ok();
                tracing::debug!(%method, path = uri.path(), query = uri.query(), status, took = ?sent.elapsed(), "request");
            }
            match answer {
                Ok(answer) => {
                    if answer.status() == StatusCode::UNAUTHORIZED {
                        // The caller gets the response and decides if it repeats the request.
                        sessions.rejected(&session);
                    }
                    Ok(answer)
                }
                Err(error) if error.is_connect() => {
                    sessions.connection_failed();
                    Err(ConnectError::new(server, error).into())
                }
                Err(error) => Err(error.into()),
            }
        }
        .boxed()
    }
}
