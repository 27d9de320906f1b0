//! Distributes requests over pools of connections: writes and watches of single namespaces have other connections than all
//! other requests.
//!
//! # Writes
//!
//! A write over HTTP/1 costs an API server less than one over HTTP/2, and this process too (docs/performance.md).
//! [`WRITES`] at a time have such connections; the others are sent over HTTP/2, so that no write waits for a connection. HTTP/1
//! has no PING that finds a server whose kernel still answers. A write has a time limit of its own and does without, but not
//! the renewal of a Lease: it goes over HTTP/2. So do all writes for [`WITHOUT_HTTP1`] after one that was not answered: there
//! may be a proxy that accepts HTTP/2 only, or closes idle connections early.
//!
//! # Watches of single namespaces
//!
//! An API server serves 100 requests at a time over one HTTP/2 connection, and a watch is one of them. Whoever watches many
//! namespaces one by one (`--namespaces`) needs more, and every other request would wait for ever. Therefore these
//! watches have [`WATCH_CONNECTIONS`] other pools.
//!
//! The watches of a pool are sent one after the other. While there is no connection, a pool of hyper opens one for each
//! request, and a watch keeps its connection for minutes: a start with 300 namespaces, and the end of each outage, would
//! open 1,200 connections.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Uri};
use kube::client::Body;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tower::Service;

/// How many writes at a time have connections of their own. An API server answers in 5 ms, so that these are enough for a
/// thousand writes a second.
const WRITES: usize = 8;
/// How long writes are sent over HTTP/2 after one over HTTP/1 was not answered.
const WITHOUT_HTTP1: Duration = Duration::from_secs(600);
/// The number of pools for watches of single namespaces. Over HTTP/2 each has one connection.
const WATCH_CONNECTIONS: usize = 64;
/// How long a watch waits at most until the server has answered those before it. A server that is slow to answer one
/// watch does not delay the others for longer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Sends writes and watches of single namespaces over connections of their own. One that is not used is not opened.
#[derive(Clone)]
pub(crate) struct Spread<S> {
    shared: S,
    writes: Writes<S>,
    of_namespaces: Arc<[Watches<S>]>,
}

/// The connections of writes.
#[derive(Clone)]
struct Writes<S> {
    pool: S,
    /// A permit for each write under way.
    free: Arc<Semaphore>,
    /// Until when no write is sent over `pool`.
    off: Arc<parking_lot::Mutex<Option<Instant>>>,
}

/// A write under way. If this is dropped before the write is `answered`, no write is sent over these connections for a time.
struct UnderWay {
    _permit: OwnedSemaphorePermit,
    off: Arc<parking_lot::Mutex<Option<Instant>>>,
    answered: bool,
}

impl UnderWay {
    fn end(mut self, answered: bool) {
        self.answered = answered;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.answered {
            *self.off.lock() = Some(Instant::now() + WITHOUT_HTTP1);
        }
    }
}

/// The connections of the watches of some namespaces.
struct Watches<S> {
    pool: S,
    /// Held until a watch is answered. The next one finds its connection then.
    turn: Arc<Mutex<()>>,
}

impl<S> Spread<S> {
    /// `writes` is the pool for writes; `pool` makes a pool without connections.
    pub(crate) fn new(writes: S, mut pool: impl FnMut() -> S) -> Self {
        let shared = pool();
        let of_namespaces = (0..WATCH_CONNECTIONS).map(|_| Watches { pool: pool(), turn: Arc::default() });
        let of_namespaces = of_namespaces.collect();
        let writes = Writes { pool: writes, free: Arc::new(Semaphore::new(WRITES)), off: Arc::default() };
        Self { shared, writes, of_namespaces }
    }
}

impl<S> Writes<S> {
    /// A write that may be sent over these connections now.
    fn begin(&self) -> Option<UnderWay> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let mut off = self.off.lock();
        *off = off.filter(|end| Instant::now() < *end);
        off.is_none().then(|| UnderWay { _permit: permit, off: Arc::clone(&self.off), answered: false })
    }
}

