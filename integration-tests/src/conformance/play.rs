//! Plays one scenario on one test bed.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::sleep;

use super::{
    Api, ConformanceError, Op, Pace, Parts, Repeated, Scenario, Step, TestBed, normal, settle, unified_diff,
};

/// A step whose outputs differ from the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub step: String,
    /// The refused request, or a diff of the expected and the actual outputs.
    pub report: String,
    /// True if the server does not accept an object of the step, which is invalid there.
    pub is_refused: bool,
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
/// on it.
///
/// # Errors
///
/// An error if creating the namespace fails.
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
    check: impl Fn(&Step) -> Option<String>,
) -> Result<Vec<Failure>, ConformanceError> {
    let api = Api::new(bed.client(), format!("conf-{}", scenario.name));
    create_namespace(&api).await?;
    let judge = async |step: &Step| Ok(compare(&api, step, parts, bed.pace()).await?.or_else(|| check(step)));
    Ok(play_steps(&api, scenario, bed.pace(), judge).await)
}

/// Creates the namespace of `api`.
pub(super) async fn create_namespace(api: &Api) -> Result<(), ConformanceError> {
    let namespace =
        serde_json::json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": api.namespace()}});
    api.create(namespace).await
}

/// Plays the steps of a scenario in the namespace of `api`, and calls `judge` after each. Returns
/// the steps that failed: those for which `judge` returns a report, and the one that could not be
/// played, which ends the scenario.
pub(super) async fn play_steps(
    api: &Api,
    scenario: &Scenario,
    pace: &Pace,
    judge: impl AsyncFn(&Step) -> Result<Option<String>, ConformanceError>,
) -> Vec<Failure> {
    let mut failures = Vec::new();
    for step in &scenario.steps {
        let failure = |report, is_refused| Failure { step: step.name.clone(), report, is_refused };
        if let Err(error) = run_step(api, step, pace).await {
            failures.push(failure(error.to_string(), error.is_refused_input()));
            break;
        }
        match judge(step).await {
            Ok(report) => failures.extend(report.map(|report| failure(report, false))),
            Err(error) => {
                failures.push(failure(error.to_string(), false));
                break;
            }
        }
    }
    failures
}

/// Returns a report if the outputs after a step differ from the recording.
pub(super) async fn compare(
    api: &Api,
    step: &Step,
    parts: Parts,
    pace: &Pace,
) -> Result<Option<String>, ConformanceError> {
    let want = expected(step, parts);
    let got = settle(api, step, parts, &want, pace).await?;
    Ok((got != want).then(|| unified_diff(&want, &got)))
}

/// Returns the recorded outputs of `parts` after a step.
pub(super) fn expected(step: &Step, parts: Parts) -> serde_json::Value {
    let mut want = step.expect.clone();
    normal::in_order(&mut want);
    parts.mask(&mut want);
    want
}

/// Carries out the operations of a step.
pub(super) async fn run_step(api: &Api, step: &Step, pace: &Pace) -> Result<(), ConformanceError> {
    for repeated in &step.ops {
        run(api, repeated, pace).await?;
    }
    Ok(())
}

async fn run(api: &Api, repeated: &Repeated, pace: &Pace) -> Result<(), ConformanceError> {
    // Each future owns its operation: the compiler cannot prove a borrow across `buffer_unordered`
    // to be valid.
    let runs = repeated.expand()?.into_iter().map(|op| {
        let api = api.clone();
        async move { run_when_allowed(&api, &op).await }
    });
    stream::iter(runs).buffer_unordered(pace.at_once).try_collect::<()>().await?;
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
