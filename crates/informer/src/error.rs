//! The errors of lists and watches. Each variant says what the reflector does next.

use std::error::Error;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use kube::core::Status;
use kube::core::response::{StatusCause, StatusDetails};
use kube_endpoint_api_client::{STORAGE_WENT_BACK, redirected_to};
use kube_endpoint_core_model::protobuf;
use kube_endpoint_core_model::{ResourceVersion, causes, harmless};

use crate::metrics::WatchErrorReason;

/// The longest delay that a reflector accepts from a server. Maintenance pages ask for a day.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The reason why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListWatchError {
    /// No answer arrived. Retry.
    #[error("the API server cannot be reached: {}", innermost(.0))]
    Unreachable(#[source] Box<kube::Error>),
    /// No answer, or no more of it, arrived within the idle timeout. Retry.
    #[error("nothing arrived from the API server for {0:?}")]
    IdleTimeout(Duration),
    /// The server answered with an error. Retry, but not before the time that the server named.
    #[error("the API server answered {}: {message}", code_and_reason(*code, reason))]
    Api {
        /// HTTP status.
        code: u16,
        reason: String,
        message: String,
        /// The delay that the server asked for, 60 s at most. Only 429 and 5xx have one.
        retry_after: Option<Duration>,
    },
    /// The server no longer keeps the requested version, or the rest of a list. Relist.
    #[error("the API server no longer keeps this version: {0}")]
    Expired(String),
    /// The server has not reached the requested version and may never. Compare versions.
    #[error("the API server does not know this version yet: {0}")]
    TooLargeResourceVersion(String),
    /// The server's version is lower than the position of the watch, as after a restore from a
    /// backup. Relist.
    #[error(
        "the API server's version {server} is lower than {position}, which was read before: {STORAGE_WENT_BACK}"
    )]
    VersionWentBack {
        server: ResourceVersion,
        /// The version of the last event, bookmark or complete list.
        position: ResourceVersion,
    },
    /// The response is not what the reflector requested. Events may be lost, so a watch must
    /// relist.
    #[error("the API server's answer is invalid: {0}")]
    InvalidResponse(String),
    /// A page has the continue token of an earlier page, so the list would never end. Relist.
    #[error("the API server answered with a continue token that it has answered with before in this list")]
    SamePage,
    /// The response ended early. Objects and events that arrived before are valid.
    #[error("the API server's answer was interrupted: {0}")]
    Interrupted(String),
}

fn code_and_reason(code: u16, reason: &str) -> String {
    if reason.is_empty() { code.to_string() } else { format!("{code} {reason}") }
}

/// Returns the causes of a client error, without kube's own message.
fn innermost(error: &kube::Error) -> String {
    causes(error.source().unwrap_or(error))
}

impl ListWatchError {
    /// Converts a `Status` object. `retry_after` takes precedence over the delay in its details.
    pub(crate) fn from_status(status: Status, retry_after: Option<Duration>) -> Self {
        let Status { code, reason, message, details, .. } = status;
        let message = self::message(&message);
        if code == 410 || reason == "Expired" || reason == "Gone" {
            return Self::Expired(message);
        }
        let causes = details.as_ref().map_or(&[][..], |details| &details.causes);
        let too_large = causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge");
        if too_large || message.contains("Too large resource version") {
            return Self::TooLargeResourceVersion(message);
        }
        let seconds = details.map_or(0, |details| u64::from(details.retry_after_seconds));
        let retry_after = retry_after.or((seconds > 0).then(|| Duration::from_secs(seconds)));
        let retry_after =
            retry_after.filter(|_| code == 429 || code >= 500).map(|it| it.min(MAX_RETRY_AFTER));
        Self::Api { code, reason: excerpt(reason.as_bytes()), message, retry_after }
    }

    /// Converts a `Status` in protobuf. If it has no code, the error gets `code`.
    pub(crate) fn from_protobuf(status: protobuf::Status, code: Option<u16>) -> Self {
        let status = status_of(status);
        let code = Some(status.code).filter(|code| *code != 0).or(code).unwrap_or_default();
        Self::from_status(Status { code, ..status }, None)
    }

