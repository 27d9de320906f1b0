//! The script that runs the cluster, and kubectl in it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::time::Instant;

use crate::delays::{Delays, Kind};

/// The cluster that `integration-tests/nodes/cluster` has started.
pub(crate) struct Cluster {
    /// The path of that script.
    pub(crate) script: PathBuf,
}

impl Cluster {
    /// A command of the script.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.script);
        command.args(words);
        command
    }

    /// Runs a command of the script, and returns its output.
    pub(crate) fn output(&self, words: &[&str]) -> anyhow::Result<String> {
        run(self.command(words), b"")
    }

    /// Runs kubectl, and returns its output.
    pub(crate) fn kubectl(&self, words: &[&str]) -> anyhow::Result<String> {
        self.output(&[&["run", "kubectl"], words].concat())
    }

    /// Reads an object.
    pub(crate) fn get(&self, words: &[&str]) -> anyhow::Result<Value> {
        let text = self.kubectl(&[&["get", "--output=json"], words].concat())?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Makes or changes an object.
    pub(crate) fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let command = self.command(&["run", "kubectl", "apply", "--filename=-"]);
        run(command, object.to_string().as_bytes()).map(drop)
    }

    /// Waits until a Deployment has its pods.
    pub(crate) fn wait_for(&self, deployment: &str) -> anyhow::Result<()> {
        self.kubectl(&["rollout", "status", "--timeout=180s", &format!("deployment/{deployment}")]).map(drop)
    }
}

/// Runs a command to its end. An error quotes what it wrote.
fn run(mut command: Command, input: &[u8]) -> anyhow::Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().context("the command has no standard input")?.write_all(input)?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The watches of the pods and the slices of a Service.
pub(crate) struct Watch {
    delays: Arc<Mutex<Delays>>,
    children: Vec<Child>,
}

impl Watch {
    /// Watches the pods with the label `app=APP` and the slices of the Service.
    pub(crate) fn new(cluster: &Cluster, app: &str, service: &str) -> anyhow::Result<Self> {
        let delays = Arc::new(Mutex::new(Delays::default()));
        let mut children = Vec::new();
        for (kind, path, selector) in [
            (Kind::Pods, "api/v1/namespaces/default/pods", format!("app={app}")),
            (
                Kind::EndpointSlices,
                "apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
                format!("kubernetes.io/service-name={service}"),
            ),
        ] {
            let path = format!("/{path}?watch=1&timeoutSeconds=3600&labelSelector={selector}");
            let mut command = cluster.command(&["run", "kubectl", "get", "--raw", &path]);
            let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
            let lines = child.stdout.take().context("kubectl has no standard output")?;
            children.push(child);
            let delays = Arc::clone(&delays);
            std::thread::spawn(move || {
                for line in BufReader::new(lines).lines().map_while(Result::ok) {
                    let at = Instant::now();
                    if let Ok(event) = serde_json::from_str(&line) {
                        delays.lock().unwrap_or_else(PoisonError::into_inner).event(at, kind, &event);
                    }
                }
            });
        }
        Ok(Self { delays, children })
    }

    /// Begins to measure.
    pub(crate) fn reset(&self) {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).reset();
    }

    /// The delays since the last call or `reset`.
    pub(crate) fn take(&self) -> Vec<Duration> {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended.
            _ = child.kill();
            _ = child.wait();
        }
    }
}
