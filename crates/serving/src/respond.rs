//! Makes answers in upstream's forms.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};
use kube_endpoint_core_model::harmless_json;
use serde_json::{Value, json};

use crate::event_streams::AnswerBody;

pub(crate) type Answer = Response<AnswerBody>;

const TEXT: &str = "text/plain; charset=utf-8";

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(AnswerBody::whole(body));
    *answer.status_mut() = status;
    let headers: [(HeaderName, &'static str); 3] = [
        (CONTENT_TYPE, content_type),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-cache, private"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    answer(status, TEXT, text)
}

/// Returns the answer for a page in Prometheus' text format.
pub(crate) fn metrics(page: String) -> Answer {
    answer(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page)
}

pub(crate) fn json(value: &Value) -> Answer {
    answer(StatusCode::OK, "application/json", harmless_json(&value.to_string()).into_owned())
}

/// Returns the text of a `Status` object with an error.
pub(crate) fn status_text(code: StatusCode, reason: &str, message: &str, details: Option<Value>) -> String {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    if let Some(details) = details {
        status["details"] = details;
    }
    harmless_json(&status.to_string()).into_owned()
}

fn status(code: StatusCode, reason: &str, message: &str, details: Option<Value>) -> Answer {
    answer(code, "application/json", status_text(code, reason, message, details))
}

pub(crate) fn unauthorized() -> Answer {
    status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized", None)
}

/// Returns the answer 403. `reason` is the API server's, and may be empty.
pub(crate) fn forbidden(user: &str, verb: &str, path: &str, reason: &str) -> Answer {
    let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}");
    // As upstream, this makes sure that no error looks like HTML.
    let mut message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    status(StatusCode::FORBIDDEN, "Forbidden", &message, Some(json!({})))
}

pub(crate) fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

pub(crate) fn not_acceptable() -> Answer {
    let message = "only the following media types are accepted: text/plain, application/json";
    status(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message, None)
}

pub(crate) fn invalid_path() -> Answer {
    text(StatusCode::BAD_REQUEST, "400 Bad Request: invalid path\n")
}

/// Returns the answer to a request with a body, which no page takes.
pub(crate) fn unwanted_body() -> Answer {
    text(StatusCode::PAYLOAD_TOO_LARGE, "413 Payload Too Large: requests must have no body\n")
}

pub(crate) fn method_not_allowed() -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "405 Method Not Allowed: only GET and HEAD are\n");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}

pub(crate) fn too_many_streams() -> Answer {
    let message = "too many clients watch this page; close one of them, or try again later";
    let mut answer = status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message, None);
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    answer
}

pub(crate) fn internal_error(why: &str) -> Answer {
    text(StatusCode::INTERNAL_SERVER_ERROR, format!("Internal Server Error: {why}\n"))
}
