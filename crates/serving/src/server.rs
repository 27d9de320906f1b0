//! The server: its options, its start and its end.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::{ApiClient, CertificateInUse};
use kube_endpoint_core_model::Timestamp;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::UnixTime;
use tokio_rustls::rustls::time_provider::TimeProvider;

use crate::accept::{accept, listen};
use crate::authentication::Authentication;
use crate::authorization::Authorization;
use crate::certificate::{CertificateSource, ServerCertificate};
use crate::client_ca::{ClientCa, ProxyCa};
use crate::connection::Shared;
use crate::connections::Connections;
use crate::error::ServingError;
use crate::front_proxy::FrontProxyOptions;
use crate::handshakes::Handshakes;
use crate::limits::Limits;
use crate::pages::Pages;
use crate::path::OpenPaths;
use crate::reload::Reload;
use crate::reviews::Reviewer;
use crate::service::{Service, WallClock};
use crate::tls::{CipherSuites, TlsVersion, provider, server_config};

/// How the server listens and whom it lets in.
#[derive(Clone, Debug)]
pub struct ServingOptions {
    /// The address and port. An unspecified address means all addresses, IPv4 and IPv6. Port 0
    /// means any free port, for tests; with `--secure-port=0` the program makes no server.
    pub address: SocketAddr,
    pub certificate: CertificateSource,
    /// The oldest TLS version that clients may speak.
    pub min_tls_version: TlsVersion,
    /// The cipher suites that clients may use.
    pub cipher_suites: CipherSuites,
    /// True if clients may use HTTP/2.
    pub http2: bool,
    /// A file with the CA of client certificates. Without one, the CA comes from the ConfigMap
    /// `kube-system/extension-apiserver-authentication`.
    pub client_ca_file: Option<PathBuf>,
    /// A front proxy, which names users in headers. Without it, the ConfigMap says how to recognize
    /// one.
    pub front_proxy: Option<FrontProxyOptions>,
    /// True if the server reads the CAs that no file gives from the ConfigMap.
    pub look_up_client_ca: bool,
    /// The paths that need no authentication and no authorization.
    pub open_paths: OpenPaths,
    /// How long the server remembers who has a token.
    pub token_ttl: Duration,
    /// How long the server remembers that a user may do something.
    pub allowed_ttl: Duration,
    /// How long the server remembers that a user may not do something.
    pub denied_ttl: Duration,
    pub limits: Limits,
}

impl ServingOptions {
    /// Returns upstream's defaults.
    pub fn new(address: SocketAddr) -> Self {
        let ttl = Duration::from_secs(10);
        Self {
            address,
            certificate: CertificateSource::Memory,
            min_tls_version: TlsVersion::default(),
            cipher_suites: CipherSuites::default(),
            http2: true,
            client_ca_file: None,
            front_proxy: None,
            look_up_client_ca: true,
            open_paths: OpenPaths::default(),
            token_ttl: ttl,
            allowed_ttl: ttl,
            denied_ttl: ttl,
            limits: Limits::default(),
        }
    }
}

/// The clients that ask the API server about requests.
#[derive(Clone, Debug, Default)]
pub struct ReviewClients {
    /// For `TokenReview` and the ConfigMap with the CAs of clients and of front proxies. Without
    /// it, the server ignores tokens.
    pub authentication: Option<ApiClient>,
    /// For `SubjectAccessReview`. Without it, only members of `system:masters` may read the pages
    /// that are not open.
    pub authorization: Option<ApiClient>,
}

/// A server whose port is open.
///
/// # Connections
///
/// It serves at most [`Limits::connections`]. When one more arrives, the server closes another: the
/// oldest connection without authentication of the client address that has most of those. So slow
/// clients take the place of slow clients, and a probe gets its answer. A client that has not
/// authenticated has one request on a connection.
///
/// The clients of an address take turns for the steps of their handshakes, so that one which begins
/// many delays those of its own address.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    reload: Reload,
}

/// Reads the current time for TLS.
struct TlsTime(WallClock);

impl std::fmt::Debug for TlsTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsTime")
    }
}

