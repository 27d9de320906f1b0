//! The metrics of the queue. Taking a snapshot of the recorder resets its values to zero.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube_endpoint_workqueue::{HISTOGRAM_BUCKETS, HISTOGRAM_NAMES, RetryPolicy, WorkQueue, run_workers};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::time::advance;

use crate::guarantees::{millis, queue, secs, settle, take};

/// Returns a queue and the recorder that it reports to.
fn recorded() -> (WorkQueue<&'static str>, Snapshotter) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    (metrics::with_local_recorder(&recorder, queue), snapshotter)
}

/// Returns all metrics that are not zero, one per line, without the prefix.
fn render(snapshotter: &Snapshotter) -> String {
    let mut lines = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let value = match value {
            DebugValue::Counter(0) => continue,
            DebugValue::Counter(count) => count.to_string(),
            DebugValue::Gauge(value) if value.0 == 0.0 => continue,
            DebugValue::Gauge(value) => value.to_string(),
            DebugValue::Histogram(values) if values.is_empty() => continue,
            DebugValue::Histogram(values) => format!("{:?}", values.iter().map(|v| v.0).collect::<Vec<_>>()),
        };
        lines.push(format!("{} {value}", key.key().name().trim_start_matches("workqueue_")));
    }
    lines.sort();
    lines.join("\n")
}

