//! Hands the commit that the binary is built from to the compiler, for `--version`.
//!
//! The environment variable `KUBE_ENDPOINT_MANAGER_COMMIT` states it; without it git is asked, and without git, or outside
//! of a checkout, it is `unknown`. The build is repeated when the variable changes or another commit is checked out.
//!
//! In the release profile, and those that inherit from it, it also tells the linker for Linux to put the functions beside one another
//! that the program executes (`functions.txt`). The rest then stays out of memory. That needs GNU ld or LLD, and symbols in the v0
//! mangling. `KUBE_ENDPOINT_MANAGER_EXECUTED` names a file with further such functions (`deploy/build-with-profile`). For musl, it has
//! the linker pack the relocations. `KUBE_ENDPOINT_MANAGER_FUNCTION_ORDER=no` turns off both, for other
//! linkers. With a number N, both are done in every profile, and only the first N functions are ordered: the gate uses this, because a
//! linker takes minutes to order all 7,000 in a binary of the dev profile.

mod function_order;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

const VARIABLE: &str = "KUBE_ENDPOINT_MANAGER_COMMIT";
const FUNCTION_ORDER: &str = "KUBE_ENDPOINT_MANAGER_FUNCTION_ORDER";
const EXECUTED: &str = "KUBE_ENDPOINT_MANAGER_EXECUTED";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let given = env::var(VARIABLE).ok().filter(|commit| is_commit(commit));
    let commit = given.or_else(commit_of_checkout).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env={VARIABLE}={commit}");
    let Some(most) = ordered_functions() else { return Ok(()) };
    pack_relocations();
    order_functions(most)
}

/// A program for musl on x86-64 relocates itself, and reads a bitmap of addresses instead of 24 bytes for each: half a megabyte less in
/// memory. It needs musl 1.2.4; a static one gets what Rust brings, which is older before Rust 1.93. Programs for glibc would need
/// version 2.36.
fn pack_relocations() {
    if is("CARGO_CFG_TARGET_ENV", "musl") && minor_version().is_some_and(|minor| minor >= 93) {
        println!("cargo::rustc-link-arg-bin=kube-endpoint-manager=-z");
        println!("cargo::rustc-link-arg-bin=kube-endpoint-manager=pack-relative-relocs");
    }
}

/// The 95 of Rust 1.95.0.
fn minor_version() -> Option<u32> {
    let output = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}

/// How many functions are put in order at most. None if the linker gets no options.
fn ordered_functions() -> Option<usize> {
    println!("cargo::rerun-if-env-changed={FUNCTION_ORDER}");
    match env::var(FUNCTION_ORDER).as_deref() {
        Err(_) | Ok("") => is("PROFILE", "release").then_some(usize::MAX),
        Ok("no") => None,
        Ok(value) => {
            let number = value.parse().ok().filter(|number| *number > 0);
            if number.is_none() {
                println!(
                    "cargo::error={FUNCTION_ORDER} is {value:?}; set it to \"no\", to a number above 0, or not at all"
                );
            }
            number
        }
    }
}

fn is(variable: &str, value: &str) -> bool {
    env::var(variable).is_ok_and(|set| set == value)
}

fn order_functions(most: usize) -> io::Result<()> {
    println!("cargo::rerun-if-changed=function_order.rs");
    println!("cargo::rerun-if-changed=functions.txt");
    // The script names the section `.fini`, which the C libraries of other architectures may not have.
    let is_known = is("CARGO_CFG_TARGET_ARCH", "x86_64") || is("CARGO_CFG_TARGET_ARCH", "aarch64");
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is_known {
        return Ok(());
    }
    // Cargo's configuration has the flag (.cargo/config.toml); RUSTFLAGS and target.*.rustflags replace it.
    if !env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("symbol-mangling-version=v0")) {
        println!(
            "cargo::warning=-Csymbol-mangling-version=v0 is not among the compiler's flags. Unless it is the compiler's default, the order of \
             functions has no effect, and the program takes 5 MB more memory. Add it to RUSTFLAGS or target.*.rustflags, whichever \
             is set (docs/performance.md, Code in memory)"
        );
    }
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from) else { return Ok(()) };
    let script = folder.join("functions.ld");
    let mut functions = fs::read_to_string("functions.txt")?;
    println!("cargo::rerun-if-env-changed={EXECUTED}");
    if let Some(file) = env::var_os(EXECUTED).filter(|file| !file.is_empty()) {
        println!("cargo::rerun-if-changed={}", Path::new(&file).display());
        match fs::read_to_string(&file) {
            Ok(executed) => functions.push_str(&executed),
            Err(error) => println!("cargo::error={EXECUTED} is {}: {error}", Path::new(&file).display()),
        }
    }
    fs::write(&script, function_order::linker_script(&functions, most))?;
    // Compilers that link and linkers themselves know this option.
    println!("cargo::rustc-link-arg-bin=kube-endpoint-manager=-T");
    println!("cargo::rustc-link-arg-bin=kube-endpoint-manager={}", script.display());
    Ok(())
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
