//! What can go wrong with a list or a watch, as far as it matters for what to do next.

use std::error::Error;
use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use kube::core::Status;
use kube_endpoint_core_model::causes;

use crate::metrics::FailureReason;

/// Why a list or a watch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListWatchError {
    /// No answer. To be tried again later.
    #[error("the API server cannot be reached: {}", innermost(.0))]
    Unreachable(#[source] Box<kube::Error>),
    /// No answer, or no more of it, for too long. To be tried again later.
    #[error("nothing came from the API server for {0:?}")]
    Silent(Duration),
    /// An error as answer. To be tried again later, or at the time that the server says.
    #[error("the API server answered {code} {reason}: {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// For machines.
        reason: String,
        /// For people.
        message: String,
        /// When the server wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The version asked for, or the rest of a list, is no longer kept. To be listed anew.
    #[error("the API server no longer keeps this version: {0}")]
    Expired(String),
    /// The version asked for has not come yet and may never. To be listed anew.
    #[error("the API server does not know this version yet: {0}")]
    TooLargeResourceVersion(String),
    /// The answer is not what was asked for; what it left out is not known.
    #[error("the API server's answer makes no sense: {0}")]
    Unintelligible(String),
    /// The answer broke off. What came before it is good.
    #[error("the API server's answer broke off: {0}")]
    Cut(String),
}

/// What a client's error says, without the client's own word for it.
fn innermost(error: &kube::Error) -> String {
    causes(error.source().unwrap_or(error))
}

impl ListWatchError {
    /// Reads a `Status` that stands for an error.
    pub(crate) fn of_status(status: Status, retry_after: Option<Duration>) -> Self {
        let Status { code, reason, message, details, .. } = status;
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
        Self::Refused { code, reason, message, retry_after }
    }

    /// Reads an answer with an HTTP status that stands for an error. Proxies answer with anything.
    pub(crate) fn of_answer(code: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let status = serde_json::from_slice(body).unwrap_or_else(|_| {
            let text = excerpt(body);
            let text = if text.is_empty() { "no explanation".to_owned() } else { text };
            Status { message: text, ..Status::default() }
        });
        Self::of_status(Status { code, ..status }, retry_after(headers))
    }

    pub(crate) fn reason(&self) -> FailureReason {
        match self {
            Self::Unreachable(_) => FailureReason::Unreachable,
            Self::Silent(_) => FailureReason::Silent,
            Self::Refused { .. } | Self::Expired(_) | Self::TooLargeResourceVersion(_) => {
                FailureReason::Refused
            }
            Self::Unintelligible(_) => FailureReason::Unintelligible,
            Self::Cut(_) => FailureReason::Cut,
        }
    }
}

/// The `Retry-After` of an answer. API servers write seconds, never dates; zero says nothing.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

/// The beginning of a text that nobody expected, for messages.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(text.get(..4 * LONGEST).unwrap_or(text)).into_owned();
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(code: u16, retry_after: Option<&str>, body: &str) -> String {
        let mut headers = HeaderMap::new();
        if let Some(value) = retry_after {
            headers.insert(RETRY_AFTER, value.parse().unwrap());
        }
        format!("{:?}", ListWatchError::of_answer(code, &headers, body.as_bytes()))
    }

    #[test]
    fn answers_are_sorted_by_what_to_do_about_them() {
        let status = |code: u16, reason: &str, details: serde_json::Value| {
            json!({"kind": "Status", "code": code, "reason": reason, "message": "m", "details": details})
                .to_string()
        };
        let check = |got: String, want: &str| assert_eq!(got, want);
        check(of(410, None, &status(410, "Expired", json!(null))), r#"Expired("m")"#);
        check(of(410, None, "<html>"), r#"Expired("<html>")"#);
        check(
            of(429, Some("7"), &status(429, "TooManyRequests", json!({"retryAfterSeconds": 3}))),
            r#"Refused { code: 429, reason: "TooManyRequests", message: "m", retry_after: Some(7s) }"#,
        );
        check(
            of(429, None, &status(429, "TooManyRequests", json!({"retryAfterSeconds": 3}))),
            r#"Refused { code: 429, reason: "TooManyRequests", message: "m", retry_after: Some(3s) }"#,
        );
        for date_or_zero in ["Wed, 21 Oct 2015 07:28:00 GMT", "0", "-1"] {
            check(
                of(503, Some(date_or_zero), ""),
                r#"Refused { code: 503, reason: "", message: "no explanation", retry_after: None }"#,
            );
        }
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
    fn excerpts_end_between_characters() {
        assert_eq!(excerpt("é".repeat(1000).as_bytes()), format!("{}…", "é".repeat(200)));
        assert_eq!(excerpt(b" short \n"), "short");
        assert_eq!(excerpt(b"\xff"), "\u{fffd}");
    }
}