#[tokio::test(start_paused = true)]
async fn metrics_have_client_gos_names_and_label_and_are_described() {
    let (_queue, snapshotter) = recorded();
    let mut lines = Vec::new();
    for (key, unit, description, _) in snapshotter.snapshot().into_vec() {
        let labels: Vec<_> = key.key().labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        let unit = unit.map(|unit| format!(" [{}]", unit.as_str())).unwrap_or_default();
        let name = key.key().name().to_owned();
        lines.push(format!("{name}{labels:?}{unit}\n  {}", description.unwrap_or_default()));
    }
    lines.sort();
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn depth_and_adds_count_queued_keys() {
    let (queue, snapshotter) = recorded();
    queue.add("a");
    queue.add("b");
    queue.add("a");
    assert_eq!(render(&snapshotter), "adds_total 2\ndepth 2");
    assert_eq!(take(&queue), Some("a"));
    assert_eq!(render(&snapshotter), "depth 1\nqueue_duration_seconds [0.0]");
    queue.add("a");
    assert_eq!(
        render(&snapshotter),
        "adds_total 1\ndepth 2",
        "a key in work that was added again is counted"
    );
    queue.done(&"a");
    assert_eq!(render(&snapshotter), "work_duration_seconds [0.0]");
}

#[tokio::test(start_paused = true)]
async fn queue_duration_runs_from_the_first_add_until_the_key_is_taken() {
    let (queue, snapshotter) = recorded();
    queue.add("a");
    advance(millis(1500)).await;
    queue.add("a");
    advance(millis(500)).await;
    assert_eq!(take(&queue), Some("a"));
    assert_eq!(render(&snapshotter), "adds_total 1\nqueue_duration_seconds [2.0]");
}

#[tokio::test(start_paused = true)]
async fn queue_duration_of_a_delayed_key_runs_from_the_end_of_its_delay() {
    let (queue, snapshotter) = recorded();
    queue.add_after("a", secs(1));
    assert_eq!(render(&snapshotter), "retries_total 1");
    advance(secs(4)).await;
    assert_eq!(take(&queue), Some("a"));
    assert_eq!(render(&snapshotter), "adds_total 1\nqueue_duration_seconds [3.0]");
}

#[tokio::test(start_paused = true)]
async fn queue_duration_of_a_key_added_during_processing_includes_the_processing() {
    let (queue, snapshotter) = recorded();
    queue.add("a");
    assert_eq!(take(&queue), Some("a"));
    queue.add("a");
    advance(secs(5)).await;
    queue.done(&"a");
    assert_eq!(take(&queue), Some("a"));
    assert_eq!(
        render(&snapshotter),
        "adds_total 2\nqueue_duration_seconds [0.0, 5.0]\nwork_duration_seconds [5.0]"
    );
}

#[tokio::test(start_paused = true)]
async fn work_duration_runs_from_get_to_done() {
    let (queue, snapshotter) = recorded();
    queue.add("a");
    assert_eq!(take(&queue), Some("a"));
    render(&snapshotter);
    advance(millis(2500)).await;
    queue.done(&"a");
    queue.done(&"a");
    assert_eq!(render(&snapshotter), "work_duration_seconds [2.5]");
}

#[tokio::test(start_paused = true)]
async fn retries_count_every_delayed_add_and_nothing_else() {
    let (queue, snapshotter) = recorded();
    queue.add("a");
    queue.add_after("b", secs(1));
    queue.add_after("b", secs(2));
    queue.add_after("c", millis(0));
    queue.add_rate_limited("d");
    assert_eq!(render(&snapshotter), "adds_total 2\ndepth 2\nretries_total 4");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_counted_after_a_shut_down() {
    let (queue, snapshotter) = recorded();
    queue.shut_down();
    queue.add("a");
    queue.add_after("b", secs(1));
    queue.add_rate_limited("c");
    assert_eq!(render(&snapshotter), "");
}

#[tokio::test(start_paused = true)]
async fn unfinished_work_and_the_longest_running_processor_are_measured() {
    let (queue, snapshotter) = recorded();
    queue.add("a");
    queue.add("b");
    assert_eq!(take(&queue), Some("a"));
    advance(secs(2)).await;
    assert_eq!(take(&queue), Some("b"));
    advance(secs(1)).await;
    render(&snapshotter);
    queue.update_unfinished_work();
    assert_eq!(render(&snapshotter), "longest_running_processor_seconds 3\nunfinished_work_seconds 4");
    queue.done(&"a");
    queue.done(&"b");
    render(&snapshotter);
    queue.update_unfinished_work();
    assert_eq!(render(&snapshotter), "");
}

#[tokio::test(start_paused = true)]
async fn the_worker_loop_updates_unfinished_work_every_500_ms() {
    let (queue, snapshotter) = recorded();
    let workers = tokio::spawn(run_workers(queue.clone(), RetryPolicy::default(), 1, |_| async {
        tokio::time::sleep(millis(1700)).await;
        Ok::<(), String>(())
    }));
    queue.add("a");
    settle().await;
    render(&snapshotter);
    for expected in ["0.5", "1", "1.5"] {
        tokio::time::sleep(millis(500)).await;
        settle().await;
        assert_eq!(
            render(&snapshotter),
            format!("longest_running_processor_seconds {expected}\nunfinished_work_seconds {expected}")
        );
    }
    queue.shut_down();
    workers.await.unwrap();
    assert_eq!(render(&snapshotter), "work_duration_seconds [1.7]", "and brings it back to zero in the end");
}

#[tokio::test(start_paused = true)]
async fn the_worker_loop_sleeps_while_there_is_no_work() {
    let (queue, snapshotter) = recorded();
    let mut workers = Box::pin(run_workers(queue.clone(), RetryPolicy::default(), 1, |_| async {
        tokio::time::sleep(millis(700)).await;
        Ok::<(), String>(())
    }));
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&polls);
    let workers = tokio::spawn(std::future::poll_fn(move |context| {
        counted.fetch_add(1, Ordering::Relaxed);
        workers.as_mut().poll(context)
    }));
    for _ in 0..2 {
        tokio::time::sleep(secs(3600)).await;
        let idle = polls.swap(0, Ordering::Relaxed);
        assert!(idle < 10, "polled {idle} times in an hour with one sync at most");
        queue.add("a");
        tokio::time::sleep(millis(600)).await;
        assert!(render(&snapshotter).contains("unfinished_work_seconds 0.5"));
        tokio::time::sleep(secs(1)).await;
        assert_eq!(render(&snapshotter), "work_duration_seconds [0.7]", "it is back at zero");
    }
    queue.shut_down();
    workers.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_key_is_counted() {
    let (queue, snapshotter) = recorded();
    queue.add("a");
    let workers = tokio::spawn(run_workers(
        queue.clone(),
        RetryPolicy { max_retries: 2, ..RetryPolicy::default() },
        1,
        |_| async { Err::<(), _>("no") },
    ));
    tokio::time::sleep(secs(60)).await;
    queue.shut_down();
    workers.await.unwrap();
    let rendered = render(&snapshotter);
    assert!(rendered.contains("dropped_total 1\n"), "{rendered}");
    assert!(rendered.contains("retries_total 2\n"), "{rendered}");
}

#[test]
fn buckets_are_ten_powers_of_ten_from_ten_nanoseconds() {
    let mut bound = 10e-9;
    for bucket in HISTOGRAM_BUCKETS {
        assert!((bucket / bound - 1.0_f64).abs() < 1e-9);
        bound *= 10.0;
    }
    assert!(HISTOGRAM_NAMES.iter().all(|name| name.ends_with("_duration_seconds")));
}
