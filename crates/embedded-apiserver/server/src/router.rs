//! Dispatches requests to handlers.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use kube_endpoint_apiserver_printers::{discovery, openapi, represent};
use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::answer::{self, Answer};
use crate::connection::Connection;
use crate::faults::Fault;
use crate::form::{self, Form};
use crate::query::Query;
use crate::request::RequestInfo;
use crate::server::Inner;
use crate::verbs::Call;
use crate::watch_cache::WatchCaches;

/// A request with its whole body.
pub(crate) struct Incoming<'a> {
    pub(crate) info: &'a RequestInfo,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Query,
    /// The content type, without parameters and in lower case.
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    pub(crate) connection: Option<&'a Connection>,
    pub(crate) caches: &'a WatchCaches,
    pub(crate) faults: Vec<Fault>,
}

/// Returns true if a path needs no authentication, as for anonymous users of the real server.
pub(crate) fn allows_anonymous(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version")
}

/// Answers a request.
pub(crate) async fn route(inner: &Arc<Inner>, incoming: Incoming<'_>) -> Result<Answer, Status> {
    if let Some(group) = incoming.info.path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next())
        && inner.hidden_groups.lock().contains(group)
    {
        return Ok(page_not_found());
    }
    match incoming.info.resource {
        Some(resource) => resource_request(inner, resource, incoming).await,
        None => non_resource_request(&incoming, inner.settings.minor_version),
    }
}

fn not_found() -> Status {
    without_details(404, "NotFound", "the server could not find the requested resource")
}

fn not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    without_details(405, "MethodNotAllowed", message)
}

/// Returns a Status of the real server's router, which has empty details.
fn without_details(code: u16, reason: &'static str, message: &str) -> Status {
    let mut status = Status::new(code, reason, message);
    status.details = Some(Box::default());
    status
}

