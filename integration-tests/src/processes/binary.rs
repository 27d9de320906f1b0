//! Where the binaries are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The package of the manager and its binary.
const NAME: &str = "kube-endpoint-manager";

/// The package of the kubectl plugin and its binary.
const PLUGIN: &str = "kubectl-endpoints";

/// The binary to test: `KEM_BINARY` if that environment variable is set, otherwise the one of the build, which is built
/// first if it is missing or older than its sources. `cargo test --workspace` has always built it.
///
/// `sibling` is a program of the same build, such as `env!("CARGO_BIN_EXE_apiserver-process")`.
///
/// # Panics
///
/// If there is no such binary, or it cannot be built.
pub fn binary(sibling: &Path) -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let given = || {
        let given = PathBuf::from(std::env::var_os("KEM_BINARY")?);
        assert!(given.is_file(), "KEM_BINARY: there is no file {}", given.display());
        Some(given)
    };
    BINARY.get_or_init(|| given().unwrap_or_else(|| find(sibling, NAME))).clone()
}

/// The kubectl plugin of the build, which is built first if it is missing or older than its sources; see [`binary`].
///
/// # Panics
///
/// If it cannot be built.
pub fn plugin(sibling: &Path) -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| find(sibling, PLUGIN)).clone()
}

fn find(sibling: &Path, name: &str) -> PathBuf {
    let binary = sibling.with_file_name(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !is_fresh(&binary, &root) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--package", name]);
        if sibling.parent().is_some_and(|folder| folder.ends_with("release")) {
            build.arg("--release");
        }
        let status = build.status().unwrap();
        assert!(status.success(), "{build:?} failed");
    }
    assert!(binary.is_file(), "there is no file {}; run cargo build -p {name}", binary.display());
    binary
}

/// Whether the binary is newer than each file that cargo's list of its sources names. `cargo test` writes no such list beside the
/// binaries that it builds; without one, all files of the workspace that a binary may consist of are looked at.
fn is_fresh(binary: &Path, root: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    let Some(built) = changed(binary) else { return false };
    let sources = std::fs::read_to_string(binary.with_extension("d"))
        .map_or_else(|_| possible_sources(root), |sources| sources_of(&sources));
    !sources.is_empty()
        && sources.iter().all(|source| changed(source).is_some_and(|at: SystemTime| at <= built))
}

/// The files of a workspace but those of tests, benchmarks and examples.
fn possible_sources(root: &Path) -> Vec<PathBuf> {
    let mut sources = vec![root.join("Cargo.toml"), root.join("Cargo.lock")];
    let mut folders = vec![root.join("crates"), root.join("bins")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_other = ["tests", "benches", "examples"].iter().any(|name| entry.file_name() == *name);
            if !entry.path().is_dir() {
                sources.push(entry.path());
            } else if !is_other {
                folders.push(entry.path());
            }
        }
    }
    sources
}

/// The sources in a dependency file of cargo's: `BINARY: SOURCE SOURCE ...`, with `\ ` for a space in a path.
fn sources_of(dependencies: &str) -> Vec<PathBuf> {
    let (_, sources) = dependencies.split_once(": ").unwrap_or_default();
    let escaped = sources.trim().replace("\\ ", "\0");
    escaped.split_whitespace().map(|path| PathBuf::from(path.replace('\0', " "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_from_cargos_list() {
        let paths = ["/a/b.rs", "/with space/c.rs"].map(PathBuf::from);
        assert_eq!(sources_of("/target/debug/x: /a/b.rs /with\\ space/c.rs\n"), paths);
        assert!(sources_of("").is_empty());
    }

    #[test]
    fn a_binary_is_fresh_until_a_source_changes() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let is_fresh = |name: &str| is_fresh(&file(name), folder.path());
        let source = file("main.rs");
        std::fs::write(&source, "").unwrap();
        assert!(!is_fresh("program"), "it is missing");
        std::fs::write(file("program"), "").unwrap();
        std::fs::write(file("program.d"), format!("program: {}\n", source.display())).unwrap();
        assert!(is_fresh("program"));
        touch(&source);
        assert!(!is_fresh("program"));
    }

    #[test]
    fn without_cargos_list_all_sources_of_the_workspace_count() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for name in ["Cargo.toml", "Cargo.lock", "crates/a/src/lib.rs", "crates/a/tests/a.rs", "program"] {
            std::fs::create_dir_all(file(name).parent().unwrap()).unwrap();
            std::fs::write(file(name), "").unwrap();
        }
        let is_fresh = || is_fresh(&file("program"), folder.path());
        assert!(is_fresh());
        touch(&file("crates/a/tests/a.rs"));
        assert!(is_fresh());
        touch(&file("crates/a/src/lib.rs"));
        assert!(!is_fresh());
        assert!(!super::is_fresh(&file("program"), &file("crates/a")), "there are no sources");
    }

    #[expect(clippy::disallowed_methods, reason = "files have the system's time")]
    fn touch(file: &Path) {
        let later = SystemTime::now() + std::time::Duration::from_secs(60);
        std::fs::File::options().write(true).open(file).unwrap().set_modified(later).unwrap();
    }
}
