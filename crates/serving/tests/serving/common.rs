//! A server, its API server, certificates and a client.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, PolicyRule, User};
use kube_endpoint_serving::{HealthChecks, Limits, Pages, ReviewClients, Server, ServingOptions, StatusPage};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, date_time_ymd,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion,
};

use crate::mounted::Mounted;

/// A token whose user may read `/metrics`.
pub(crate) const SCRAPER: &str = "token-of-the-scraper";
/// A token whose user may read nothing.
pub(crate) const NOBODY: &str = "token-of-somebody-without-rights";
/// A token that has expired.
pub(crate) const EXPIRED: &str = "token-that-has-expired";
/// A token that the API server does not know.
pub(crate) const WRONG: &str = "token-that-nobody-issued";
/// All of these are secrets.
pub(crate) const TOKENS: [&str; 4] = [SCRAPER, NOBODY, EXPIRED, WRONG];

pub(crate) const NOW: &str = "2026-12-01T00:00:00Z";

pub(crate) fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
}

/// Returns an API server that knows the tokens above, and lets the group `scrapers` and the user
/// `alice` read `/metrics`.
pub(crate) fn api_server() -> EmbeddedApiServer {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
    let now = NOW.parse().unwrap();
    EmbeddedApiServer::builder()
        .start_time(now)
        .token(SCRAPER, user("prometheus", &["scrapers"]))
        .token(NOBODY, user("bob", &[]))
        .token_until(EXPIRED, user("prometheus", &["scrapers"]), now)
        .policy_rule(PolicyRule {
            subjects: list(&["scrapers", "alice"]),
            verbs: list(&["get", "head"]),
            non_resource_urls: list(&[
                "/metrics", "/configz", "/flagz", "/statusz", "/livez/*", "/unknown", "/ui", "/ui/*",
            ]),
            ..PolicyRule::default()
        })
        .policy_rule(PolicyRule {
            subjects: list(&["scrapers"]),
            verbs: list(&["list"]),
            api_groups: list(&["discovery.k8s.io"]),
            resources: list(&["endpointslices"]),
            namespaces: list(&["shop"]),
            ..PolicyRule::default()
        })
        .build()
        .unwrap()
}

/// A certificate and its key, PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a certificate for the subject, after `change`.
    pub(crate) fn issue(
        &self,
        name: &str,
        organization: Option<&str>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let (params, key) = params(name, organization, change);
        Identity { certificate: params.signed_by(&key, &self.0).unwrap().pem(), key: key.serialize_pem() }
    }
}

/// Returns a certificate that is signed by its own key.
pub(crate) fn self_signed(name: &str) -> Identity {
    let (params, key) = params(name, None, |_| {});
    Identity { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

fn params(
    name: &str,
    organization: Option<&str>,
    change: impl FnOnce(&mut CertificateParams),
) -> (CertificateParams, KeyPair) {
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2027, 1, 1));
    change(&mut params);
    (params, KeyPair::generate().unwrap())
}

/// Files that a test replaces.
pub(crate) struct Files(pub(crate) TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name)
    }
}

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) api: EmbeddedApiServer,
    pub(crate) address: SocketAddr,
    pub(crate) health: HealthChecks,
    pub(crate) mounted: Mounted,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts a server with these changes to the options of most tests.
pub(crate) async fn start(change: impl FnOnce(&mut ServingOptions)) -> Running {
    let api = api_server();
    let client = ApiClient::for_tests(api.service());
    start_with(
        api,
        ReviewClients { authentication: Some(client.clone()), authorization: Some(client) },
        change,
    )
    .await
}

pub(crate) async fn start_with(
    api: EmbeddedApiServer,
    clients: ReviewClients,
    change: impl FnOnce(&mut ServingOptions),
) -> Running {
    let mut options = ServingOptions::new("127.0.0.1:0".parse().unwrap());
    options.limits = Limits { reload: Duration::from_millis(20), ..Limits::default() };
    change(&mut options);
    let now = NOW.parse().unwrap();
    let (health, mounted) = (HealthChecks::default(), Mounted::default());
    let server = Server::bind(options, clients, pages(health.clone(), &mounted), move || now).await.unwrap();
    let address = server.local_addr().unwrap();
    let task = tokio::spawn(server.run());
    Running { api, address, health, mounted, task }
}

