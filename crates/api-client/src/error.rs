//! The errors of making a client, of obtaining a credential, and of a lost answer.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;
use kube_endpoint_core_model::{causes, harmless};

use crate::answered::PAGE_NOT_FOUND;
use crate::plugin::PluginError;

/// The reason why a client cannot be made, or a request cannot be sent. `Display` is one line that
/// says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A file with a credential or a CA cannot be read.
    #[error(
        "cannot read {path}, the {what} for the API server: {why}; check that the file exists and this process may read it"
    )]
    File {
        /// The content that the file holds.
        what: &'static str,
        path: PathBuf,
        why: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path}, the {what} for the API server, {why}")]
    Content {
        /// The content that the file should hold.
        what: &'static str,
        path: PathBuf,
        /// The error in its content.
        why: String,
    },
    /// A client certificate that is in no file cannot be used.
    #[error("the client certificate for the API server {0}")]
    Certificate(String),
    /// CA, client certificate and key do not make a TLS configuration.
    #[error(
        "the certificates for the API server cannot be used: {}; check certificate-authority, client-certificate and \
         client-key in the kubeconfig, and what its credential plugin gives",
        causes(.0)
    )]
    Tls(#[source] Box<kube::Error>),
    /// The configuration's user, headers or auth-provider cannot be used.
    #[error("the credentials for the API server cannot be used: {}; check the user in the kubeconfig", causes(.0))]
    Credentials(#[source] Box<kube::Error>),
    /// The proxy cannot be used.
    #[error(
        "the proxy {0} for the API server cannot be used; give proxy-url in the kubeconfig, or HTTPS_PROXY, as \
         http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"
    )]
    Proxy(String),
    /// The credential plugin gave no credential.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The runtime is shutting down.
    #[error("reading the credentials for the API server was interrupted because the process is ending")]
    Interrupted,
}

/// The client could not connect to the server. The source is the innermost error, such as that of
/// the operating system.
#[derive(Debug)]
pub(crate) struct ConnectError {
    server: Arc<str>,
    error: hyper_util::client::legacy::Error,
}

impl ConnectError {
    /// `server` is the server's URL without a path.
    pub(crate) fn new(server: Arc<str>, error: hyper_util::client::legacy::Error) -> Self {
        Self { server, error }
    }
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot connect to {}", self.server)
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let mut innermost: &(dyn Error + 'static) = &self.error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        Some(innermost)
    }
}

/// No answer to a request has begun within the limit of the client.
#[derive(Debug, thiserror::Error)]
#[error(
    "{server} has not begun to answer within {limit:?}; check the server in the kubeconfig (--kubeconfig FILE and --context \
     NAME choose it), and whether something else listens there"
)]
pub(crate) struct NoAnswer {
    /// The server's URL without a path.
    pub(crate) server: Arc<str>,
    pub(crate) limit: Duration,
}

/// The reason that kube gives an error whose body is no `Status`.
const NO_STATUS: &str = "Failed to parse error data";
/// The advice if another server than an API server answers.
const CHECK: &str = "check the server in the kubeconfig, and whether a proxy answers in its place";

/// Returns true if an API server answered that an object does not exist, or that it does not serve
/// the kind. For a group that it does not know, kube-apiserver sends a text and no `Status`.
pub fn says_not_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404
        && (status.reason == "NotFound" || status.reason == NO_STATUS && status.message.trim() == PAGE_NOT_FOUND))
}

/// Says on one line why a request failed, without a full stop: the server's answer, or the reason
/// why none arrived. In contrast to [`kube::Error`]'s `Display`, it names no types of Rust.
pub fn why_request_failed(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => answered(status),
        kube::Error::Service(error) => causes(&**error),
        kube::Error::SerdeError(error) => {
            format!("the answer is not that of a Kubernetes API server: {error}; {CHECK}")
        }
        error => causes(error),
    }
}

/// The most characters that [`answered`] shows of a server's message.
const LONGEST_MESSAGE: usize = 4000;

