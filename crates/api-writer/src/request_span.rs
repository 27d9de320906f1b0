//! A span for each request of a sync that is traced, and the headers that tell the server of it.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use opentelemetry::propagation::Injector;
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer, get_active_span};
use opentelemetry::{Context, KeyValue, global};

use crate::error::WriteError;

/// Below this, a wait for the rate limiter is not worth an attribute.
const SHORT_WAIT: Duration = Duration::from_millis(1);

/// The trace context of one request: that of a span of its own if the sync is traced, otherwise the
/// sync's.
pub(crate) struct RequestSpan {
    context: Context,
    /// True if the request has a span of its own.
    is_own: bool,
}

impl RequestSpan {
    /// Begins the span of a request. `waited` is how long it has waited for the rate limiter.
    pub(crate) fn begin(method: &Method, path: &str, waited: Duration) -> Self {
        if !get_active_span(|sync| sync.is_recording()) {
            return Self { context: Context::current(), is_own: false };
        }
        let tracer = global::tracer(env!("CARGO_PKG_NAME"));
        let mut attributes = vec![
            KeyValue::new("http.request.method", method.to_string()),
            KeyValue::new("url.path", path.to_owned()),
        ];
        if waited >= SHORT_WAIT {
            attributes.push(KeyValue::new("rate_limiter.wait_seconds", waited.as_secs_f64()));
        }
        let span = tracer
            .span_builder(method.to_string())
            .with_kind(SpanKind::Client)
            .with_attributes(attributes)
            .start(&tracer);
        Self { context: Context::current_with_span(span), is_own: true }
    }

    /// Adds the headers by which the server's spans become children of this one, such as
    /// `traceparent`.
    pub(crate) fn inject(&self, headers: &mut HeaderMap) {
        global::get_text_map_propagator(|propagator| {
            propagator.inject_context(&self.context, &mut TraceHeaders(headers));
        });
    }

    /// Ends the span of the request.
    pub(crate) fn end(self, code: Option<u16>, error: Option<&WriteError>) {
        if !self.is_own {
            return;
        }
        let span = self.context.span();
        if let Some(code) = code {
            span.set_attribute(KeyValue::new("http.response.status_code", i64::from(code)));
        }
        if let Some(error) = error {
            let kind = code.map_or_else(|| "no_answer".to_owned(), |code| code.to_string());
            span.set_attribute(KeyValue::new("error.type", kind));
            span.set_status(Status::error(error.to_string()));
        }
        span.end();
    }
}

struct TraceHeaders<'a>(&'a mut HeaderMap);

impl Injector for TraceHeaders<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}
