//! Tests the log of a key that is given up. The test has a process of its own, since `tracing`
//! caches for the whole process which levels a call site logs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_workqueue::{ItemExponentialFailureRateLimiter, RetryPolicy, WorkQueue, run_workers};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// Keeps what is written.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
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

#[tokio::test(start_paused = true)]
async fn a_dropped_key_leaves_an_error_in_the_log() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_writer(log.clone()).without_time().with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let limiter = ItemExponentialFailureRateLimiter::new(Duration::from_secs(1), Duration::from_secs(60));
    let queue = WorkQueue::new("endpoint_slice", limiter);
    queue.add("default/web");
    let policy = RetryPolicy { max_retries: 2, ..RetryPolicy::default() };
    let workers = tokio::spawn(run_workers(queue.clone(), policy, 1, |_| async {
        Err::<(), _>("the server is currently unable to handle the request")
    }));
    tokio::time::sleep(Duration::from_secs(60)).await;
    queue.shut_down();
    workers.await.unwrap();
    insta::assert_snapshot!(String::from_utf8_lossy(&log.0.lock()));
}
