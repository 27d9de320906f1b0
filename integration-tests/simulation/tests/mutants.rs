//! Tests the patches in `mutants`, which `just mutants` builds and plays.
#![expect(clippy::unwrap_used, reason = "a test that panics fails")]

use std::process::ExitCode;

use kube_endpoint_integration_tests::{programs, tests};
use kube_endpoint_simulation::mutants::{mutants, repository};

fn main() -> ExitCode {
    programs::run([tests!(programs::git => every_mutant_applies_to_the_sources_and_says_what_it_breaks)])
}

/// If a patch no longer applies, make it anew from the code that it was about.
fn every_mutant_applies_to_the_sources_and_says_what_it_breaks() {
    let all = mutants().unwrap();
    assert!(all.len() >= 20, "{}", all.len());
    for mutant in all {
        assert!(mutant.sentence.ends_with('.'), "{} begins with a sentence", mutant.path.display());
        if let Err(error) = mutant.apply(&repository(), &["--check"]) {
            panic!("{error}");
        }
    }
}
