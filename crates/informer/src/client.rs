//! The client that reflectors and API writers take.

use std::fmt;

use http::{Request, Response};
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tower::{BoxError, Service};

use crate::client_metrics::CountRequests;

/// A [`kube::Client`] that sends each request exactly once and returns every answer, errors included, to the caller.
///
/// kube's default client retries by itself after 429, 503 and 504. Here that would be wrong: a create whose answer was lost
/// may have been carried out, and sending it again creates a second object. The caller knows whether a request may be
/// repeated, so the caller decides. Because this is a type of its own, a client with a retry layer cannot be passed by
/// mistake: [`client_from_config`] and [`ApiClient::for_tests`] are the only ways to make one.
#[derive(Clone)]
pub struct ApiClient(Client);

impl ApiClient {
    /// A client of any tower service, such as the embedded API server's. Its requests are neither counted nor timed.
    ///
    /// For tests and for API servers in the same process. The service must not retry requests. Production code that talks
    /// to an API server over the network uses [`client_from_config`].
    pub fn for_tests<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Client::new(service, "default"))
    }

    /// The kube client, for requests that this project's crates do not make.
    pub fn kube(&self) -> &Client {
        &self.0
    }

    /// Sends one request once. The answer may have any status.
    ///
    /// # Errors
    /// If no answer arrives: the connection failed, or credentials could not be obtained.
    pub async fn send(&self, request: Request<Body>) -> kube::Result<Response<Body>> {
        self.0.send(request).await
    }
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient").finish_non_exhaustive()
    }
}

/// Makes a client without kube's retry layer. Its requests are counted and timed ([`CountRequests`]).
///
/// # Errors
/// If the configuration names certificates or credentials that cannot be read.
pub fn client_from_config(mut config: Config) -> kube::Result<ApiClient> {
    config.default_retry = false;
    let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let builder = ClientBuilder::try_from(config)?;
    Ok(ApiClient(builder.with_layer(&CountRequests::new(host)).build()))
}
