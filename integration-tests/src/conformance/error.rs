//! Errors of playing a scenario, other than a wrong output.

use std::path::PathBuf;

use kube::core::Status;

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

    /// Returns true if the server does not accept the object, which is invalid there. A server that
    /// forbids the request says nothing about the object.
    pub(super) fn is_refused_input(&self) -> bool {
        [400, 422].into_iter().any(|code| self.is_status(code))
    }

    /// Returns true if the server refused a pod because its namespace has no service account yet.
    /// Real clusters create it shortly after.
    pub(super) fn awaits_service_account(&self) -> bool {
        match self {
            Self::Refused { source, .. } => {
                matches!(&**source, kube::Error::Api(status) if lacks_service_account(status))
            }
            _ => false,
        }
    }
}

/// Returns the message of the server's `Status`, if it answered; the client's error would print the
/// whole object.
fn reason(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => {
            let advice = match status.code {
                403 if lacks_service_account(status) => {
                    ". Run serviceaccount-controller of kube-controller-manager, which creates it"
                }
                403 => ". Give the user this permission, or change the policy that forbids it",
                _ => "",
            };
            format!("{} {}: {}{advice}", status.code, status.reason, status.message)
        }
        other => other.to_string(),
    }
}

/// Returns true if the server forbids a pod because its namespace has no service account.
fn lacks_service_account(status: &Status) -> bool {
    status.code == 403 && status.message.contains("looking up service account")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, reason: &str, message: &str) -> ConformanceError {
        let status = Status::failure(message, reason).with_code(code).boxed();
        let (method, path) = (http::Method::POST, "/api/v1/namespaces/x/pods".to_owned());
        ConformanceError::Refused { method, path, source: Box::new(kube::Error::Api(status)) }
    }

    #[test]
    fn a_server_that_forbids_a_request_does_not_refuse_the_object() {
        for (code, is_refused) in [(400, true), (422, true), (403, false), (404, false), (500, false)] {
            assert_eq!(refused(code, "", "").is_refused_input(), is_refused, "{code}");
        }
        let forbidden = refused(403, "Forbidden", "User \"x\" cannot create resource \"pods\"");
        insta::assert_snapshot!(forbidden, @r#"POST /api/v1/namespaces/x/pods: 403 Forbidden: User "x" cannot create resource "pods". Give the user this permission, or change the policy that forbids it"#);
        let message = "error looking up service account x/default: serviceaccount \"default\" not found";
        let early = refused(403, "Forbidden", message);
        assert!(early.awaits_service_account());
        assert!(early.to_string().ends_with("kube-controller-manager, which creates it"), "{early}");
    }

    #[test]
    fn the_name_of_a_service_account_awaits_none() {
        let message = "User \"system:serviceaccount:ci:runner\" cannot create resource \"pods\"";
        assert!(!refused(403, "Forbidden", message).awaits_service_account());
    }
}
