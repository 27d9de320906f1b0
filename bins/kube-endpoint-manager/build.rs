//! Hands the commit that the binary is built from to the compiler, for `--version`.
//!
//! The environment variable `KUBE_ENDPOINT_MANAGER_COMMIT` states it; without it git is asked, and without git, or outside
//! of a checkout, it is `unknown`. The build is repeated when the variable changes or another commit is checked out.
//!
//! In the release profile for Linux, it also tells the linker to put the functions beside one another that the program executes
//! (`functions.txt`). The rest then stays out of memory. That needs GNU ld or LLD; `KUBE_ENDPOINT_MANAGER_FUNCTION_ORDER=no` is for
//! other linkers.

use std::collections::HashSet;
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

const VARIABLE: &str = "KUBE_ENDPOINT_MANAGER_COMMIT";
const FUNCTION_ORDER: &str = "KUBE_ENDPOINT_MANAGER_FUNCTION_ORDER";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let given = env::var(VARIABLE).ok().filter(|commit| is_commit(commit));
    let commit = given.or_else(commit_of_checkout).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env={VARIABLE}={commit}");
    order_functions()
}

fn order_functions() -> io::Result<()> {
    println!("cargo::rerun-if-changed=functions.txt");
    println!("cargo::rerun-if-env-changed={FUNCTION_ORDER}");
    let is = |variable, value| env::var(variable).is_ok_and(|set| set == value);
    if !is("PROFILE", "release") || !is("CARGO_CFG_TARGET_OS", "linux") || is(FUNCTION_ORDER, "no") {
        return Ok(());
    }
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from) else { return Ok(()) };
    let script = folder.join("functions.ld");
    fs::write(&script, linker_script(&fs::read_to_string("functions.txt")?))?;
    // Compilers that link and linkers themselves know this option.
    println!("cargo::rustc-link-arg-bin=kube-endpoint-manager=-T");
    println!("cargo::rustc-link-arg-bin=kube-endpoint-manager={}", script.display());
    Ok(())
}

/// A linker script that puts these functions first in the section that the linker makes of all functions.
///
/// Another compiler, or another version of a dependency, gives a symbol another hash. So the functions follow that have the same
/// name and another hash: those are the functions meant, and the other instances of generic functions. Functions with the attribute
/// `cold`, which are executed all the same, have a section that is named in another way.
fn linker_script(functions: &str) -> String {
    let symbols = || functions.lines().filter(|line| !line.starts_with('#'));
    let mut script = "SECTIONS {\n  .text : {\n".to_owned();
    let mut seen = HashSet::new();
    for pattern in symbols().map(str::to_owned).chain(symbols().filter_map(any_hash)) {
        if !seen.contains(&pattern) {
            let _ = writeln!(script, "    *(.text.{pattern} .text.unlikely.{pattern})");
            seen.insert(pattern);
        }
    }
    script.push_str("    *(.text .text.*)\n  }\n} INSERT BEFORE .fini;\n");
    script
}

/// A pattern of the symbols of this name with any hash. None if the mangling is an unknown one.
fn any_hash(symbol: &str) -> Option<String> {
    if symbol.starts_with("_ZN") {
        // Legacy: `17h`, 16 digits and `E` at the end.
        return symbol.rsplit_once("17h").map(|(name, _)| format!("{name}17h*"));
    }
    // v0: each crate has a hash between `Cs` and `_`.
    let mut parts = symbol.strip_prefix("_R")?.split("Cs");
    let mut pattern = format!("_R{}", parts.next()?);
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        pattern.push_str(if rest.starts_with('_') { "Cs*" } else { "Cs" });
        pattern.push_str(if rest.starts_with('_') { rest } else { part });
    }
    Some(pattern)
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
