//! The process that runs the loops of kube-controller-manager, from a command of the user's.
#![expect(clippy::disallowed_methods, reason = "it waits for a real process")]

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tempfile::NamedTempFile;

use super::ConformanceError;

/// How long the process may take to end after SIGTERM.
const TO_END: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);
/// How many lines of the end of its log an error repeats.
const END_OF_LOG: usize = 10;

/// A running process group. Dropping it kills it.
pub(super) struct Upstream {
    child: Child,
    log: NamedTempFile,
}

impl Upstream {
    /// Starts `command` in a shell, as a process group of its own, so that a signal reaches all
    /// that it starts.
    pub(super) fn start(command: &str) -> Result<Self, ConformanceError> {
        let start = || {
            let log = NamedTempFile::new()?;
            let output = log.reopen()?;
            let child = Command::new("sh")
                .args(["-c", command])
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(output.try_clone()?)
                .stderr(output)
                .spawn()?;
            Ok(Self { child, log })
        };
        start().map_err(|error: std::io::Error| failed(error.to_string()))
    }

    /// Returns an error if the process has ended.
    pub(super) fn check_running(&mut self) -> Result<(), ConformanceError> {
        match self.status()? {
            None => Ok(()),
            Some(status) => Err(failed(format!("it has ended ({status}).\n{}", self.end_of_log()))),
        }
    }

    /// Asks the process to end, and waits for it. Kills it if it does not.
    pub(super) async fn stop(mut self) -> Result<(), ConformanceError> {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + TO_END;
        // The shell may end before what it has started.
        while self.status()?.is_none() || test_kill_process_group(Pid::from_child(&self.child)).is_ok() {
            if Instant::now() > deadline {
                return Err(failed(format!(
                    "it did not end in {TO_END:?} after SIGTERM.\n{}",
                    self.end_of_log()
                )));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, ConformanceError> {
        self.child.try_wait().map_err(|error| failed(error.to_string()))
    }

    /// Returns the end of its output.
    pub(super) fn end_of_log(&self) -> String {
        let text = std::fs::read(self.log.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(END_OF_LOG)..].join("\n")
    }

    fn signal(&self, signal: Signal) {
        // The group may have ended.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

fn failed(reason: String) -> ConformanceError {
    ConformanceError::NotStarted { what: "the command of --upstream", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_reaches_what_the_command_starts() {
        let upstream = Upstream::start("sleep 600 & wait").unwrap();
        upstream.stop().await.unwrap();
    }

    #[tokio::test]
    async fn a_command_that_ends_is_an_error_with_its_last_words() {
        let mut upstream = Upstream::start("echo no such flag >&2; exit 3").unwrap();
        let deadline = Instant::now() + TO_END;
        while upstream.check_running().is_ok() && Instant::now() < deadline {
            tokio::time::sleep(POLL).await;
        }
        let error = upstream.check_running().unwrap_err().to_string();
        assert_eq!(error, "starting the command of --upstream: it has ended (exit status: 3).\nno such flag");
    }
}
