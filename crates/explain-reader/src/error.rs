//! The reasons why objects could not be read.

use std::error::Error as StdError;

use kube::Error;
use kube_endpoint_api_client::why_request_failed;
use kube_endpoint_explain::ObjectError;

use crate::Resource;

/// The error of a function that reads one object.
pub type ObjectFailure = Box<dyn StdError + Send + Sync>;

/// The reason why objects could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The object or its namespace does not exist. The text names similar ones, if there are some.
    #[error("{0}")]
    NotFound(String),
    /// The files do not have the objects of the kind, or not those of its namespace.
    #[error("{0}")]
    NotInFiles(String),
    /// A request failed, such as one that the server refuses. The text says which and why.
    #[error("{0}")]
    Request(String),
    /// An object of a list is not as the API defines it.
    #[error("one of the {of} cannot be read")]
    Object { of: String, source: ObjectFailure },
    /// An object that was read by its name is not as the API defines it.
    #[error(transparent)]
    Invalid(#[from] ObjectError),
}

/// The reason why a list failed.
pub(crate) enum Failed {
    Request(Error),
    Object(ObjectFailure),
}

impl Failed {
    pub(crate) fn of(self, kind: Resource, namespace: Option<&str>) -> ReadError {
        let place = namespace.map(|namespace| format!(" of namespace {namespace}")).unwrap_or_default();
        match self {
            Self::Request(error) => ReadError::Request(format!(
                "the {kind}{place} cannot be listed: {}",
                why_request_failed(&error)
            )),
            Self::Object(source) => ReadError::Object { of: format!("{kind}{place}"), source },
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Request(error)
    }
}

/// The reason of a 403 answer about a kind that the files of a client do not have, if it reads
/// files in place of a cluster. Nobody lacks a permission then.
pub const NOT_IN_FILES: &str = "NotInFiles";

/// The reason of such an answer if the files have some objects of the kind, as a manifest of
/// somebody who wrote a slice.
pub const IN_PART: &str = "InFilesInPart";

fn is_in_part(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.reason == IN_PART)
}

/// Returns true if a client read files, and they do not have what it asked for.
pub fn is_not_in_files(error: &Error) -> bool {
    is_in_part(error) || matches!(error, Error::Api(status) if status.reason == NOT_IN_FILES)
}

/// Returns what was listed, or a note if the server forbids the list.
pub(crate) fn noted<A>(
    listed: Result<A, Failed>,
    kind: Resource,
    namespace: Option<&str>,
) -> Result<Result<A, String>, ReadError> {
    match listed {
        Ok(all) => Ok(Ok(all)),
        Err(Failed::Request(error)) if is_in_part(&error) => Ok(Err(format!(
            "Of the {kind}, the files have only some, and those of controllers may be missing."
        ))),
        Err(Failed::Request(error)) if is_not_in_files(&error) => {
            Ok(Err(format!("Not in the files: {kind}.")))
        }
        Err(Failed::Request(error)) if is_forbidden(&error) => {
            Ok(Err(format!("You may not read {kind}: {}.", why_request_failed(&error))))
        }
        Err(failed) => Err(failed.of(kind, namespace)),
    }
}

/// Returns a note if the server forbids a list.
pub(crate) fn forbidden(
    listed: Result<(), Failed>,
    kind: Resource,
    namespace: Option<&str>,
) -> Result<Option<String>, ReadError> {
    Ok(noted(listed, kind, namespace)?.err())
}

pub(crate) fn is_forbidden(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 403)
}
