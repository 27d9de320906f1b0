//! Answers that may be unknown.

use serde::Serialize;

/// An answer to a question with yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Yes,
    No,
    /// The facts do not tell.
    NotKnown,
}
