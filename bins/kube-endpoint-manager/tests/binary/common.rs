//! Starts the binary as a process, reads its output and stops it.
#![expect(clippy::disallowed_methods, reason = "it waits for real processes")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A time limit longer than any wait in these tests takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running process. Dropping this kills it.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

/// Returns the binary, isolated from the environment of the developer who runs the tests.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-endpoint-manager"));
    command.current_dir(folder).env_remove("KUBECONFIG").env_remove("RUST_LOG").env("HOME", folder);
    command
}

impl Process {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::spawn(command(folder).args(arguments))
    }

    /// Starts `command` and reads its output.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let outputs: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for output in outputs {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for a line that contains each text. Standard output and standard error are read at the
    /// same time, so the lines of both are in no order. Returns the line with the first text.
    pub(crate) fn wait_for_lines(&mut self, texts: [&str; 2]) -> String {
        let from = self.seen.len();
        let [first, second] = texts;
        let line = self.wait_for_line(first);
        if !self.seen[from..].iter().any(|line| line.contains(second)) {
            self.wait_for_line(second);
        }
        line
    }

    /// Waits for a line that contains `text`, on standard output or standard error.
    pub(crate) fn wait_for_line(&mut self, text: &str) -> String {
        self.wait_for_any_line(&[text])
    }

    /// As [`Self::wait_for_line`], for a line that contains one of these texts.
    pub(crate) fn wait_for_any_line(&mut self, texts: &[&str]) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("no line contains one of {texts:?}:\n{}", self.seen.join("\n"));
            };
            self.seen.push(line.clone());
            if texts.iter().any(|text| line.contains(text)) {
                return line;
            }
        }
    }

    /// Returns a process whose output nobody reads.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(child: Child) -> Self {
        let (_, lines) = channel();
        Self { child, lines, seen: Vec::new() }
    }

    /// Returns the process ID.
    #[cfg(target_os = "linux")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the lines so far.
    pub(crate) fn seen(&self) -> &[String] {
        &self.seen
    }

    /// Kills the process and returns all lines of its output.
    pub(crate) fn finish(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let mut lines = std::mem::take(&mut self.seen);
        // The channel ends with the outputs of the process.
        lines.extend(self.lines.iter());
        lines
    }

    /// Sends SIGTERM and waits until the process has exited.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "the process did not exit on SIGTERM:\n{}",
                self.seen.join("\n")
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a file exists.
pub(crate) fn wait_for_file(path: &Path) {
    let deadline = Instant::now() + TIMEOUT;
    while !path.exists() {
        assert!(Instant::now() < deadline, "no file {}", path.display());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a client for the kubeconfig that the embedded API server wrote.
pub(crate) async fn client(kubeconfig: PathBuf) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Waits until there are `slices` EndpointSlices and returns the names of their Services, sorted.
pub(crate) async fn services_with_slices(client: &kube::Client, slices: usize) -> Vec<String> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let request =
            http::Request::get("/apis/discovery.k8s.io/v1/endpointslices").body(Vec::new()).unwrap();
        let list: serde_json::Value = client.request(request).await.unwrap();
        let items = list["items"].as_array().unwrap();
        if items.len() == slices {
            let label = |item: &serde_json::Value| {
                item["metadata"]["labels"]["kubernetes.io/service-name"].as_str().unwrap().to_owned()
            };
            let mut names: Vec<String> = items.iter().map(label).collect();
            names.sort();
            return names;
        }
        assert!(Instant::now() < deadline, "{} slices", items.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
