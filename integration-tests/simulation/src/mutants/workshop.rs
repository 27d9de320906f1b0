//! Builds mutants in a copy of the sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::Mutant;

/// The copy of the sources, the target directory and the programs.
pub struct Workshop {
    sources: PathBuf,
    target: PathBuf,
    programs: PathBuf,
}

impl Workshop {
    /// Copies the sources of a repository to its directory `target/mutants`.
    ///
    /// # Errors
    ///
    /// An error if git does not list them, or writing files fails.
    pub fn new(root: &Path) -> anyhow::Result<Self> {
        let folder = root.join("target/mutants");
        let this = Self {
            sources: folder.join("sources"),
            target: folder.join("target"),
            programs: folder.join("programs"),
        };
        fs::create_dir_all(&this.programs)?;
        this.copy_sources(root)?;
        Ok(this)
    }

    /// Returns the directory with the copy.
    pub fn sources(&self) -> &Path {
        &self.sources
    }

    /// Copies the files that git knows, or would add. It does not touch equal files, so that cargo
    /// builds nothing for them.
    fn copy_sources(&self, root: &Path) -> anyhow::Result<()> {
        let mut list = Command::new("git");
        list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
        let list = list.output().context("listing the sources")?;
        ensure!(list.status.success(), "git ls-files: {}", String::from_utf8_lossy(&list.stderr));
        let names = String::from_utf8(list.stdout)?;
        let known = self.sources.with_extension("list");
        for name in fs::read_to_string(&known).unwrap_or_default().split('\0') {
            if !name.is_empty() && !names.split('\0').any(|it| it == name) {
                // It may be gone already.
                let _ = fs::remove_file(self.sources.join(name));
            }
        }
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (root.join(name), self.sources.join(name));
            if !from.is_file() {
                continue;
            }
            let content = fs::read(&from)?;
            if fs::read(&to).is_ok_and(|old| old == content) {
                continue;
            }
            fs::create_dir_all(to.parent().unwrap_or(&self.sources))?;
            fs::write(&to, content)?;
        }
        fs::write(known, names)?;
        Ok(())
    }

    /// Builds the sources as they are, and keeps the program under a name.
    ///
    /// # Errors
    ///
    /// An error if they do not build.
    pub fn build(&self, name: &str) -> anyhow::Result<PathBuf> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--workspace", "--bin", "simulate"]);
        build.current_dir(&self.sources).env("CARGO_TARGET_DIR", &self.target).env("CARGO_INCREMENTAL", "1");
        let output = build.output().context("running cargo")?;
        ensure!(
            output.status.success(),
            "{name} does not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let program = self.programs.join(name);
        fs::copy(self.target.join("debug/simulate"), &program)?;
        Ok(program)
    }

    /// Builds the sources with a mutant.
    ///
    /// # Errors
    ///
    /// An error if the mutant does not apply, or the sources do not build.
    pub fn build_mutant(&self, mutant: &Mutant) -> anyhow::Result<PathBuf> {
        mutant.apply(&self.sources, &[])?;
        let program = self.build(&mutant.name);
        mutant.apply(&self.sources, &["--reverse"])?;
        program
    }
}
