//! Plays the named histories in `tests/histories`: failures of the past, and bugs of upstream's
//! controllers. A file has the setup and a step each line; lines with `#` describe it.

use std::fs;
use std::path::Path;

use kube_endpoint_simulation::{History, report, simulate};

#[test]
fn all_rules_hold_in_the_named_histories() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let (mut played, mut idle) = (0, Vec::new());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
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