/// Returns 404 for a path outside all API groups: the real server responds with text there.
fn page_not_found() -> Answer {
    answer::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Returns 404 for an unsupported subresource, such as `pods/log`.
fn no_subresource(resource: &Resource, subresource: &str) -> Status {
    let message = format!(
        "the server could not find the requested resource: this server has no {}/{subresource}",
        resource.group_resource()
    );
    without_details(404, "NotFound", &message)
}

async fn resource_request(
    inner: &Arc<Inner>,
    resource: &'static Resource,
    incoming: Incoming<'_>,
) -> Result<Answer, Status> {
    let info = incoming.info;
    match info.subresource.as_str() {
        "" => {}
        "status" if resource.has_status() => {}
        other => return Err(no_subresource(resource, other)),
    }
    let has_name = !info.name.is_empty();
    if !resource.verbs.contains(&info.verb)
        || (info.verb == "create" && has_name)
        || (matches!(info.verb, "update" | "patch") && !has_name)
        || (!info.subresource.is_empty() && !matches!(info.verb, "get" | "update" | "patch"))
        || (resource.namespaced && info.namespace.is_empty() && info.has_write_verb())
    {
        return Err(not_allowed());
    }
    let encoding = represent::negotiate_error(&form::accepted(incoming.headers));
    let warnings = Mutex::default();
    let answer = match resource_verb(inner, resource, incoming, &warnings).await {
        Ok(answer) => answer,
        Err(status) => answer::error(encoding, &status),
    };
    let deprecation = strategy::deprecation_warning(resource).map(str::to_owned);
    let warnings = deprecation.into_iter().chain(warnings.into_inner());
    Ok(answer::warn(answer, warnings))
}

async fn resource_verb(
    inner: &Arc<Inner>,
    resource: &'static Resource,
    incoming: Incoming<'_>,
    warnings: &Mutex<Vec<String>>,
) -> Result<Answer, Status> {
    let info = incoming.info;
    let form = Form::negotiate(incoming.headers, info.verb, resource, &incoming.query, inner.clock)?;
    let call = Call {
        info,
        resource,
        query: incoming.query,
        form,
        body: incoming.body,
        content_type: incoming.content_type,
        closing: incoming.connection.map(|connection| connection.closing.clone()),
        caches: incoming.caches,
        faults: incoming.faults,
        warnings,
    };
    match info.verb {
        "get" => inner.read(&call).await,
        "list" => inner.list(&call).await,
        "watch" => inner.watch(&call).await,
        "create" => inner.post(&call),
        "update" => inner.put(&call),
        "patch" => inner.patch(&call),
        "delete" => inner.delete_one(&call),
        "deletecollection" => inner.delete_collection(&call).await,
        _ => Err(not_allowed()),
    }
}

/// Handles non-resource requests: discovery, health, version.
fn non_resource_request(incoming: &Incoming<'_>, minor_version: u32) -> Result<Answer, Status> {
    let path = incoming.info.path.trim_end_matches('/');
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let accept = incoming.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let found = document(&segments, accept, incoming, minor_version);
    let is_health = matches!(segments.first(), Some(&("healthz" | "livez" | "readyz")));
    if found.is_some() && !is_health && !matches!(incoming.info.verb, "get" | "head") {
        return Err(not_allowed());
    }
    match (found, segments.as_slice()) {
        (Some(found), _) => Ok(found),
        (None, ["api", ..]) => Err(not_found()),
        (None, ["apis", group, ..]) if discovery::group(group).is_some() => Err(not_found()),
        (None, _) => Ok(page_not_found()),
    }
}

fn document(segments: &[&str], accept: &str, incoming: &Incoming<'_>, minor_version: u32) -> Option<Answer> {
    let found = |value: Value| Some(answer::json(StatusCode::OK, &value));
    match segments {
        [] | [""] => found(json!({"paths": [
            "/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version",
        ]})),
        [check @ ("healthz" | "livez" | "readyz")] if incoming.query.has("verbose") => {
            let all = format!("[+]ping ok\n[+]log ok\n{check} check passed\n");
            Some(answer::text(StatusCode::OK, all))
        }
        ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", "ping" | "log"] => {
            Some(answer::text(StatusCode::OK, "ok"))
        }
        ["version"] => found(kube_endpoint_apiserver_printers::version(minor_version)),
        [root @ ("api" | "apis")] => {
            let core = *root == "api";
            let address = incoming.connection.map(|c| c.address.to_string()).unwrap_or_default();
            found(if core { discovery::core_versions(&address) } else { discovery::groups() })
        }
        ["api", version] => found(discovery::resources("", version)?),
        ["apis", group] => found(discovery::group(group)?),
        ["apis", group, version] => found(discovery::resources(group, version)?),
        ["openapi", "v2"] => Some(openapi_v2(accept)),
        ["openapi", "v3"] => Some(answer::json_bytes(StatusCode::OK, OPENAPI_V3_INDEX.clone())),
        ["openapi", "v3", "api", version] => found(openapi::v3("", version)?),
        ["openapi", "v3", "apis", group, version] => found(openapi::v3(group, version)?),
        _ => None,
    }
}

/// The document of `/openapi/v2` as kubectl reads it; it never changes and is large, so the server
/// encodes it once.
static OPENAPI_V2_PROTOBUF: LazyLock<Bytes> = LazyLock::new(|| openapi::v2_protobuf().into());
static OPENAPI_V2_JSON: LazyLock<Bytes> = LazyLock::new(|| openapi::v2_json().to_string().into());
static OPENAPI_V3_INDEX: LazyLock<Bytes> = LazyLock::new(|| openapi::v3_index().to_string().into());

fn openapi_v2(accept: &str) -> Answer {
    if openapi::wants_v2_protobuf(accept) {
        let mut answer = answer::json_bytes(StatusCode::OK, OPENAPI_V2_PROTOBUF.clone());
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(openapi::V2_PROTOBUF));
        answer
    } else {
        answer::json_bytes(StatusCode::OK, OPENAPI_V2_JSON.clone())
    }
}
