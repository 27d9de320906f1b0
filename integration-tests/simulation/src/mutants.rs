//! Mutants: patches that break the product on purpose, to show that the simulation notices.
//!
//! A patch file has one sentence after `# ` that says what it breaks, then a unified diff for `git apply`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The name of its file without `.patch`.
    pub name: String,
    /// What it breaks, in one sentence; empty if the file has none.
    pub sentence: String,
    /// Its file.
    pub path: PathBuf,
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All mutants, by name.
///
/// # Errors
///
/// If the files cannot be read.
pub fn mutants() -> io::Result<Vec<Mutant>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".patch")) else {
            continue;
        };
        let text = fs::read_to_string(&path)?;
        let sentence = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let sentence = sentence.unwrap_or_default().to_owned();
        all.push(Mutant { name: name.to_owned(), sentence, path });
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

impl Mutant {
    /// Applies it to the sources in a directory, with more options of `git apply`.
    ///
    /// # Errors
    ///
    /// What `git apply` says.
    pub fn apply(&self, to: &Path, options: &[&str]) -> io::Result<()> {
        let to = to.canonicalize()?;
        let mut command = Command::new("git");
        command.arg("apply").args(options).arg(self.path.canonicalize()?).current_dir(&to);
        // In a repository, git skips files outside of its directory; a copy need not be one.
        if let Some(parent) = to.parent() {
            command.env("GIT_CEILING_DIRECTORIES", parent);
        }
        let output = command.output()?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(format!("{} does not apply: {why}", self.path.display())))
    }
}
