//! TLS in front of the embedded API server. A controller then speaks HTTP/2 and HTTP/1 over TLS, as
//! with a real server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use kube_endpoint_embedded_apiserver::ApiService;
use rcgen::CertifiedKey;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// The pause after accepting a connection has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves on loopback until the runtime ends, and returns a kubeconfig.
pub(crate) async fn serve(service: ApiService) -> anyhow::Result<String> {
    let names = [Ipv4Addr::LOCALHOST.to_string()];
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).context("cannot make a certificate")?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    let address = listener.local_addr()?;
    tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), service));
    Ok(kubeconfig(address, &cert.pem()))
}

fn kubeconfig(address: SocketAddr, certificate: &str) -> String {
    let authority = STANDARD.encode(certificate);
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: embedded\n  cluster: {{server: \"https://{address}\", \
         certificate-authority-data: {authority}}}\nusers:\n- name: embedded\n  user: {{}}\ncontexts:\n- name: embedded\n  \
         context: {{cluster: embedded, user: embedded, namespace: default}}\ncurrent-context: embedded\n"
    )
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, service: ApiService) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, acceptor.clone(), service.clone()))),
            // The system may have no resources for another connection.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, service: ApiService) {
    // The option keeps the kernel from delaying small answers; a socket without it still works.
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let builder = auto::Builder::new(TokioExecutor::new());
    // A client may disconnect at any time.
    let _ = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
}
