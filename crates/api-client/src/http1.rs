//! Decides which writes go over HTTP/1.
//!
//! A write over HTTP/1 costs an API server less than one over HTTP/2, and this process too
//! (docs/log/2026-11-22-http1.md). But a connection serves one request at a time, and no PING finds
//! a server that has fallen silent while its kernel still answers. Therefore:
//!
//! - Only writes of outputs and events go over HTTP/1 ([`is_output`]). They have a time limit of
//!   their own, and the writer knows what to do if the answer is lost. The renewal of a Lease must
//!   not wait for that limit, and reviews of clients are no writes of controllers.
//! - A write that finds [`WRITES`] others under way goes over HTTP/2, so that no write waits for a
//!   connection.
//! - Without many writes, all go over HTTP/2, whose connection is open anyway: a connection for a
//!   single write would cost a TLS handshake. There are many after the first [`MANY`] of a
//!   [`WINDOW`], and during the window after it. A burst of a few more opens connections for few
//!   writes, which is acceptable because a cold start or a rollout has far more.
//! - After one write without an answer, all go over HTTP/2 until the process ends: a proxy may
//!   accept HTTP/2 only, or close idle connections early.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The most writes that may wait for an answer over HTTP/1 at a time. Their connections may be a
/// few more: one is free again when the caller has read the whole answer.
pub(crate) const WRITES: usize = 8;
/// After this many writes in a [`WINDOW`], the next ones go over HTTP/1.
pub(crate) const MANY: u32 = 50;
/// See [`MANY`].
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// Decides for each write. All clones of a client share it, and so do its connections before and
/// after a rotation of certificates.
pub(crate) struct Http1(Mutex<State>);

struct State {
    /// When the current window began, and the writes since then.
    window: (Instant, u32),
    /// True if the window before had many writes.
    is_busy: bool,
    /// True after a write without an answer.
    is_off: bool,
    /// The writes that wait for an answer.
    under_way: usize,
}

/// A write over HTTP/1. It counts as not answered if the caller drops it before [`Self::end`].
pub(crate) struct UnderWay {
    http1: Arc<Http1>,
    answered: bool,
}

impl Http1 {
    pub(crate) fn new() -> Arc<Self> {
        let window = (Instant::now(), 0);
        Arc::new(Self(Mutex::new(State { window, is_busy: false, is_off: false, under_way: 0 })))
    }

    /// Call this for each write that is about to be sent. If the write should go over HTTP/1,
    /// returns a guard to hold until the server has answered.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<UnderWay> {
        let mut state = self.0.lock();
        if state.is_off || !state.count(Instant::now()) || state.under_way == WRITES {
            return None;
        }
        state.under_way += 1;
        Some(UnderWay { http1: Arc::clone(self), answered: false })
    }
}

impl State {
    /// Counts a write. Returns true if there have been many.
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
    /// Call this with the status of the answer, or with `None` if the write failed.
    pub(crate) fn end(mut self, status: Option<StatusCode>) {
        self.answered = status.is_some_and(|status| !refuses_http1(status));
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.http1.0.lock();
        state.under_way -= 1;
        if !self.answered && !std::mem::replace(&mut state.is_off, true) {
            tracing::info!("a write over HTTP/1 was not answered; from now on all go over HTTP/2");
        }
    }
}

/// Returns true if a proxy demands another version of HTTP by this status: misdirected request,
/// upgrade required, a status of load balancers for an incompatible protocol, version not
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

    /// Writes often enough for the next writes to go over HTTP/1, if they may. The clock is paused.
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

    #[tokio::test(start_paused = true)]
    async fn after_a_write_that_was_not_answered_all_go_over_http2() {
        let http1 = busy().await;
        let [answered, given_up] = [http1.begin().unwrap(), http1.begin().unwrap()];
        drop(given_up);
        answered.end(Some(StatusCode::OK));
        for _ in 0..100 {
            make_busy(|| assert!(http1.begin().is_none())).await;
            sleep(Duration::from_secs(3600)).await;
        }
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
