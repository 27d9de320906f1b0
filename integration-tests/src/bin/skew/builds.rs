//! The binaries: that of the present sources, and that of a revision, which is built in a worktree
//! of its own and kept in `target/skew/programs` under the name of its commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

const BINARY: &str = "kube-endpoint-manager";

/// Abilities that an older version may lack: a name for people, and a word that occurs in the help
/// of a binary that has it.
const ABILITIES: [(&str, &str); 2] = [
    ("EndpointSelectors", "endpoint-selector-controller"),
    ("retired Endpoints", "--endpoints-retired-namespaces"),
];

/// A binary.
pub(crate) struct Build {
    /// Its name for people.
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    help: String,
}

/// The binaries of a play.
pub(crate) struct Builds {
    pub(crate) this: Build,
    pub(crate) other: Build,
    /// The program of the API server.
    pub(crate) apiserver: PathBuf,
}

impl Build {
    fn new(name: String, program: PathBuf) -> anyhow::Result<Self> {
        let help =
            output(Command::new(&program).arg("--help")).with_context(|| format!("the help of {name}"))?;
        ensure!(
            help.contains("--leader-elect-lease-duration"),
            "{name} has no leader election with Leases: choose a later revision"
        );
        Ok(Self { name, program, help })
    }

    /// Returns the version that the binary prints.
    pub(crate) fn version(&self) -> anyhow::Result<String> {
        let text = output(Command::new(&self.program).arg("--version"))?;
        let version = text.split_whitespace().nth(1).map(str::to_owned);
        version.with_context(|| format!("{} prints no version: {text:?}", self.name))
    }
}

impl Builds {
    /// Builds the present sources and the revision.
    pub(crate) fn make(revision: &str) -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
        // The cheap errors come first.
        let commit = commit(&root, revision)?;
        let here = std::env::current_exe()?;
        let sibling = |name: &str| here.with_file_name(name);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--package", BINARY, "--package", env!("CARGO_PKG_NAME")]);
        build.args(["--bin", BINARY, "--bin", "apiserver-process"]).current_dir(&root);
        if let Some(target) = here.ancestors().nth(2) {
            build.arg("--target-dir").arg(target);
        }
        run(&mut build).context("the present sources do not build")?;
        let this = Build::new("this version".to_owned(), sibling(BINARY))?;
        let day =
            output(Command::new("git").current_dir(&root).args(["log", "-1", "--format=%cs", &commit]))?;
        let name = format!("{revision} ({}, {})", &commit[..8], day.trim());
        let other = Build::new(name, program_of(&root, &commit)?)?;
        Ok(Self { this, other, apiserver: sibling("apiserver-process") })
    }

    /// Returns the binary of this version, or the other one.
    pub(crate) fn get(&self, this: bool) -> &Build {
        if this { &self.this } else { &self.other }
    }

    /// Returns the abilities that one of the binaries lacks.
    pub(crate) fn left_out(&self) -> Vec<&'static str> {
        let lacks =
            |(_, word): &&(&str, &str)| [&self.this, &self.other].iter().any(|it| !it.help.contains(word));
        ABILITIES.iter().filter(lacks).map(|(name, _)| *name).collect()
    }

    /// Returns true if both binaries have an ability.
    pub(crate) fn both_know(&self, ability: &str) -> bool {
        !self.left_out().contains(&ability)
    }
}

/// Returns the commit of a revision.
fn commit(root: &Path, revision: &str) -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["rev-parse", "--verify", "--quiet", "--end-of-options"]);
    let commit = output(git.arg(format!("{revision}^{{commit}}"))).ok();
    let commit = commit.with_context(|| {
        format!("git knows no commit {revision:?}: name a tag, a branch or a commit, and fetch it first (git fetch --tags)")
    })?;
    Ok(commit.trim().to_owned())
}

/// Returns the binary of a commit, which is built unless an earlier run has.
fn program_of(root: &Path, commit: &str) -> anyhow::Result<PathBuf> {
    let folder = root.join("target/skew");
    let program = folder.join("programs").join(commit);
    if program.is_file() {
        return Ok(program);
    }
    println!("building {commit} in {}, which takes minutes", folder.display());
    std::fs::create_dir_all(folder.join("programs"))?;
    let worktree = Worktree::new(root, folder.join("sources"), commit)?;
    let mut build = Command::new("cargo");
    build.args(["build", "--locked", "--package", BINARY, "--bin", BINARY]).current_dir(&worktree.path);
    // The revision names the toolchain that builds it, and has lints of its own.
    build
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("RUSTFLAGS")
        .env("CARGO_TARGET_DIR", folder.join("target"));
    run(&mut build).with_context(|| format!("{commit} does not build; cargo says why above"))?;
    // Later runs trust a file of this name, so that of an interrupted copy has another one.
    let copy = program.with_extension("incomplete");
    std::fs::copy(folder.join("target/debug").join(BINARY), &copy)?;
    std::fs::rename(copy, &program)?;
    Ok(program)
}

/// A worktree of git's, which dropping it removes.
struct Worktree {
    root: PathBuf,
    path: PathBuf,
}

impl Worktree {
    fn new(root: &Path, path: PathBuf, commit: &str) -> anyhow::Result<Self> {
        let this = Self { root: root.to_owned(), path };
        // An interrupted run may have left one.
        this.remove();
        output(this.git().args(["add", "--detach"]).arg(&this.path).arg(commit))?;
        Ok(this)
    }

    fn git(&self) -> Command {
        let mut git = Command::new("git");
        git.current_dir(&self.root).arg("worktree");
        git
    }

    fn remove(&self) {
        let _ = output(self.git().args(["remove", "--force"]).arg(&self.path));
        let _ = output(self.git().arg("prune"));
    }
}

impl Drop for Worktree {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Runs a command whose output people read.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

/// Returns the standard output of a command.
fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
