//! Request metrics under client-go's names (`tools/metrics`, and
//! `metrics/prometheus/restclient` in component-base).
//!
//! Each request is recorded with the recorder that is current when its response arrives.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};
use tokio::time::Instant;
use tower::{Layer, Service};

/// Requests by `code` (`<error>` if no response arrived), `method` and `host`.
pub const REQUESTS: &str = "rest_client_requests_total";
/// Seconds until the response headers arrived, by `verb` and `host`. For a watch, that is when it opens.
pub const REQUEST_DURATION: &str = "rest_client_request_duration_seconds";

/// Upstream's buckets for [`REQUEST_DURATION`], in seconds.
pub const REQUEST_DURATION_BUCKETS: [f64; 12] =
    [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// Counts and times the requests of a client.
#[derive(Clone, Debug)]
pub struct CountRequests {
    host: Arc<str>,
}

impl CountRequests {
    /// A layer for a client of this host. `host` includes the port and becomes a label.
    pub fn new(host: impl Into<Arc<str>>) -> Self {
        describe_counter!(REQUESTS, "Number of HTTP requests, by status code, method and host");
        describe_histogram!(REQUEST_DURATION, Unit::Seconds, "Request latency in seconds, by verb and host");
        Self { host: host.into() }
    }
}

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, host: Arc::clone(&self.host) }
    }
}

/// A service whose requests are counted and timed.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
    host: Arc<str>,
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
        let host = Arc::clone(&self.host);
        let method = request.method().clone();
        let asked = Instant::now();
        let answered = move |answer: &Result<Response<B>, S::Error>| {
            let code = answer
                .as_ref()
                .map_or_else(|_| "<error>".to_owned(), |answer| answer.status().as_str().to_owned());
            let (method, host) = (method.as_str().to_owned(), host.to_string());
            histogram!(REQUEST_DURATION, "verb" => method.clone(), "host" => host.clone())
                .record(asked.elapsed().as_secs_f64());
            counter!(REQUESTS, "code" => code, "method" => method, "host" => host).increment(1);
        };
        self.inner.call(request).inspect(answered).boxed()
    }
}

#[cfg(test)]
mod tests {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use tower::{ServiceExt, service_fn};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_request_is_counted_by_its_outcome() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let _current = metrics::set_default_local_recorder(&recorder);
        let answer = |request: Request<&'static str>| async move {
            tokio::time::sleep(std::time::Duration::from_secs(3)).await;
            match request.into_body() {
                "lost" => Err("lost"),
                _ => Ok(Response::builder().status(409).body(()).unwrap_or_default()),
            }
        };
        let service = CountRequests::new("10.0.0.1:6443").layer(service_fn(answer));
        for body in ["kept", "lost", "kept"] {
            let request = Request::post("/api/v1/pods").body(body).unwrap();
            let _ = service.clone().oneshot(request).await;
        }
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
        rest_client_request_duration_seconds{verb=POST,host=10.0.0.1:6443} [3.0, 3.0, 3.0]
        rest_client_requests_total{code=409,method=POST,host=10.0.0.1:6443} 2
        rest_client_requests_total{code=<error>,method=POST,host=10.0.0.1:6443} 1
        ");
    }
}