    /// Converts an HTTP response other than 200. The body need not be a `Status`: proxies send any
    /// text.
    pub(crate) fn from_response(code: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let in_protobuf = protobuf::Status::of_answer(body).map(status_of);
        let status = in_protobuf.or_else(|| json_status(body)).unwrap_or_else(|| {
            let location = StatusCode::from_u16(code).ok().and_then(|status| redirected_to(status, headers));
            let text =
                location.map_or_else(|| excerpt(body), |location| format!("it redirects to {location}"));
            let text = if text.is_empty() { "no explanation".to_owned() } else { text };
            Status { message: text, ..Status::default() }
        });
        Self::from_status(Status { code, ..status }, retry_after(headers))
    }

    /// Returns true if an API server answered that it does not serve the resource: with a `Status`,
    /// or with the text of Go's HTTP server.
    pub(crate) fn is_not_served(&self) -> bool {
        matches!(self, Self::Api { code: 404, reason, message, .. }
            if reason == "NotFound" || reason.is_empty() && message == "404 page not found")
    }

    /// Returns the HTTP status, if the server answered with an error.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Api { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns the delay that the server asked for.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns the `reason` label of the metric.
    pub(crate) fn reason(&self) -> WatchErrorReason {
        match self {
            Self::Unreachable(_) => WatchErrorReason::Unreachable,
            Self::IdleTimeout(_) => WatchErrorReason::IdleTimeout,
            Self::Api { .. } | Self::Expired(_) | Self::TooLargeResourceVersion(_) => WatchErrorReason::Api,
            Self::InvalidResponse(_) | Self::SamePage | Self::VersionWentBack { .. } => {
                WatchErrorReason::InvalidResponse
            }
            Self::Interrupted(_) => WatchErrorReason::Interrupted,
        }
    }
}

/// Parses the `Status` in a body. Returns `None` if it has neither reason nor message, as `{}`.
fn json_status(body: &[u8]) -> Option<Status> {
    let status: Status = serde_json::from_slice(body).ok()?;
    (!status.reason.is_empty() || !status.message.is_empty()).then_some(status)
}

fn status_of(status: protobuf::Status) -> Status {
    let protobuf::Status { message, reason, code, causes, retry_after_seconds, .. } = status;
    let cause = |reason| StatusCause { reason, message: String::new(), field: String::new() };
    let details = StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: causes.into_iter().map(cause).collect(),
        retry_after_seconds,
    };
    Status { message, reason, code, details: Some(details), ..Status::default() }
}

/// Parses the `Retry-After` header as seconds. Ignores zero, and dates, which API servers do not
/// send.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// Returns the beginning of an unexpected text on one line, for error messages.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const MAX_CHARS: usize = 200;
    let text = String::from_utf8_lossy(text.get(..4 * MAX_CHARS).unwrap_or(text)).into_owned();
    harmless(&text.split_whitespace().collect::<Vec<_>>().join(" "), MAX_CHARS).into_owned()
}

