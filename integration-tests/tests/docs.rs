//! Checks that the tests, paths, gates, histories and mutants that the pages name exist.
#![allow(clippy::unwrap_used)]

mod book;
mod integrations;
mod language;
mod packages;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// The table of the mutants.
const MUTANTS: &str = "integration-tests/simulation/mutants/README.md";
/// The folder with the named histories.
const HISTORIES: &str = "integration-tests/simulation/tests/histories";

/// The pages at the root and in other folders.
const ELSEWHERE: [&str; 8] = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "ROADMAP.md",
    "deploy/chart/README.md",
    "fuzz/README.md",
    MUTANTS,
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn parity() -> String {
    read_to_string(root().join("docs/parity.md")).unwrap()
}

/// The folders with packages that are published.
const WITH_PACKAGES: [&str; 3] = ["bins", "crates", "crates/embedded-apiserver"];

/// Returns the pages in `docs/`, in `docs/log/`, at the root, of the chart, the fuzzer, the
/// mutants, of published packages and of examples, with their names.
fn pages() -> Vec<(String, String)> {
    let folders = ["docs", "docs/log"].map(|folder| read_dir(root().join(folder)).unwrap());
    let docs = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let elsewhere = ELSEWHERE.map(|name| root().join(name));
    let packages = WITH_PACKAGES.into_iter().chain(["examples/leader"]);
    let packages = packages.map(|folder| read_dir(root().join(folder)).unwrap());
    let packages = packages.flatten().map(|entry| entry.unwrap().path().join("README.md"));
    let packages = packages.filter(|path| path.exists());
    let files = docs.chain(elsewhere).filter(|path| path.extension().is_some_and(|it| it == "md"));
    let files = files.chain(packages);
    files.map(|path| (path.display().to_string(), read_to_string(&path).unwrap())).collect()
}

/// Returns the texts between single backticks, outside fenced code blocks.
fn code_spans(page: &str) -> Vec<&str> {
    page.split("```").step_by(2).flat_map(|text| text.split('`').skip(1).step_by(2)).collect()
}

/// Returns the tests that a text names in the form `path.rs::test`.
fn named_tests(text: &str) -> BTreeSet<(&str, &str)> {
    code_spans(text).into_iter().filter_map(|span| span.split_once(".rs::")).collect()
}

/// Returns true if a source file has a test of that name: a function, or the line `name = "text"`
/// of a macro that defines tests.
fn has_test(source: &str, test: &str) -> bool {
    let is_function =
        source.split(&format!("fn {test}(")).next().filter(|before| before.len() < source.len());
    let attribute = |before: &str| {
        let lines = before.trim_end().lines().rev().take_while(|line| !line.trim().is_empty());
        lines.map(str::trim).any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    };
    is_function.is_some_and(attribute) || source.contains(&format!("    {test} = \""))
}

/// A page names a file by the end of its path.
#[test]
fn every_test_that_a_page_names_exists() {
    let (pages, files) = (pages(), source_files());
    let mut sources: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut missing = Vec::new();
    let named: BTreeSet<(&str, &str)> = pages.iter().flat_map(|(_, page)| named_tests(page)).collect();
    for (path, test) in named {
        let sources = sources.entry(path).or_insert_with(|| {
            let ending = files.iter().filter(|file| file.ends_with(format!("{path}.rs")));
            ending.map(|file| read_to_string(file).unwrap()).collect()
        });
        if !sources.iter().any(|source| has_test(source, test)) {
            missing.push(format!("{path}.rs::{test}"));
        }
    }
    assert!(missing.is_empty(), "pages name tests that do not exist:\n{}", missing.join("\n"));
    assert!(sources.len() > 30, "only {} files found: does the parser still match the pages?", sources.len());
}

/// A file itself says what it is about. The page about bugs names files that exist.
#[test]
fn every_named_history_says_what_it_is_about() {
    let folder = root().join(HISTORIES);
    let files = read_dir(&folder).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert!(files.len() > 100, "{files:?}");
    for file in &files {
        let text = read_to_string(folder.join(file)).unwrap();
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        assert!((2..=4).contains(&header.len()), "{file} says in two to four lines what it is about");
    }
    let page = read_to_string(root().join("docs/bugs-replayed.md")).unwrap();
    let named: BTreeSet<String> =
        code_spans(&page).into_iter().filter(|span| span.ends_with(".txt")).map(str::to_owned).collect();
    assert!(named.len() > 15, "{named:?}");
    let missing: Vec<&String> = named.difference(&files).collect();
    assert!(missing.is_empty(), "docs/bugs-replayed.md names histories that do not exist: {missing:?}");
}

