//! The result of a run on a cluster, as data. [`Report::markdown`] is for people.

mod markdown;

use std::fmt::{Display, Formatter};
use std::time::Duration;

use jiff::Timestamp;

use super::Failure;
use super::on_cluster::LABEL;

/// The server of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The version of Kubernetes, as the server says it.
    pub version: String,
    /// The operating system and architecture of the server.
    pub platform: String,
}

/// The writer of the outputs, and the values to compare them with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// This program's controllers wrote, and the recordings say what.
    ThisProgram,
    /// The cluster's own controllers wrote, and this program's plan had to agree.
    Plan {
        /// The names of the programs that wrote.
        writers: String,
    },
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Report {
    pub started: Timestamp,
    pub server: Server,
    /// How many nodes the cluster has besides those of the recordings.
    pub own_nodes: usize,
    pub judged: Judged,
    pub recordings: Vec<Recording>,
    pub hand_over: HandOver,
    /// The reason why not all that the run has created is deleted, if so.
    pub left_over: Option<String>,
}

/// The result of one recording.
#[derive(Debug, Clone)]
pub struct Recording {
    pub name: String,
    pub outcome: Outcome,
    /// The steps after which the cluster's own controllers had written otherwise than those of the
    /// recording, each with the difference.
    pub differs: Vec<(String, String)>,
    pub took: Duration,
}

/// The outcome of one recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// The server does not accept an object, for this reason.
    Skipped(String),
    Failed(Vec<Failure>),
}

impl Outcome {
    /// Returns the outcome of a recording whose steps failed so.
    pub fn of(failures: Vec<Failure>) -> Self {
        match &*failures {
            [] => Self::Passed,
            [only] if only.is_refused => Self::Skipped(format!("step \"{}\": {}", only.step, only.report)),
            _ => Self::Failed(failures),
        }
    }
}

/// The result of the hand-over.
#[derive(Debug, Clone)]
pub enum HandOver {
    /// It was not played, for this reason.
    Skipped(String),
    /// It could not be played to its end, for this reason.
    Failed(String),
    Played(Played),
}

/// The counts of a hand-over. A write counts if it changed the version of an object.
#[derive(Debug, Clone, Default)]
pub struct Played {
    /// The names of the programs that wrote at first.
    pub upstream: String,
    /// How many Endpoints and EndpointSlices they had written.
    pub outputs: usize,
    /// The recordings whose objects the server does not accept, each with the reason.
    pub left_out: Vec<String>,
    /// The outputs that they wrote when they started again, on their own outputs.
    pub again: Vec<Written>,
    /// The outputs that this program wrote when it took over.
    pub taken_over: Vec<Written>,
    /// How many pods changed afterwards.
    pub changed_pods: usize,
    /// How many outputs this program wrote for these.
    pub written: usize,
    /// The writes that were still due then, as a diff.
    pub still_due: String,
    /// The outputs that upstream wrote when it came back.
    pub back: Vec<Written>,
}

impl Played {
    /// Returns the parts of the hand-over, each with the reason why it failed, if it did.
    fn parts(&self) -> [(&'static str, Option<String>); 3] {
        // At each start both write the Endpoints of a Service that has a label of their own, such
        // as that of headless ones. That shows nothing about the content.
        let none = |written: &[Written], who: &str| {
            let count = written.iter().filter(|it| !it.is_trigger_time_alone).count();
            (count > 0).then(|| format!("{who} wrote {}", counted(count, "output")))
        };
        let changed = match (self.written, &*self.still_due) {
            (0, _) => Some("this program wrote nothing".to_owned()),
            (_, "") => None,
            _ => Some("the outputs are not those of the plan".to_owned()),
        };
        [
            ("this program takes over", none(&self.taken_over, "this program")),
            ("pods change", changed),
            ("kube-controller-manager's loops come back", none(&self.back, "they")),
        ]
    }
}

/// An output that somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its kind, namespace and name.
    pub object: String,
    /// The difference, or an empty text if the write changed only the version.
    pub change: String,
    /// True if the write changed nothing but the trigger time, which tells why it was written.
    pub is_trigger_time_alone: bool,
}

impl Report {
    /// Returns true if a recording passed and nothing failed.
    pub fn passed(&self) -> bool {
        let hand_over_failed = match &self.hand_over {
            HandOver::Skipped(_) => false,
            HandOver::Failed(_) => true,
            HandOver::Played(played) => played.parts().iter().any(|(_, failed)| failed.is_some()),
        };
        self.parts().iter().all(|(_, failed)| failed.is_none())
            && !hand_over_failed
            && !self.recordings.iter().any(|it| matches!(it.outcome, Outcome::Failed(_)))
    }

    /// Returns the parts of a run besides the recordings and the hand-over, each with the reason
    /// why it failed, if it did.
    fn parts(&self) -> [(&'static str, Option<String>); 2] {
        let is_skipped = |recording: &Recording| matches!(recording.outcome, Outcome::Skipped(_));
        let nothing_played = self.recordings.iter().all(is_skipped);
        [
            ("recordings are played", nothing_played.then(|| NOTHING_PLAYED.to_owned())),
            ("clean-up", self.left_over.as_deref().map(not_deleted)),
        ]
    }

    /// Returns the numbers of recordings that passed, failed and were skipped.
    fn counts(&self) -> [usize; 3] {
        let count = |is: fn(&Outcome) -> bool| self.recordings.iter().filter(|it| is(&it.outcome)).count();
        [
            count(|it| *it == Outcome::Passed),
            count(|it| matches!(it, Outcome::Failed(_))),
            count(|it| matches!(it, Outcome::Skipped(_))),
        ]
    }
}

/// The failure of a run that compared nothing.
const NOTHING_PLAYED: &str = "no recording passed, so the run says nothing about this cluster";

/// Returns a sentence that says what is left on the cluster, and how to delete it.
fn not_deleted(reason: &str) -> String {
    format!(
        "Not all that the run has created is deleted: {reason}.\nRun `kubectl delete namespaces,nodes -l {LABEL}`."
    )
}

/// Returns a number with its noun.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

impl Display for Recording {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let word = match self.outcome {
            Outcome::Passed => "passed",
            Outcome::Skipped(_) => "skipped",
            Outcome::Failed(_) => "FAILED",
        };
        write!(f, "{word:8} {} ({:.1} s)", self.name, self.took.as_secs_f64())
    }
}

impl Display for HandOver {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
            Self::Played(played) => {
                let failed: Vec<String> = played
                    .parts()
                    .into_iter()
                    .filter_map(|(part, failed)| failed.map(|reason| format!("{part}: {reason}")))
                    .collect();
                if failed.is_empty() {
                    f.write_str("passed")
                } else {
                    write!(f, "failed: {}", failed.join("; "))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