impl<S> Service<Request<Body>> for Spread<S>
where
    S: Service<Request<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // A pool is always ready.
        self.shared.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if is_write(&request)
            && let Some(write) = self.writes.begin()
        {
            let answer = self.writes.pool.call(request);
            return async move {
                let answer = answer.await;
                write.end(answer.is_ok());
                answer
            }
            .boxed();
        }
        let Some(namespace) = watched_namespace(request.uri()) else {
            return self.shared.call(request).boxed();
        };
        let Watches { pool, turn } = &self.of_namespaces[pool_of(namespace)];
        let (mut pool, turn) = (pool.clone(), Arc::clone(turn));
        async move {
            let turn = timeout(LONGEST_WAIT, turn.lock_owned()).await;
            let answer = pool.call(request).await;
            drop(turn);
            answer
        }
        .boxed()
    }
}

/// Whether a request writes, and may wait until its time limit behind a server that has fallen silent.
fn is_write(request: &Request<Body>) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && !request.uri().path().contains("/leases")
}

/// The namespace, if a request watches the objects of one.
fn watched_namespace(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find(|parameter| matches!(*parameter, "watch=true" | "watch=1"))?;
    let (_, rest) = uri.path().split_once("/namespaces/")?;
    rest.split_once('/').map(|(namespace, _)| namespace)
}

