//! The named histories, in `tests/histories`. A file has the setup and a step each line; its first
//! lines begin with `#` and say what it is about.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::History;

impl History {
    /// Returns the history with a name.
    ///
    /// # Errors
    ///
    /// The error of reading or parsing the file, or that it does not begin with a description.
    pub fn named(name: &str) -> anyhow::Result<Self> {
        let path = folder().join(format!("{name}.txt"));
        let file = path.display();
        let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
        ensure!(text.starts_with('#'), "{file} does not say what it is about");
        text.parse().with_context(|| format!("parsing {file}"))
    }

    /// Returns all named histories, by name.
    ///
    /// # Errors
    ///
    /// The error of reading the directory, or of [`History::named`].
    pub fn all_named() -> anyhow::Result<BTreeMap<String, Self>> {
        let folder = folder();
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let history = Self::named(&name)?;
            all.insert(name, history);
        }
        Ok(all)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories")
}
