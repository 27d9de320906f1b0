//! A span around each sync. Without an OpenTelemetry provider, its cost is negligible.
//!
//! The span is the current context of the sync and of the requests that it sends.

use std::fmt::{Debug, Display};

use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{Span, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};

/// Starts spans with the provider that was current when the tracer was created.
pub(crate) struct SyncTracer(BoxedTracer);

impl SyncTracer {
    pub(crate) fn new() -> Self {
        Self(global::tracer(env!("CARGO_PKG_NAME")))
    }

    /// Starts the span of a sync of `key`, which has failed `requeues` times in a row, and returns
    /// its context.
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

/// Ends the span of a context. An error sets its status.
pub(crate) fn end(context: &Context, error: Option<&impl Display>) {
    let span = context.span();
    if let Some(error) = error.filter(|_| span.is_recording()) {
        span.set_status(Status::error(error.to_string()));
    }
    span.end();
}
