//! One line of the audit log.

use kube_endpoint_api_writer::{SyncDetails, WriteRecord};
use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_core_model::{ResourceVersion, Timestamp, harmless_json};
use opentelemetry::trace::get_active_span;
use serde::Serialize;

/// A line. It leaves unknown fields out.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    time: String,
    controller: &'a str,
    verb: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version_after: Option<String>,
    /// HTTP status; 0 if no answer arrived.
    code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    sync: Option<Sync<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
}

/// The sync that wrote.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sync<'a> {
    /// The key of the sync: the Service, or for the mirroring controller the Endpoints.
    key: String,
    cause: &'a [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoints: Option<usize>,
    plan: Plan,
}

#[derive(Serialize)]
struct Plan {
    creates: usize,
    updates: usize,
    deletes: usize,
}

/// Returns the line about a write, with its line end.
pub(super) fn line(controller: &str, now: Timestamp, write: &WriteRecord<'_>) -> Vec<u8> {
    let version = |version: ResourceVersion| version.to_string();
    let sync = write.sync.map(|sync| {
        let SyncDetails { trigger_time, pods, outputs, endpoints, creates, updates, deletes } =
            sync.details();
        Sync {
            key: sync.key.to_string(),
            cause: &sync.causes,
            trigger_time: trigger_time.map(rfc3339),
            pods,
            outputs,
            endpoints,
            plan: Plan { creates, updates, deletes },
        }
    });
    let trace_id = get_active_span(|span| {
        let context = span.span_context();
        context.is_sampled().then(|| context.trace_id().to_string())
    });
    let line = Line {
        time: now.to_string(),
        controller,
        verb: write.operation.as_str(),
        kind: write.kind,
        namespace: &write.object.namespace,
        name: &write.object.name,
        resource_version_before: write.version_before.map(version),
        resource_version_after: write.version_after.map(version),
        code: write.code.unwrap_or(0),
        error: write.error.map(ToString::to_string),
        sync,
        trace_id,
    };
    // serde_json can serialize every line: it has texts and numbers only.
    let json = serde_json::to_string(&line).unwrap_or_default();
    let mut bytes = harmless_json(&json).into_owned().into_bytes();
    bytes.push(b'\n');
    bytes
}