/// A behaviour is a row of a table. The last cell of each heading is `test`.
#[test]
fn every_behaviour_in_parity_names_a_test() {
    let page = parity();
    let is_row = |line: &&str| line.starts_with("| ") && !line.ends_with("| test |");
    let rows: Vec<&str> = page.lines().filter(is_row).collect();
    assert!(rows.len() > 150, "only {} rows found: does the parser still match the page?", rows.len());
    let without: Vec<&&str> = rows.iter().filter(|row| named_tests(row).is_empty()).collect();
    assert!(without.is_empty(), "rows without a test:\n{without:#?}");
}

#[test]
fn every_gate_has_a_row_in_parity() {
    let gates = read_to_string(root().join("crates/manager/src/gates/table.rs")).unwrap();
    let table = gates.split("const TABLE:").nth(1).unwrap().split("];").next().unwrap();
    let names: BTreeSet<String> = table
        .split("Gate::")
        .skip(1)
        .map(|rest| rest.chars().take_while(char::is_ascii_alphanumeric).collect())
        .collect();
    assert!(names.len() >= 10, "{names:?}");
    let page = parity();
    let section = page.split("\n## ").find(|section| section.starts_with("Deviations with a gate")).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let documented: BTreeSet<String> = rows.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(documented, names);
}

/// A mutant without a row is never played. The tests play each seed below 300 and each named
/// history without a mutant, too.
#[test]
fn every_mutant_has_a_row_with_what_catches_it() {
    let table = root().join(MUTANTS);
    let files = read_dir(table.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let patches = files.filter(|path| path.extension().is_some_and(|it| it == "patch"));
    let patches: BTreeSet<String> =
        patches.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert!((20..=30).contains(&patches.len()), "{patches:?}");
    let page = read_to_string(table).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<Vec<&str>> =
        rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let named: BTreeSet<String> = rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    assert_eq!(named, patches);
    let histories = root().join(HISTORIES);
    for row in &rows {
        let [_, sentence, catcher, rule] = row[..] else { panic!("each row has four cells: {row:?}") };
        let history = catcher.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        let is_history = history.is_some_and(|name| histories.join(format!("{name}.txt")).is_file());
        let is_seed = catcher.parse::<u64>().is_ok_and(|seed| seed < 300);
        assert!(is_history || is_seed, "nothing plays {catcher}: {row:?}");
        assert!(sentence.ends_with('.') && !rule.is_empty(), "{row:?}");
    }
}

/// Returns all Rust source files below the directories of the workspace's crates.
fn source_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> =
        ["crates", "bins", "benches", "integration-tests"].iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        for path in read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files
}

/// This checks code spans that begin with a top-level directory, the targets of relative links, and
/// the ends of paths of source files, such as `controller/sync.rs`. It skips globs.
#[test]
fn every_path_that_a_page_names_exists() {
    let tops = [
        "crates/",
        "bins/",
        "benches/",
        "docs/",
        "integration-tests/",
        "deploy/",
        "examples/",
        "release/",
        ".ci/",
        ".github/",
    ];
    let mut found = 0;
    let mut missing = Vec::new();
    let sources = source_files();
    for (name, page) in pages() {
        let is_end = |span: &&str| span.ends_with(".rs") && !tops.iter().any(|top| span.starts_with(top));
        for end in code_spans(&page).into_iter().filter(is_end) {
            found += 1;
            if !sources.iter().any(|source| source.ends_with(end)) {
                missing.push(format!("{name}: {end}"));
            }
        }
        let is_path = |span: &&str| {
            tops.iter().any(|top| span.starts_with(top)) && !span.contains([' ', '*', '<', '{'])
        };
        let spans = code_spans(&page).into_iter().filter(is_path);
        let spans = spans.map(|span| root().join(span.split("::").next().unwrap_or_default()));
        let targets = page.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let links = targets.filter(|target| !target.is_empty() && !target.contains("://"));
        let links = links.map(|target| Path::new(&name).with_file_name(target));
        for path in spans.chain(links) {
            found += 1;
            if !path.exists() {
                missing.push(format!("{name}: {}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "paths that do not exist:\n{}", missing.join("\n"));
    assert!(found > 30, "only {found} paths found: does the parser still match the pages?");
}
