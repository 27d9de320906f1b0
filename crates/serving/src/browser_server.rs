//! Serves the pages of a program on loopback, for the browser of one user, over plain HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::access::Access;
use crate::browser_guard::{add_browser_headers, check_origin};
use crate::error::ServingError;
use crate::event_streams::{AnswerBody, EventStreams};
use crate::limits::Limits;
use crate::mounted::{MountedPages, PageRequest};
use crate::path::decode;
use crate::peer::{self, Stranger};
use crate::respond::{self, Answer};
use crate::timed_io::TimedIo;

/// The pause before accepting again when the system has no resources for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server on loopback whose port is open. Its reader may see everything, so it answers neither
/// other web pages nor, on Linux, other users of the machine. Its address needs no token.
pub struct BrowserServer {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    address: SocketAddr,
    pages: MountedPages,
    streams: EventStreams,
    limits: Limits,
}

impl BrowserServer {
    /// Opens the port. Port 0 means any free one.
    ///
    /// # Errors
    ///
    /// A [`ServingError`] if the address is not on loopback, is in use or is not available.
    pub async fn bind(
        address: SocketAddr,
        pages: MountedPages,
        limits: Limits,
    ) -> Result<Self, ServingError> {
        if !address.ip().is_loopback() {
            return Err(ServingError::NotLoopback(address));
        }
        let unusable = |why| ServingError::Loopback { address, why };
        let listener = TcpListener::bind(address).await.map_err(unusable)?;
        let address = listener.local_addr().map_err(unusable)?;
        let shared = Shared { address, pages, streams: EventStreams::new(&limits), limits };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Returns the address to open in a browser.
    pub fn url(&self) -> String {
        format!("http://{}/ui/", self.shared.address)
    }

    /// Serves until the future is dropped, which closes all connections.
    pub async fn run(self) {
        let Self { listener, shared } = self;
        let places = Arc::new(Semaphore::new(shared.limits.connections));
        let mut connections = JoinSet::new();
        loop {
            let place = tokio::select! {
                biased;
                Some(_) = connections.join_next() => continue,
                place = Arc::clone(&places).acquire_owned() => place,
            };
            // The semaphore is never closed.
            let Ok(place) = place else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move {
                        serve(stream, &shared).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept connections on loopback; trying again");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn serve(stream: TcpStream, shared: &Arc<Shared>) {
    let stranger = peer::stranger(&stream);
    let service = |request| {
        let shared = Arc::clone(shared);
        async move { shared.answer(&request, stranger).await }
    };
    serve_browser(stream, &shared.limits, service).await;
}

/// Serves HTTP/1 on one connection of a browser until it ends, or its client takes too long: to
/// send the head of a request, to send the next request, or to read an answer. A request whose body
/// does not come ends the connection after the answer.
pub async fn serve_browser<B, F>(stream: TcpStream, limits: &Limits, answer: impl Fn(Request<Incoming>) -> F)
where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
    F: Future<Output = Response<B>>,
{
    // The option keeps the kernel from delaying small events; a socket without it still works.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let answering = answer(request);
        async move { Ok::<_, Infallible>(answering.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes.max(8192))
        .max_headers(limits.headers)
        .serve_connection(TokioIo::new(TimedIo::new(stream, limits.write)), service);
    // A browser may close a connection at any time.
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

impl Shared {
    async fn answer(&self, request: &Request<Incoming>, stranger: Option<Stranger>) -> Answer {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = request.method().clone();
        parts.uri = request.uri().clone();
        parts.headers = request.headers().clone();
        let checked = match stranger {
            Some(stranger) => Err((StatusCode::FORBIDDEN, stranger.to_string())),
            None => check_origin(&parts).map_err(|(status, message)| (status, message.to_owned())),
        };
        let mut answer = match checked {
            Ok(()) => {
                let answering = timeout(self.limits.request / 2, self.page(&parts));
                answering.await.unwrap_or_else(|_| respond::internal_error("the answer took too long"))
            }
            Err((status, message)) => {
                let mut answer = text(status, message);
                if status == StatusCode::METHOD_NOT_ALLOWED {
                    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
                }
                answer
            }
        };
        add_browser_headers(answer.headers_mut());
        answer
    }

    async fn page(&self, parts: &http::request::Parts) -> Answer {
        let Some(path) = decode(parts.uri.path()) else { return respond::invalid_path() };
        if !self.pages.contains(&path) {
            return respond::not_found();
        }
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let request = PageRequest { path, query, access: Access::everything() };
        self.streams.answer(self.pages.answer(request).await, None)
    }
}

fn text(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(AnswerBody::whole(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
