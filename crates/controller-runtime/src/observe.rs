//! Adds the details of a sync to its span.

use std::cell::Cell;

use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_core_model::{ObjectKey, Timestamp, Writes};
use kube_endpoint_workqueue::Causes;
use opentelemetry::trace::get_active_span;
use opentelemetry::{Array, KeyValue, StringValue, Value};

use crate::{Cause, Outcome, Reconciler, Runtime, SyncError};

tokio::task_local! {
    /// The details of the sync that the current task runs. They exist only if the sync is traced.
    static DETAILS: Cell<SyncDetails>;
}

/// The facts that a sync finds out about its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncDetails {
    /// When the change happened that the sync publishes.
    pub trigger_time: Option<Timestamp>,
    /// Number of pods that the Service selects.
    pub pods: Option<usize>,
    /// Number of output objects in the cache, of all managers.
    pub outputs: Option<usize>,
    /// Number of endpoints in the plan.
    pub endpoints: Option<usize>,
    /// Number of objects that the plan creates.
    pub creates: usize,
    /// Number of objects that the plan updates.
    pub updates: usize,
    /// Number of objects that the plan deletes.
    pub deletes: usize,
}

impl SyncDetails {
    /// Counts the writes of a plan.
    pub(crate) fn plans<T>(&mut self, writes: &Writes<T>) {
        self.creates += writes.create.len();
        self.updates += writes.update.len();
        self.deletes += writes.delete.len();
    }
}

/// Adds to the details of the current sync, if it is traced.
pub(crate) fn note(change: impl FnOnce(&mut SyncDetails)) {
    let _ = DETAILS.try_with(|noted| {
        let mut details = noted.get();
        change(&mut details);
        noted.set(details);
    });
}

/// Runs one sync. If it is traced, this adds its details to its span.
pub(crate) async fn observed<R: Reconciler>(
    runtime: &Runtime<R>,
    key: &ObjectKey,
    causes: Causes,
) -> Result<Outcome, SyncError> {
    if !get_active_span(|span| span.is_recording()) {
        return runtime.sync(key).await;
    }
    let traced = async {
        let result = runtime.sync(key).await;
        (result, DETAILS.with(Cell::get))
    };
    let (result, details) = DETAILS.scope(Cell::default(), traced).await;
    get_active_span(|span| span.set_attributes(attributes(causes, details, &result)));
    result
}

fn attributes(causes: Causes, details: SyncDetails, result: &Result<Outcome, SyncError>) -> Vec<KeyValue> {
    let SyncDetails { trigger_time, pods, outputs, endpoints, creates, updates, deletes } = details;
    let causes = Cause::names(causes).into_iter().map(StringValue::from).collect();
    let outcome = result.as_ref().map_or("error", |outcome| outcome.as_str());
    let number = |name, count: usize| KeyValue::new(name, i64::try_from(count).unwrap_or(i64::MAX));
    let mut attributes = vec![
        KeyValue::new("cause", Value::Array(Array::String(causes))),
        KeyValue::new("outcome", outcome),
        number("plan.creates", creates),
        number("plan.updates", updates),
        number("plan.deletes", deletes),
    ];
    let sizes = [("pods", pods), ("outputs", outputs), ("endpoints", endpoints)];
    attributes.extend(sizes.into_iter().filter_map(|(name, count)| Some(number(name, count?))));
    attributes.extend(trigger_time.map(|time| KeyValue::new("trigger_time", rfc3339(time))));
    attributes
}
