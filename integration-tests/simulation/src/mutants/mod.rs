//! Mutants: patches that break the product on purpose, to show that the simulation notices.
//!
//! A patch file has one sentence after `# ` about the broken behaviour, then a unified diff for
//! `git apply`. The table in mutants/README.md names what catches each of them ([`recorded`]).

mod played;
mod workshop;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use played::NOTHING_PANICS;
pub use played::Played;
pub use workshop::Workshop;

/// A patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// The name of its file without `.patch`.
    pub name: String,
    /// The sentence about the broken behaviour, or empty if the file has no sentence.
    pub sentence: String,
    pub path: PathBuf,
}

/// Returns the root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder with the patches and the table.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants")
}

/// Returns all mutants, by name.
///
/// # Errors
///
/// The error of reading the files.
pub fn mutants() -> io::Result<Vec<Mutant>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder())? {
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

/// A history, or the small worlds, that catch a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Catcher {
    /// The history of a seed.
    Seed(u64),
    /// A named history.
    Named(String),
    /// A sample of the small worlds.
    Worlds,
}

/// The cell of a table for [`Catcher::Worlds`].
const WORLDS: &str = "small worlds";

impl Catcher {
    fn read(cell: &str) -> Option<Self> {
        if cell == WORLDS {
            return Some(Self::Worlds);
        }
        let name = cell.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        name.map(|name| Self::Named(name.to_owned())).or_else(|| cell.parse().ok().map(Self::Seed))
    }
}

impl fmt::Display for Catcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed(seed) => seed.fmt(f),
            Self::Named(name) => write!(f, "`{name}`"),
            Self::Worlds => f.write_str(WORLDS),
        }
    }
}

/// Returns the file of a named history in a copy of the sources.
pub fn history_file(sources: &Path, name: &str) -> PathBuf {
    sources.join(format!("integration-tests/simulation/tests/histories/{name}.txt"))
}

/// Returns for each mutant what catches it and the rule in the table of mutants/README.md.
///
/// # Errors
///
/// The error of reading the file.
pub fn recorded() -> io::Result<BTreeMap<String, (Catcher, String)>> {
    Ok(rows(&fs::read_to_string(folder().join("README.md"))?))
}

fn rows(page: &str) -> BTreeMap<String, (Catcher, String)> {
    let rows = page.lines().skip_while(|line| !line.starts_with("| mutant |")).skip(2);
    rows.map_while(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [name, _, catcher, rule] = cells[..] else { return None };
        Some((name.trim_matches('`').to_owned(), (Catcher::read(catcher)?, rule.to_owned())))
    })
    .collect()
}

impl Mutant {
    /// Returns the first file that it changes, as its diff names it.
    pub fn file(&self) -> String {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let file = text.lines().find_map(|line| line.strip_prefix("+++ b/"));
        file.unwrap_or_default().to_owned()
    }

    /// Applies it to the sources in a directory, with more options of `git apply`.
    ///
    /// # Errors
    ///
    /// The message of `git apply`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        let page = "text\n| mutant | what it breaks | caught by seed or history | rule |\n|---|---|---|---|\n\
                    | `one` | It breaks. | 7 | a rule |\n| `two` | It breaks. | `a-history` | another rule |\n\
                    | `three` | It breaks. | small worlds | a law |\n\n| `x` | | | |";
        let named = Catcher::Named("a-history".to_owned());
        let want = [
            ("one", Catcher::Seed(7), "a rule"),
            ("two", named, "another rule"),
            ("three", Catcher::Worlds, "a law"),
        ];
        let want = want.map(|(name, catcher, rule)| (name.to_owned(), (catcher, rule.to_owned())));
        assert_eq!(rows(page), BTreeMap::from(want));
    }

    #[test]
    fn each_mutant_has_a_row_with_a_seed_or_a_history_that_exists() {
        let recorded = recorded().unwrap();
        for mutant in mutants().unwrap() {
            match recorded.get(&mutant.name) {
                Some((Catcher::Named(name), _)) => {
                    assert!(history_file(&repository(), name).is_file(), "{}: {name}", mutant.name);
                }
                Some((Catcher::Seed(_) | Catcher::Worlds, _)) => {}
                None => panic!("{} has no row", mutant.name),
            }
        }
    }
}