/// The number of the pool for watches of a namespace.
fn pool_of(namespace: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    namespace.hash(&mut hasher);
    // Less than the number of pools, so nothing is lost.
    (hasher.finish() % WATCH_CONNECTIONS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::time::sleep;

    use super::*;

    #[test]
    fn watches_of_single_namespaces_are_told_from_other_requests() {
        let check = |uri: &str, want: Option<&str>| {
            assert_eq!(watched_namespace(&uri.parse().unwrap()), want, "{uri}");
        };
        check("/api/v1/namespaces/shop/pods?watch=true&resourceVersion=7", Some("shop"));
        check(
            "https://192.0.2.1:6443/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?timeoutSeconds=9&watch=1",
            Some("shop"),
        );
        check("/api/v1/namespaces/shop/pods?limit=500", None);
        check("/api/v1/namespaces/shop/pods", None);
        check("/api/v1/namespaces?watch=true", None);
        check("/api/v1/pods?watch=true", None);
        check("/api/v1/namespaces/shop/pods?labelSelector=watch%3Dtrue", None);
    }

    #[test]
    fn writes_are_told_from_other_requests() {
        let check = |method: Method, path: &str, want: bool| {
            let request = Request::builder().method(&method).uri(path).body(Body::empty()).unwrap();
            assert_eq!(is_write(&request), want, "{method} {path}");
        };
        let slices = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";
        check(Method::POST, slices, true);
        check(Method::PUT, &format!("{slices}/cart-abcde"), true);
        check(Method::DELETE, &format!("{slices}/cart-abcde"), true);
        check(Method::PATCH, "/api/v1/namespaces/shop/events/cart", true);
        check(Method::GET, slices, false);
        check(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/manager", false);
    }

    #[tokio::test(start_paused = true)]
    async fn writes_without_a_connection_of_their_own_do_not_wait() {
        let pool = |answer_after: Duration, name: &'static str| {
            tower::service_fn(move |_: Request<Body>| async move {
                sleep(answer_after).await;
                Ok::<_, Infallible>(name)
            })
        };
        let of_writes = pool(Duration::from_secs(5), "writes");
        let mut spread = Spread::new(of_writes, || pool(Duration::from_secs(1), "shared"));
        let start = Instant::now();
        let mut send = || spread.call(Request::post("/api/v1/endpoints").body(Body::empty()).unwrap());
        let answers = join_all((0..WRITES + 3).map(|_| send())).await;
        let names: Vec<&str> = answers.into_iter().map(Result::unwrap).collect();
        assert_eq!(names, [["writes"; WRITES].as_slice(), &["shared"; 3]].concat());
        assert_eq!(start.elapsed().as_secs(), 5);
        assert_eq!(send().await.unwrap(), "writes", "the answered writes have left their connections");
    }

    /// The first write fails, or is given up; the second and the one after ten minutes go where they are told.
    async fn unanswered(
        of_writes: impl Fn() -> BoxFuture<'static, Result<&'static str, ()>> + Clone + Send + 'static,
    ) {
        let pool =
            move |is_shared| {
                let of_writes = of_writes.clone();
                tower::service_fn(move |_: Request<Body>| {
                    if is_shared { std::future::ready(Ok("shared")).boxed() } else { of_writes() }
                })
            };
        let mut spread = Spread::new(pool(false), || pool(true));
        let mut send = async || {
            let request = Request::post("/api/v1/endpoints").body(Body::empty()).unwrap();
            timeout(Duration::from_secs(60), spread.call(request)).await
        };
        for _ in 0..2 {
            assert_ne!(send().await, Ok(Ok("shared")));
            assert_eq!(send().await, Ok(Ok("shared")));
            sleep(WITHOUT_HTTP1 - Duration::from_secs(1)).await;
            assert_eq!(send().await, Ok(Ok("shared")));
            sleep(Duration::from_secs(1)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_write_that_was_not_answered_writes_use_the_connection_of_reads_for_a_time() {
        unanswered(|| std::future::ready(Err(())).boxed()).await;
        unanswered(|| std::future::pending().boxed()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_watches_of_hundreds_of_namespaces_fit_on_their_connections() {
        // The number of requests of each pool; the first is shared.
        let counts: Arc<[AtomicUsize]> = (0..WATCH_CONNECTIONS + 2).map(|_| AtomicUsize::new(0)).collect();
        let pool = |number: usize| {
            let counts = Arc::clone(&counts);
            tower::service_fn(move |_: Request<Body>| {
                counts[number].fetch_add(1, Ordering::Relaxed);
                std::future::ready(Ok::<_, Infallible>(()))
            })
        };
        let mut numbers = 0..;
        let mut pools = || pool(numbers.next().unwrap());
        // The last counter is that of writes, of which there are none.
        let mut spread = Spread::new(pool(WATCH_CONNECTIONS + 1), &mut pools);
        for number in 0..500 {
            for plural in ["pods", "services", "endpoints", "endpointslices"] {
                for query in ["watch=true", "limit=1"] {
                    let uri = format!("/api/v1/namespaces/team-{number}/{plural}?{query}");
                    spread.call(Request::get(uri).body(Body::empty()).unwrap()).await.unwrap();
                }
            }
        }
        let counts: Vec<usize> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(counts[0], 2000);
        assert_eq!(counts[1..].iter().sum::<usize>(), 2000);
        assert!(counts[1..].iter().all(|count| *count < 100), "{counts:?}");
    }

    /// The watches of one namespace, all sent at once to a server that answers each after this time. Returns how many were
    /// under way at the same time at most, and when the last was answered.
    async fn watches_of_one_namespace(number: usize, answer_after: Duration) -> (usize, Duration) {
        let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let pool = || {
            let (open, most) = (Arc::clone(&open), Arc::clone(&most));
            tower::service_fn(move |_: Request<Body>| {
                let (open, most) = (Arc::clone(&open), Arc::clone(&most));
                async move {
                    most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    sleep(answer_after).await;
                    open.fetch_sub(1, Ordering::Relaxed);
                    Ok::<_, Infallible>(())
                }
            })
        };
        let mut spread = Spread::new(pool(), pool);
        let start = Instant::now();
        let watch = || Request::get("/api/v1/namespaces/shop/pods?watch=true").body(Body::empty()).unwrap();
        join_all((0..number).map(|_| spread.call(watch()))).await;
        (most.load(Ordering::Relaxed), start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_sent_when_the_one_before_is_answered() {
        let (most, took) = watches_of_one_namespace(20, Duration::from_millis(100)).await;
        assert_eq!((most, took.as_millis() / 100), (1, 20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_slow_to_answer_a_watch_does_not_delay_the_others_for_long() {
        let (most, took) = watches_of_one_namespace(20, Duration::from_secs(30)).await;
        assert_eq!((most, took.as_secs()), (20, 35));
    }
}
