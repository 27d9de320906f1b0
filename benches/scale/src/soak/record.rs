//! The lines of the file of a soak, in JSON. They are written as they come.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::faults::Kind;

/// A line. Times are seconds since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub(crate) enum Line {
    Start(Start),
    Sample(Sample),
    Fault(Happened),
    Exit(Exit),
    End(End),
}

/// The parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) time: String,
    pub(crate) command: String,
    pub(crate) server: String,
    pub(crate) work: String,
    pub(crate) seed: u64,
    pub(crate) cpus: usize,
}

/// The state of the replicas, and what happened since the last sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) at: f64,
    /// The replicas that run.
    pub(crate) replicas: Vec<Process>,
    pub(crate) slice_writes: usize,
    pub(crate) endpoints_writes: usize,
    pub(crate) changes: usize,
    /// Changes that no slice shows yet.
    pub(crate) waiting: usize,
    /// The present fault.
    pub(crate) fault: Option<Kind>,
    /// Milliseconds from a change of a pod to a slice that shows it.
    pub(crate) calm_ms: Vec<f64>,
    /// The same of changes that a fault, or the time after it, touches.
    pub(crate) disturbed_ms: Vec<f64>,
    /// The load average of the machine.
    pub(crate) load: Option<f64>,
}

/// A process of a replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) replica: usize,
    pub(crate) pid: u32,
    /// Seconds since it started.
    pub(crate) age: f64,
    pub(crate) rss_mb: f64,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) cpu_s: f64,
}

/// A fault that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Happened {
    pub(crate) at: f64,
    pub(crate) until: f64,
    pub(crate) kind: Kind,
    pub(crate) replicas: Vec<usize>,
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) at: f64,
    pub(crate) replica: usize,
    /// True if this program did not send a signal.
    pub(crate) by_itself: bool,
    /// How it ended, and its last output.
    pub(crate) how: String,
}

impl Exit {
    /// Returns true if the process was a leader that could not renew its Lease and said so.
    pub(crate) fn lost_its_lease(&self) -> bool {
        // The second one is client-go's.
        let reasons = ["leader election lost", "leaderelection lost"];
        self.by_itself
            && self.how.contains("(exit status: 1)")
            && reasons.iter().any(|reason| self.how.contains(reason))
    }
}

/// The state after the last fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) at: f64,
    /// Seconds after the last change until all was published.
    pub(crate) quiet_after: f64,
    /// All changes, by kind.
    pub(crate) changes: std::collections::BTreeMap<String, usize>,
    /// Writes of a new process of the controller, until it published a change after `checked_for`
    /// seconds.
    pub(crate) own_writes: usize,
    /// The same of the upstream controllers.
    pub(crate) upstream_writes: Option<usize>,
    pub(crate) checked_for: f64,
}

/// Writes lines to a file.
pub(crate) struct Recorder {
    path: PathBuf,
    file: Mutex<File>,
    start: Instant,
}

impl Recorder {
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), start: Instant::now() })
    }

    /// Returns the seconds since the start.
    pub(crate) fn now(&self) -> f64 {
        milli(self.start.elapsed().as_secs_f64())
    }

    pub(crate) fn write(&self, line: &Line) -> anyhow::Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        let written = self.file.lock().write_all(text.as_bytes());
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Rounds to thousandths.
pub(crate) fn milli(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// Reads the lines of a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Line>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let lines = text.lines().map(serde_json::from_str::<Line>).collect::<Result<Vec<_>, _>>();
    let lines = lines.with_context(|| format!("{} is no file that `scale soak` wrote", path.display()))?;
    anyhow::ensure!(
        matches!(lines.first(), Some(Line::Start(_))),
        "{} is no file that `scale soak` wrote",
        path.display()
    );
    Ok(lines)
}
