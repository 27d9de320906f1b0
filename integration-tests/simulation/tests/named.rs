//! Plays the named histories in `tests/histories` that no public bug has: failures of the past, and
//! what only one mutant gets wrong. A file has the setup and a step each line; lines with `#`
//! describe it. `bugs` plays the others.

use std::fs;
use std::path::Path;

use kube_endpoint_simulation::{History, report, simulate};

use crate::bugs::histories;

#[test]
fn all_rules_hold_in_the_named_histories() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let of_bugs = histories();
    let (mut played, mut idle) = (0, Vec::new());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if of_bugs.contains(path.file_stem().unwrap().to_str().unwrap()) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let history: History = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(text.starts_with('#'), "{} says what it is about", path.display());
        let outcome = simulate(&history);
        if let Some(violation) = outcome.violation {
            panic!("{}: {}", path.display(), report(&history, &violation));
        }
        if !outcome.without_effect.is_empty() {
            idle.push(format!("{}: {:#?}", path.display(), outcome.without_effect));
        }
        played += 1;
    }
    assert!(played > 0);
    assert!(idle.is_empty(), "these steps have no effect: {}", idle.join("\n"));
}
