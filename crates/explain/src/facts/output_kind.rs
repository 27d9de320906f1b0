//! The kinds of objects that the controllers write.

use std::fmt;

use serde::Serialize;

/// Kinds of objects that the controllers write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum OutputKind {
    EndpointSlice,
    Endpoints,
}

impl OutputKind {
    /// Returns the word that stands for an object of this kind.
    pub fn pronoun(self) -> &'static str {
        match self {
            Self::EndpointSlice => "it",
            Self::Endpoints => "them",
        }
    }
}

impl fmt::Display for OutputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EndpointSlice => "EndpointSlice",
            Self::Endpoints => "Endpoints",
        })
    }
}
