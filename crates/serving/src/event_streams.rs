//! Streams of server-sent events: limits their number and duration, and ends those of clients that
//! do not read.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::{CACHE_CONTROL, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

use crate::limits::Limits;
use crate::mounted::{Event, PageAnswer, PageBody};
use crate::respond::{self, Answer};

/// The first bytes of a stream: they tell a browser after how many milliseconds to connect again.
const RETRY: &[u8] = b"retry: 2000\n\n";

/// The body of an answer.
pub(crate) enum AnswerBody {
    Whole(Full<Bytes>),
    Events(Box<EventBody>),
}

impl AnswerBody {
    pub(crate) fn whole(body: impl Into<Bytes>) -> Self {
        Self::Whole(Full::new(body.into()))
    }

    /// Returns how far the client has taken the events, or `None` if the body is whole.
    pub(crate) fn progress(&self) -> Option<Progress> {
        match self {
            Self::Whole(_) => None,
            Self::Events(events) => Some(events.progress.clone()),
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
            Self::Events(events) => {
                events.poll_event(cx).map(|event| event.map(|data| Ok(Frame::data(data))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// Since when an event waits that the connection has taken but not yet sent, or `None` if the
/// connection waits for an event.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<Option<Instant>>>);

impl Progress {
    /// Returns the time at which the client will have taken too long for an event.
    pub(crate) fn deadline(&self, limit: Duration) -> Option<Instant> {
        self.0.lock().map(|since| since + limit)
    }

    fn set(&self, since: Option<Instant>) {
        *self.0.lock() = since;
    }
}

/// The events of one client. It makes the next event when the connection asks for it. HTTP/1 asks
/// when the socket has taken the one before, HTTP/2 when the stream has taken it, so at most two
/// wait for a client that reads slowly.
pub(crate) struct EventBody {
    events: BoxStream<'static, Event>,
    end: Pin<Box<Sleep>>,
    begun: bool,
    progress: Progress,
    _place: StreamPlace,
}

impl EventBody {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // The connection takes more, so it has sent what it took before.
        self.progress.set(None);
        if !std::mem::replace(&mut self.begun, true) {
            self.progress.set(Some(Instant::now()));
            return Poll::Ready(Some(Bytes::from_static(RETRY)));
        }
        if self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        let event = std::task::ready!(self.events.poll_next_unpin(cx));
        self.progress.set(event.is_some().then(Instant::now));
        Poll::Ready(event.map(|event| event.frame()))
    }
}

/// A reader, as [`Access::reader`](crate::Access::reader) tells them apart.
pub(crate) type Reader = [u8; 32];

/// The number of streams of each reader that has some.
type OfReaders = Arc<Mutex<BTreeMap<Reader, usize>>>;

/// The streams of a server. Their number never exceeds the limits.
pub(crate) struct EventStreams {
    places: Arc<Semaphore>,
    of_readers: OfReaders,
    most_of_reader: usize,
    duration: Duration,
}

/// The place of a stream. Dropping it frees the place.
struct StreamPlace {
    _place: OwnedSemaphorePermit,
    of_readers: OfReaders,
    reader: Option<Reader>,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let Some(reader) = self.reader else { return };
        let mut of_readers = self.of_readers.lock();
        if let Some(streams) = of_readers.get_mut(&reader) {
            *streams -= 1;
            if *streams == 0 {
                of_readers.remove(&reader);
            }
        }
    }
}

impl EventStreams {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            places: Arc::new(Semaphore::new(limits.event_streams)),
            of_readers: OfReaders::default(),
            most_of_reader: limits.event_streams_of_reader,
            duration: limits.event_stream,
        }
    }

    /// Takes a place. Returns `None` if there are too many streams. Without a reader only the limit
    /// for all counts.
    fn place(&self, reader: Option<Reader>) -> Option<StreamPlace> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        if let Some(reader) = reader {
            let mut of_readers = self.of_readers.lock();
            let streams = of_readers.get(&reader).copied().unwrap_or_default();
            if streams >= self.most_of_reader {
                return None;
            }
            of_readers.insert(reader, streams + 1);
        }
        Some(StreamPlace { _place: place, of_readers: Arc::clone(&self.of_readers), reader })
    }

    /// Makes the answer for a page. If it is a stream and there are too many, the answer is an
    /// error.
    pub(crate) fn answer(&self, page: PageAnswer, reader: Option<Reader>) -> Answer {
        let (mut head, body) = page.into_parts();
        let nosniff = HeaderValue::from_static("nosniff");
        head.headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
        head.headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        let body = match body {
            PageBody::Whole(body) => AnswerBody::whole(body),
            PageBody::Events(events) => {
                let Some(place) = self.place(reader) else {
                    return respond::too_many_streams();
                };
                AnswerBody::Events(Box::new(EventBody {
                    events,
                    end: Box::pin(sleep(self.duration)),
                    begun: false,
                    progress: Progress::default(),
                    _place: place,
                }))
            }
        };
        Answer::from_parts(head, body)
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::BodyExt;

    use super::*;
    use crate::mounted::event_stream;

    fn streams(event_streams: usize) -> EventStreams {
        EventStreams::new(&Limits { event_streams, ..Limits::default() })
    }

    fn numbers() -> PageAnswer {
        let numbers = stream::unfold(0_u32, |number| async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Some((Event { name: "status", data: number.to_string().into() }, number + 1))
        });
        event_stream(numbers.boxed())
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_framed_and_end_after_the_limit() {
        let begun = Instant::now();
        let text = streams(1).answer(numbers(), None).into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(
            text.starts_with("retry: 2000\n\nevent: status\ndata: 0\n\nevent: status\ndata: 1\n\n"),
            "{text}"
        );
        assert_eq!(begun.elapsed(), Duration::from_secs(600));
        assert!(text.ends_with("data: 298\n\n"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_stream_too_many_is_refused_until_one_ends() {
        let streams = streams(2);
        let first = streams.answer(numbers(), None);
        let _second = streams.answer(numbers(), Some([7; 32]));
        let third = streams.answer(numbers(), None);
        assert_eq!((third.status().as_u16(), &third.headers()["retry-after"]), (503, &"10".parse().unwrap()));
        drop(first);
        assert_eq!(streams.answer(numbers(), None).status(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_leaves_places_for_others() {
        let streams = streams(20);
        let most = Limits::default().event_streams_of_reader;
        let (one, other) = (Some([1; 32]), Some([2; 32]));
        let mut of_one: Vec<Answer> = (0..most).map(|_| streams.answer(numbers(), one)).collect();
        assert!(of_one.iter().all(|answer| answer.status() == 200));
        assert_eq!(streams.answer(numbers(), one).status(), 503);
        assert_eq!(streams.answer(numbers(), other).status(), 200);
        of_one.pop();
        assert_eq!(streams.answer(numbers(), one).status(), 200);
        drop(of_one);
        assert!(streams.of_readers.lock().is_empty());
        assert_eq!(streams.places.available_permits(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_event_that_was_taken_has_a_deadline() {
        let mut body = streams(1).answer(numbers(), None).into_body();
        let progress = body.progress().unwrap();
        let limit = Duration::from_secs(30);
        assert_eq!(progress.deadline(limit), None);
        body.frame().await.unwrap().unwrap();
        assert_eq!(progress.deadline(limit), Some(Instant::now() + limit));
        assert!(futures::poll!(body.frame()).is_pending());
        assert_eq!(progress.deadline(limit), None);
    }
}
