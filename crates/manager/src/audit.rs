//! The audit log: one JSON line for each write of an EndpointSlice or Endpoints object, with its
//! cause.
//!
//! A sync hands a line over and goes on: a thread of its own writes them. Up to 4096 lines wait for
//! a slow disk; further ones are dropped and counted, as are lines that cannot be written
//! (`audit_log_lost_lines_total`).
//!
//! Before each line the thread looks whether the path still names the file that is open. If it does
//! not, because the file was renamed or deleted to rotate it, the path is opened again. So rotation
//! needs no signal; a tool that truncates the file in place works too, because lines are appended.

mod file;
mod line;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use kube_endpoint_api_writer::{Clock, WriteObserver, WriteRecord};
use kube_endpoint_core_model::LogLimit;
use metrics::{Counter, counter, describe_counter};
use tokio::time::Instant;

use file::Output;

/// Lines that wait to be written; about 2 MB.
const CAPACITY: usize = 4096;
/// How often [`AuditLog::flush`] looks.
const POLL: Duration = Duration::from_millis(10);

/// Counter: lines that were written.
const LINES: &str = "audit_log_lines_total";
/// Counter: lines that were lost, by `reason` (`queue_full`, `write_failed`).
const LOST: &str = "audit_log_lost_lines_total";

/// The audit log cannot be opened. Nothing has been started.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open the audit log {path}: {why}; give the path of a file that can be created or appended to"
)]
pub struct AuditLogError {
    path: PathBuf,
    why: std::io::Error,
}

/// The audit log. Clones write to the same file.
#[derive(Clone)]
pub struct AuditLog {
    lines: SyncSender<Vec<u8>>,
    /// Lines that are handed over and neither written nor lost.
    waiting: Arc<AtomicUsize>,
    dropped: Counter,
    clock: Clock,
}

impl AuditLog {
    /// Opens the file, which is created with mode 0600 if it does not exist, and starts the thread;
    /// `-` is standard output. The thread ends after the last clone. `clock` has the time of the
    /// lines. Metrics are registered with the current recorder.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, or the operating system refuses a thread.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, AuditLogError> {
        let failed = |why| AuditLogError { path: path.to_owned(), why };
        let output = Output::open(path).map_err(failed)?;
        describe_counter!(LINES, "Number of lines written to the audit log");
        describe_counter!(LOST, "Number of lines of the audit log that were lost, by reason");
        let (lines, receiver) = sync_channel(CAPACITY);
        let waiting = Arc::new(AtomicUsize::new(0));
        let log = Self {
            lines,
            waiting: Arc::clone(&waiting),
            dropped: counter!(LOST, "reason" => "queue_full"),
            clock,
        };
        let (written, failed_lines) = (counter!(LINES), counter!(LOST, "reason" => "write_failed"));
        let thread = std::thread::Builder::new().name("audit-log".to_owned());
        thread
            .spawn(move || write_lines(output, &receiver, &waiting, &written, &failed_lines))
            .map_err(failed)?;
        Ok(log)
    }

    /// The observer of the writes of a controller, whose name the lines have.
    pub fn observer(&self, controller: &'static str) -> Arc<dyn WriteObserver> {
        Arc::new(ControllerWrites { log: self.clone(), controller })
    }

    /// Waits until all lines are written or lost, for `timeout` at most.
    pub async fn flush(&self, timeout: Duration) {
        let written = async {
            while self.waiting.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(POLL).await;
            }
        };
        if tokio::time::timeout(timeout, written).await.is_err() {
            let lines = self.waiting.load(Ordering::Acquire);
            tracing::warn!(lines, "the audit log was not written in time; its last lines are lost");
        }
    }

    fn append(&self, line: Vec<u8>) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        if self.lines.try_send(line).is_err() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            self.dropped.increment(1);
        }
    }
}

/// The writes of one controller.
struct ControllerWrites {
    log: AuditLog,
    controller: &'static str,
}

impl WriteObserver for ControllerWrites {
    fn wrote(&self, write: &WriteRecord<'_>) {
        self.log.append(line::line(self.controller, self.log.clock.now(), write));
    }
}

/// Writes lines until the last sender is dropped. An output that fails is reported once, until it
/// works again.
fn write_lines(
    mut output: Output,
    lines: &Receiver<Vec<u8>>,
    waiting: &AtomicUsize,
    written: &Counter,
    failed: &Counter,
) {
    let (mut is_reported, limit) = (false, LogLimit::default());
    for line in lines {
        match output.append(&line) {
            Ok(()) => {
                written.increment(1);
                if std::mem::take(&mut is_reported) {
                    tracing::info!("the audit log can be written again");
                }
            }
            Err(error) => {
                failed.increment(1);
                // It may fail for every other line.
                if !is_reported && let Some(left_out) = limit.admit(Instant::now().into_std()) {
                    is_reported = true;
                    let path = output.path().display();
                    tracing::warn!(
                        %path, %error, left_out,
                        "the audit log cannot be written; its lines are lost until it can (audit_log_lost_lines_total)"
                    );
                }
            }
        }
        waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests;
