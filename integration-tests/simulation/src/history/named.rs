//! The histories with a purpose, in `tests/histories`. A file has the setup and a step each line;
//! lines with `#` describe it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::History;

impl History {
    /// Returns the named histories, by name.
    ///
    /// # Errors
    ///
    /// The error of reading or parsing a file, or that a file does not begin with a description.
    pub fn named() -> anyhow::Result<BTreeMap<String, Self>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            let file = path.display();
            let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
            ensure!(text.starts_with('#'), "{file} does not say what it is about");
            let history = text.parse().with_context(|| format!("parsing {file}"))?;
            all.insert(path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), history);
        }
        Ok(all)
    }
}
