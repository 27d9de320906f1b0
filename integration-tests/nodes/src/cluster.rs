//! The script that runs the cluster, and kubectl in it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::time::Instant;

use crate::ask::now;
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
        self.apply_with(&[], object)
    }

    /// The same with options of `kubectl apply`.
    pub(crate) fn apply_with(&self, options: &[&str], object: &Value) -> anyhow::Result<()> {
        let command = self.command(&[&["run", "kubectl", "apply", "--filename=-"], options].concat());
        run(command, object.to_string().as_bytes()).map(drop)
    }

    /// Deletes the objects of these kinds and of a name, and waits until its pods are gone.
    pub(crate) fn delete(&self, kinds: &str, name: &str) -> anyhow::Result<()> {
        self.kubectl(&["delete", kinds, name, "--ignore-not-found", "--cascade=foreground"])?;
        let app = format!("--selector=app={name}");
        self.kubectl(&["wait", "pod", &app, "--for=delete", "--timeout=60s"]).map(drop)
    }

    /// Waits until a Deployment or StatefulSet, as `deployment/NAME`, has its pods.
    pub(crate) fn wait_for(&self, workload: &str) -> anyhow::Result<()> {
        self.kubectl(&["rollout", "status", "--timeout=180s", workload]).map(drop)
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

/// A watch of the API server, which ends when this is dropped.
pub(crate) struct Events(Child);

impl Events {
    /// Passes each event to `take`. `path` is that of the kind, with a selector.
    pub(crate) fn new(
        cluster: &Cluster,
        path: &str,
        mut take: impl FnMut(&Value) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let path = format!("{path}&watch=1&timeoutSeconds=3600");
        let mut command = cluster.command(&["run", "kubectl", "get", "--raw", &path]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let lines = child.stdout.take().context("kubectl has no standard output")?;
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str(&line) {
                    take(&event);
                }
            }
        });
        Ok(Self(child))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The watches of the pods and the slices of a Service.
pub(crate) struct Watch {
    delays: Arc<Mutex<Delays>>,
    _events: [Events; 2],
}

impl Watch {
    /// Watches the pods with the label `app=APP` and the slices of the Service.
    pub(crate) fn new(cluster: &Cluster, app: &str, service: &str) -> anyhow::Result<Self> {
        let delays = Arc::new(Mutex::new(Delays::default()));
        let events = |kind, path: &str| {
            let delays = Arc::clone(&delays);
            Events::new(cluster, path, move |event| {
                delays.lock().unwrap_or_else(PoisonError::into_inner).event(Instant::now(), kind, event);
            })
        };
        let pods = format!("/api/v1/namespaces/default/pods?labelSelector=app={app}");
        let slices = format!(
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name={service}"
        );
        let events = [events(Kind::Pods, &pods)?, events(Kind::EndpointSlices, &slices)?];
        Ok(Self { delays, _events: events })
    }

    /// Begins to measure.
    pub(crate) fn reset(&self) {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).reset();
    }

    /// The pods that have become ready since `reset`, and when, in seconds of the epoch.
    pub(crate) fn ready(&self) -> BTreeMap<String, f64> {
        let delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        let time = |at: &Instant| now() - at.elapsed().as_secs_f64();
        delays.ready().iter().map(|(pod, at)| (pod.clone(), time(at))).collect()
    }

    /// The delays since the last call or `reset`.
    pub(crate) fn take(&self) -> Vec<Duration> {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now())
    }
}
