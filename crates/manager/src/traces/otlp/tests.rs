use std::sync::{Arc, Mutex};

use kube_endpoint_testing::Log;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use opentelemetry::trace::{Span as _, Tracer, TracerProvider};
use tokio::time::Instant;
use tracing::Level;

use super::*;

/// The answer of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Takes,
    Refuses,
    NeverAnswers,
}

/// A collector that records the sizes of the batches that it accepted.
#[derive(Clone, Debug)]
struct Collector(Arc<Mutex<(Answer, Vec<usize>)>>);

impl Collector {
    fn new(answer: Answer) -> Self {
        Self(Arc::new(Mutex::new((answer, Vec::new()))))
    }

    fn answers(&self, answer: Answer) {
        self.0.lock().unwrap().0 = answer;
    }

    fn batches(&self) -> Vec<usize> {
        self.0.lock().unwrap().1.clone()
    }
}

impl SpanExporter for Collector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let answer = self.0.lock().unwrap().0;
        match answer {
            Answer::Takes => self.0.lock().unwrap().1.push(batch.len()),
            Answer::Refuses => return Err(OTelSdkError::InternalFailure("refused".into())),
            Answer::NeverAnswers => std::future::pending().await,
        }
        Ok(())
    }
}

fn start(collector: &Collector, samples: u32) -> (OtlpTraces, PrometheusHandle) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let traces =
        metrics::with_local_recorder(&recorder, || OtlpTraces::with_exporter(collector.clone(), samples));
    (traces, recorder.handle())
}

fn end_spans(traces: &OtlpTraces, count: usize) {
    let tracer = traces.provider.tracer("test");
    for _ in 0..count {
        tracer.start("sync").end();
    }
}

const EXPORTED: &str = "trace_spans_exported_total ";
const QUEUE_FULL: &str = r#"trace_spans_dropped_total{reason="queue_full"}"#;
const EXPORT_FAILED: &str = r#"trace_spans_dropped_total{reason="export_failed"}"#;

fn counts(metrics: &PrometheusHandle) -> [usize; 3] {
    let page = metrics.render();
    [EXPORTED, QUEUE_FULL, EXPORT_FAILED].map(|series| {
        let line = page.lines().find(|line| line.starts_with(series));
        line.map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    })
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

const MILLION: u32 = 1_000_000;

#[tokio::test(start_paused = true)]
async fn spans_that_end_together_are_sent_together() {
    let collector = Collector::new(Answer::Takes);
    let (traces, metrics) = start(&collector, MILLION);
    end_spans(&traces, 3);
    seconds(2).await;
    end_spans(&traces, BATCH + 10);
    seconds(2).await;
    assert_eq!(collector.batches(), [3, BATCH, 10]);
    assert_eq!(counts(&metrics), [3 + BATCH + 10, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn the_last_spans_are_sent_before_the_end() {
    let collector = Collector::new(Answer::Takes);
    let (traces, _) = start(&collector, MILLION);
    end_spans(&traces, BATCH + 1);
    let started = Instant::now();
    traces.shut_down(Duration::from_secs(1)).await;
    assert_eq!(collector.batches(), [BATCH, 1]);
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_never_answers_costs_spans_and_no_more_memory_or_time() {
    let collector = Collector::new(Answer::NeverAnswers);
    let (traces, metrics) = start(&collector, MILLION);
    for _ in 0..100 {
        end_spans(&traces, 100);
        tokio::task::yield_now().await;
    }
    let [exported, full, failed] = counts(&metrics);
    assert_eq!((exported, failed), (0, 0));
    assert!(full >= 10_000 - QUEUE_CAPACITY - BATCH, "{full}");
    seconds(60).await;
    assert!(counts(&metrics)[2] >= BATCH, "what waited too long for an answer is dropped too");
    end_spans(&traces, 1);
    let started = Instant::now();
    traces.shut_down(Duration::from_secs(1)).await;
    assert_eq!(started.elapsed(), Duration::from_secs(1));
    assert!(collector.batches().is_empty());
}

#[tokio::test(start_paused = true)]
async fn spans_are_sent_again_after_an_outage() {
    let collector = Collector::new(Answer::Refuses);
    let (traces, metrics) = start(&collector, MILLION);
    end_spans(&traces, 5);
    seconds(2).await;
    assert_eq!(counts(&metrics), [0, 0, 5]);
    collector.answers(Answer::Takes);
    end_spans(&traces, 2);
    seconds(2).await;
    assert_eq!((collector.batches(), counts(&metrics)), (vec![2], [2, 0, 5]));
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_one_warning() {
    let log = Log::capture(Level::INFO);
    let collector = Collector::new(Answer::Refuses);
    let (traces, _) = start(&collector, MILLION);
    for answer in [Answer::Refuses, Answer::Refuses, Answer::Takes, Answer::Takes, Answer::Refuses] {
        collector.answers(answer);
        end_spans(&traces, 1);
        seconds(2).await;
    }
    insta::assert_snapshot!(log.text());
}

#[tokio::test(start_paused = true)]
async fn a_share_of_the_syncs_is_traced() {
    for (samples, expected) in [(0, 0..1), (MILLION / 2, 300..700), (MILLION, 1000..1001)] {
        let collector = Collector::new(Answer::Takes);
        let (traces, _) = start(&collector, samples);
        end_spans(&traces, 1000);
        traces.shut_down(Duration::from_secs(1)).await;
        let sent = collector.batches().iter().sum::<usize>();
        assert!(expected.contains(&sent), "{samples}: {sent}");
    }
}

#[tokio::test]
async fn an_endpoint_is_a_url() {
    let start = |endpoint: &str| {
        OtlpTraces::start(&TracingSettings {
            endpoint: endpoint.to_owned(),
            sampling_rate_per_million: MILLION,
        })
    };
    for valid in ["http://10.0.0.1:4317", "http://collector.monitoring.svc:4317/", "https://[::1]:4317"] {
        assert!(start(valid).is_ok(), "{valid}");
    }
    let invalid = ["http://a b:1", "http://"];
    let errors: Vec<String> = invalid.map(|endpoint| start(endpoint).err().unwrap().to_string()).into();
    insta::assert_snapshot!(errors.join("\n"));
}
