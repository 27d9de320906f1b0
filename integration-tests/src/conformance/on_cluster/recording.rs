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
use crate::conformance::{Api, Kind, Pace, Parts, Scenario, Snapshot, Step, normal, unified_diff};

/// Plays a recording, and deletes what it has created.
pub(super) async fn play(
    cluster: &Cluster,
    judged: &Judged,
    scenario: &Scenario,
) -> Result<Recording, ConformanceError> {
    let api = cluster.api(&cluster.namespace(&scenario.name));
    let start = Instant::now();
    create_namespace(&api).await?;
    let parts = cluster.parts();
    let (failures, differs) = match judged {
        Judged::ThisProgram => {
            let ours = cluster.start_ours(vec![api.namespace().to_owned()]).await?;
            let judge = async |step: &Step| compare(&api, step, parts, &Pace::REAL).await;
            let failures = play_steps(&api, scenario, &Pace::REAL, judge).await;
            ours.stop().await;
            (failures, Vec::new())
        }
        Judged::Plan { .. } => {
            let differs = RefCell::new(Vec::new());
            let judge = async |step: &Step| {
                let seen = Seen::settled(&api, step, parts).await?;
                let want = expected(step, parts);
                if seen.form == want {
                    return Ok(None);
                }
                differs.borrow_mut().push((step.name.clone(), unified_diff(&want, &seen.form)));
                Ok(seen.due)
            };
            let failures = play_steps(&api, scenario, &Pace::REAL, judge).await;
            (failures, differs.into_inner())
        }
    };
    tidy::tidy(&api).await?;
    Ok(Recording {
        name: scenario.name.clone(),
        outcome: Outcome::of(failures),
        differs,
        took: start.elapsed(),
    })
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
    let diff = diff(&objects, &Options::upstream()).map_err(|error| unreadable(&error))?;
    Ok((!diff.is_empty()).then(|| diff.text().render(Colors::Off)))
}
