//! Tests that output that nobody reads (a pipe, a terminal after Ctrl-S) blocks neither the
//! controllers nor SIGTERM.
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::OpenptFlags;
use rustix::termios::Action;

use crate::common::{client, command, services_with_slices};
use crate::process::SAMPLE_SLICES;

/// More lines than the pipe and the buffer of the process hold together.
const FLOOD: usize = 1300;

/// The time limit for the exit after SIGTERM.
const EXIT: Duration = Duration::from_secs(10);

/// A process whose output nobody reads. Dropping this kills it.
struct Unread(Child);

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Unread {
    fn start(folder: &Path, stdout: impl Into<Stdio>, stderr: impl Into<Stdio>, arguments: &[&str]) -> Self {
        let child = command(folder)
            .arg("--embedded")
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Sends SIGTERM and returns the exit status and the time until then.
    fn stop(mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        while start.elapsed() < 3 * EXIT {
            if let Some(status) = self.0.try_wait().unwrap() {
                return (status, start.elapsed());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the process did not exit on SIGTERM");
    }
}

/// Returns a pipe that holds one page.
fn small_pipe() -> (File, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    (reader.into(), writer)
}

/// Returns a client, once the process has written its kubeconfig.
pub(crate) async fn connected(folder: &Path) -> kube::Client {
    let path = folder.join("embedded.kubeconfig");
    let start = Instant::now();
    while !std::fs::read_to_string(&path).is_ok_and(|text| text.contains("current-context")) {
        assert!(start.elapsed() < 6 * EXIT, "no kubeconfig");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    client(path).await
}

async fn create(client: &kube::Client, path: &str, object: serde_json::Value) {
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .unwrap();
    let _: serde_json::Value = client.request(request).await.unwrap();
}

/// Makes the process print more lines than fit, and checks that the controllers still work
/// afterwards.
async fn flood(client: &kube::Client) {
    services_with_slices(client, SAMPLE_SLICES).await;
    for number in 0..FLOOD {
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": format!("e{number}")}});
        create(client, "/api/v1/namespaces/shop/endpoints", object).await;
    }
    let late = serde_json::json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "late"},
        "spec": {"selector": {"app": "late"}, "ports": [{"port": 80}]}});
    create(client, "/api/v1/namespaces/shop/services", late).await;
    services_with_slices(client, SAMPLE_SLICES + 1).await;
}

#[tokio::test]
async fn a_pipe_that_nobody_reads_blocks_neither_the_controllers_nor_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = small_pipe();
    let process = Unread::start(folder.path(), writer, Stdio::null(), &[]);
    flood(&connected(folder.path()).await).await;
    let (status, time) = process.stop();
    assert!(status.success() && time < EXIT, "{status} after {time:?}");
    let printed = BufReader::new(reader).lines().map_while(Result::ok).count();
    assert!((1..FLOOD).contains(&printed), "the pipe was full: {printed} lines");
}

#[tokio::test]
async fn dropped_lines_are_counted_once_the_pipe_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = small_pipe();
    let process = Unread::start(folder.path(), writer, Stdio::null(), &[]);
    flood(&connected(folder.path()).await).await;
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    let told =
        lines.by_ref().find(|line| line.contains("dropped: this output was not read in time")).unwrap();
    let dropped: usize = told.split(' ').next().unwrap().parse().unwrap();
    assert!((1..FLOOD).contains(&dropped), "{told}");
    let (status, time) = process.stop();
    assert!(status.success() && time < EXIT, "{status} after {time:?}");
}

#[tokio::test]
async fn a_terminal_after_ctrl_s_blocks_neither_the_controllers_nor_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&terminal).unwrap();
    rustix::pty::unlockpt(&terminal).unwrap();
    let path = rustix::pty::ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let no_control = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
    let output = OpenOptions::new().read(true).write(true).custom_flags(no_control).open(path).unwrap();
    rustix::termios::tcflow(&output, Action::OOff).unwrap();
    let process = Unread::start(folder.path(), output.try_clone().unwrap(), output, &[]);
    flood(&connected(folder.path()).await).await;
    let (status, time) = process.stop();
    assert!(status.success() && time < EXIT, "{status} after {time:?}");
}

#[tokio::test]
async fn a_second_signal_ends_a_process_that_waits_for_the_log_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_reader, writer) = small_pipe();
    let mut process = Unread::start(folder.path(), Stdio::null(), writer, &["-v=6"]);
    services_with_slices(&connected(folder.path()).await, SAMPLE_SLICES).await;
    kill_process(Pid::from_child(&process.0), Signal::TERM).unwrap();
    // The process gives its log one second.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(process.0.try_wait().unwrap().is_none(), "it waits for the log");
    let (status, _) = process.stop();
    assert_eq!(status.code(), Some(1));
}

#[tokio::test]
async fn signals_at_the_same_time_are_one_request() {
    let folder = tempfile::tempdir().unwrap();
    // The process waits a second for its log, which is long enough for the second signal to arrive.
    let (_reader, writer) = small_pipe();
    let mut process = Unread::start(folder.path(), Stdio::null(), writer, &["-v=6"]);
    services_with_slices(&connected(folder.path()).await, SAMPLE_SLICES).await;
    // Both signals are pending when the process goes on.
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        kill_process(Pid::from_child(&process.0), signal).unwrap();
    }
    let status = process.0.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[tokio::test]
async fn a_log_that_nobody_reads_blocks_neither_the_controllers_nor_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = small_pipe();
    let process = Unread::start(folder.path(), Stdio::null(), writer, &["-v=6"]);
    flood(&connected(folder.path()).await).await;
    let (status, time) = process.stop();
    assert!(status.success() && time < EXIT, "{status} after {time:?}");
    let logged = std::io::read_to_string(reader).unwrap().len();
    assert!(logged > 3500, "the pipe was full: {logged} bytes");
}

#[tokio::test]
async fn a_process_whose_log_cannot_be_written_runs_and_reports_errors_by_its_exit_code() {
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let process = Unread::start(folder.path(), Stdio::null(), full(), &["-v=6"]);
    services_with_slices(&connected(folder.path()).await, SAMPLE_SLICES).await;
    let (status, _) = process.stop();
    assert!(status.success(), "{status}");
    for invalid in ["--no-such-flag", "--max-endpoints-per-slice=0"] {
        let status = command(folder.path()).arg(invalid).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(2), "{invalid}");
    }
}
