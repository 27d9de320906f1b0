//! Pages and other files that tests generate.

use std::path::Path;

/// Checks that a file of the repository, such as `docs/verdicts.md`, is what a test generates.
/// With UPDATE_DOCS=1 this writes it. `tests` are the arguments of `cargo test` that do so.
#[track_caller]
pub(crate) fn check(file: &str, generated: &str, tests: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().find(|it| it.join("Cargo.lock").exists());
    let path = root.unwrap().join(file);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, generated).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let at = found.lines().zip(generated.lines()).find(|(found, wanted)| found != wanted);
    assert!(found == generated, "{file} differs: {at:?}; UPDATE_DOCS=1 cargo test {tests}");
}
