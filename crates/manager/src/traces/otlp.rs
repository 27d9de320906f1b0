//! Sends spans over OTLP to a collector, in the background.
//!
//! The protocol is OTLP over gRPC, as in Kubernetes' `TracingConfiguration`, so that an endpoint
//! that works for kube-apiserver works here: without TLS, unless the endpoint is an `https` URL.
//! The first span opens the connection.
//!
//! A span that ends enters a queue of 2048. A task takes up to 512 spans at a time and sends them.
//! A slow or unreachable collector costs spans, never time or more memory: the process drops and
//! counts spans that find the queue full or that it cannot send (`trace_spans_dropped_total`), and
//! logs one warning for each outage.

use std::time::Duration;

use kube_endpoint_core_model::causes;
use metrics::{Counter, counter, describe_counter};
use opentelemetry::{KeyValue, global};
use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;
use opentelemetry_otlp::{WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::TracingError;
use crate::settings::TracingSettings;

/// The most spans in the queue.
const QUEUE_CAPACITY: usize = 2048;
/// The most spans of one request.
const BATCH: usize = 512;
/// The time for which the first span of a batch waits for others.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Time limit of one request.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Counter: spans that the collector accepted.
const EXPORTED: &str = "trace_spans_exported_total";
/// Counter: dropped spans, by `reason` (`queue_full`, `export_failed`).
const DROPPED: &str = "trace_spans_dropped_total";

/// The tracer provider, and the task that sends its spans.
#[derive(Debug)]
pub(super) struct OtlpTraces {
    provider: SdkTracerProvider,
    stop: oneshot::Sender<()>,
    sending: JoinHandle<()>,
}

impl OtlpTraces {
    /// Starts to send spans. The libraries read the standard variables `OTEL_RESOURCE_ATTRIBUTES`
    /// and `OTEL_EXPORTER_OTLP_HEADERS`.
    pub(super) fn start(settings: &TracingSettings) -> Result<Self, TracingError> {
        let endpoint = &settings.endpoint;
        let mut exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .with_timeout(SEND_TIMEOUT);
        if endpoint.starts_with("https://") {
            exporter = exporter.with_tls_config(ClientTlsConfig::new().with_native_roots());
        }
        let exporter = exporter
            .build()
            .map_err(|error| TracingError::Endpoint { endpoint: endpoint.clone(), why: causes(&error) })?;
        Ok(Self::with_exporter(exporter, settings.sampling_rate_per_million))
    }

    /// Starts to send spans through this exporter.
    fn with_exporter(mut exporter: impl SpanExporter + 'static, samples: u32) -> Self {
        describe_counter!(EXPORTED, "Number of spans that the tracing endpoint accepted");
        describe_counter!(DROPPED, "Number of spans that were dropped, by reason");
        let resource = Resource::builder()
            .with_service_name("kube-endpoint-manager")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        exporter.set_resource(&resource);
        let (spans, received) = mpsc::channel(QUEUE_CAPACITY);
        let (stop, stopped) = oneshot::channel();
        let queue = SpanQueue { spans, dropped: counter!(DROPPED, "reason" => "queue_full") };
        let sampler = Sampler::TraceIdRatioBased(f64::from(samples) / 1e6);
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_resource(resource)
            .with_span_processor(queue)
            .build();
        let sender = Sender {
            exporter,
            exported: counter!(EXPORTED),
            failed: counter!(DROPPED, "reason" => "export_failed"),
            is_failing: false,
        };
        let sending = tokio::spawn(sender.run(received, stopped));
        Self { provider, stop, sending }
    }

    /// Makes these the traces of the process. Later controllers use them, and requests carry the
    /// trace context in the header `traceparent`.
    pub(super) fn install(&self) {
        global::set_tracer_provider(self.provider.clone());
        global::set_text_map_propagator(TraceContextPropagator::new());
    }

    /// Sends the spans that have ended, for `timeout` at most.
    pub(super) async fn shut_down(self, timeout: Duration) {
        // This fails only if the task has ended.
        let _ = self.stop.send(());
        let mut sending = self.sending;
        if tokio::time::timeout(timeout, &mut sending).await.is_err() {
            sending.abort();
            tracing::warn!("the last spans were not sent within {timeout:?} and are lost");
        }
    }
}

/// Takes the spans that end.
#[derive(Debug)]
struct SpanQueue {
    spans: mpsc::Sender<SpanData>,
    dropped: Counter,
}

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.spans.try_send(span).is_err() {
            self.dropped.increment(1);
        }
    }

    /// Does nothing: [`OtlpTraces::shut_down`] sends the queued spans without blocking a thread.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends batches, one at a time.
struct Sender<E> {
    exporter: E,
    exported: Counter,
    failed: Counter,
    /// True if sending the last batch failed.
    is_failing: bool,
}

impl<E: SpanExporter> Sender<E> {
    /// Runs until `stopped` completes or the queue closes. After `stopped`, it sends the queued
    /// spans.
    async fn run(mut self, mut spans: mpsc::Receiver<SpanData>, mut stopped: oneshot::Receiver<()>) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => break,
                received = spans.recv() => match received {
                    Some(span) => batch.push(span),
                    None => return,
                },
            }
            // If the queue can fill a batch, there is no need to wait.
            if spans.len() + 1 < BATCH {
                tokio::select! {
                    biased;
                    _ = &mut stopped => break,
                    () = tokio::time::sleep(BATCH_DELAY) => {}
                }
            }
            self.send_queued(&mut spans, std::mem::take(&mut batch)).await;
        }
        spans.close();
        loop {
            self.send_queued(&mut spans, std::mem::take(&mut batch)).await;
            if spans.is_empty() {
                return;
            }
        }
    }

    /// Fills a batch up from the queue, and sends it.
    async fn send_queued(&mut self, spans: &mut mpsc::Receiver<SpanData>, mut batch: Vec<SpanData>) {
        while batch.len() < BATCH
            && let Ok(span) = spans.try_recv()
        {
            batch.push(span);
        }
        if !batch.is_empty() {
            self.send(batch).await;
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let count = batch.len() as u64;
        let sent = tokio::time::timeout(SEND_TIMEOUT, self.exporter.export(batch)).await;
        match sent.unwrap_or(Err(OTelSdkError::Timeout(SEND_TIMEOUT))) {
            Ok(()) => {
                self.exported.increment(count);
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("the tracing endpoint accepts spans again");
                }
            }
            Err(error) => {
                self.failed.increment(count);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(
                        %error,
                        "the tracing endpoint accepts no spans; they are dropped until it does (trace_spans_dropped_total)"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