pub(crate) fn pages(health: HealthChecks, mounted: &Mounted) -> Pages {
    Pages {
        component: "kube-endpoint-manager".to_owned(),
        version: "0.1.0".to_owned(),
        health,
        metrics: Some(Arc::new(|| "workqueue_depth{name=\"endpoint\"} 0\n".to_owned())),
        slis: None,
        configz: json!({"kube-endpoint-manager": {"qps": 20}}),
        flagz: BTreeMap::from([("kube-api-qps".to_owned(), "20".to_owned())]),
        statusz: Some(Arc::new(|| StatusPage {
            text: "Leader: self\n".to_owned(),
            json: json!({"leader": "self"}),
        })),
        mounted: vec![mounted.pages()],
    }
}

/// Accepts every server certificate, so that tests of the server's certificate look at it
/// themselves.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// How a client connects.
#[derive(Default)]
pub(crate) struct Client<'a> {
    pub(crate) identity: Option<&'a Identity>,
    pub(crate) versions: Option<&'static SupportedProtocolVersion>,
    pub(crate) protocol: Option<&'static str>,
    /// The number of bytes that the system receives before the client reads them.
    pub(crate) receive_buffer: Option<u32>,
}

impl Client<'_> {
    pub(crate) async fn connect(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let versions: &[&SupportedProtocolVersion] = match &self.versions {
            Some(version) => &[version],
            None => &[&TLS13, &TLS12],
        };
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer));
        let mut config = match self.identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        config.alpn_protocols = vec![self.protocol.unwrap_or("http/1.1").as_bytes().to_vec()];
        let socket = TcpSocket::new_v4()?;
        if let Some(size) = self.receive_buffer {
            socket.set_recv_buffer_size(size)?;
        }
        let stream = socket.connect(address).await?;
        TlsConnector::from(Arc::new(config)).connect("127.0.0.1".try_into().unwrap(), stream).await
    }

    /// Sends a request in plain text and reads the answer until the server closes the connection.
    pub(crate) async fn send(&self, address: SocketAddr, request: &str) -> std::io::Result<Reply> {
        let mut stream = self.connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        read_reply(&mut stream).await
    }

    pub(crate) async fn get(&self, address: SocketAddr, target: &str, headers: &str) -> Reply {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        self.send(address, &request).await.unwrap()
    }
}

pub(crate) async fn read_reply(stream: &mut TlsStream<TcpStream>) -> std::io::Result<Reply> {
    let mut text = Vec::new();
    // A server that closes a connection without a TLS message has sent everything by then.
    if let Err(error) = stream.read_to_end(&mut text).await
        && text.is_empty()
    {
        return Err(error);
    }
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Reply { status: status.unwrap_or_default(), head: head.to_owned(), body: body.to_owned() })
}

/// An answer; the status is zero if the connection was closed without one.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Running {
    /// Sends a GET request without credentials.
    pub(crate) async fn get(&self, target: &str) -> Reply {
        Client::default().get(self.address, target, "").await
    }

    /// Sends a GET request with a token.
    pub(crate) async fn get_with(&self, token: &str, target: &str) -> Reply {
        Client::default().get(self.address, target, &format!("Authorization: Bearer {token}\r\n")).await
    }

    /// Sends a GET request with a client certificate.
    pub(crate) async fn get_as(&self, identity: &Identity, target: &str) -> Reply {
        Client { identity: Some(identity), ..Client::default() }.get(self.address, target, "").await
    }

    /// Returns how many reviews of a kind the API server was asked.
    pub(crate) fn reviews(&self, plural: &str) -> usize {
        self.api.request_log().iter().filter(|entry| entry.request.path.ends_with(plural)).count()
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    for _ in 0..500 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} did not happen");
}
