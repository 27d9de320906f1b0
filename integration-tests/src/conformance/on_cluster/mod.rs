//! Plays the recordings and the hand-over on a running cluster, in namespaces of their own.
//!
//! If nothing writes endpoints in the cluster, this project's controllers do, in this process and
//! in the namespaces of the run alone, and their outputs have to equal the recordings. If the
//! cluster's own controllers run, nobody can tell who wrote an output that both want. So this
//! project's controllers write nothing: the cluster's own write, and this project's plan over the
//! same objects has to change nothing.

mod cluster;
mod hand_over;
mod outputs;
mod probe;
mod recording;
mod signals;
mod tidy;
mod unfit;
mod upstream;

use std::path::PathBuf;

use super::report::{HandOver, Judged, Report};
use super::{ConformanceError, Scenario};
use cluster::Cluster;
use signals::Signals;
pub use unfit::Unfit;
use upstream::Upstream;

/// The label of all namespaces and nodes that a run creates.
pub const LABEL: &str = "kube-endpoint-manager.github.io/conformance";

/// The scenarios to play, and the cluster.
#[derive(Debug)]
pub struct Wanted {
    /// The kubeconfig of a test cluster; its current context counts.
    pub kubeconfig: PathBuf,
    pub recordings: Vec<Scenario>,
    /// The command that starts the loops of kube-controller-manager, for the hand-over.
    pub upstream: Option<String>,
}

/// Plays everything and deletes what it has created. It calls `progress` with a line for each part
/// that has ended. The first Ctrl-C or SIGTERM ends the play, and one that comes later ends the
/// deletes.
///
/// # Errors
///
/// [`Unfit`] if the cluster is not one on which this can be played. A recording that fails is a
/// part of the report.
pub async fn run(wanted: &Wanted, progress: &(dyn Fn(&str) + Sync)) -> Result<Report, Unfit> {
    let cluster = Cluster::connect(&wanted.kubeconfig).await?;
    progress(&format!("Kubernetes {} at {}", cluster.server.version, cluster.address()));
    let mut signals = Signals::listen()?;
    let played = tokio::select! {
        biased;
        () = signals.next() => Err(Unfit::Interrupted),
        played = play(&cluster, wanted, progress) => played,
    };
    if matches!(played, Err(Unfit::Interrupted)) {
        progress("interrupted: deleting what this run has created; the next signal ends that, too");
    }
    let left_over = left_over(tidy::tidy(&cluster.api("default")), signals.next()).await;
    match played {
        Ok(report) => Ok(Report { left_over, ..report }),
        Err(Unfit::Interrupted) => Err(left_over.map_or(Unfit::Interrupted, Unfit::NotTidied)),
        Err(error) => Err(error),
    }
}

async fn play(cluster: &Cluster, wanted: &Wanted, progress: &(dyn Fn(&str) + Sync)) -> Result<Report, Unfit> {
    let started = cluster::now();
    let loops = probe::probe(&cluster.api(&cluster.namespace("probe")), probe::PATIENCE).await?;
    let judged = match loops.state()? {
        probe::State::Off => Judged::ThisProgram,
        probe::State::On if wanted.upstream.is_some() => return Err(Unfit::UpstreamRuns(loops.writers())),
        probe::State::On => Judged::Plan { writers: loops.writers() },
    };
    progress(match &judged {
        Judged::ThisProgram => "nothing else writes endpoints here: this program's controllers do",
        Judged::Plan { .. } => {
            "the cluster's own controllers write endpoints: this program's plan is compared with them"
        }
    });
    let mut recordings = Vec::new();
    for scenario in &wanted.recordings {
        let recording = recording::play(cluster, &judged, scenario).await;
        progress(&recording.to_string());
        recordings.push(recording);
    }
    let hand_over = match (&judged, &wanted.upstream) {
        (Judged::Plan { .. }, _) => HandOver::Skipped(
            "the cluster runs the loops itself, and this program cannot stop and start them".to_owned(),
        ),
        (Judged::ThisProgram, None) => HandOver::Skipped(
            "--upstream names no command that starts kube-controller-manager's loops".to_owned(),
        ),
        (Judged::ThisProgram, Some(command)) => {
            hand_over::play(cluster, &wanted.recordings, command, progress).await
        }
    };
    progress(&format!("hand-over: {hand_over}"));
    Ok(Report {
        started,
        server: cluster.server.clone(),
        own_nodes: cluster.own_nodes,
        judged,
        recordings,
        hand_over,
        left_over: None,
    })
}

/// Returns the reason why not all that the run has created is deleted, if so. A server that does
/// not answer could hold `tidy` up for long, so a signal ends it.
async fn left_over(
    tidy: impl Future<Output = Result<(), ConformanceError>>,
    signal: impl Future<Output = ()>,
) -> Option<String> {
    tokio::select! {
        biased;
        () = signal => Some("a signal ended the deletes, so namespaces and nodes may be left".to_owned()),
        tidied = tidy => tidied.err().map(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_signal_ends_deletes_that_hang() {
        let left = left_over(pending(), ready(())).await.unwrap();
        insta::assert_snapshot!(Unfit::NotTidied(left), @"interrupted; not all that this run has created is deleted: a signal ended the deletes, so namespaces and nodes may be left. Run 'kubectl delete namespaces,nodes -l kube-endpoint-manager.github.io/conformance'");
        assert_eq!(left_over(ready(Ok(())), pending()).await, None);
    }
}
