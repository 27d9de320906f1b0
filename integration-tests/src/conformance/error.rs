//! What can go wrong in playing a scenario apart from a wrong output.

use std::path::PathBuf;

/// A scenario that could not be read, or a request that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    /// The server refused a request or could not be reached.
    #[error("{method} {path}: {}", reason(source))]
    Refused {
        /// The HTTP method of the request.
        method: http::Method,
        /// The path and query of the request.
        path: String,
        /// What the client made of the answer.
        #[source]
        source: Box<kube::Error>,
    },
    /// A request that HTTP does not allow, such as a name that is no part of a path.
    #[error("{path}: {source}")]
    NoRequest {
        /// The path and query of the request.
        path: String,
        /// What is wrong with it.
        source: http::Error,
    },
    /// A file or folder that cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// JSON that is no scenario, operation or list.
    #[error("{what}: {source}")]
    Malformed {
        /// Which file or which operation.
        what: String,
        /// Where it differs from what is expected.
        source: serde_json::Error,
    },
    /// A kubeconfig that gives no client.
    #[error("kubeconfig {}: {reason}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The server or the controllers of a world in this process did not start.
    #[error("starting {what}: {reason}")]
    NotStarted {
        /// Which of them.
        what: &'static str,
        /// What they said.
        reason: String,
    },
}

impl ConformanceError {
    /// Whether the server answered with this HTTP status.
    pub fn is_status(&self, code: u16) -> bool {
        match self {
            Self::Refused { source, .. } => {
                matches!(&**source, kube::Error::Api(status) if status.code == code)
            }
            _ => false,
        }
    }

    /// Whether a pod was refused because its namespace has no service account yet, which passes on real clusters.
    pub(super) fn awaits_service_account(&self) -> bool {
        match self {
            Self::Refused { source, .. } => matches!(&**source, kube::Error::Api(status)
                if status.code == 403 && status.message.contains("serviceaccount")),
            _ => false,
        }
    }
}

/// The API's own words where it answered, since the client's error repeats the whole status object.
fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}: {}", status.code, status.reason, status.message),
        other => other.to_string(),
    }
}
