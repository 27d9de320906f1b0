//! Distributes requests over pools of connections: watches of single namespaces have other
//! connections than all other requests.
//!
//! An API server serves 100 requests at a time over one HTTP/2 connection, and a watch is one of
//! them. A process that watches many namespaces one by one (`--namespaces`) needs more, and every
//! other request would wait for ever. Therefore these watches have [`WATCH_CONNECTIONS`] other
//! pools. Watches of all namespaces are few and share a connection with reads and writes; when 100
//! requests are open there, the next ones wait until one ends.
//!
//! Each pool sends its watches one after the other. While there is no connection, a pool of hyper
//! opens one for each request, and a watch keeps its connection for minutes: a start with 300
//! namespaces, and the end of each outage, would otherwise open 1,200 connections.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use kube::client::Body;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tower::Service;

/// The number of pools for watches of single namespaces. Over HTTP/2 each has one connection.
const WATCH_CONNECTIONS: usize = 64;
/// The longest time that a watch waits for the answers to those before it. A server that is slow to
/// answer one watch does not delay the others for longer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Sends watches of single namespaces over connections of their own. Opens only those that it uses.
pub(crate) struct Spread<S> {
    shared: S,
    of_namespaces: Arc<[Watches<S>]>,
}

/// The connections of some watches.
#[derive(Clone)]
struct Watches<S> {
    pool: S,
    /// Held until the server has answered a watch. The next one then finds its connection.
    turn: Arc<Mutex<()>>,
}

impl<S> Spread<S> {
    /// `pool` makes a pool without connections.
    pub(crate) fn new(mut pool: impl FnMut() -> S) -> Self {
        let shared = pool();
        let watches = |_| Watches { pool: pool(), turn: Arc::default() };
        let of_namespaces = (0..WATCH_CONNECTIONS).map(watches).collect();
        Self { shared, of_namespaces }
    }
}

impl<S> Spread<S> {
    pub(crate) fn send<B>(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<B>, S::Error>>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        // Pools are always ready.
        let Some(namespace) = watched_namespace(request.uri()) else {
            return self.shared.clone().call(request).boxed();
        };
        let Watches { mut pool, turn } = self.of_namespaces[pool_of(namespace)].clone();
        async move {
            let turn = timeout(LONGEST_WAIT, turn.lock_owned()).await;
            let answer = pool.call(request).await;
            drop(turn);
            answer
        }
        .boxed()
    }
}

/// Returns the namespace of a watch, or `None` for a watch of the whole cluster and for other
/// requests.
fn watched_namespace(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find(|parameter| matches!(*parameter, "watch=true" | "watch=1"))?;
    let (_, rest) = uri.path().split_once("/namespaces/")?;
    Some(rest.split_once('/')?.0)
}

/// Returns the number of the pool for watches of a namespace.
fn pool_of(namespace: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    namespace.hash(&mut hasher);
    // It is less than the number of pools, so the cast loses nothing.
    (hasher.finish() % WATCH_CONNECTIONS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use tokio::time::{Instant, sleep};

    use super::*;

    #[test]
    fn watches_of_single_namespaces_are_told_from_other_requests() {
        let check = |uri: &str, want: Option<&str>| {
            assert_eq!(watched_namespace(&uri.parse().unwrap()), want, "{uri}");
        };
        let shop = Some("shop");
        check("/api/v1/namespaces/shop/pods?watch=true&resourceVersion=7", shop);
        check(
            "https://192.0.2.1:6443/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices?timeoutSeconds=9&watch=1",
            shop,
        );
        check("/api/v1/namespaces/shop/pods?limit=500", None);
        check("/api/v1/namespaces/shop/pods", None);
        check("/api/v1/namespaces?watch=true", None);
        check("/api/v1/pods?watch=true", None);
        check("/api/v1/namespaces/shop/endpoints?watch=1", shop);
        check("/api/v1/namespaces/shop/pods?labelSelector=watch%3Dtrue", None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_watches_of_hundreds_of_namespaces_fit_on_their_connections() {
        // The number of requests of each pool; other requests share the first.
        let counts: Arc<[AtomicUsize]> = (0..=WATCH_CONNECTIONS).map(|_| AtomicUsize::new(0)).collect();
        let pool = |number: usize| {
            let counts = Arc::clone(&counts);
            tower::service_fn(move |_: Request<Body>| {
                counts[number].fetch_add(1, Ordering::Relaxed);
                std::future::ready(Ok::<_, Infallible>(Response::new(())))
            })
        };
        let mut numbers = 0..;
        let spread = Spread::new(|| pool(numbers.next().unwrap()));
        for number in 0..500 {
            for plural in ["pods", "services", "endpoints", "endpointslices"] {
                for query in ["watch=true", "limit=1"] {
                    let uri = format!("/api/v1/namespaces/team-{number}/{plural}?{query}");
                    spread.send(Request::get(uri).body(Body::empty()).unwrap()).await.unwrap();
                }
            }
        }
        let counts: Vec<usize> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(counts[0], 2000);
        assert_eq!(counts[1..].iter().sum::<usize>(), 2000);
        assert!(counts[1..].iter().all(|count| *count < 100), "{counts:?}");
    }

    /// Sends `number` watches of one namespace at once to a server that answers each after this
    /// time. Returns the most that were under way at the same time, and when the server answered
    /// the last.
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
                    Ok::<_, Infallible>(Response::new(()))
                }
            })
        };
        let spread = Spread::new(pool);
        let start = Instant::now();
        let watch = || Request::get("/api/v1/namespaces/shop/pods?watch=true").body(Body::empty()).unwrap();
        join_all((0..number).map(|_| spread.send(watch()))).await;
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
