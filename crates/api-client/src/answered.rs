//! Tells the answers of a Kubernetes API server from those of other servers, such as a proxy or a
//! login page.

use std::fmt;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use kube_endpoint_core_model::{harmless, protobuf};
use serde::Deserialize;

use crate::client::AnswerBody;

/// The answer of Go's HTTP server for a path without a handler. kube-apiserver answers a request
/// for a group or version that it does not serve with this text, not with a `Status`.
pub(crate) const PAGE_NOT_FOUND: &str = "404 page not found";
/// The most characters of a body that `Display` shows.
const SHOWN: usize = 200;

/// An answer, read whole. `Display` describes it on one line.
#[derive(Clone, Debug)]
pub struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// The fields that say which kind of object a body is.
#[derive(Deserialize)]
struct JsonObject {
    kind: serde_json::Value,
    #[serde(default)]
    reason: serde_json::Value,
}

impl Answered {
    /// Reads an answer of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// If the body is longer or breaks off.
    pub async fn read(answer: Response<AnswerBody>, limit: usize) -> Result<Self, String> {
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, limit).collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok(Self { status: head.status, headers: head.headers, body })
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns true if the body is an object of this kind, in JSON or protobuf.
    pub fn is_kind(&self, kind: &str) -> bool {
        kind_of(&self.body).as_deref() == Some(kind)
    }

    /// Returns true if this is an API server's answer for a path that it does not serve.
    pub fn says_not_served(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
            && (self.body.trim_ascii() == PAGE_NOT_FOUND.as_bytes() || is_status_not_found(&self.body))
    }
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if let Some(location) = redirected_to(self.status, &self.headers) {
            return write!(f, ", which redirects to {location}");
        }
        let text = String::from_utf8_lossy(&self.body);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return f.write_str(" without a body");
        }
        let media_type = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = media_type.and_then(|value| value.split(';').next()).unwrap_or("no Content-Type");
        write!(f, " with {media_type}: \"{}\"", harmless(&text, SHOWN))
    }
}

/// Returns the location that an answer redirects to, without the query, which may hold secrets. The
/// client follows no redirects.
pub fn redirected_to(status: StatusCode, headers: &HeaderMap) -> Option<String> {
    let location = headers.get(LOCATION).filter(|_| status.is_redirection())?;
    let location = String::from_utf8_lossy(location.as_bytes());
    Some(harmless(location.split(['?', '#']).next().unwrap_or_default(), SHOWN).into_owned())
}

/// Returns true if a body is the `Status` with which an API server says that an object does not
/// exist. Proxies and other servers send something else with 404.
pub fn is_status_not_found(body: &[u8]) -> bool {
    match protobuf::Status::of_answer(body) {
        Some(status) => status.reason == "NotFound",
        None => serde_json::from_slice(body)
            .is_ok_and(|object: JsonObject| object.kind == "Status" && object.reason == "NotFound"),
    }
}

fn kind_of(body: &[u8]) -> Option<String> {
    if let Ok(envelope) = protobuf::Envelope::read(body) {
        return Some(envelope.kind.to_owned());
    }
    let object: JsonObject = serde_json::from_slice(body).ok()?;
    object.kind.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn answered(status: u16, media_type: &'static str, body: impl Into<Bytes>) -> Answered {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))]);
        Answered { status: StatusCode::from_u16(status).unwrap(), headers, body: body.into() }
    }

    /// A `Status` in protobuf, as kube-apiserver sent it.
    const STATUS: &[u8] = include_bytes!("../../../integration-tests/fixtures/protobuf/status-404.pb");

    #[test]
    fn a_404_says_that_a_path_is_not_served_only_if_an_api_server_gave_it() {
        let check = |status: u16, body: &'static [u8], want: bool| {
            assert_eq!(answered(status, "text/plain", body).says_not_served(), want, "{status} {body:?}");
        };
        // kube-apiserver 1.36, for a group that it does not serve.
        check(404, b"404 page not found\n", true);
        check(
            404,
            br#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#,
            true,
        );
        check(404, STATUS, true);
        check(404, br#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":404}"#, false);
        check(404, br#"{"reason":"NotFound"}"#, false);
        check(404, br#"{"kind":["Status"],"reason":{"NotFound":1}}"#, false);
        check(404, b"<html><body>404 page not found</body></html>", false);
        check(404, b"{}", false);
        check(404, b"[]", false);
        check(404, b"", false);
        check(404, b"k8s\0\xff\xff", false);
        check(403, b"404 page not found\n", false);
        check(200, STATUS, false);
    }

    #[test]
    fn the_kind_of_a_body_is_told_in_both_encodings() {
        let check = |body: &'static [u8], kind: &str, want: bool| {
            assert_eq!(answered(200, "", body).is_kind(kind), want, "{body:?}");
        };
        check(br#"{"kind":"APIResourceList","groupVersion":"v1","resources":[]}"#, "APIResourceList", true);
        check(br#"{"kind":"APIGroupDiscoveryList","items":[]}"#, "APIGroupDiscoveryList", true);
        check(STATUS, "Status", true);
        check(STATUS, "APIResourceList", false);
        for other in ["{}", "", "[]", "null", "<html>", r#"{"kind":7}"#, r#"{"items":[]}"#] {
            check(other.as_bytes(), "APIResourceList", false);
            check(other.as_bytes(), "", false);
        }
    }

    #[test]
    fn an_answer_is_told_on_one_line() {
        let check = |answered: Answered, want: &str| assert_eq!(answered.to_string(), want);
        check(
            answered(404, "text/plain; charset=utf-8", "404 page\n not found\n"),
            r#"404 Not Found with text/plain: "404 page not found""#,
        );
        check(
            answered(200, "text/html", "x".repeat(500)),
            &format!("200 OK with text/html: \"{}…\"", "x".repeat(200)),
        );
        check(answered(204, "text/html", " \n"), "204 No Content without a body");
        check(
            Answered { headers: HeaderMap::new(), ..answered(200, "", &b"a\x1b[1m\xff"[..]) },
            "200 OK with no Content-Type: \"a\\u{1b}[1m\u{fffd}\"",
        );
        let mut redirect = answered(302, "text/html", "<a>moved</a>");
        redirect
            .headers
            .insert(LOCATION, HeaderValue::from_static("https://login.example/start?state=secret"));
        check(redirect, "302 Found, which redirects to https://login.example/start");
    }
}
