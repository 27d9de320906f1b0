//! Records the details of a sync for its trace and for an observer of its writes.

use std::sync::Arc;

use kube_endpoint_api_writer::{SyncContext, SyncDetails};
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_workqueue::Causes;
use opentelemetry::trace::get_active_span;
use opentelemetry::{Array, KeyValue, StringValue, Value};

use crate::{Cause, Outcome, Reconciler, Runtime, SyncError};

/// Runs one sync. If it is traced, or an observer sees its writes, this runs it in a
/// [`SyncContext`]. Adds the details of a traced sync to its span.
pub(crate) async fn observed<R: Reconciler>(
    runtime: &Runtime<R>,
    key: &ObjectKey,
    causes: Causes,
) -> Result<Outcome, SyncError> {
    let is_traced = get_active_span(|span| span.is_recording());
    if !is_traced && !runtime.writer.writer().has_observer() {
        return runtime.sync(key).await;
    }
    let context = SyncContext::new(runtime.queue.name().into(), key.clone(), Cause::names(causes));
    let result = context.scope(runtime.sync(key)).await;
    if is_traced {
        get_active_span(|span| span.set_attributes(attributes(&context, &result)));
    }
    result
}

fn attributes(context: &Arc<SyncContext>, result: &Result<Outcome, SyncError>) -> Vec<KeyValue> {
    let SyncDetails { trigger_time, pods, outputs, endpoints, creates, updates, deletes } = context.details();
    let causes = context.causes.iter().map(|cause| StringValue::from(*cause)).collect();
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
