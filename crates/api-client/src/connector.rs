//! Connections to the API server: which protocol they speak, and how the client notices a dead one.
//!
//! # HTTP/2 where the server offers it
//!
//! kube's own connector offers HTTP/1 alone, so every watch and every request under way needs a
//! connection. Here ALPN offers HTTP/2 first, as client-go does: almost all requests share one
//! connection, with one TLS handshake and one credential check, and a PING tells within 40 s that
//! the peer is gone. Sharing has two costs. A watch whose caller reads it slowly could use up the
//! connection's flow control window and block the others; therefore the connection's window
//! ([`CONNECTION_WINDOW`]) is 16 times the window of a stream ([`STREAM_WINDOW`]), more than there
//! are watches. And a lost TCP segment delays all streams for one round trip, which does not matter
//! between controllers and their API server.
//!
//! Requests that start together while there is no connection open one each; hyper's pool keeps one
//! of them for later requests. So the watches of a start have a connection each, until they end and
//! reflectors open them again. There may be hundreds of watches of single namespaces
//! (`--namespaces`); they have other connections: see [`Spread`].
//!
//! HTTP/1 remains for `http://` addresses and for proxies that terminate TLS without HTTP/2. It has
//! no PING, so TCP keepalive and `TCP_USER_TIMEOUT` do the same work. Every connection has them:
//! with HTTP/2 they are the second line of defence.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ConfigExt};
use rustls_pki_types::ServerName;
use tower::{Service, ServiceExt};

use crate::error::ClientError;
use crate::read_ahead::ReadAhead;
use crate::spread::Spread;
use crate::timeouts::Timeouts;

/// HTTP/2: the most bytes of one answer that the server may send before the caller reads them.
const STREAM_WINDOW: u32 = 1 << 20;
/// HTTP/2: the most bytes of all answers together that the server may send before callers read
/// them.
const CONNECTION_WINDOW: u32 = 16 * STREAM_WINDOW;

/// Connections stay in the pool for this long after their last request. Watches do not count as
/// requests, but a connection with HTTP/2 that has watches is open anyway. Servers close an idle
/// one with HTTP/1 much earlier.
const IDLE: Duration = Duration::from_secs(3600);

/// The share of [`Config::connect_timeout`] that a TCP connection may take; the rest is for TLS.
/// Each address of the server's name gets an equal part of it, so that one that does not answer
/// leaves time for the next.
const TCP_SHARE: f64 = 2.0 / 3.0;

/// A pool of connections with the same certificates. Requests under way keep their connection open
/// after the last handle of its pool is gone.
pub(crate) type Pool = Arc<dyn Fn(Request<Body>) -> Answer + Send + Sync>;

/// The answer to a request.
pub(crate) type Answer = BoxFuture<'static, Result<Response<Incoming>, hyper_util::client::legacy::Error>>;

/// Returns a pool with the current certificates of the configuration. It connects nothing yet.
pub(crate) fn pool(config: &Config, limits: &Timeouts) -> Result<Pool, ClientError> {
    let tcp = tcp_connector(GaiResolver::new(), config.connect_timeout, limits);
    let Some(proxy) = &config.proxy_url else { return over(tcp, config, limits) };
    let refused = || {
        // The error does not show user name and password.
        let host = proxy.authority().map_or("", |authority| authority.as_str());
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        ClientError::Proxy(format!("{}://{host}", proxy.scheme_str().unwrap_or_default()))
    };
    // The matcher separates the address from user name and password, and decodes those.
    let proxy = Matcher::builder()
        .all(proxy.to_string())
        .build()
        .intercept(&config.cluster_url)
        .ok_or_else(refused)?;
    let address = proxy.uri().clone();
    match address.scheme_str() {
        Some("http") => over(tunnel(address, &proxy, tcp), config, limits),
        Some("https") => {
            let tls = config.rustls_https_connector_with_connector(tcp).map_err(tls_error)?;
            over(tunnel(address, &proxy, tls), config, limits)
        }
        Some("socks5" | "socks5h") => {
            let socks = SocksV5::new(address, tcp);
            let socks = match proxy.raw_auth() {
                Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                None => socks,
            };
            over(socks, config, limits)
        }
        _ => Err(refused()),
    }
}

fn tunnel<C>(address: Uri, proxy: &hyper_util::client::proxy::matcher::Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(address, connector);
    match proxy.basic_auth() {
        Some(authorization) => tunnel.with_auth(authorization.clone()),
        None => tunnel,
    }
}

