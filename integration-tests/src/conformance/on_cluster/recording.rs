//! Plays one recording on a cluster.

use std::cell::RefCell;

use kube_endpoint_explain::text::Colors;
use kube_endpoint_explain::{Objects, Options, diff};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cluster::Cluster;
use super::{ConformanceError, Judged, tidy};
use crate::conformance::play::{compare, create_namespace, expected, play_steps};
use crate::conformance::report::{Outcome, Recording};
use crate::conformance::settle::settled;
use crate::conformance::{Api, Failure, Kind, Pace, Parts, Scenario, Snapshot, Step, normal, unified_diff};

/// Plays a recording, and deletes what it has created. If that fails, the end of the run tries
/// again.
pub(super) async fn play(cluster: &Cluster, judged: &Judged, scenario: &Scenario) -> Recording {
    let api = cluster.api(&cluster.namespace(&scenario.name));
    let start = Instant::now();
    let differs = RefCell::new(Vec::new());
    let failures = play_in(cluster, &api, judged, scenario, &differs).await.unwrap_or_else(|error| {
        vec![Failure { step: "before the first".to_owned(), report: error.to_string(), is_refused: false }]
    });
    let _ = tidy::tidy(&api).await;
    Recording {
        name: scenario.name.clone(),
        outcome: Outcome::of(failures),
        differs: differs.into_inner(),
        took: start.elapsed(),
    }
}

/// Plays a recording in the namespace of `api`. Returns the steps that failed, and adds to
/// `differs` those with other outputs than recorded.
async fn play_in(
    cluster: &Cluster,
    api: &Api,
    judged: &Judged,
    scenario: &Scenario,
    differs: &RefCell<Vec<(String, String)>>,
) -> Result<Vec<Failure>, ConformanceError> {
    create_namespace(api).await?;
    let parts = cluster.parts();
    if *judged == Judged::ThisProgram {
        let ours = cluster.start_ours(vec![api.namespace().to_owned()]).await?;
        let judge = async |step: &Step| compare(api, step, parts, &Pace::REAL).await;
        let failures = play_steps(api, scenario, &Pace::REAL, judge).await;
        ours.stop().await;
        return Ok(failures);
    }
    let judge = async |step: &Step| {
        let seen = Seen::settled(api, step, parts).await?;
        let want = expected(step, parts);
        if seen.form == want {
            return Ok(None);
        }
        differs.borrow_mut().push((step.name.clone(), unified_diff(&want, &seen.form)));
        Ok(seen.due)
    };
    Ok(play_steps(api, scenario, &Pace::REAL, judge).await)
}

/// The outputs of a namespace beside the plan.
#[derive(PartialEq)]
struct Seen {
    /// In normal form.
    form: Value,
    due: Option<String>,
}

impl Seen {
    /// Waits until the outputs are those of the recording or those of the plan.
    ///
    /// A recording need not be what the plan wants: upstream's controllers set no hints when a
    /// node's zone becomes known, until something else starts a sync.
    async fn settled(api: &Api, step: &Step, parts: Parts) -> Result<Self, ConformanceError> {
        let want = expected(step, parts);
        let read = async || {
            let snapshot = Snapshot::take(api).await?;
            let mut form = normal::normal_form(&snapshot, api.namespace(), &step.compare);
            parts.mask(&mut form);
            Ok(Self { form, due: due(snapshot, api.list(Kind::Node).await?)? })
        };
        settled(step, &Pace::REAL, read, |seen| seen.due.is_none() || seen.form == want).await
    }
}

/// Returns the writes with which this project's controllers would change the outputs of a
/// namespace, as a diff.
pub(super) fn due(snapshot: Snapshot, nodes: Vec<Value>) -> Result<Option<String>, ConformanceError> {
    let kinds = [
        ("Node", nodes),
        ("Service", snapshot.services),
        ("Pod", snapshot.pods),
        ("Endpoints", snapshot.endpoints),
        ("EndpointSlice", snapshot.slices),
    ];
    let objects = kinds.into_iter().flat_map(|(kind, items)| {
        items.into_iter().map(move |mut item| {
            item["kind"] = json!(kind);
            item
        })
    });
    let unreadable = |error: &dyn std::fmt::Display| ConformanceError::NotStarted {
        what: "the plan",
        reason: error.to_string(),
    };
    let objects = Objects::read(objects).map_err(|error| unreadable(&error))?;
    // A recorded cluster has no EndpointSelectors and no annotation for which the time matters.
    let diff =
        diff(&objects, jiff::Timestamp::MIN, &Options::upstream()).map_err(|error| unreadable(&error))?;
    Ok((!diff.is_empty()).then(|| diff.text().render(Colors::Off)))
}
