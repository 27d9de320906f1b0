//! A rollout: replaces each pod by a successor, at a fixed rate.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::api::Api;
use crate::measure::Round;
use crate::progress::Progress;
use crate::workload::{self, Names, Workload};

/// The time from the creation of a pod until it is ready, and from its deletion until it is gone.
const KUBELET: Duration = Duration::from_secs(1);

/// How long the controller may take for each pod until it has published everything after the last
/// replacement.
const PATIENCE_PER_POD: Duration = Duration::from_secs(1);

/// Replaces all pods of the large Service, or all pods if there is none.
pub(crate) async fn measure(round: &mut Round<'_>) -> anyhow::Result<()> {
    let workload = round.filled.workload.clone();
    let count = if workload.big > 0 { workload.big } else { workload.pods };
    let before = round.begin()?;
    let start = Instant::now();
    {
        let progress = Progress::steps("replacing pods", count);
        let mut tasks = JoinSet::new();
        for pod in 0..count {
            tokio::time::sleep_until(start + Duration::from_secs_f64(pod as f64 / round.plan.rate)).await;
            round.child.check()?;
            let replacement = Replacement {
                api: round.server.api.clone(),
                old: round.filled.pod_path(pod, round.filled.successors.contains(&pod)),
                list: round.filled.pods_path(pod),
                new: round.filled.pod_path(pod, !round.filled.successors.contains(&pod)),
                pod,
                successor: !round.filled.successors.contains(&pod),
                names: round.filled.names.clone(),
                workload: workload.clone(),
            };
            tasks.spawn(replacement.run());
            while let Some(done) = tasks.try_join_next() {
                done??;
            }
            progress.step();
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
    }
    for pod in 0..count {
        if !round.filled.successors.remove(&pod) {
            round.filled.successors.insert(pod);
        }
    }
    let patience = start.elapsed() + round.plan.patience + PATIENCE_PER_POD * u32::try_from(count)?;
    let progress = Progress::waiting("until everything is published");
    let end = round.settled(start, patience, None).await?;
    drop(progress);
    round.end("rollout", before)?;
    round.note("replaced", count as f64);
    round.note("rollout_s", end.duration_since(start).as_secs_f64());
    Ok(())
}

/// Replaces a pod as a Deployment, a scheduler and kubelets do.
struct Replacement {
    api: Api,
    old: String,
    list: String,
    new: String,
    pod: usize,
    successor: bool,
    names: Names,
    workload: Workload,
}

impl Replacement {
    async fn run(self) -> anyhow::Result<()> {
        let pod = workload::pod(&self.workload, &self.names, self.pod, self.successor);
        self.api.create(&self.list, &pod).await?;
        tokio::time::sleep(KUBELET).await;
        let address = workload::address(self.pod, self.successor);
        let status = workload::pod_status(&address, true, &crate::clock::now_in_seconds());
        self.api.patch(&format!("{}/status", self.new), &status).await?;
        // The grace period of 30 s begins. The kubelet ends it.
        self.api.delete(&self.old, None).await?;
        tokio::time::sleep(KUBELET).await;
        self.api.delete(&self.old, Some(0)).await
    }
}
