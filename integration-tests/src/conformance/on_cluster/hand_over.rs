//! The hand-over: kube-controller-manager's loops write, this project's controllers take over, pods
//! change, and the loops come back. A take-over of correct outputs writes nothing.

use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::{Cluster, name_of};
use super::outputs::Outputs;
use super::probe::{self, Loops};
use super::recording::due;
use super::{ConformanceError, Upstream};
use crate::conformance::play::{create_namespace, run_step};
use crate::conformance::report::{HandOver, Played};
use crate::conformance::{Api, Kind, Pace, Scenario, Snapshot};

/// How long a program may take to write all outputs, including the wait for a Lease.
const PATIENCE: Duration = Duration::from_secs(120);

/// The pods of a namespace that change.
const CHANGED_PODS: usize = 5;

/// Plays the hand-over over the objects of the recordings, as their first steps leave them.
/// `command` starts upstream's loops.
pub(super) async fn play(
    cluster: &Cluster,
    recordings: &[Scenario],
    command: &str,
    progress: &(dyn Fn(&str) + Sync),
) -> HandOver {
    match Rehearsal::new(cluster, recordings, command, progress).play().await {
        Ok(played) => HandOver::Played(played),
        Err(error) => HandOver::Failed(error.to_string()),
    }
}

struct Rehearsal<'a> {
    cluster: &'a Cluster,
    recordings: &'a [Scenario],
    command: &'a str,
    progress: &'a (dyn Fn(&str) + Sync),
    /// Clients for the namespaces with the objects.
    apis: Vec<Api>,
}

impl<'a> Rehearsal<'a> {
    fn new(
        cluster: &'a Cluster,
        recordings: &'a [Scenario],
        command: &'a str,
        progress: &'a (dyn Fn(&str) + Sync),
    ) -> Self {
        Self { cluster, recordings, command, progress, apis: Vec::new() }
    }

    async fn play(mut self) -> Result<Played, ConformanceError> {
        let (upstream, _) = self.start_upstream("upstream").await?;
        let left_out = self.create_objects().await?;
        let by_upstream = Outputs::quiet(&self.apis, PATIENCE).await?;
        upstream.stop().await?;
        // At each start they delete Endpoints without a Service, whoever wrote before.
        let (upstream, _) = self.start_upstream("again").await?;
        let again = Outputs::quiet(&self.apis, PATIENCE).await?;
        upstream.stop().await?;

        (self.progress)("hand-over: this program takes over");
        let names: Vec<String> = self.apis.iter().map(|api| api.namespace().to_owned()).collect();
        let ours = self.cluster.start_ours(names).await?;
        let taken_over = Outputs::quiet(&self.apis, PATIENCE).await?;
        let changed_pods = self.change_pods().await?;
        let by_ours = Outputs::quiet(&self.apis, PATIENCE).await?;
        let mut still_due = String::new();
        for api in &self.apis {
            still_due += &due(Snapshot::take(api).await?, api.list(Kind::Node).await?)?.unwrap_or_default();
        }
        ours.stop().await;

        (self.progress)("hand-over: kube-controller-manager's loops come back");
        let (upstream, loops) = self.start_upstream("back").await?;
        let back = Outputs::quiet(&self.apis, PATIENCE).await?;
        upstream.stop().await?;
        Ok(Played {
            upstream: loops.writers(),
            outputs: again.len(),
            left_out,
            again: again.written_since(&by_upstream),
            taken_over: taken_over.written_since(&again),
            changed_pods,
            written: by_ours.written_since(&taken_over).len(),
            still_due,
            back: back.written_since(&by_ours),
        })
    }

    /// Starts upstream's loops, and waits until they write for new Services.
    async fn start_upstream(&self, name: &str) -> Result<(Upstream, Loops), ConformanceError> {
        let mut upstream = Upstream::start(self.command)?;
        let api = self.cluster.api(&self.cluster.namespace(name));
        let loops = probe::probe(&api, PATIENCE).await?;
        upstream.check_running()?;
        if loops.state().is_ok_and(|state| state == probe::State::On) {
            return Ok((upstream, loops));
        }
        Err(ConformanceError::NotStarted {
            what: "the command of --upstream",
            reason: format!(
                "not all three loops wrote in {PATIENCE:?}. Its last lines:\n{}",
                upstream.end_of_log()
            ),
        })
    }

    /// Creates the objects of the first step of each recording, in a namespace each. Returns the
    /// recordings whose objects the server does not accept.
    async fn create_objects(&mut self) -> Result<Vec<String>, ConformanceError> {
        let mut left_out = Vec::new();
        for scenario in self.recordings {
            let api = self.cluster.api(&self.cluster.namespace(&format!("ho-{}", scenario.name)));
            create_namespace(&api).await?;
            let Some(first) = scenario.steps.first() else { continue };
            match run_step(&api.clone().sharing_nodes(), first, &Pace::REAL).await {
                Ok(()) => self.apis.push(api),
                Err(error) if error.is_refused_input() => {
                    left_out.push(format!("{}: {error}", scenario.name));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(left_out)
    }

    /// Changes the readiness of some pods of each namespace. Returns how many changed.
    async fn change_pods(&self) -> Result<usize, ConformanceError> {
        let mut changed = 0;
        for api in &self.apis {
            let pods = api.list(Kind::Pod).await?;
            for (pod, is_ready) in pods.iter().filter_map(with_readiness).take(CHANGED_PODS) {
                let status = if is_ready { "False" } else { "True" };
                let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
                api.patch_pod_status(name_of(pod), &patch).await?;
                changed += 1;
            }
        }
        Ok(changed)
    }
}

/// Returns a pod that has the condition `Ready`, and the condition's value.
fn with_readiness(pod: &Value) -> Option<(&Value, bool)> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    Some((pod, ready["status"] == "True"))
}
