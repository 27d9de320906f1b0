//! Plays one scenario on one test bed.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;

use super::{
    Api, ConformanceError, Kind, Op, Parts, Repeated, Scenario, Step, TestBed, normal, settle, unified_diff,
};

/// A step whose outputs differ from the recording.
#[derive(Debug, Clone)]
pub struct Failure {
    pub step: String,
    /// The refused request, or a diff of the expected and the actual outputs.
    pub report: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "step: {}", self.step)?;
        self.report.lines().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

/// Plays `scenario` in its own namespace and compares the outputs of `parts` after each step.
///
/// Returns the steps that failed. A refused request ends the scenario, because later steps depend
/// on it. If the server outlives the scenario, this deletes the scenario's nodes and namespace
/// afterwards, even on failure.
///
/// # Errors
///
/// An error if creating the namespace or cleaning it up fails.
pub async fn play(
    bed: &TestBed,
    scenario: &Scenario,
    parts: Parts,
) -> Result<Vec<Failure>, ConformanceError> {
    play_and_check(bed, scenario, parts, |_| None).await
}

/// Plays a scenario as [`play`] does, and calls `check` after each step whose outputs equal the
/// recording. A report that it returns is a failure of the step.
///
/// # Errors
///
/// As [`play`].
pub async fn play_and_check(
    bed: &TestBed,
    scenario: &Scenario,
    parts: Parts,
    mut check: impl FnMut(&Step) -> Option<String>,
) -> Result<Vec<Failure>, ConformanceError> {
    let api = Api::new(bed.client(), bed.namespace_for(&scenario.name));
    let namespace =
        serde_json::json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": api.namespace()}});
    api.create(namespace).await?;
    let mut nodes = Vec::new();
    let mut failures = Vec::new();
    for step in &scenario.steps {
        match play_step(bed, &api, step, parts, &mut nodes).await {
            Ok(None) => {
                let report = check(step);
                failures.extend(report.map(|report| Failure { step: step.name.clone(), report }));
            }
            Ok(Some(report)) => failures.push(Failure { step: step.name.clone(), report }),
            Err(error) => {
                failures.push(Failure { step: step.name.clone(), report: error.to_string() });
                break;
            }
        }
    }
    if bed.outlives_scenarios() {
        clean_up(&api, &nodes).await?;
    }
    Ok(failures)
}

/// Plays one step. Returns a report if the outputs differ from the recording.
async fn play_step(
    bed: &TestBed,
    api: &Api,
    step: &Step,
    parts: Parts,
    nodes: &mut Vec<String>,
) -> Result<Option<String>, ConformanceError> {
    for repeated in &step.ops {
        run(bed, api, repeated, nodes).await?;
    }
    let mut want = step.expect.clone();
    normal::in_order(&mut want);
    parts.mask(&mut want);
    let got = settle(api, step, parts, &want, bed.pace()).await?;
    Ok((got != want).then(|| unified_diff(&want, &got)))
}

async fn run(
    bed: &TestBed,
    api: &Api,
    repeated: &Repeated,
    nodes: &mut Vec<String>,
) -> Result<(), ConformanceError> {
    let ops = repeated.expand()?;
    nodes.extend(ops.iter().filter_map(|op| op.created_node()).map(str::to_owned));
    // Each future owns its operation: the compiler cannot prove a borrow across `buffer_unordered`
    // to be valid.
    let runs = ops.into_iter().map(|op| {
        let api = api.clone();
        async move { run_when_allowed(&api, &op).await }
    });
    stream::iter(runs).buffer_unordered(bed.pace().at_once).try_collect::<()>().await?;
    sleep(repeated.pause()).await;
    Ok(())
}

/// Runs an operation. Retries the create of a pod until the cluster has made the service account of
/// the new namespace.
async fn run_when_allowed(api: &Api, op: &Op) -> Result<(), ConformanceError> {
    for _ in 0..SERVICE_ACCOUNT_TRIES {
        match api.run(op).await {
            Err(error) if error.awaits_service_account() => sleep(SERVICE_ACCOUNT_PAUSE).await,
            other => return other,
        }
    }
    api.run(op).await
}

/// Number of retries, and their interval, while a service account is missing.
const SERVICE_ACCOUNT_TRIES: u32 = 50;
const SERVICE_ACCOUNT_PAUSE: Duration = Duration::from_millis(200);

/// Deletes the objects of a scenario. Ignores those that are already gone.
async fn clean_up(api: &Api, nodes: &[String]) -> Result<(), ConformanceError> {
    let gone_is_fine = |result: Result<(), ConformanceError>| match result {
        Err(error) if error.is_status(404) || error.is_status(409) => Ok(()),
        other => other,
    };
    let pods = api.delete_pods().await;
    let mut results = vec![pods];
    for node in nodes {
        results.push(gone_is_fine(api.delete(Kind::Node, node, None).await));
    }
    results.push(gone_is_fine(api.delete(Kind::Namespace, api.namespace(), None).await));
    results.into_iter().collect()
}
