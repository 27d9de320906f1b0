//! Programs that tests and measurements start. The output of each is in a file, and dropping a
//! [`Process`] kills it, also if the test panics.
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

mod procfs;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

pub use procfs::{Memory, cpu_time, load_average};

/// The time between two checks of a condition.
pub const POLL: Duration = Duration::from_millis(20);

/// A running process.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with standard error in a new file `log`. Standard output goes to the same
    /// file unless `stdout` names another one.
    ///
    /// # Errors
    ///
    /// If creating the file or the process fails.
    pub fn start(
        name: &str,
        mut command: Command,
        log: &Path,
        stdout: Option<Stdio>,
    ) -> anyhow::Result<Self> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let stdout = stdout.map_or_else(|| file.try_clone().map(Stdio::from), Ok)?;
        let child = command.stdout(stdout).stderr(file).spawn();
        let program = || format!("cannot start {}", command.get_program().display());
        Ok(Self { name: name.to_owned(), child: child.with_context(program)?, log: log.to_owned() })
    }

    /// Returns the process, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the name that the caller has given to it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        if !self.log.is_file() {
            // The log is a device, which would never end.
            return String::new();
        }
        std::fs::read(&self.log).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }

    /// Sends a signal.
    ///
    /// # Panics
    ///
    /// If the process has ended and its status is known.
    pub fn signal(&self, signal: Signal) {
        if let Err(error) = kill_process(Pid::from_child(&self.child), signal) {
            panic!("{} takes no signal: {error}", self.name);
        }
    }

    /// Returns the exit status, if the process has ended.
    ///
    /// # Panics
    ///
    /// If the system does not know the process.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Waits until the process has ended.
    ///
    /// # Panics
    ///
    /// If it does not end within `timeout`.
    pub async fn wait(&mut self, timeout: Duration) -> ExitStatus {
        let status = self.ended_within(timeout).await;
        status.unwrap_or_else(|| panic!("{} did not end within {timeout:?}:\n{}", self.name, self.log()))
    }

    /// Waits until the process has ended; `None` if it does not end within `timeout`.
    pub async fn ended_within(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            let status = self.exit_status();
            if status.is_some() || Instant::now() >= deadline {
                return status;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns the memory.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        procfs::memory(self.id())
    }

    /// Returns the processor time so far.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        cpu_time(self.id())
    }

    /// Returns the number of its open files, sockets included.
    ///
    /// # Errors
    ///
    /// If the process has ended.
    pub fn open_files(&self) -> std::io::Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.id()))?.count())
    }

    /// Returns the last lines of the log, with the name of the process before them.
    pub fn last_lines(&self, count: usize) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let lines = &lines[lines.len().saturating_sub(count)..];
        format!("--- {}\n{}\n", self.name, lines.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A stopped process ends on SIGKILL, too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Raises the limit of open files of this process, and of those that it starts, to the maximum that
/// the system allows. Returns the limit. If the system refuses that, connections fail with an error
/// that says so.
pub fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    limit.maximum.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_is_signalled_waited_for_and_killed_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo started; echo warned >&2; sleep 600"]);
        let mut process = Process::start("sleeper", command, &folder.path().join("log"), None).unwrap();
        while process.log() != "started\nwarned\n" {
            tokio::time::sleep(POLL).await;
        }
        let memory = process.memory().unwrap();
        assert!(memory.resident > 100_000 && memory.peak >= memory.resident, "{memory:?}");
        assert!((1..memory.resident).contains(&memory.anonymous), "{memory:?}");
        assert!(process.open_files().unwrap() >= 3);
        assert!(process.cpu_time().unwrap() < Duration::from_secs(10));
        assert_eq!(process.last_lines(1), "--- sleeper\nwarned\n");
        process.signal(Signal::STOP);
        process.signal(Signal::TERM);
        assert!(process.exit_status().is_none(), "a stopped process handles no signal");
        process.signal(Signal::CONT);
        assert!(!process.wait(Duration::from_secs(10)).await.success());

        let mut command = Command::new("sleep");
        command.arg("600");
        let process = Process::start("sleep", command, &folder.path().join("log"), None).unwrap();
        let folder = format!("/proc/{}", process.child.id());
        assert!(Path::new(&folder).exists());
        process.signal(Signal::STOP);
        drop(process);
        assert!(!Path::new(&folder).exists());
    }
}
