//! Which writes are sent over HTTP/1.
//!
//! A write over HTTP/1 costs an API server less than one over HTTP/2, and this process too
//! (docs/performance.md). But a connection serves one request at a time, and no PING finds a server
//! that has fallen silent while its kernel still answers. Therefore:
//!
//! - only writes of outputs and events go over HTTP/1 ([`is_output`]). They have a time limit of
//!   their own, and the writer knows what to do if the answer is lost. The renewal of a Lease must
//!   not wait for that limit, and reviews of clients are not ours;
//! - a write that finds [`WRITES`] others under way goes over HTTP/2, so that none waits for a
//!   connection;
//! - without many writes all go over HTTP/2, whose connection is open anyway: a connection for a
//!   single write would cost a TLS handshake. There are many after the first [`MANY`] of a
//!   [`WINDOW`], and during the window after it. A burst of a few more opens connections for few
//!   writes, which is accepted because a cold start or a rollout has far more;
//! - after a write that was not answered all go over HTTP/2 for a time: there may be a proxy that
//!   accepts HTTP/2 only, or that closes idle connections early. Then one is tried again, ever more
//!   rarely as long as that fails.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How many writes may wait for an answer over HTTP/1 at a time. Their connections may be a few
/// more: one is free again when the whole answer has been read.
pub(crate) const WRITES: usize = 8;
/// After so many writes in a [`WINDOW`], the next ones go over HTTP/1.
pub(crate) const MANY: u32 = 50;
/// See [`MANY`].
pub(crate) const WINDOW: Duration = Duration::from_secs(10);
/// How long writes go over HTTP/2 after the first one over HTTP/1 that was not answered. Doubled
/// each time until one is.
const FIRST_PAUSE: Duration = Duration::from_secs(600);
/// The pause does not grow further.
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);

/// Decides for each write. Shared by all clones of a client, and by its connections before and
/// after a rotation of certificates.
pub(crate) struct Http1(Mutex<State>);

struct State {
    /// When the current window began, and the writes since then.
    window: (Instant, u32),
    /// True if the window before had many writes.
    is_busy: bool,
    /// When a write may be tried again. None if they are answered.
    off: Option<Instant>,
    pause: Duration,
    /// The writes that wait for an answer.
    under_way: usize,
    /// The write that shows whether the pause may end is under way.
    on_trial: bool,
}

/// A write over HTTP/1. It counts as not answered if this is dropped before [`Self::end`].
pub(crate) struct UnderWay {
    http1: Arc<Http1>,
    is_trial: bool,
    answered: bool,
}

impl Http1 {
    pub(crate) fn new() -> Arc<Self> {
        let window = (Instant::now(), 0);
        Arc::new(Self(Mutex::new(State {
            window,
            is_busy: false,
            off: None,
            pause: Duration::ZERO,
            under_way: 0,
            on_trial: false,
        })))
    }

    /// Call this for each write that is about to be sent. Returns what to hold until it is
    /// answered, if it should be sent over HTTP/1.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<UnderWay> {
        let mut state = self.0.lock();
        let now = Instant::now();
        if !state.count(now) || state.under_way == WRITES {
            return None;
        }
        let is_trial = match state.off {
            None => false,
            Some(end) if now < end || state.on_trial => return None,
            Some(_) => true,
        };
        state.under_way += 1;
        state.on_trial |= is_trial;
        Some(UnderWay { http1: Arc::clone(self), is_trial, answered: false })
    }
}

impl State {
    /// Counts a write. Returns whether there have been many.
    fn count(&mut self, now: Instant) -> bool {
        let (began, count) = &mut self.window;
        let age = now - *began;
        if age >= WINDOW {
            self.is_busy = *count >= MANY && age < 2 * WINDOW;
            (*began, *count) = (now, 0);
        }
        *count += 1;
        self.is_busy || *count > MANY
    }
}

