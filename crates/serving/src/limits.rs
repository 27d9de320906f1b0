//! The limits on the resources that clients take.

use std::time::Duration;

/// The limits on connections and requests. Production uses [`Limits::default`]; tests use smaller
/// ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections. When one more arrives, another is closed: see [`Server`](crate::Server).
    pub connections: usize,
    /// Time for the TLS handshake.
    pub handshake: Duration,
    /// Time for the head of an HTTP/1 request, from when the connection is ready for it. So an
    /// HTTP/1 connection without a request closes after this time, too. Upstream's
    /// `ReadHeaderTimeout` of 32 s begins with the first byte.
    pub head: Duration,
    /// Time for a request: from its head until the connection has taken the whole answer. A stream
    /// of events has `event_stream` instead.
    pub request: Duration,
    /// Time in which written data must leave the process. It ends connections whose client reads
    /// slowly. A client that takes no event of a stream for this time loses its connection, too,
    /// within twice this time.
    pub write: Duration,
    /// An HTTP/2 connection without a request closes after this time.
    pub idle: Duration,
    /// Bytes of the head of a request: request line and headers.
    pub head_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// Requests at the same time on an HTTP/2 connection.
    pub streams: u32,
    /// HTTP/2: streams that a client may reset before the server has handled them. More end the
    /// connection.
    pub pending_resets: usize,
    /// Time in which the API server must have answered a review, with all attempts.
    pub review: Duration,
    /// Streams of server-sent events at the same time. The server refuses more.
    pub event_streams: usize,
    /// Streams of one reader. So a reader that holds streams without reading them leaves places for
    /// others.
    pub event_streams_of_reader: usize,
    /// Time after which a stream of events ends.
    pub event_stream: Duration,
    /// How often the server reads the files with certificates, and the ConfigMap with the client
    /// CA.
    pub reload: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 400,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(32),
            request: Duration::from_secs(60),
            write: Duration::from_secs(30),
            idle: Duration::from_secs(90),
            head_bytes: 32 * 1024,
            headers: 64,
            streams: 100,
            pending_resets: 20,
            review: Duration::from_secs(10),
            event_streams: 20,
            event_streams_of_reader: 5,
            event_stream: Duration::from_secs(600),
            reload: Duration::from_secs(30),
        }
    }
}
