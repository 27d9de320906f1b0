//! A child process with its output in a file. Dropping it kills it, also if the test panics.
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// The time between two checks of a condition.
pub(crate) const POLL: Duration = Duration::from_millis(20);

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
    /// # Panics
    ///
    /// If creating the file or the process fails.
    pub fn start(name: &str, mut command: Command, log: &Path, stdout: Option<Stdio>) -> Self {
        let file = File::create(log).unwrap();
        let stdout = stdout.unwrap_or_else(|| file.try_clone().unwrap().into());
        let child = command.stdout(stdout).stderr(file).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { name: name.to_owned(), child, log: log.to_owned() }
    }

    /// Returns the process, for its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
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
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the exit status, if the process has ended.
    ///
    /// # Panics
    ///
    /// If the system does not know the process.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until the process has ended.
    ///
    /// # Panics
    ///
    /// If it does not end within `timeout`.
    pub async fn wait(&mut self, timeout: Duration) -> ExitStatus {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.exit_status() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{} did not end within {timeout:?}:\n{}",
                self.name,
                self.log()
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// Returns the resident memory in bytes (`VmRSS`).
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn resident_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// Returns the anonymous part of the resident memory in bytes (`RssAnon`): heap and stacks,
    /// without the program's code.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn anonymous_memory(&self) -> u64 {
        self.memory("RssAnon:")
    }

    /// Returns a field of `/proc/PID/status`.
    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")).map(str::trim);
        kilobytes.unwrap_or_else(|| panic!("no {field}\n{status}")).parse::<u64>().unwrap() * 1024
    }

    /// Returns the processor time of the process.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name, in parentheses, may have spaces. The times are the 14th and the 15th field, in
        // hundredths of a second.
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let times = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
        Duration::from_millis(times.sum::<u64>() * 10)
    }

    /// Returns the number of its open files, sockets included.
    ///
    /// # Panics
    ///
    /// If the process has ended.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Returns the last lines of the log, with the name of the process before them.
    pub(crate) fn last_lines(&self, count: usize) -> String {
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
/// the system allows. Returns the limit.
///
/// # Panics
///
/// If the system refuses a limit below its maximum.
pub fn raise_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
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
        let mut process = Process::start("sleeper", command, &folder.path().join("log"), None);
        while process.log() != "started\nwarned\n" {
            tokio::time::sleep(POLL).await;
        }
        assert!(process.resident_memory() > 100_000);
        assert!((1..process.resident_memory()).contains(&process.anonymous_memory()));
        assert!(process.open_files() >= 3);
        assert!(process.cpu_time() < Duration::from_secs(10));
        assert_eq!(process.last_lines(1), "--- sleeper\nwarned\n");
        process.signal(Signal::STOP);
        process.signal(Signal::TERM);
        assert!(process.exit_status().is_none(), "a stopped process handles no signal");
        process.signal(Signal::CONT);
        assert!(!process.wait(Duration::from_secs(10)).await.success());

        let mut command = Command::new("sleep");
        command.arg("600");
        let process = Process::start("sleep", command, &folder.path().join("log"), None);
        let folder = format!("/proc/{}", process.child.id());
        assert!(Path::new(&folder).exists());
        process.signal(Signal::STOP);
        drop(process);
        assert!(!Path::new(&folder).exists());
    }
}