fn answered(status: &Status) -> String {
    // A proxy answers with any text, of several lines, instead of a `Status`.
    let message = status.message.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = harmless(message.trim_end_matches('.'), LONGEST_MESSAGE);
    match status.code {
        401 => "the API server answered 401 Unauthorized; have the credentials expired?".to_owned(),
        // The message names user, verb and object.
        403 if !message.is_empty() => message.into_owned(),
        // An API server gives this reason for an object that does not exist.
        404 if status.reason != "NotFound" => {
            let said = if message.is_empty() { String::new() } else { format!(": {message}") };
            format!(
                "404 was answered{said}; this is no Kubernetes API server, or it does not serve this kind; {CHECK}"
            )
        }
        code => {
            let reason = if status.reason == NO_STATUS { "" } else { &status.reason };
            let answer = format!("the API server answered {code} {reason}");
            let answer = answer.trim_end();
            if message.is_empty() { answer.to_owned() } else { format!("{answer}: {message}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_is_not_served_is_not_there() {
        let check = |code, reason: &str, message: &str, want| {
            let status =
                Status { code, reason: reason.to_owned(), message: message.to_owned(), ..Status::default() };
            assert_eq!(
                says_not_there(&kube::Error::Api(Box::new(status))),
                want,
                "{code} {reason} {message}"
            );
        };
        check(404, NO_STATUS, "404 page not found", true);
        check(404, "NotFound", "services \"web\" not found", true);
        check(404, NO_STATUS, "<html>404 page not found</html>", false);
        check(404, "", "", false);
        check(403, NO_STATUS, "404 page not found", false);
    }

    #[test]
    fn answers_are_told_in_words() {
        let check = |code, reason: &str, message: &str, want: &str| {
            let status =
                Status { code, reason: reason.to_owned(), message: message.to_owned(), ..Status::default() };
            assert_eq!(why_request_failed(&kube::Error::Api(Box::new(status))), want);
        };
        let expired = "the API server answered 401 Unauthorized; have the credentials expired?";
        check(401, "Unauthorized", "Unauthorized", expired);
        let forbidden = r#"services "web" is forbidden: User "jane" cannot get resource "services" in API group "" in the namespace "shop""#;
        check(403, "Forbidden", forbidden, forbidden);
        check(403, "Forbidden", "", "the API server answered 403 Forbidden");
        check(500, "InternalError", "it broke.", "the API server answered 500 InternalError: it broke");
        check(
            502,
            "",
            "<html>\n  Bad Gateway\n</html>\n",
            "the API server answered 502: <html> Bad Gateway </html>",
        );
    }

    #[test]
    fn answers_of_another_server_are_told_with_what_to_do() {
        let check = |code, message: &str, want: &str| {
            let status = Status {
                code,
                reason: NO_STATUS.to_owned(),
                message: message.to_owned(),
                ..Status::default()
            };
            assert_eq!(why_request_failed(&kube::Error::Api(Box::new(status))), want);
        };
        check(
            404,
            "404 page not found",
            "404 was answered: 404 page not found; this is no Kubernetes API server, or it does not serve this kind; check the \
             server in the kubeconfig, and whether a proxy answers in its place",
        );
        check(
            502,
            "<html>\n  Bad Gateway\n</html>\n",
            "the API server answered 502: <html> Bad Gateway </html>",
        );
        let error = serde_json::from_str::<Status>("<html>").unwrap_err();
        assert_eq!(
            why_request_failed(&kube::Error::SerdeError(error)),
            "the answer is not that of a Kubernetes API server: expected value at line 1 column 1; check the server in the \
             kubeconfig, and whether a proxy answers in its place"
        );
    }

    #[test]
    fn a_lost_answer_is_told_without_types() {
        let lost = std::io::Error::other("connection closed before message completed");
        let error = kube::Error::Service(lost.into());
        assert_eq!(why_request_failed(&error), "connection closed before message completed");
    }
}
