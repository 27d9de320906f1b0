//! The audit log: a JSON line for each write of an EndpointSlice or Endpoints object, with its
//! cause.
//!
//! A sync hands its lines to a thread and goes on. Up to 4096 lines wait for a slow disk. The log
//! drops and counts further lines, as well as lines that the thread cannot write
//! (`audit_log_lost_lines_total`).
//!
//! Before each line the thread checks that the path still names the open file. If it does not,
//! because a tool renamed or deleted the file to rotate it, the thread opens the path again. So
//! rotation needs no signal. A tool that truncates the file in place works, too, because the thread
//! appends.

mod file;
mod line;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use kube_endpoint_api_writer::{Clock, WriteObserver, WriteRecord};
use kube_endpoint_core_model::{Admission, LogLimit};
use metrics::{Counter, counter, describe_counter};
use tokio::time::Instant;

use file::Output;

/// The most lines that wait for the thread; about 2 MB.
const CAPACITY: usize = 4096;
/// The pause between two looks of [`AuditLog::flush`].
const POLL: Duration = Duration::from_millis(10);

/// Counter: written lines.
const LINES: &str = "audit_log_lines_total";
/// Counter: lost lines, by `reason` (`queue_full`, `write_failed`).
const LOST: &str = "audit_log_lost_lines_total";

/// The error of an audit log that cannot be opened. Its thread has not started.
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
    /// Lines that the thread has neither written nor lost yet.
    waiting: Arc<AtomicUsize>,
    dropped: Counter,
    clock: Clock,
}

impl AuditLog {
    /// Opens the file, or creates it with mode 0600, and starts the thread; `-` is standard output.
    /// The thread ends after the last clone. The lines have the time of `clock`. This registers the
    /// metrics with the current recorder.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or the operating system refuses a thread.
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

    /// Returns an observer for the writes of a controller. The lines have the controller's name.
    pub fn observer(&self, controller: &'static str) -> Arc<dyn WriteObserver> {
        Arc::new(ControllerWrites { log: self.clone(), controller })
    }

    /// Waits until the thread has written or lost all lines, for `timeout` at most.
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

/// Observes the writes of one controller.
struct ControllerWrites {
    log: AuditLog,
    controller: &'static str,
}

impl WriteObserver for ControllerWrites {
    fn wrote(&self, write: &WriteRecord<'_>) {
        self.log.append(line::line(self.controller, self.log.clock.now(), write));
    }
}

/// Writes lines until the last sender is gone. If the output fails, this logs it once until the
/// output works again.
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
                // The output may fail for every other line, so a limit applies, too.
                if !is_reported && let Admission::Write { left_out } = limit.admit(Instant::now().into_std())
                {
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
