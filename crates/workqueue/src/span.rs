//! A span around each sync, for whoever installs an OpenTelemetry provider; without one it costs next to nothing.
//!
//! Whatever the sync does, down to the requests that it sends, finds the span as the current context.

use std::fmt::{Debug, Display};

use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{Span, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};

/// Begins and ends spans by the provider that was installed when it was made.
pub(crate) struct SyncTracer(BoxedTracer);

impl SyncTracer {
    pub(crate) fn new() -> Self {
        Self(global::tracer(env!("CARGO_PKG_NAME")))
    }

    /// A context in which a key of a queue is worked, after so many failures in a row.
    pub(crate) fn begin(&self, queue: &str, key: &impl Debug, requeues: u32) -> Context {
        let mut span = self.0.start("sync");
        if span.is_recording() {
            span.set_attributes([
                KeyValue::new("queue", queue.to_owned()),
                KeyValue::new("key", format!("{key:?}")),
                KeyValue::new("requeues", i64::from(requeues)),
            ]);
        }
        Context::current_with_span(span)
    }
}

/// Ends the span of a context with the outcome of its sync.
pub(crate) fn end(context: &Context, error: Option<&impl Display>) {
    let span = context.span();
    if let Some(error) = error.filter(|_| span.is_recording()) {
        span.set_status(Status::error(error.to_string()));
    }
    span.end();
}