impl UnderWay {
    /// The write was answered with this status, or failed.
    pub(crate) fn end(mut self, status: Option<StatusCode>) {
        self.answered = status.is_some_and(|status| !refuses_http1(status));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.http1.0.lock();
        state.under_way -= 1;
        if self.is_trial {
            state.on_trial = false;
        }
        if self.answered {
            if self.is_trial {
                (state.off, state.pause) = (None, Duration::ZERO);
                tracing::info!("writes go over HTTP/1 again");
            }
            return;
        }
        // Others were sent before the first of them failed.
        if state.off.is_none() || self.is_trial {
            state.pause = (state.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            state.off = Some(Instant::now() + state.pause);
            tracing::info!(pause = ?state.pause, "a write over HTTP/1 was not answered; writes go over HTTP/2");
        }
    }
}

/// Returns true if a proxy says by this status that it wants another version of HTTP: misdirected
/// request, upgrade required, a status of load balancers for an incompatible protocol, version not
/// supported.
fn refuses_http1(status: StatusCode) -> bool {
    matches!(status.as_u16(), 421 | 426 | 464 | 505)
}

/// Returns true if a request writes Endpoints, slices or events.
pub(crate) fn is_output<B>(request: &Request<B>) -> bool {
    let mut path = request.uri().path().split('/');
    let resource = path.find(|part| *part == "namespaces").and_then(|_| path.nth(1));
    !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && matches!(resource, Some("endpoints" | "endpointslices" | "events"))
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    /// Makes the next writes go over HTTP/1, if they may. The clock is paused.
    pub(crate) async fn make_busy(mut write: impl FnMut()) {
        (0..MANY).for_each(|_| write());
        advance(WINDOW).await;
    }

    async fn busy() -> Arc<Http1> {
        let http1 = Http1::new();
        make_busy(|| assert!(http1.begin().is_none(), "there were few")).await;
        http1
    }

    #[test]
    fn writes_of_outputs_are_told_from_other_requests() {
        let check = |method: Method, path: &str, want: bool| {
            let request = Request::builder().method(&method).uri(path).body(()).unwrap();
            assert_eq!(is_output(&request), want, "{method} {path}");
        };
        let slices = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";
        check(Method::POST, slices, true);
        check(Method::PUT, &format!("{slices}/cart-abcde"), true);
        check(Method::DELETE, &format!("https://192.0.2.1/prefix{slices}/leases"), true);
        check(Method::PUT, "/api/v1/namespaces/leases/endpoints/cart?as=PartialObjectMetadata", true);
        check(Method::PATCH, "/api/v1/namespaces/shop/events/cart", true);
        check(Method::GET, slices, false);
        check(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/endpoints", false);
        check(Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews", false);
        check(Method::POST, "/api/v1/namespaces", false);
    }

    #[tokio::test(start_paused = true)]
    async fn few_writes_go_over_http2() {
        let http1 = Http1::new();
        for _ in 0..1000 {
            assert!(http1.begin().is_none());
            sleep(Duration::from_secs(1)).await;
        }
        let http1 = busy().await;
        assert!(http1.begin().is_some());
        sleep(2 * WINDOW).await;
        assert!(http1.begin().is_none(), "there were many, but long ago");
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_over_http1_from_the_first_write_after_many() {
        let http1 = Http1::new();
        let goes_over_http1 = || http1.begin().map(|write| write.end(Some(StatusCode::OK))).is_some();
        for _ in 0..MANY {
            assert!(!goes_over_http1());
        }
        assert!(goes_over_http1());
        sleep(WINDOW).await;
        assert!(goes_over_http1(), "the window before had many");
        sleep(WINDOW).await;
        assert!(!goes_over_http1(), "the window before had one");
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_at_a_time_go_over_http1() {
        let http1 = busy().await;
        let mut under_way: Vec<UnderWay> = (0..WRITES).map(|_| http1.begin().unwrap()).collect();
        assert!(http1.begin().is_none());
        under_way.pop().unwrap().end(Some(StatusCode::CONFLICT));
        assert!(http1.begin().is_some());
    }

    /// The next write over HTTP/1. There are many only towards the end of the pause.
    async fn next(http1: &Arc<Http1>, pause: Duration) -> UnderWay {
        sleep(pause - 6 * WINDOW).await;
        loop {
            if let Some(write) = http1.begin() {
                return write;
            }
            sleep(WINDOW / (2 * MANY)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_write_that_was_not_answered_one_is_tried_ever_more_rarely() {
        let http1 = busy().await;
        let others = [http1.begin().unwrap(), http1.begin().unwrap()];
        http1.begin().unwrap().end(None);
        let [answered, failed] = others;
        answered.end(Some(StatusCode::OK));
        failed.end(None);
        for minutes in [10, 20, 40, 80, 160, 320, 360, 360] {
            let begin = Instant::now();
            let trial = next(&http1, Duration::from_secs(minutes * 60)).await;
            assert_eq!(begin.elapsed().as_secs() / 60, minutes);
            assert!(http1.begin().is_none(), "one at a time");
            // Given up, as at the time limit of the caller.
            drop(trial);
        }
        next(&http1, LONGEST_PAUSE).await.end(Some(StatusCode::CREATED));
        let both = [http1.begin().unwrap(), http1.begin().unwrap()];
        both.into_iter().for_each(|write| write.end(Some(StatusCode::OK)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_may_say_that_a_proxy_wants_another_protocol() {
        let check = async |status: u16, want: bool| {
            let http1 = busy().await;
            http1.begin().unwrap().end(StatusCode::from_u16(status).ok());
            assert_eq!(http1.begin().is_some(), want, "{status}");
        };
        for status in [200, 201, 401, 404, 409, 422, 429, 500, 503, 504] {
            check(status, true).await;
        }
        for status in [421, 426, 464, 505] {
            check(status, false).await;
        }
    }
}
