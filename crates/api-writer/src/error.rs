//! Errors of writes, one variant for each thing that a controller can do about them.

use std::time::Duration;

use http::StatusCode;
use kube_endpoint_core_model::{harmless, protobuf};
use serde::Deserialize;

/// How many characters of the message of a Status are kept: it goes to the log, to events and to
/// the status page.
const LONGEST_MESSAGE: usize = 4000;

/// A write that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The namespace is terminating, so the create can never succeed (403 with this cause). Drop
    /// the work.
    #[error("{0}")]
    NamespaceTerminating(String),
    /// An object of that name exists (409 AlreadyExists).
    #[error("{0}")]
    AlreadyExists(String),
    /// The object changed since it was read (409 Conflict). Sync again when the cache has caught
    /// up.
    #[error("{0}")]
    Conflict(String),
    /// The server answered 404, so the write did not happen. A proxy may give this answer for an
    /// object that exists.
    #[error("{0}")]
    NotFound(String),
    /// The server answered 404 and, when asked by name, confirmed that the object no longer exists;
    /// for a create, that its Service no longer exists. The cache does not show this yet. Sync
    /// again when it does.
    #[error("{0}")]
    CacheBehind(String),
    /// The server is overloaded (429, or any 5xx with Retry-After). Pause. After a 5xx it is
    /// unknown whether the write was carried out.
    #[error("{message}")]
    Busy {
        /// HTTP status.
        code: u16,
        message: String,
        /// The delay that the server asked for; more than zero.
        retry_after: Option<Duration>,
    },
    /// The server refused the write (any other 4xx), and will refuse it again until something
    /// changes.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        code: u16,
        message: String,
    },
    /// The server failed (5xx without Retry-After). It is unknown whether the write was carried
    /// out.
    #[error("{message}")]
    Failed {
        /// HTTP status.
        code: u16,
        message: String,
    },
    /// The write was not begun, because the process does not hold the lease, or is about to release
    /// it. The next leader syncs all keys.
    #[error("this process does not hold the lease, so it writes nothing")]
    Fenced,
    /// There was no valid answer: the connection broke, or the answer was late or invalid. It is
    /// unknown whether the write was carried out.
    #[error("{0}")]
    Unknown(String),
}

impl WriteError {
    /// Returns the HTTP status of the answer; `None` if there was no valid answer.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::NamespaceTerminating(_) => Some(403),
            Self::AlreadyExists(_) | Self::Conflict(_) => Some(409),
            Self::NotFound(_) | Self::CacheBehind(_) => Some(404),
            Self::Busy { code, .. } | Self::Refused { code, .. } | Self::Failed { code, .. } => {
                (*code != 0).then_some(*code)
            }
            Self::Unknown(_) | Self::Fenced => None,
        }
    }

    /// Returns true if the write certainly did not happen.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Unknown(_) | Self::Failed { .. } => false,
            Self::Busy { code, .. } => *code < 500,
            _ => true,
        }
    }

    /// Returns true if the reason may concern all writes: the connection, a timeout, the
    /// credentials (401), overload (429), a server that fails (5xx), or permissions, a policy, a
    /// webhook or a quota that refuses them (400, 403, 422). Any other reason concerns this object,
    /// and says nothing about other writes.
    pub fn is_common(&self) -> bool {
        match self {
            Self::Unknown(_) | Self::Failed { .. } | Self::Busy { .. } => true,
            Self::Refused { code, .. } => matches!(code, 400 | 401 | 403 | 422),
            _ => false,
        }
    }

    /// Returns true if a plan cannot go on after a create that failed like this: the server wants a
    /// pause, the namespace takes no objects, the plan was made from a cache that is out of date,
    /// or the process may not write.
    pub(crate) fn ends_a_plan(&self) -> bool {
        match self {
            Self::NamespaceTerminating(_)
            | Self::AlreadyExists(_)
            | Self::CacheBehind(_)
            | Self::Fenced
            | Self::Busy { .. } => true,
            Self::Conflict(_)
            | Self::NotFound(_)
            | Self::Refused { .. }
            | Self::Failed { .. }
            | Self::Unknown(_) => false,
        }
    }

    /// Returns true if further creates are not tried after one that failed like this: the server
    /// does not answer.
    pub(crate) fn ends_creates(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Returns true if further deletes are not tried after one that failed like this: the server
    /// wants a pause or does not answer, or the process may not write.
    pub fn ends_deletes(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unknown(_) | Self::Fenced)
    }

    /// The error that a response other than a success describes.
    pub(crate) fn from_answer(code: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let in_protobuf = protobuf::Status::of_answer(body).map(StatusBody::from);
        let status = in_protobuf.unwrap_or_else(|| serde_json::from_slice(body).unwrap_or_default());
        let message = match status.message {
            Some(message) if !message.is_empty() => harmless(&message, LONGEST_MESSAGE).into_owned(),
            _ => {
                let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
                format!("the server answered {code}: {}", harmless(text.trim(), LONGEST_MESSAGE))
            }
        };
        let terminating = || {
            status
                .details
                .iter()
                .flat_map(|details| &details.causes)
                .flatten()
                .any(|cause| cause.reason.as_deref() == Some("NamespaceTerminating"))
        };
        match code {
            StatusCode::FORBIDDEN if terminating() => Self::NamespaceTerminating(message),
            StatusCode::CONFLICT if status.reason.as_deref() == Some("AlreadyExists") => {
                Self::AlreadyExists(message)
            }
            StatusCode::CONFLICT => Self::Conflict(message),
            StatusCode::NOT_FOUND => Self::NotFound(message),
            StatusCode::TOO_MANY_REQUESTS => Self::Busy { code: code.as_u16(), message, retry_after },
            code if code.is_server_error() && retry_after.is_some() => {
                Self::Busy { code: code.as_u16(), message, retry_after }
            }
            code if code.is_client_error() => Self::Refused { code: code.as_u16(), message },
            code => Self::Failed { code: code.as_u16(), message },
        }
    }
}

