//! Request metrics under client-go's names (`tools/metrics`, and
//! `metrics/prometheus/restclient` in component-base).
//!
//! A client registers a metric with the recorder that is current when the metric has its first
//! value, and keeps the handle: looking it up costs more than recording.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use metrics::{
    Counter, Histogram, SharedString, Unit, counter, describe_counter, describe_histogram, histogram,
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{Layer, Service};

/// Requests by `code` (`<error>` if no response arrived), `method` and `host`.
const REQUESTS: &str = "rest_client_requests_total";
/// Seconds until the response headers arrived, by `verb` and `host`. For a watch, that is when it
/// opens.
const REQUEST_DURATION: &str = "rest_client_request_duration_seconds";
/// Seconds that requests waited for the client-side rate limiter, by `verb` and `host`.
const RATE_LIMITER_DURATION: &str = "rest_client_rate_limiter_duration_seconds";

/// Upstream's buckets of durations, in seconds.
const DURATIONS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// Returns the names of the histograms of this crate with their buckets, which are upstream's.
pub fn buckets() -> Vec<(&'static str, Vec<f64>)> {
    vec![(REQUEST_DURATION, DURATIONS.to_vec()), (RATE_LIMITER_DURATION, DURATIONS.to_vec())]
}

/// Counts and times the requests of a client.
///
/// It registers each metric when the metric has its first value, with the recorder that is current
/// then, and stays with that recorder. So install the recorder before the first request, and use
/// one client for each recorder. Clones of a client are one client.
#[derive(Clone, Debug)]
pub struct CountRequests {
    metrics: Arc<RequestMetrics>,
}

impl CountRequests {
    /// Returns a layer for a client of this host. `host` includes the port and becomes a label.
    pub fn new(host: impl Into<Arc<str>>) -> Self {
        describe_counter!(REQUESTS, "Number of HTTP requests, by status code, method and host");
        describe_histogram!(REQUEST_DURATION, Unit::Seconds, "Request latency in seconds, by verb and host");
        describe_histogram!(
            RATE_LIMITER_DURATION,
            Unit::Seconds,
            "Client-side rate limiter latency in seconds, by verb and host"
        );
        Self { metrics: Arc::new(RequestMetrics::new(host)) }
    }

    /// Returns the metrics that the layer records.
    pub(crate) fn metrics(&self) -> Arc<RequestMetrics> {
        Arc::clone(&self.metrics)
    }
}

/// The metrics of all requests of a client.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    host: Arc<str>,
    /// One for each method that the client has used. This project uses five.
    verbs: Mutex<Vec<Arc<Verb>>>,
}

impl RequestMetrics {
    pub(crate) fn new(host: impl Into<Arc<str>>) -> Self {
        Self { host: host.into(), verbs: Mutex::default() }
    }

    /// Records how long a request waited for the client-side rate limiter.
    pub(crate) fn waited_for_rate_limiter(&self, method: &Method, waited: Duration) {
        self.verb(method).rate_limiter_duration().record(waited.as_secs_f64());
    }

    fn verb(&self, method: &Method) -> Arc<Verb> {
        let mut verbs = self.verbs.lock();
        if let Some(verb) = verbs.iter().find(|verb| verb.method == *method) {
            return Arc::clone(verb);
        }
        let verb = Arc::new(Verb::new(method.clone(), Arc::clone(&self.host)));
        verbs.push(Arc::clone(&verb));
        verb
    }
}

/// The metrics of the requests with one method. It does not register a metric without a value.
#[derive(Debug)]
struct Verb {
    method: Method,
    host: Arc<str>,
    request_duration: OnceLock<Histogram>,
    rate_limiter_duration: OnceLock<Histogram>,
    /// By status, or `None` if no response arrived.
    requests: Mutex<Vec<(Option<StatusCode>, Counter)>>,
}

impl Verb {
    fn new(method: Method, host: Arc<str>) -> Self {
        Self {
            method,
            host,
            request_duration: OnceLock::new(),
            rate_limiter_duration: OnceLock::new(),
            requests: Mutex::default(),
        }
    }

    fn request_duration(&self) -> &Histogram {
        self.request_duration.get_or_init(|| self.histogram(REQUEST_DURATION))
    }

    fn rate_limiter_duration(&self) -> &Histogram {
        self.rate_limiter_duration.get_or_init(|| self.histogram(RATE_LIMITER_DURATION))
    }

    fn histogram(&self, name: &'static str) -> Histogram {
        histogram!(name, "verb" => label(&self.method), "host" => Arc::clone(&self.host))
    }

    /// Counts a request by the status of its answer.
    fn count(&self, status: Option<StatusCode>) {
        let known = {
            let requests = self.requests.lock();
            requests.iter().find(|(known, _)| *known == status).map(|(_, counter)| counter.clone())
        };
        let counter = known.unwrap_or_else(|| {
            // Registers it without the lock, since the recorder is somebody else's code. Two
            // handles of one counter do no harm.
            let code = status.map_or_else(|| "<error>".to_owned(), |status| status.as_str().to_owned());
            let (method, host) = (label(&self.method), Arc::clone(&self.host));
            let counter = counter!(REQUESTS, "code" => code, "method" => method, "host" => host);
            self.requests.lock().push((status, counter.clone()));
            counter
        });
        counter.increment(1);
    }
}