impl TimeProvider for TlsTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from((self.0)().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

impl Server {
    /// Loads the certificates and opens the port. Connections wait until the caller calls
    /// [`run`](Self::run). `clock` reads the current time. This sends nothing to the API server.
    /// Call it within a tokio runtime, which need not be the one that runs the server.
    ///
    /// # Errors
    ///
    /// A [`ServingError`] if the address is in use or not available, or a certificate, key or CA is
    /// not usable.
    #[expect(clippy::disallowed_methods, reason = "files are outside of any run that repeats")]
    pub async fn bind(
        options: ServingOptions,
        clients: ReviewClients,
        pages: Pages,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Self, ServingError> {
        let clock: WallClock = Arc::new(clock);
        let address = options.address;
        let listener = listen(address).map_err(|why| ServingError::Bind { address, why })?;
        let provider = provider(&options.cipher_suites);
        let client_ca = Arc::new(ClientCa::of_clients(Arc::clone(&provider)));
        let proxy_ca = Arc::new(ProxyCa::of_front_proxies(Arc::clone(&provider)));
        let certificate = {
            let (source, now) = (options.certificate.clone(), clock());
            let (client_ca, client_ca_file) = (Arc::clone(&client_ca), options.client_ca_file.clone());
            let (proxy_ca, front_proxy) = (Arc::clone(&proxy_ca), options.front_proxy.clone());
            let provider = Arc::clone(&provider);
            let load = move || {
                if let Some(path) = &client_ca_file {
                    client_ca.load(path, &())?;
                }
                if let Some(FrontProxyOptions { client_ca_file, headers }) = &front_proxy {
                    proxy_ca.load(client_ca_file, headers)?;
                }
                ServerCertificate::load(&source, address.ip(), provider, now)
            };
            let loaded = tokio::task::spawn_blocking(load).await;
            Arc::new(loaded.map_err(|error| ServingError::SelfSigned(error.to_string()))??)
        };
        let time: Arc<dyn TimeProvider> = Arc::new(TlsTime(Arc::clone(&clock)));
        let mut tls = server_config(
            &provider,
            options.min_tls_version,
            Arc::clone(&certificate) as _,
            Arc::clone(&time),
        )?;
        if !options.http2 {
            tls.alpn_protocols.retain(|protocol| protocol != b"h2");
        }
        let limits = options.limits;
        let reload = Reload {
            certificate,
            client_ca: Arc::clone(&client_ca),
            proxy_ca: Arc::clone(&proxy_ca),
            client_ca_file: options.client_ca_file,
            front_proxy: options.front_proxy,
            api_server: clients.authentication.clone().filter(|_| options.look_up_client_ca),
            limit: limits.review,
            clock: Arc::clone(&clock),
            interval: limits.reload,
        };
        let tokens = clients.authentication.map(|client| Reviewer::of_tokens(client, limits.review));
        let access = clients.authorization.map(|client| Reviewer::of_access(client, limits.review));
        let authentication = Authentication::new(client_ca, proxy_ca, tokens, options.token_ttl, time)?;
        let authorization = Authorization::new(access, options.allowed_ttl, options.denied_ttl)?;
        let service = Service::new(pages, options.open_paths, authentication, authorization, clock, &limits);
        let connections = Connections::new(limits.connections);
        let handshakes = Handshakes::new(TlsAcceptor::from(Arc::new(tls)));
        let shared = Arc::new(Shared { service, handshakes, limits });
        Ok(Self { listener, shared, connections, reload })
    }

    /// Returns the address and port on which the server listens.
    ///
    /// # Errors
    ///
    /// The operating system's error, if it does not tell the address.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns a function that returns the certificates in use: that of the port, and the CAs of
    /// clients and of front proxies. Call it while the server runs.
    pub fn certificates(&self) -> impl Fn() -> Vec<CertificateInUse> + Send + Sync + 'static {
        let Reload { certificate, client_ca, proxy_ca, .. } = &self.reload;
        let (certificate, client_ca, proxy_ca) =
            (Arc::clone(certificate), Arc::clone(client_ca), Arc::clone(proxy_ca));
        move || {
            let cas = [client_ca.in_use(), proxy_ca.in_use()].into_iter().flatten();
            std::iter::once(certificate.in_use()).chain(cas).collect()
        }
    }

    /// Serves until the future is dropped, which closes all connections. It ends only if the
    /// operating system refuses to watch the port.
    pub async fn run(self) {
        let Self { listener, shared, connections, reload } = self;
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot watch the secure port"),
        };
        if let Ok(address) = listener.local_addr() {
            tracing::info!(%address, "serving securely");
        }
        tokio::join!(accept(listener, shared, connections), reload.run());
    }
}