#[derive(Default, Deserialize)]
struct StatusBody {
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    details: Option<StatusDetails>,
}

impl From<protobuf::Status> for StatusBody {
    fn from(protobuf::Status { message, reason, causes, .. }: protobuf::Status) -> Self {
        let causes = causes.into_iter().map(|reason| StatusCause { reason: Some(reason) }).collect();
        let details = Some(StatusDetails { causes: Some(causes) });
        Self { message: Some(message), reason: Some(reason), details }
    }
}

#[derive(Default, Deserialize)]
struct StatusDetails {
    #[serde(default)]
    causes: Option<Vec<StatusCause>>,
}

#[derive(Deserialize)]
struct StatusCause {
    #[serde(default)]
    reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message goes to logs, events and status pages.
    #[test]
    fn what_a_server_says_is_made_harmless() {
        let hostile = serde_json::json!({"message": "\u{1b}[2J\u{202e}".repeat(10_000)}).to_string();
        for body in [hostile.as_str(), "\u{1b}[2J\u{202e} from a proxy"] {
            let error = WriteError::from_answer(StatusCode::FORBIDDEN, None, body.as_bytes());
            let WriteError::Refused { message, .. } = error else { panic!("{error}") };
            assert!(message.chars().all(kube_endpoint_core_model::is_harmless), "{message:?}");
            assert!(message.contains(r"\u{1b}[2J\u{202e}") && message.len() < 50_000, "{message}");
        }
    }

    #[test]
    fn each_response_becomes_one_error() {
        let check = |code: u16, retry_after: Option<u64>, body: &str, want: WriteError| {
            let code = StatusCode::from_u16(code).unwrap();
            let got = WriteError::from_answer(code, retry_after.map(Duration::from_secs), body.as_bytes());
            assert_eq!(got, want);
        };
        let terminating = r#"{"message":"m","reason":"Forbidden","details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#;
        check(403, None, terminating, WriteError::NamespaceTerminating("m".into()));
        check(403, None, r#"{"message":"m"}"#, WriteError::Refused { code: 403, message: "m".into() });
        check(
            409,
            None,
            r#"{"message":"m","reason":"AlreadyExists"}"#,
            WriteError::AlreadyExists("m".into()),
        );
        check(409, None, r#"{"message":"m","reason":"Conflict"}"#, WriteError::Conflict("m".into()));
        check(404, None, r#"{"message":"m"}"#, WriteError::NotFound("m".into()));
        let busy = |code, seconds: Option<u64>| WriteError::Busy {
            code,
            message: "m".into(),
            retry_after: seconds.map(Duration::from_secs),
        };
        let failed = |code, message: &str| WriteError::Failed { code, message: message.into() };
        check(429, Some(3), r#"{"message":"m"}"#, busy(429, Some(3)));
        check(429, None, r#"{"message":"m"}"#, busy(429, None));
        check(503, Some(1), r#"{"message":"m"}"#, busy(503, Some(1)));
        check(500, Some(1), r#"{"message":"m"}"#, busy(500, Some(1)));
        check(503, None, r#"{"message":"m"}"#, failed(503, "m"));
        check(
            422,
            None,
            r#"{"message":"m","details":null}"#,
            WriteError::Refused { code: 422, message: "m".into() },
        );
        check(500, None, r#"{"message":"m"}"#, failed(500, "m"));
        let proxy = "the server answered 502 Bad Gateway: <html>no</html>";
        check(502, None, "<html>no</html>\n", failed(502, proxy));
    }

    #[test]
    fn reasons_common_to_all_writes_are_told_from_refusals_of_one_object() {
        let check = |code: u16, body: &str, common: bool, refusal: bool| {
            let error = WriteError::from_answer(StatusCode::from_u16(code).unwrap(), None, body.as_bytes());
            assert_eq!((error.is_common(), error.is_refusal()), (common, refusal), "{code}");
        };
        for code in [404, 409, 413] {
            check(code, "{}", false, true);
        }
        for code in [400, 401, 403, 422, 429] {
            check(code, "{}", true, true);
        }
        for code in [500, 502, 503, 504] {
            check(code, "{}", true, false);
        }
        let busy = |code| WriteError::Busy { code, message: "m".into(), retry_after: None };
        assert!(busy(429).is_refusal() && busy(429).is_common());
        assert!(!busy(503).is_refusal() && busy(503).is_common());
        assert!(WriteError::Unknown("the connection broke".into()).is_common());
        assert!(WriteError::Fenced.is_refusal() && !WriteError::Fenced.is_common());
    }
}
