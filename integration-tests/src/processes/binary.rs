//! Finds the binaries, and builds them if necessary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The package of the manager, and its binary.
const MANAGER: [&str; 2] = ["kube-endpoint-manager"; 2];

/// The package of the kubectl plugin, and its binary.
const PLUGIN: [&str; 2] = ["kubectl-diagnose-svc", "kubectl-diagnose_svc"];

/// Returns the binary to test: `KEM_BINARY` if that environment variable is set, otherwise the one
/// of the build, which this first builds if it is missing or older than its sources.
/// `cargo test --workspace` has always built it.
///
/// `sibling` is a program of the same build, such as `env!("CARGO_BIN_EXE_apiserver-process")`.
///
/// # Panics
///
/// If there is no such binary, or building it fails.
pub fn binary(sibling: &Path) -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    let given = || {
        let given = PathBuf::from(std::env::var_os("KEM_BINARY")?);
        assert!(given.is_file(), "KEM_BINARY: there is no file {}", given.display());
        Some(given)
    };
    BINARY.get_or_init(|| given().unwrap_or_else(|| find(sibling, MANAGER))).clone()
}

/// Returns the kubectl plugin of the build, which this first builds if it is missing or older than
/// its sources; see [`binary`].
///
/// # Panics
///
/// If building it fails.
pub fn plugin(sibling: &Path) -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| find(sibling, PLUGIN)).clone()
}

fn find(sibling: &Path, [package, name]: [&str; 2]) -> PathBuf {
    let binary = sibling.with_file_name(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !is_fresh(&binary, package, &root) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--package", package]);
        // The folder has the profile's name, but for that of `dev`.
        let folder = sibling.parent().and_then(Path::file_name).filter(|folder| *folder != "debug");
        if let Some(profile) = folder {
            build.arg("--profile").arg(profile);
        }
        let status = build.status().unwrap();
        assert!(status.success(), "{build:?} failed");
    }
    assert!(binary.is_file(), "there is no file {}; run cargo build -p {package}", binary.display());
    binary
}

/// Returns true if the binary is newer than each file that cargo's list of its sources names.
/// `cargo test` writes no such list beside the binaries that it builds; without it, this looks at
/// all files of the workspace that the binary may contain.
fn is_fresh(binary: &Path, package: &str, root: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|it| it.modified()).ok();
    let Some(built) = changed(binary) else { return false };
    let list = binary.with_extension("d");
    // An older list may be that of an earlier build, which had other sources.
    let listed = changed(&list).filter(|at| *at >= built).and_then(|_| std::fs::read_to_string(&list).ok());
    let sources = listed.map_or_else(|| possible_sources(package, root), |sources| sources_of(&sources));
    !sources.is_empty()
        && sources.iter().all(|source| changed(source).is_some_and(|at: SystemTime| at <= built))
}

/// Returns the files of the libraries of a workspace and of a binary, without those of tests,
/// benchmarks and examples.
fn possible_sources(package: &str, root: &Path) -> Vec<PathBuf> {
    let settings = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"];
    let mut sources: Vec<PathBuf> =
        settings.iter().map(|name| root.join(name)).filter(|file| file.is_file()).collect();
    let mut folders = vec![root.join("crates"), root.join("bins").join(package)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let is_snapshot = path.extension().is_some_and(|extension| extension == "snap");
            if path.is_dir() {
                if !["tests", "benches", "examples"].iter().any(|other| name == *other) {
                    folders.push(path);
                }
            } else if !is_snapshot {
                sources.push(path);
            }
        }
    }
    sources
}

/// Returns the sources in a dependency file of cargo's: `BINARY: SOURCE SOURCE ...`, with `\ ` for
/// a space in a path.
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
        let is_fresh = |name: &str| is_fresh(&file(name), name, folder.path());
        let source = file("main.rs");
        std::fs::write(&source, "").unwrap();
        assert!(!is_fresh("program"), "it is missing");
        std::fs::write(file("program"), "").unwrap();
        std::fs::write(file("program.d"), format!("program: {}\n", source.display())).unwrap();
        assert!(is_fresh("program"));
        touch(&source, 60);
        assert!(!is_fresh("program"));
    }

    #[test]
    fn without_cargos_list_all_sources_of_the_workspace_count() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for name in [
            "Cargo.toml",
            "crates/a/src/lib.rs",
            "crates/a/tests/a.rs",
            "bins/program/main.rs",
            "bins/other/main.rs",
            "program.d",
            "program",
        ] {
            std::fs::create_dir_all(file(name).parent().unwrap()).unwrap();
            std::fs::write(file(name), "").unwrap();
        }
        let is_fresh = || is_fresh(&file("program"), "program", folder.path());
        // The list is that of an earlier build.
        touch(&file("program"), 10);
        assert!(is_fresh());
        touch(&file("crates/a/tests/a.rs"), 60);
        touch(&file("bins/other/main.rs"), 60);
        assert!(is_fresh());
        touch(&file("bins/program/main.rs"), 60);
        assert!(!is_fresh());
        assert!(!super::is_fresh(&file("program"), "program", &file("nowhere")), "there are no sources");
    }

    #[expect(clippy::disallowed_methods, reason = "files have the system's time")]
    fn touch(file: &Path, seconds: u64) {
        let later = SystemTime::now() + std::time::Duration::from_secs(seconds);
        std::fs::File::options().write(true).open(file).unwrap().set_modified(later).unwrap();
    }
}
