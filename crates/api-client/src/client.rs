//! The client that reflectors and API writers use.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, Uri};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::middleware::AuthLayer;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};

use crate::at_server::AtServerLayer;
use crate::certificates::{CertificateInUse, CertificateUse};
use crate::content_type::{ContentType, Encodings};
use crate::error::ClientError;
use crate::metrics::{CountRequests, RequestMetrics};
use crate::plugin::{PluginError, limited};
use crate::sessions::Sessions;
use crate::sources::Sources;
use crate::timeouts::Timeouts;
use crate::transport::Transport;

/// The user agent of requests that have none.
const NAME: HeaderValue =
    HeaderValue::from_static(concat!("kube-endpoint-manager/", env!("CARGO_PKG_VERSION")));

/// The body of an answer. Reading it fails with [`kube::Error::HyperError`] if the connection
/// breaks.
pub type AnswerBody = UnsyncBoxBody<Bytes, kube::Error>;

type Direct = BoxCloneSyncService<Request<Body>, Response<AnswerBody>, BoxError>;

/// A [`kube::Client`] that sends each request exactly once and returns every answer, errors
/// included, to the caller.
///
/// kube's default client retries by itself after 429, 503 and 504. Here that would be wrong: the
/// server may have carried out a create whose answer was lost, and sending it again creates a
/// second object. The caller knows which requests it may repeat, so the caller decides. Because
/// this is a type of its own, nobody can pass a client with a retry layer by mistake: only
/// [`client_from_config`], [`client_with_silence_limit`], [`client_with_answer_limit`] and
/// [`ApiClient::for_tests`] make one.
#[derive(Clone)]
pub struct ApiClient {
    client: Client,
    /// The service to which `client` sends its requests. `client` passes each through a task, which
    /// only services that cannot be cloned need.
    direct: Option<Direct>,
    metrics: Arc<RequestMetrics>,
    encodings: Encodings,
    /// The URL of the server, without user, password and a slash at its end. Empty for a service in
    /// the same process.
    server: Arc<str>,
    /// `None` for a client of a service.
    sessions: Option<Arc<Sessions>>,
}

impl ApiClient {
    /// Returns a client of any tower service, such as the embedded API server's. It neither counts
    /// nor times requests.
    ///
    /// For tests and for API servers in the same process. The service must not retry requests.
    /// Production code that talks to an API server over the network uses [`client_from_config`].
    pub fn for_tests<S, B>(service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self::new(Client::new(service, "default"), None, Arc::new(RequestMetrics::new("")))
    }

    fn new(client: Client, direct: Option<Direct>, metrics: Arc<RequestMetrics>) -> Self {
        let encodings = Default::default();
        let server = "".into();
        Self { client, direct, metrics, encodings, server, sessions: None }
    }

    /// Returns the URL of a path, for messages.
    pub fn url_of(&self, path: &str) -> String {
        format!("{}{path}", self.server)
    }

    /// Returns the kube client, for requests that this project's crates do not make.
    pub fn kube(&self) -> &Client {
        &self.client
    }

    /// Returns the same client with another encoding of objects. The default is protobuf.
    #[must_use]
    pub fn with_content_type(self, content_type: ContentType) -> Self {
        Self { encodings: Encodings::new(content_type), ..self }
    }

    /// Returns the encoding of objects.
    pub fn content_type(&self) -> ContentType {
        self.encodings.wanted()
    }

    /// Returns the encoding of the objects of a resource, such as `pods`: that of the client, or
    /// JSON if the server has refused it.
    pub fn content_type_of(&self, resource: &str) -> ContentType {
        self.encodings.of(resource)
    }

    /// Call this with the status of the answer to a request with objects of a resource in the
    /// encoding `sent`. Returns true if the server refused the encoding (406 or 415): the encoding
    /// of the resource is then JSON, and the caller should send the request again. Logs the first
    /// refusal for a resource.
    pub fn refused_content_type(&self, resource: &str, sent: ContentType, code: u16) -> bool {
        self.encodings.refused(resource, sent, code)
    }

