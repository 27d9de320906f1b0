//! Errors of playing a scenario, other than a wrong output.

use std::path::PathBuf;

/// An error of reading a scenario or of making a request.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The server refused or did not answer a request.
    #[error("{method} {path}: {}", reason(source))]
    Refused {
        /// The HTTP method of the request.
        method: http::Method,
        /// The path and query of the request.
        path: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// A request is invalid HTTP, such as one for a name that cannot be part of a path.
    #[error("{path}: {source}")]
    NoRequest {
        /// The path and query of the request.
        path: String,
        source: http::Error,
    },
    /// Reading a file or folder failed.
    #[error("{}: {source}", path.display())]
    Unreadable {
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A JSON value is not a scenario, operation or list.
    #[error("{what}: {source}")]
    Malformed {
        /// The file or operation.
        what: String,
        /// The malformed part, and its place.
        source: serde_json::Error,
    },
    /// The server or the controllers of a test bed did not start.
    #[error("starting {what}: {reason}")]
    NotStarted {
        /// The part that did not start.
        what: &'static str,
        reason: String,
    },
}

impl ConformanceError {
    /// Returns true if the server answered with this HTTP status.
    pub fn is_status(&self, code: u16) -> bool {
        match self {
            Self::Refused { source, .. } => {
                matches!(&**source, kube::Error::Api(status) if status.code == code)
            }
            _ => false,
        }
    }

    /// Returns true if the server does not accept the object: it is invalid there, or a policy
    /// forbids it.
    pub(super) fn is_refused_input(&self) -> bool {
        [400, 403, 422].into_iter().any(|code| self.is_status(code))
    }

    /// Returns true if the server refused a pod because its namespace has no service account yet.
    /// Real clusters create it shortly after.
    pub(super) fn awaits_service_account(&self) -> bool {
        match self {
            Self::Refused { source, .. } => matches!(&**source, kube::Error::Api(status)
                if status.code == 403 && status.message.contains("serviceaccount")),
            _ => false,
        }
    }
}

/// Returns the message of the server's `Status`, if it answered; the client's error would print the
/// whole object.
fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}: {}", status.code, status.reason, status.message),
        other => other.to_string(),
    }
}