/// Returns the label of a method. Allocates nothing for those that Kubernetes knows.
fn label(method: &Method) -> SharedString {
    let name = match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => return method.as_str().to_owned().into(),
    };
    SharedString::const_str(name)
}

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, metrics: self.metrics() }
    }
}

/// A service that counts and times its requests.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    metrics: Arc<RequestMetrics>,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (verb, asked) = (self.metrics.verb(request.method()), Instant::now());
        self.inner
            .call(request)
            .map(move |answer| {
                verb.request_duration().record(asked.elapsed().as_secs_f64());
                verb.count(answer.as_ref().ok().map(Response::status));
                answer
            })
            .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use metrics::{Gauge, Key, KeyName, Metadata, Recorder};
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use tower::{ServiceExt, service_fn};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_request_is_counted_and_timed() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let _current = metrics::set_default_local_recorder(&recorder);
        let answer = |request: Request<Full<Bytes>>| async move {
            tokio::time::sleep(std::time::Duration::from_secs(3)).await;
            match &*request.into_body().collect().await.unwrap().to_bytes() {
                b"lost" => Err("lost"),
                _ => Ok(Response::builder()
                    .status(409)
                    .body(Full::<Bytes>::from("answer"))
                    .unwrap_or_default()),
            }
        };
        let requests = CountRequests::new("10.0.0.1:6443");
        let service = requests.layer(service_fn(answer));
        for (path, body) in [
            ("/api/v1/pods", "kept"),
            ("/api/v1/pods", "lost"),
            ("/api/v1/pods", "kept longer"),
            ("/api/v1/pods?limit=1&watch=true", ""),
        ] {
            let request = Request::post(path).body(Full::from(body)).unwrap();
            if let Ok(answer) = service.clone().oneshot(request).await {
                let _ = answer.into_body().collect().await;
            }
        }
        requests.metrics().waited_for_rate_limiter(&Method::PUT, Duration::from_secs(2));
        let mut lines: Vec<String> = snapshotter
            .snapshot()
            .into_vec()
            .into_iter()
            .map(|(key, _, _, value)| {
                let labels: Vec<String> =
                    key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
                let value = match value {
                    DebugValue::Counter(count) => count.to_string(),
                    DebugValue::Histogram(times) => {
                        format!("{:?}", times.iter().map(|time| time.0.round()).collect::<Vec<_>>())
                    }
                    DebugValue::Gauge(_) => "a gauge".to_owned(),
                };
                format!("{}{{{}}} {value}", key.key().name(), labels.join(","))
            })
            .collect();
        lines.sort();
        insta::assert_snapshot!(lines.join("\n"), @r"
        rest_client_rate_limiter_duration_seconds{verb=PUT,host=10.0.0.1:6443} [2.0]
        rest_client_request_duration_seconds{verb=POST,host=10.0.0.1:6443} [3.0, 3.0, 3.0, 3.0]
        rest_client_requests_total{code=409,method=POST,host=10.0.0.1:6443} 3
        rest_client_requests_total{code=<error>,method=POST,host=10.0.0.1:6443} 1
        ");
    }

    /// Counts the registrations of metrics.
    #[derive(Default)]
    struct Registrations(AtomicUsize);

    impl Registrations {
        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Recorder for Registrations {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            self.0.fetch_add(1, Ordering::Relaxed);
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            self.0.fetch_add(1, Ordering::Relaxed);
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            self.0.fetch_add(1, Ordering::Relaxed);
            Histogram::noop()
        }
    }

    #[tokio::test]
    async fn a_metric_is_registered_once_with_the_recorder_of_its_first_value() {
        let (first, second) = (Registrations::default(), Registrations::default());
        let requests = CountRequests::new("10.0.0.1:6443");
        let answer = |request: Request<Full<Bytes>>| async move {
            let status = if request.uri().path() == "/missing" { 404 } else { 200 };
            Ok::<_, std::convert::Infallible>(
                Response::builder().status(status).body(Full::<Bytes>::from("answer")).unwrap(),
            )
        };
        let service = requests.layer(service_fn(answer));
        let send = async |method: Method, path: &str| {
            let request = Request::builder().method(&method).uri(path).body(Full::default()).unwrap();
            // This drops the body unread.
            let _ = service.clone().oneshot(request).await;
            requests.metrics().waited_for_rate_limiter(&method, Duration::ZERO);
        };
        let current = metrics::set_default_local_recorder(&first);
        for _ in 0..10 {
            send(Method::PUT, "/").await;
        }
        assert_eq!(first.count(), 3, "two histograms and a counter");
        send(Method::PUT, "/missing").await;
        assert_eq!(first.count(), 4, "a counter of another status");
        drop(current);
        let _current = metrics::set_default_local_recorder(&second);
        send(Method::PUT, "/").await;
        assert_eq!(second.count(), 0);
        send(Method::POST, "/").await;
        assert_eq!((first.count(), second.count()), (4, 3), "another method");
    }
}
