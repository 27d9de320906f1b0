//! Reads the pages that a replica serves.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use http::header::{AUTHORIZATION, CONNECTION, HOST};
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use kube::Config;
use kube::client::ConfigExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::server::{SCRAPER, user_token};

/// Returns a port of the loopback address that is free now.
///
/// # Panics
///
/// If there is no free port.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// The pages of a replica that listens on the loopback address. Each request has a connection of
/// its own, as a probe of the kubelet has.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    port: u16,
}

impl Pages {
    /// Returns the pages on a port.
    pub fn on(port: u16) -> Self {
        Self { port }
    }

    /// Returns the flags that make a replica serve them.
    pub fn flags(&self) -> [String; 2] {
        [format!("--secure-port={}", self.port), "--bind-address=127.0.0.1".to_owned()]
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads a page without credentials. Returns the status and the body.
    ///
    /// # Errors
    ///
    /// An error if there is no answer.
    pub async fn read(&self, path: &str) -> Result<(u16, String), Box<dyn std::error::Error + Send + Sync>> {
        self.request(path, None).await
    }

    /// Reads the page of metrics.
    ///
    /// # Errors
    ///
    /// An error if the answer is not 200, or there is no answer.
    pub async fn metrics(&self) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        let (status, page) = self.request("/metrics", Some(user_token(SCRAPER))).await?;
        if status != 200 {
            return Err(format!("/metrics: {status}: {page}").into());
        }
        Ok(page)
    }

    async fn request(
        &self,
        path: &str,
        token: Option<String>,
    ) -> Result<(u16, String), Box<dyn std::error::Error + Send + Sync>> {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse()?);
        config.accept_invalid_certs = true;
        // It offers no ALPN protocol, so the connection is HTTP/1.1. Over HTTP/2 hyper's client can
        // lose an answer that arrives together with a GOAWAY, which follows the answer to a request
        // without credentials.
        let tls = TlsConnector::from(Arc::new(config.rustls_client_config()?));
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
        let stream = tls.connect("127.0.0.1".try_into()?, stream).await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        // The task ends with the answer.
        tokio::spawn(connection);
        let mut request = Request::get(path).header(HOST, "127.0.0.1").header(CONNECTION, "close");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}"))?);
        }
        let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8(body.to_vec())?))
    }
}