    /// Sends one request once. The answer may have any status.
    ///
    /// A request without a user agent gets that of this project: in an audit log of the server,
    /// nobody could tell otherwise whose lists and watches it has.
    ///
    /// # Errors
    /// If no answer arrives: the connection failed, or credentials could not be obtained.
    pub async fn send(&self, mut request: Request<Body>) -> kube::Result<Response<AnswerBody>> {
        request.headers_mut().entry(USER_AGENT).or_insert(NAME);
        match &self.direct {
            Some(direct) => direct.clone().oneshot(request).await.map_err(kube_error),
            None => Ok(Box::pin(self.client.send(request)).await?.map(UnsyncBoxBody::new)),
        }
    }

    /// Returns the certificates of the current connections, for these uses: the client's own, and
    /// the CAs with which it verifies the server. Leaves out a certificate that the connections do
    /// not have, and CAs of the system.
    pub fn certificates(&self, uses: [CertificateUse; 2]) -> Vec<CertificateInUse> {
        let found = self.sessions.as_ref().map(|sessions| sessions.certificates()).unwrap_or_default();
        let used = found.into_iter().zip(uses);
        used.filter_map(|(found, usage)| {
            let (place, lifetime) = found?;
            Some(CertificateInUse { usage, place, lifetime })
        })
        .collect()
    }

    /// Records how long a request waited for a rate limiter before it was sent.
    pub fn waited_for_rate_limiter(&self, method: &Method, waited: Duration) {
        self.metrics.waited_for_rate_limiter(method, waited);
    }
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient").finish_non_exhaustive()
    }
}

/// Makes a client of a configuration, without kube's retry layer. The client counts and times
/// requests ([`CountRequests`], which says with which recorder).
///
/// Reads files with certificates and tokens, and runs a credential plugin, before it returns; the
/// client does both again later. It logs a warning if a plugin hangs for 5 s, and kills it after a
/// minute, or after five if the plugin may ask a person. This function does not connect to the
/// server.
///
/// kube's [`Config`] does not have all paths of a kubeconfig: see
/// [`watch_files`](crate::watch_files).
///
/// # Errors
/// If the configuration names certificates, credentials or a proxy that cannot be used.
pub async fn client_from_config(config: Config) -> Result<ApiClient, ClientError> {
    client(config, Timeouts::default()).await
}

/// As [`client_from_config`], but the client closes a connection whose peer has silently gone
/// within `limit` (at least 4 s), instead of 45 s. For requests that must not wait behind a dead
/// connection, such as renewals of a Lease. It costs a PING on every connection that was silent for
/// half of the limit.
///
/// # Errors
/// As [`client_from_config`].
pub async fn client_with_silence_limit(
    mut config: Config,
    limit: Duration,
) -> Result<ApiClient, ClientError> {
    // Callers give up a request after that. If it is still connecting then, it has not tried the
    // other addresses of the server.
    config.connect_timeout = Some(config.connect_timeout.map_or(limit, |timeout| timeout.min(limit)));
    client(config, Timeouts::silence(limit)).await
}

/// As [`client_from_config`], but each request fails if no answer has begun within `limit`, even if
/// the connection lives. For commands, whose user would otherwise wait without end at a server that
/// accepts connections and does nothing. An answer that has begun, such as a watch, may take any
/// time.
///
/// # Errors
/// As [`client_from_config`].
pub async fn client_with_answer_limit(config: Config, limit: Duration) -> Result<ApiClient, ClientError> {
    client(config, Timeouts { answer: Some(limit), ..Timeouts::default() }).await
}

