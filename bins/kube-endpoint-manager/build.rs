//! Hands the commit that the binary is built from to the compiler, for `--version`.
//!
//! The environment variable `KUBE_ENDPOINT_MANAGER_COMMIT` states it; without it git is asked, and without git, or outside
//! of a checkout, it is `unknown`. The build is repeated when the variable changes or another commit is checked out.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const VARIABLE: &str = "KUBE_ENDPOINT_MANAGER_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let given = env::var(VARIABLE).ok().filter(|commit| is_commit(commit));
    let commit = given.or_else(commit_of_checkout).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env={VARIABLE}={commit}");
}

fn is_commit(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// The commit that is checked out, if the workspace is the root of a git repository and not a copy within another.
fn commit_of_checkout() -> Option<String> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let root = folder.ancestors().nth(2)?;
    if Path::new(&git(root, &["rev-parse", "--show-toplevel"])?).canonicalize().ok()?
        != root.canonicalize().ok()?
    {
        return None;
    }
    // Each commit and each checkout appends to this log. Where git keeps none, cargo would repeat the build each time.
    let log = root.join(git(root, &["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    git(root, &["rev-parse", "--short=12", "HEAD"]).filter(|commit| is_commit(commit))
}

fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().ok()?;
    let text = output.status.success().then(|| String::from_utf8(output.stdout).ok()).flatten()?;
    Some(text.trim().to_owned())
}
