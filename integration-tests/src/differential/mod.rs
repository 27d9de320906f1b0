//! Sends the same requests to the embedded API server and to a real one: cases as data, each with
//! the answers of a kube-apiserver 1.36.2.
//!
//! A case is a JSON file in `integration-tests/differential`: requests in order, in a namespace of
//! the case's own. In a path or a body `{ns}` is that namespace, and `{2/metadata/uid}` a field of
//! the answer to the second request. The tests compare answers in a normal form ([`Normal`]).

mod normal;
mod play;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use normal::Normal;
pub use play::{PlayError, play};

/// A request, and the answer to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// Method and path, such as `GET /api/v1/namespaces/{ns}/pods`.
    pub request: String,
    /// The content type of the body, or `None` for `application/json`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<String>,
    /// The body. The player sends a string as it is, anything else as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The reason why the embedded server answers otherwise on purpose. Such an answer must differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    /// The answer of the real server in normal form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// An answer in normal form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    /// The texts of `Warning` headers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The body. It is a string if it is no JSON.
    pub body: Value,
}

/// A file of exchanges.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of the file without its extension.
    pub name: String,
    pub exchanges: Vec<Exchange>,
    path: PathBuf,
}

impl Case {
    /// Reads the cases of a directory, in the order of their names.
    ///
    /// # Errors
    /// An error if reading the directory or a file fails, or if a file holds something else.
    pub fn read_all(directory: &Path) -> std::io::Result<Vec<Self>> {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        paths.sort();
        let read = |path: PathBuf| {
            let exchanges = serde_json::from_slice(&std::fs::read(&path)?)
                .map_err(|error| std::io::Error::other(format!("{}: {error}", path.display())))?;
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            Ok(Self { name, exchanges, path })
        };
        paths.into_iter().map(read).collect()
    }

    /// Replaces the recorded answers, and writes the file.
    ///
    /// # Errors
    /// An error if writing the file fails.
    pub fn record(&mut self, answers: Vec<Answer>) -> std::io::Result<()> {
        for (exchange, answer) in self.exchanges.iter_mut().zip(answers) {
            exchange.answer = Some(answer);
        }
        let text = serde_json::to_string_pretty(&self.exchanges)?;
        std::fs::write(&self.path, text + "\n")
    }
}
