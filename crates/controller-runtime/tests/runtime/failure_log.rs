//! Tests of the log of keys whose syncs fail.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_endpoint_controller_runtime::RuntimeOptions;
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_embedded_apiserver::Fault;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::bed::TestBed;
use crate::outages::outage;

/// The log of this thread, without times.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn capture() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(log.clone())
            .without_time()
            .with_target(false)
            .with_ansi(false)
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Returns the lines since the last call.
    fn take(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Returns the lines of the next minute.
async fn minute(bed: &TestBed, log: &Log) -> Vec<String> {
    bed.pass_exactly(Duration::from_secs(60)).await;
    // Otherwise syncs would wait for the cache every second.
    bed.show_slices();
    log.take()
}

/// Returns the log of the next `count` minutes, each line with its minute.
async fn minutes(bed: &TestBed, log: &Log, count: u64) -> String {
    let mut text = String::new();
    for number in 1..=count {
        let lines = minute(bed, log).await;
        let of_keys = lines.iter().filter(|line| line.contains(" key=")).count();
        let mut shown = 0;
        for line in lines {
            // One line stands for many about keys.
            shown += usize::from(line.contains(" key="));
            if of_keys <= 2 || shown <= 1 || !line.contains(" key=") {
                text += &format!("{number}: {line}\n");
            } else if shown == of_keys {
                text += &format!("{number}: ... {} more lines about keys\n", of_keys - 1);
            }
        }
    }
    text
}

fn refuse(status: u16) -> Fault {
    Fault::Refuse { status, retry_after: None }
}

#[tokio::test(start_paused = true)]
async fn the_log_of_one_key() {
    let (log, _guard) = Log::capture();
    let bed = TestBed::new();
    outage(&bed, refuse(500), 125);
    bed.fill();
    bed.pass(1).await;
    assert!(bed.syncs().len() > 5, "the key failed several times");
    insta::assert_snapshot!(minutes(&bed, &log, 9).await);
    assert_eq!(bed.controller.failing_counts().failing, 0);
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_key_that_fails_for_an_hour() {
    let (log, _guard) = Log::capture();
    let bed = TestBed::new();
    outage(&bed, refuse(403), 3600);
    bed.fill();
    let text = minutes(&bed, &log, 70).await;
    // The log has a line about the key every five minutes, and a summary each minute.
    let of_key: Vec<&str> = text.lines().filter(|line| line.contains(" key=")).collect();
    insta::assert_snapshot!(of_key.join("\n"));
    let summaries = text.lines().filter(|line| line.contains("keys are failing")).count();
    assert!((55..=70).contains(&summaries), "{summaries}");
}

#[tokio::test(start_paused = true)]
async fn the_log_of_ten_thousand_keys() {
    let (log, _guard) = Log::capture();
    let bed = TestBed::with(RuntimeOptions::default());
    outage(&bed, refuse(500), 150);
    bed.fill_with((0..10_000).map(|number| ObjectKey::new("default", format!("web-{number}"))));
    let text = minutes(&bed, &log, 7).await;
    insta::assert_snapshot!(text);
    assert_eq!(bed.server.count("endpointslices"), 10_000);
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_key_that_is_dropped() {
    let (log, _guard) = Log::capture();
    let bed = TestBed::with(RuntimeOptions { slow_retries: false, ..RuntimeOptions::default() });
    outage(&bed, refuse(403), 24 * 3600);
    bed.fill();
    let text = minutes(&bed, &log, 180).await;
    let of_key: Vec<&str> = text.lines().filter(|line| line.contains("ERROR")).collect();
    insta::assert_snapshot!(of_key.join("\n"));
    assert_eq!(bed.controller.failing_counts().failing, 1, "it is not right yet");
}

/// The API server asks for a pause each time, so the key uses up no retry.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_paused_for_an_hour_fails() {
    let (log, _guard) = Log::capture();
    let bed = TestBed::new();
    outage(&bed, Fault::Refuse { status: 429, retry_after: Some(20) }, 3600);
    bed.fill();
    let mut lines = Vec::new();
    for _ in 0..30 {
        lines.extend(minute(&bed, &log).await);
    }
    assert_eq!(bed.controller.failing_counts().failing, 1);
    assert!(bed.syncs().len() > 60, "it was paused again and again");
    let (summaries, others): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| line.contains("WARN keys are failing"));
    let failures: Vec<_> = others.into_iter().filter(|line| line.contains("WARN")).collect();
    insta::assert_snapshot!(failures.join("\n"));
    assert!((27..=30).contains(&summaries.len()), "{summaries:?} in half an hour");
    let text = minutes(&bed, &log, 35).await;
    assert!(text.contains("the sync of a key succeeds again"), "{text}");
    assert_eq!(bed.controller.failing_counts().failing, 0);
}
