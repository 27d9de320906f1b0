//! An HTTPS server that records the client of each request, and a certificate authority for it and
//! its clients.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// The server serves this many requests at a time over one HTTP/2 connection, as an API server.
pub(crate) const STREAMS: u32 = 100;

/// A certificate and its key, PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        Self::until(4096)
    }

    /// Returns an authority that ends with the beginning of a year.
    pub(crate) fn until(year: i32) -> Self {
        let mut params = CertificateParams::default();
        params.not_after = date_time_ymd(year, 1, 1);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn der(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap().to_vec()
    }

    /// Issues a certificate for 127.0.0.1, for servers and clients.
    pub(crate) fn issue(&self) -> Identity {
        self.issue_until(4096)
    }

    /// As [`Self::issue`], with an end at the beginning of a year.
    pub(crate) fn issue_until(&self, year: i32) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.0).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    fn server_config(&self, protocols: &[&str]) -> ServerConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem().as_bytes()).unwrap()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build().unwrap();
        let identity = self.issue();
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let mut config = ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config
    }
}

/// A request that the server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) version: Version,
    pub(crate) token: Option<String>,
    /// The client's certificate, DER.
    pub(crate) certificate: Option<Vec<u8>>,
}

impl Seen {
    pub(crate) fn is_from(&self, identity: &Identity) -> bool {
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
        self.certificate.as_deref() == Some(&*certificate)
    }
}

#[derive(Default)]
struct Shared {
    tls: Mutex<Option<Arc<ServerConfig>>>,
    seen: Mutex<Vec<Seen>>,
    /// The server refuses any other token.
    token: Mutex<Option<String>>,
    watches: Mutex<Vec<mpsc::UnboundedSender<Bytes>>>,
    connections: AtomicUsize,
}

/// Answers `/watch` and requests with `watch=true` with a body that does not end, and everything
/// else with `ok`.
pub(crate) struct Server {
    pub(crate) port: u16,
    protocols: &'static [&'static str],
    shared: Arc<Shared>,
}

impl Server {
    /// Starts a server with HTTP/2 and HTTP/1, as an API server.
    pub(crate) async fn start(authority: &Authority) -> Self {
        Self::with_protocols(authority, &["h2", "http/1.1"]).await
    }

    pub(crate) async fn with_protocols(authority: &Authority, protocols: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self { port, protocols, shared: Arc::new(Shared::default()) };
        server.use_certificate_of(authority);
        tokio::spawn(accept(listener, Arc::clone(&server.shared)));
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Uses a certificate of this authority for later connections.
    pub(crate) fn use_certificate_of(&self, authority: &Authority) {
        *self.shared.tls.lock() = Some(Arc::new(authority.server_config(self.protocols)));
    }

    pub(crate) fn accept_only(&self, token: &str) {
        *self.shared.token.lock() = Some(token.to_owned());
    }

    pub(crate) fn last(&self) -> Seen {
        self.shared.seen.lock().last().cloned().unwrap()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Sends an event on every watch. Returns the number of watches.
    pub(crate) fn send(&self, event: impl Into<Bytes>) -> usize {
        let event = event.into();
        self.shared.watches.lock().iter().filter(|watch| watch.unbounded_send(event.clone()).is_ok()).count()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((tcp, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(&shared);
        let config = shared.tls.lock().clone().unwrap();
        tokio::spawn(async move {
            let Ok(tls) = TlsAcceptor::from(config).accept(tcp).await else { return };
            let certificate = tls.get_ref().1.peer_certificates().map(|chain| chain[0].to_vec());
            let service =
                service_fn(move |request| answer(request, Arc::clone(&shared), certificate.clone()));
            let mut server = auto::Builder::new(TokioExecutor::new());
            server.http2().max_concurrent_streams(STREAMS);
            let _ = server.serve_connection(TokioIo::new(tls), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    certificate: Option<Vec<u8>>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let token = request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap());
    let token = token.map(|token| token.trim_start_matches("Bearer ").to_owned());
    let refused = shared.token.lock().as_ref().is_some_and(|accepted| token.as_ref() != Some(accepted));
    shared.seen.lock().push(Seen { version: request.version(), token, certificate });
    let is_watch = request.uri().path() == "/watch" || request.uri().query() == Some("watch=true");
    let body = if is_watch {
        let (sender, receiver) = mpsc::unbounded();
        shared.watches.lock().push(sender);
        BodyExt::boxed(StreamBody::new(receiver.map(|event| Ok(Frame::data(event)))))
    } else {
        BodyExt::boxed(Full::new(Bytes::from_static(b"ok")))
    };
    let mut response = Response::new(body);
    if refused {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
    }
    Ok(response)
}
