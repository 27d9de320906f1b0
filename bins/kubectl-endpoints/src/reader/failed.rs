//! Says in words why reading objects failed.

use anyhow::anyhow;
use kube::Error;
use kube_endpoint_api_client::why_request_failed;

use super::Kind;

/// The reason why a list failed.
pub(super) enum Failed {
    Request(Error),
    Object(anyhow::Error),
}

impl Failed {
    pub(super) fn of(self, kind: Kind, namespace: Option<&str>) -> anyhow::Error {
        let place = namespace.map(|namespace| format!(" of namespace {namespace}")).unwrap_or_default();
        match self {
            Self::Request(error) => {
                anyhow!("the {kind}{place} cannot be listed: {}", why_request_failed(&error))
            }
            Self::Object(error) => error.context(format!("one of the {kind}{place} cannot be read")),
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Request(error)
    }
}

/// Returns what was listed, or a note if the server forbids the list.
pub(super) fn noted<A>(
    listed: Result<A, Failed>,
    kind: Kind,
    namespace: Option<&str>,
) -> anyhow::Result<Result<A, String>> {
    match listed {
        Ok(all) => Ok(Ok(all)),
        Err(Failed::Request(error)) if is_forbidden(&error) => {
            Ok(Err(format!("You may not read {kind}: {}.", why_request_failed(&error))))
        }
        Err(failed) => Err(failed.of(kind, namespace)),
    }
}

/// Returns a note if the server forbids a list.
pub(super) fn forbidden(
    listed: Result<(), Failed>,
    kind: Kind,
    namespace: Option<&str>,
) -> anyhow::Result<Option<String>> {
    Ok(noted(listed, kind, namespace)?.err())
}

pub(super) fn is_forbidden(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 403)
}