/// Makes a message that may repeat a server's text fit a line of the log.
pub(crate) fn message(text: &str) -> String {
    harmless(text, 1000).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::LOCATION;
    use serde_json::json;

    fn of(code: u16, retry_after: Option<&str>, body: &str) -> String {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, value.parse().unwrap());
        }
        format!("{:?}", ListWatchError::from_response(code, &headers, body.as_bytes()))
    }

    #[test]
    fn each_response_becomes_one_error() {
        let status = |code: u16, reason: &str, details: serde_json::Value| {
            json!({"kind": "Status", "code": code, "reason": reason, "message": "m", "details": details})
                .to_string()
        };
        let check = |got: String, want: &str| assert_eq!(got, want);
        check(of(410, None, &status(410, "Expired", json!(null))), r#"Expired("m")"#);
        check(of(410, None, "<html>"), r#"Expired("<html>")"#);
        check(
            of(429, Some("7"), &status(429, "TooManyRequests", json!({"retryAfterSeconds": 3}))),
            r#"Api { code: 429, reason: "TooManyRequests", message: "m", retry_after: Some(7s) }"#,
        );
        check(
            of(429, None, &status(429, "TooManyRequests", json!({"retryAfterSeconds": 3}))),
            r#"Api { code: 429, reason: "TooManyRequests", message: "m", retry_after: Some(3s) }"#,
        );
        for date_or_zero in ["Wed, 21 Oct 2015 07:28:00 GMT", "0", "-1", "soon", "99999999999999999999999"] {
            check(
                of(503, Some(date_or_zero), ""),
                r#"Api { code: 503, reason: "", message: "no explanation", retry_after: None }"#,
            );
        }
        check(
            of(503, Some("86400"), "<html>Maintenance</html>"),
            r#"Api { code: 503, reason: "", message: "<html>Maintenance</html>", retry_after: Some(60s) }"#,
        );
        for code in [500, 502, 504, 599] {
            check(
                of(code, Some("5"), ""),
                &format!(
                    r#"Api {{ code: {code}, reason: "", message: "no explanation", retry_after: Some(5s) }}"#
                ),
            );
        }
        check(
            of(403, Some("5"), &status(403, "Forbidden", json!({"retryAfterSeconds": 3}))),
            r#"Api { code: 403, reason: "Forbidden", message: "m", retry_after: None }"#,
        );
        check(
            of(
                504,
                None,
                &status(
                    504,
                    "Timeout",
                    json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": ""}]}),
                ),
            ),
            r#"TooLargeResourceVersion("m")"#,
        );
    }

    #[test]
    fn an_answer_of_another_server_is_told() {
        let check = |code: u16, location: Option<&str>, body: &str, want: &str| {
            let headers: HeaderMap = location.map(|it| (LOCATION, it.parse().unwrap())).into_iter().collect();
            let error = ListWatchError::from_response(code, &headers, body.as_bytes());
            assert_eq!(error.to_string(), format!("the API server answered {want}"));
        };
        check(404, None, "404 page not found\n", "404: 404 page not found");
        check(404, None, "{}", "404: {}");
        check(404, None, r#"{"message":"no Route matched"}"#, "404: no Route matched");
        let login = "https://login.example/start?state=secret";
        check(302, Some(login), "<a>moved</a>", "302: it redirects to https://login.example/start");
        check(404, Some(login), "<html>", "404: <html>");
    }

    #[test]
    fn a_404_says_that_a_kind_is_not_served_only_if_an_api_server_gave_it() {
        let check = |code: u16, body: &str, want: bool| {
            let error = ListWatchError::from_response(code, &HeaderMap::new(), body.as_bytes());
            assert_eq!(error.is_not_served(), want, "{code} {body}");
        };
        check(404, "404 page not found\n", true);
        check(404, r#"{"kind":"Status","reason":"NotFound","message":"m"}"#, true);
        check(404, r#"{"kind":"Status","reason":"Forbidden","message":"404 page not found"}"#, false);
        check(404, "<html>404 page not found</html>", false);
        check(404, "{}", false);
        check(404, "", false);
        check(403, "404 page not found", false);
        check(410, r#"{"kind":"Status","reason":"NotFound","message":"m"}"#, false);
    }

    #[test]
    fn versions_that_went_back_have_two_causes() {
        let (server, position) = (ResourceVersion(3), ResourceVersion(9));
        let error = ListWatchError::VersionWentBack { server, position }.to_string();
        assert!(error.ends_with(STORAGE_WENT_BACK), "{error}");
        assert!(STORAGE_WENT_BACK.contains("set back"));
        assert!(STORAGE_WENT_BACK.contains("another storage"));
    }

    #[test]
    fn excerpts_end_at_character_boundaries() {
        assert_eq!(excerpt("é".repeat(1000).as_bytes()), format!("{}…", "é".repeat(200)));
        assert_eq!(excerpt(b" a\n short\r\ntext \n"), "a short text");
        assert_eq!(excerpt(b"\xff"), "\u{fffd}");
    }
}
