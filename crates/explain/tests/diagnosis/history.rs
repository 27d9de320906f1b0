//! Tests that no commit edits a case and a finding: who mends a finding does not choose the right
//! answer by it.

use std::path::Path;
use std::process::Command;

/// Returns the answer of git, or `None` if there is no history to ask.
fn git(arguments: &[&str]) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns true if these files hold a case and a source of the findings.
fn edits_both<'p>(mut paths: impl Iterator<Item = &'p str> + Clone) -> bool {
    let is_case = |path: &str| path.starts_with("integration-tests/diagnosis/") && path.ends_with(".yaml");
    paths.clone().any(is_case) && paths.any(|path| path.starts_with("crates/explain/src/"))
}

#[test]
fn no_commit_edits_a_case_and_a_finding() {
    assert!(edits_both(["integration-tests/diagnosis/a.yaml", "crates/explain/src/lib.rs"].into_iter()));
    assert!(!edits_both(["integration-tests/diagnosis/open", "crates/explain/src/lib.rs"].into_iter()));
    // A commit without a parent is the first one, or the oldest of a shallow clone.
    let arguments = ["log", "--no-merges", "--min-parents=1", "--format=%x01%h %s", "--name-only", "--"];
    let Some(log) = git(&[&arguments[..], &["integration-tests/diagnosis", "crates/explain/src"]].concat())
    else {
        return;
    };
    let mut wrong = Vec::new();
    for commit in log.split('\u{1}') {
        let mut lines = commit.lines().filter(|line| !line.is_empty());
        let Some(subject) = lines.next() else { continue };
        if edits_both(lines) {
            wrong.push(subject);
        }
    }
    assert!(wrong.is_empty(), "commits that edit a case and a finding: {wrong:#?}");
}
