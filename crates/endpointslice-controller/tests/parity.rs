//! `docs/parity.md` names a test for each behaviour: the tests must exist, and so must the gates.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    read_to_string(root().join("docs/parity.md")).unwrap()
}

/// What stands between backticks in the form `path::test`.
fn named(page: &str) -> BTreeSet<(&str, &str)> {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter_map(|text| text.split_once(".rs::")).collect()
}

/// Whether a source has a test of that name, written out or made by a macro from `name = "text"`.
fn has_test(source: &str, test: &str) -> bool {
    let is_function =
        source.split(&format!("fn {test}(")).next().filter(|before| before.len() < source.len());
    let attribute = |before: &str| {
        let lines = before.trim_end().lines().rev().take_while(|line| !line.trim().is_empty());
        lines.map(str::trim).any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    };
    is_function.is_some_and(attribute) || source.contains(&format!("    {test} = \""))
}

#[test]
fn every_test_that_is_named_exists() {
    let page = page();
    let mut sources: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    for (path, test) in named(&page) {
        let source = sources.entry(path).or_insert_with(|| {
            let places = [root().join("crates"), root()].map(|place| place.join(format!("{path}.rs")));
            places.iter().find_map(|place| read_to_string(place).ok())
        });
        if !source.as_deref().is_some_and(|source| has_test(source, test)) {
            missing.push(format!("{path}.rs::{test}"));
        }
    }
    assert!(missing.is_empty(), "named in docs/parity.md, but not there:\n{}", missing.join("\n"));
    assert!(sources.len() > 30, "the page is read as it is written");
}

#[test]
fn every_row_names_a_test() {
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let headings = ["| gate |", "| what |", "| input |", "| metric "];
    let without: Vec<&str> = rows
        .filter(|row| !headings.iter().any(|heading| row.starts_with(heading)) && named(row).is_empty())
        .collect();
    assert!(without.is_empty(), "without a test:\n{}", without.join("\n"));
}

#[test]
fn every_gate_has_a_row() {
    let gates = read_to_string(root().join("crates/manager/src/gates.rs")).unwrap();
    let table = gates.split("const TABLE").nth(1).unwrap().split("];").next().unwrap();
    let names: BTreeSet<String> = table
        .split("Gate::")
        .skip(1)
        .map(|rest| rest.chars().take_while(char::is_ascii_alphanumeric).collect())
        .collect();
    assert!(names.len() >= 10, "{names:?}");
    let page = page();
    let documented: BTreeSet<String> = page
        .lines()
        .skip_while(|line| !line.starts_with("| gate |"))
        .take_while(|line| line.starts_with('|'))
        .filter_map(|row| row.strip_prefix("| `")?.split_once('`').map(|(name, _)| name.to_owned()))
        .collect();
    assert_eq!(documented, names);
}
