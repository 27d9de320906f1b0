//! Plays one scenario against one world.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;

use super::{
    Api, ConformanceError, Kind, Op, Parts, Repeated, Scenario, Step, World, normal, settle, unified_diff,
};

/// A step that did not come out as recorded.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The step's name.
    pub step: String,
    /// A refused request, or a diff of what was wanted and what was there.
    pub report: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "step: {}", self.step)?;
        self.report.lines().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

/// Plays `scenario` in a namespace of its own and compares the outputs of `parts` after every step.
///
/// Returns the steps that failed. After a refused request the rest is not played, since it builds upon it. Where the
/// world outlives the scenario, its nodes and its namespace are deleted afterwards, whatever happened.
///
/// # Errors
///
/// When the namespace cannot be created or not be cleaned up.
pub async fn play(
    world: &World,
    scenario: &Scenario,
    parts: Parts,
) -> Result<Vec<Failure>, ConformanceError> {
    let api = Api::new(world.client(), world.namespace_for(&scenario.name));
    let namespace =
        serde_json::json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": api.namespace()}});
    api.create(namespace).await?;
    let mut nodes = Vec::new();
    let mut failures = Vec::new();
    for step in &scenario.steps {
        match play_step(world, &api, step, parts, &mut nodes).await {
            Ok(None) => {}
            Ok(Some(report)) => failures.push(Failure { step: step.name.clone(), report }),
            Err(error) => {
                failures.push(Failure { step: step.name.clone(), report: error.to_string() });
                break;
            }
        }
    }
    if world.outlives_scenarios() {
        clean_up(&api, &nodes).await?;
    }
    Ok(failures)
}

/// Plays one step; returns a report if the outputs differ from what is expected.
async fn play_step(
    world: &World,
    api: &Api,
    step: &Step,
    parts: Parts,
    nodes: &mut Vec<String>,
) -> Result<Option<String>, ConformanceError> {
    for repeated in &step.ops {
        run(world, api, repeated, nodes).await?;
    }
    let mut want = step.expect.clone();
    normal::in_order(&mut want);
    parts.mask(&mut want);
    let got = settle(api, step, parts, &want, world.pace()).await?;
    Ok((got != want).then(|| unified_diff(&want, &got)))
}

async fn run(
    world: &World,
    api: &Api,
    repeated: &Repeated,
    nodes: &mut Vec<String>,
) -> Result<(), ConformanceError> {
    let ops = repeated.expand()?;
    nodes.extend(ops.iter().filter_map(|op| op.created_node()).map(str::to_owned));
    // A future that owns a copy of its operation keeps the stream free of borrows that the compiler cannot follow.
    let runs = ops.into_iter().map(|op| {
        let api = api.clone();
        async move { run_when_allowed(&api, &op).await }
    });
    stream::iter(runs).buffer_unordered(world.pace().at_once).try_collect::<()>().await?;
    sleep(repeated.pause()).await;
    Ok(())
}

/// Carries out an operation; a pod waits for the service account that real clusters make for a new namespace.
async fn run_when_allowed(api: &Api, op: &Op) -> Result<(), ConformanceError> {
    for _ in 0..SERVICE_ACCOUNT_TRIES {
        match api.run(op).await {
            Err(error) if error.awaits_service_account() => sleep(SERVICE_ACCOUNT_PAUSE).await,
            other => return other,
        }
    }
    api.run(op).await
}

/// How often, and how long apart, to try for a service account.
const SERVICE_ACCOUNT_TRIES: u32 = 50;
const SERVICE_ACCOUNT_PAUSE: Duration = Duration::from_millis(200);

/// Removes what a scenario leaves behind. What is gone already is no error.
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
