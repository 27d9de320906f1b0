//! Paths and bodies of list and watch requests. This module reads raw responses, since kube's own
//! methods drop the `Retry-After` header.

use std::fmt::Write as _;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use kube_endpoint_api_client::{AnswerBody, ContentType};
use kube_endpoint_core_model::ResourceVersion;
use tokio::time::Instant;

use crate::error::ListWatchError;
use crate::{ApiClient, Resource, Scope};

/// The most bytes that [`read_all`] reads of a body.
const MAX_BODY: usize = 16 << 20;

/// The objects that a reflector lists and watches.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The path of the list.
    path: String,
    field_selector: Option<&'static str>,
}

impl Target {
    /// Returns the target of a resource in a scope.
    pub(crate) fn new(resource: &Resource, scope: &Scope) -> Self {
        let field_selector = resource.cluster_field_selector.filter(|_| *scope == Scope::All);
        Self { path: resource.path_in(scope), field_selector }
    }

    /// Appends the field selector after `separator`.
    fn push_selector(&self, path: &mut String, separator: char) {
        if let Some(selector) = self.field_selector {
            let _ = write!(path, "{separator}fieldSelector=");
            escape(path, selector);
        }
    }
}

/// Returns the path of one page of a list. A `limit` of 0 requests all objects at once. The path
/// names no version, so a list is never older than the objects that this process received before.
pub(crate) fn list_path(target: &Target, limit: u32, token: Option<&str>) -> String {
    let mut path = target.path.clone();
    let mut separator = '?';
    if limit > 0 {
        let _ = write!(path, "?limit={limit}");
        separator = '&';
    }
    if let Some(token) = token {
        path.push_str("&continue=");
        escape(&mut path, token);
    }
    target.push_selector(&mut path, separator);
    path
}

/// Returns the path of a watch. Without a version, the watch begins with the complete state.
pub(crate) fn watch_path(target: &Target, from: Option<ResourceVersion>, timeout: Duration) -> String {
    let seconds = timeout.as_secs();
    let path = &target.path;
    let from = match from {
        Some(version) => format!("resourceVersion={version}"),
        None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
    };
    let mut path = format!("{path}?watch=true&allowWatchBookmarks=true&{from}&timeoutSeconds={seconds}");
    target.push_selector(&mut path, '&');
    path
}

/// Percent-encodes a query value.
fn escape(out: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Sends a GET request. Returns the body of a response with status 200, not read yet, and its
/// encoding: a server may answer a request for protobuf with JSON. If the server refuses protobuf
/// for the resource, requests JSON.
pub(crate) async fn get(
    client: &ApiClient,
    path: &str,
    idle_timeout: Duration,
) -> Result<(AnswerBody, ContentType), ListWatchError> {
    let collection = path.split('?').next().unwrap_or_default();
    let resource = collection.rsplit('/').next().unwrap_or_default();
    let content_type = client.content_type_of(resource);
    match get_as(client, path, content_type, idle_timeout).await {
        Err(ListWatchError::Api { code, .. })
            if client.refused_content_type(resource, content_type, code) =>
        {
            get_as(client, path, ContentType::Json, idle_timeout).await
        }
        answer => answer,
    }
}

async fn get_as(
    client: &ApiClient,
    path: &str,
    content_type: ContentType,
    idle_timeout: Duration,
) -> Result<(AnswerBody, ContentType), ListWatchError> {
    let request = Request::get(path)
        .header(ACCEPT, content_type.accept())
        // The server would hold back the events of a compressed watch until a block is full.
        .header(ACCEPT_ENCODING, "identity")
        .body(Body::empty())
        .map_err(|error| ListWatchError::Unreachable(Box::new(kube::Error::HttpError(error))))?;
    let answer = with_timeout(idle_timeout, client.send(request)).await?;
    let answer = answer.map_err(|error| ListWatchError::Unreachable(Box::new(error)))?;
    let (head, mut body) = answer.into_parts();
    if head.status == StatusCode::OK {
        return Ok((body, ContentType::of_answer(&head.headers)));
    }
    // The status is known, and an unreadable body does not change it.
    let explanation = read_all(&mut body, idle_timeout).await.unwrap_or_default();
    Err(ListWatchError::from_response(head.status.as_u16(), &head.headers, &explanation))
}

/// Returns the next chunk of a body, or `None` at its end.
pub(crate) async fn next_chunk(
    body: &mut AnswerBody,
    idle_timeout: Duration,
) -> Result<Option<Bytes>, ListWatchError> {
    loop {
        match with_timeout(idle_timeout, body.frame()).await? {
            None => return Ok(None),
            Some(Err(error)) => return Err(ListWatchError::Interrupted(error.to_string())),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Returns the next chunk of a body on which nothing has arrived since an earlier moment.
pub(crate) async fn next_chunk_since(
    body: &mut AnswerBody,
    since: Instant,
    idle_timeout: Duration,
) -> Result<Option<Bytes>, ListWatchError> {
    let left = (since + idle_timeout).saturating_duration_since(Instant::now());
    match next_chunk(body, left).await {
        Err(ListWatchError::IdleTimeout(_)) => Err(ListWatchError::IdleTimeout(idle_timeout)),
        other => other,
    }
}

/// Reads a body that is expected to be short. Leaves out the rest after 16 MiB.
pub(crate) async fn read_all(
    body: &mut AnswerBody,
    idle_timeout: Duration,
) -> Result<Vec<u8>, ListWatchError> {
    let mut all = Vec::new();
    while let Some(chunk) = next_chunk(body, idle_timeout).await? {
        all.extend_from_slice(&chunk);
        if all.len() >= MAX_BODY {
            break;
        }
    }
    Ok(all)
}

async fn with_timeout<F: Future>(idle_timeout: Duration, future: F) -> Result<F::Output, ListWatchError> {
    tokio::time::timeout(idle_timeout, future).await.map_err(|_| ListWatchError::IdleTimeout(idle_timeout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;
    use kube_endpoint_core_model::{EndpointSlice, Pod};

    #[test]
    fn paths() {
        let target = |resource, scope: &Scope| Target::new(resource, scope);
        let (pods, slices) =
            (&target(&Pod::RESOURCE, &Scope::All), &target(&EndpointSlice::RESOURCE, &Scope::All));
        let check = |path: String, want: &str| assert_eq!(path, want);
        check(list_path(pods, 500, None), "/api/v1/pods?limit=500");
        check(list_path(pods, 0, None), "/api/v1/pods");
        check(list_path(pods, 2, Some("a+/=b_-")), "/api/v1/pods?limit=2&continue=a%2B%2F%3Db_-");
        check(
            watch_path(slices, Some(ResourceVersion(7)), Duration::from_millis(300_900)),
            "/apis/discovery.k8s.io/v1/endpointslices?watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300",
        );
        check(
            watch_path(pods, None, Duration::from_secs(9)),
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=9",
        );
        let scope = Scope::Namespace("a-b".into());
        let (pods, slices) = (target(&Pod::RESOURCE, &scope), target(&EndpointSlice::RESOURCE, &scope));
        check(list_path(&pods, 1, None), "/api/v1/namespaces/a-b/pods?limit=1");
        check(list_path(&slices, 0, None), "/apis/discovery.k8s.io/v1/namespaces/a-b/endpointslices");
        check(list_path(&pods, 5, Some("t")), "/api/v1/namespaces/a-b/pods?limit=5&continue=t");
        check(
            watch_path(&pods, Some(ResourceVersion(7)), Duration::from_secs(9)),
            "/api/v1/namespaces/a-b/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=9",
        );
    }
}