/// Returns a connector for TCP. The kernel closes a connection when its peer has not acknowledged
/// anything for [`Timeouts::tcp_user_timeout`], be it data or the probes that the kernel sends
/// while the connection is idle.
fn tcp_connector<R>(resolver: R, connect_timeout: Option<Duration>, limits: &Timeouts) -> HttpConnector<R> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_connect_timeout(connect_timeout.map(|timeout| timeout.mul_f64(TCP_SHARE)));
    // Requests are small, and a caller waits for each response.
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(limits.probe_after));
    tcp.set_keepalive_interval(Some(limits.keepalive_interval));
    // Linux ends the connection by TCP_USER_TIMEOUT, other systems by the number of probes.
    let probes = (limits.tcp_user_timeout - limits.probe_after).div_duration_f64(limits.keepalive_interval);
    tcp.set_keepalive_retries(Some(probes.round() as u32));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    tcp.set_tcp_user_timeout(Some(limits.tcp_user_timeout));
    tcp
}

/// Returns a pool that connects with `transport`, and with TLS where the address asks for it.
fn over<C>(transport: C, config: &Config, limits: &Timeouts) -> Result<Pool, ClientError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
{
    let tls = config.rustls_client_config().map_err(tls_error)?;
    let name = match &config.tls_server_name {
        Some(name) => Some(ServerName::try_from(name.clone()).map_err(|why| {
            tls_error(kube::Error::RustlsTls(kube::client::RustlsTlsError::InvalidServerName(why)))
        })?),
        None => None,
    };
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let builder = match name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
        None => builder,
    };
    let connector = builder.enable_all_versions().wrap_connector(transport.map_response(ReadAhead::new));
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let mut client = Client::builder(TokioExecutor::new());
    client
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .http2_keep_alive_interval(limits.probe_after)
        .http2_keep_alive_timeout(limits.ping_answer)
        // A connection that died while idle must not be used for the next request.
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW);
    let spread = Spread::new(|| client.build::<_, Body>(connector.clone()));
    Ok(Arc::new(move |request| spread.send(request)))
}

fn tls_error(error: kube::Error) -> ClientError {
    ClientError::Tls(Box::new(error))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::*;
    use hyper_util::client::legacy::connect::dns::Name;
    use socket2::{Domain, SockRef, Socket, Type};
    use tower::service_fn;

    #[tokio::test]
    async fn a_socket_has_keepalive_and_a_user_timeout() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let connected =
            tcp_connector(GaiResolver::new(), None, &Timeouts::default()).call(uri).await.unwrap();
        let socket = SockRef::from(connected.inner());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(5));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(45)));
        assert!(socket.tcp_nodelay().unwrap());
    }

    /// Returns a listener that accepts nothing, and whose queue is full: the kernel drops further
    /// SYNs.
    #[cfg(target_os = "linux")]
    fn silent() -> (Socket, Vec<Socket>, SocketAddr) {
        let tcp = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listener = tcp();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        let is_full = |socket: &Socket| socket.connect_timeout(&address, Duration::from_millis(200)).is_err();
        while waiting.last().is_none_or(|socket| !is_full(socket)) {
            assert!(waiting.len() < 10, "the queue of the listener is never full");
            waiting.push(tcp());
        }
        (listener, waiting, address.as_socket().unwrap())
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
        let (_listener, _waiting, dead) = silent();
        let alive = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [dead, alive.local_addr().unwrap()];
        let resolver = service_fn(move |_: Name| async move { Ok::<_, Infallible>(addresses.into_iter()) });
        // A port in the address would replace those of the resolver.
        let name = Uri::from_static("https://api.example");
        let limit = Duration::from_secs(3);
        let connected = tcp_connector(resolver, Some(limit), &Timeouts::default()).call(name);
        let connected =
            tokio::time::timeout(limit, connected).await.expect("the second address was not tried");
        assert_eq!(connected.unwrap().inner().peer_addr().unwrap(), addresses[1]);
    }

    fn refused_proxy(url: &str) -> String {
        let mut config = Config::new(Uri::from_static("https://10.0.0.1:6443"));
        config.proxy_url = Some(url.parse().unwrap());
        pool(&config, &Timeouts::default()).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[tokio::test]
    async fn a_proxy_of_an_unknown_kind_is_refused_without_its_password() {
        insta::assert_snapshot!(refused_proxy("ftp://user:secret@proxy:3128"), @"the proxy ftp://proxy:3128 for the API server cannot be used; give proxy-url in the kubeconfig, or HTTPS_PROXY, as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT");
    }

    #[tokio::test]
    async fn http_https_and_socks5_proxies_are_known() {
        for url in [
            "http://proxy:3128",
            "https://user:secret@proxy:3128",
            "socks5://proxy:1080",
            "socks5h://proxy:1080",
        ] {
            assert_eq!(refused_proxy(url), "", "{url}");
        }
    }
}