pub(crate) async fn client(mut config: Config, limits: Timeouts) -> Result<ApiClient, ClientError> {
    config.cluster_url = without_user_info(config.cluster_url);
    let sources = Sources::new(config, limits);
    let config = sources.config().clone();
    let credentials = |error| ClientError::Credentials(Box::new(error));
    let authorization = static_authorization(config.clone(), &limits).await?.map_err(credentials)?;
    let headers = config.extra_headers_layer().map_err(credentials)?;
    let sessions = Box::pin(Sessions::new(sources)).await?;
    let transport = Transport::new(Arc::clone(&sessions), &config.cluster_url, limits.answer);
    let service = ServiceBuilder::new()
        .layer(AtServerLayer::new(&config.cluster_url))
        .option_layer(authorization)
        .layer(headers)
        .map_err(BoxError::from)
        .service(transport);
    let requests = CountRequests::new(host_and_port(&config.cluster_url));
    let service = requests.layer(service);
    let direct = service.map_response(|answer: Response<_>| {
        answer.map(|body| UnsyncBoxBody::new(body.map_err(kube::Error::HyperError)))
    });
    let direct = BoxCloneSyncService::new(direct);
    let client = Client::new(direct.clone(), config.default_namespace);
    let server = without_credentials(&config.cluster_url);
    let server = server.trim_end_matches('/').into();
    let sessions = Some(sessions);
    Ok(ApiClient { server, sessions, ..ApiClient::new(client, Some(direct), requests.metrics()) })
}

/// Converts an error of a service to the one that [`kube::Client::send`] returns.
fn kube_error(error: BoxError) -> kube::Error {
    match error.downcast::<kube::Error>() {
        Ok(error) => *error,
        Err(error) => kube::Error::Service(error),
    }
}

/// Returns the host and port of a URL.
fn host_and_port(url: &Uri) -> &str {
    let authority = url.authority().map(Authority::as_str).unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Returns the URL without user and password. Nothing authenticates with them; hyper would log them
/// at debug level, and send them to the server in HTTP/2's `:authority`.
fn without_user_info(url: Uri) -> Uri {
    let Ok(host) = host_and_port(&url).parse() else { return url };
    let mut parts = url.clone().into_parts();
    parts.authority = Some(host);
    Uri::from_parts(parts).unwrap_or(url)
}

/// Returns a URL without the user and password that it may contain, for logs and metrics.
pub fn without_credentials(url: &Uri) -> String {
    let scheme = url.scheme_str().map(|scheme| format!("{scheme}://")).unwrap_or_default();
    format!("{scheme}{}{}", host_and_port(url), url.path())
}

/// Returns kube's layer for credentials that this crate does not renew: user and password, a token
/// in the kubeconfig, and the obsolete auth-providers. An auth-provider may run a command and wait
/// for it, so it gets a thread of its own: one that the runtime does not wait for at the end of the
/// process.
async fn static_authorization(
    config: Config,
    limits: &Timeouts,
) -> Result<kube::Result<Option<AuthLayer>>, ClientError> {
    let Some(provider) = &config.auth_info.auth_provider else { return Ok(config.auth_layer()) };
    let provider = provider.name.clone();
    let (done, layer) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("auth-provider".to_owned());
    let spawned = thread.spawn(move || drop(done.send(config.auth_layer())));
    spawned.map_err(|why| PluginError::Start { command: provider.clone(), why, hint: String::new() })?;
    limited(&provider, limits.plugin, limits, layer).await?.map_err(|_| ClientError::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_user_and_password() {
        let check = |url: &str, host: &str, shown: &str| {
            let url: Uri = url.parse().unwrap();
            assert_eq!(host_and_port(&url), host);
            assert_eq!(without_credentials(&url), shown);
            assert_eq!(without_user_info(url).to_string(), shown);
        };
        check("http://token:secret@127.0.0.1:8080/", "127.0.0.1:8080", "http://127.0.0.1:8080/");
        check("https://a.example/prefix", "a.example", "https://a.example/prefix");
        check("https://[::1]:6443", "[::1]:6443", "https://[::1]:6443/");
    }
}
