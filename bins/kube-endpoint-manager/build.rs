//! Hands the commit of the sources to the compiler, for `--version`.
//!
//! The commit is the value of the environment variable `KUBE_ENDPOINT_MANAGER_COMMIT`. Without it
//! the script reads the file that cargo adds to a published package, and then asks git. Without
//! git, or outside of a checkout, the commit is `unknown`. Cargo runs the script again when the
//! variable or the checked-out commit changes.
//!
//! `KUBE_ENDPOINT_MANAGER_LINKER_SCRIPT` names a script for the linker of the program;
//! `deploy/build-with-profile` makes one that puts the executed functions beside one another. For
//! musl, the linker packs the relocations.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const VARIABLE: &str = "KUBE_ENDPOINT_MANAGER_COMMIT";
const LINKER_SCRIPT: &str = "KUBE_ENDPOINT_MANAGER_LINKER_SCRIPT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let given = env::var(VARIABLE).ok().filter(|commit| is_commit(commit));
    let commit =
        given.or_else(commit_of_package).or_else(commit_of_checkout).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env={VARIABLE}={commit}");
    pack_relocations();
    use_linker_script();
}

/// A program for musl on x86-64 relocates itself, and reads a bitmap of addresses instead of 24
/// bytes for each: half a megabyte less in memory. It needs musl 1.2.4; a static program gets the
/// musl of Rust, which is older before Rust 1.93. Programs for glibc would need version 2.36.
fn pack_relocations() {
    if is("CARGO_CFG_TARGET_ENV", "musl") && minor_version().is_some_and(|minor| minor >= 93) {
        println!("cargo::rustc-link-arg-bin=kube-endpoint-manager=-z");
        println!("cargo::rustc-link-arg-bin=kube-endpoint-manager=pack-relative-relocs");
    }
}

/// Returns the minor version of the compiler, such as 95 for Rust 1.95.0.
fn minor_version() -> Option<u32> {
    let output = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}

fn is(variable: &str, value: &str) -> bool {
    env::var(variable).is_ok_and(|set| set == value)
}

/// The script extends the linker's own (`INSERT`), which GNU ld and LLD know. It applies to the
/// program alone: flags of the compiler would apply to build scripts and macros, too.
fn use_linker_script() {
    println!("cargo::rerun-if-env-changed={LINKER_SCRIPT}");
    let Some(script) = env::var_os(LINKER_SCRIPT).filter(|script| !script.is_empty()) else { return };
    let script = Path::new(&script).display();
    println!("cargo::rerun-if-changed={script}");
    // Both linkers and compilers that link know this option.
    println!("cargo::rustc-link-arg-bin=kube-endpoint-manager=-T");
    println!("cargo::rustc-link-arg-bin=kube-endpoint-manager={script}");
}

fn is_commit(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// Returns the commit from which somebody published the package. cargo writes one JSON object:
/// `{"git": {"sha1": "…"}, …}`.
fn commit_of_package() -> Option<String> {
    let file = Path::new(&env::var_os("CARGO_MANIFEST_DIR")?).join(".cargo_vcs_info.json");
    let text = std::fs::read_to_string(file).ok()?;
    let (_, value) = text.split_once("\"sha1\"")?;
    let commit: String = value.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    is_commit(&commit).then_some(commit)
}

/// Returns the checked-out commit, if the workspace is the root of a git repository and not a copy
/// within another.
fn commit_of_checkout() -> Option<String> {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let root = folder.ancestors().nth(2)?;
    if Path::new(&git(root, &["rev-parse", "--show-toplevel"])?).canonicalize().ok()?
        != root.canonicalize().ok()?
    {
        return None;
    }
    // Each commit and each checkout appends to this log. If git keeps no such log, cargo would
    // repeat the build each time.
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
