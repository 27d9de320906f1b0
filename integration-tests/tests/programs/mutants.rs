//! Tests the patches in `integration-tests/simulation/mutants`, which `just mutants` plays.

use std::fs::read_dir;
use std::path::Path;
use std::process::Command;

use kube_endpoint_integration_tests::programs::Tests;
use kube_endpoint_integration_tests::{programs, tests};

pub(crate) fn tests() -> Vec<Tests> {
    vec![tests!(programs::git => every_mutant_applies_to_the_sources)]
}

/// If a patch no longer applies, make it anew from the code that it was about.
fn every_mutant_applies_to_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let files = read_dir(root.join("integration-tests/simulation/mutants")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let patches: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "patch")).collect();
    assert!(patches.len() >= 20, "{patches:?}");
    for patch in patches {
        let mut command = Command::new("git");
        command.args(["apply", "--check"]).arg(&patch).current_dir(&root);
        // The sources may be in a folder of another repository, where git would skip them.
        command.env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(&root));
        let output = command.output().unwrap();
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} does not apply: {why}", patch.display());
    }
}
