//! Tests of the log of keys whose syncs fail.

use std::time::Duration;

use kube_endpoint_controller_runtime::RuntimeOptions;
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_testing::Log;
use tracing::Level;

use crate::bed::TestBed;
use crate::outages::outage;

/// Returns the lines of the next minute.
async fn minute(bed: &TestBed, log: &Log) -> String {
    bed.pass_exactly(Duration::from_secs(60)).await;
    // Otherwise syncs would wait for the cache every second.
    bed.show_slices();
    log.take()
}

/// Returns the log of the next `count` minutes, each line with its minute.
async fn minutes(bed: &TestBed, log: &Log, count: u64) -> String {
    let mut text = String::new();
    for number in 1..=count {
        let logged = minute(bed, log).await;
        let of_keys = logged.lines().filter(|line| line.contains(" key=")).count();
        let mut shown = 0;
        for line in logged.lines() {
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
    let log = Log::capture(Level::INFO);
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
    let log = Log::capture(Level::INFO);
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
    let log = Log::capture(Level::INFO);
    let bed = TestBed::with(RuntimeOptions::default());
    outage(&bed, refuse(500), 150);
    bed.fill_with((0..10_000).map(|number| ObjectKey::new("default", format!("web-{number}"))));
    let text = minutes(&bed, &log, 7).await;
    insta::assert_snapshot!(text);
    assert_eq!(bed.server.count("endpointslices"), 10_000);
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_key_that_is_dropped() {
    let log = Log::capture(Level::INFO);
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
    let log = Log::capture(Level::INFO);
    let bed = TestBed::new();
    outage(&bed, Fault::Refuse { status: 429, retry_after: Some(20) }, 3600);
    bed.fill();
    let mut text = String::new();
    for _ in 0..30 {
        text += &minute(&bed, &log).await;
    }
    assert_eq!(bed.controller.failing_counts().failing, 1);
    assert!(bed.syncs().len() > 60, "it was paused again and again");
    let (summaries, others): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| line.contains("WARN keys are failing"));
    let failures: Vec<_> = others.into_iter().filter(|line| line.contains("WARN")).collect();
    insta::assert_snapshot!(failures.join("\n"));
    assert!((27..=30).contains(&summaries.len()), "{summaries:?} in half an hour");
    let text = minutes(&bed, &log, 35).await;
    assert!(text.contains("the sync of a key succeeds again"), "{text}");
    assert_eq!(bed.controller.failing_counts().failing, 0);
}
