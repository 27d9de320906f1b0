//! Makes `docs/bugs-replayed.md` from the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::THEMES;
use super::generated;
use super::projects::PROJECTS;
use super::row::{Bug, Shown};

const HEAD: &str = "\
# Bugs replayed

This page is for people who know a bug of Kubernetes' endpoints controllers, or of other software that writes or reads endpoints, and ask
if it can happen here.

<!-- UPDATE_DOCS=1 cargo test -p kube-endpoint-simulation --test it bugs:: makes this page from integration-tests/simulation/tests/bugs. -->

Each row is a public report. The second column says what went wrong there, the third why not here, and the last one what shows it: a
history of the [simulation](testing.md) in `integration-tests/simulation/tests/histories`, or a test, with its path from `crates/` or from
the root. A history fails if a rule of the simulation does not hold, and the first lines of its file say which would. For other software a
row replays what would be the same mistake here.
`cargo test -p kube-endpoint-simulation --test it kubernetes_112143` plays the history of a number, and
`cargo run -p kube-endpoint-simulation --bin simulate -- --transcript --file` shows all that happens in one.
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn row(bug: &Bug) -> String {
    let (project, number) = bug.report();
    let link = format!("[{}](https://github.com/{}/issues/{number})", bug.title(), project.repository);
    let shown = match bug.shown {
        Shown::History(history) => format!("{history}.txt"),
        Shown::Test(test) => test.to_owned(),
    };
    format!("| {link} | {} | {} | `{shown}` |\n", bug.fault, bug.answer)
}

fn page() -> String {
    let mut text = HEAD.to_owned();
    for theme in THEMES {
        let rows: String = theme.bugs.iter().map(row).collect();
        let heads = "| bug | fault there | answer here | shown by |\n|---|---|---|---|\n";
        text += &format!("\n## {}\n\n{heads}{rows}", theme.heading);
    }
    let mut bugs: BTreeMap<&str, usize> = BTreeMap::new();
    for bug in THEMES.iter().flat_map(|theme| theme.bugs) {
        *bugs.entry(bug.report().0.name).or_default() += 1;
    }
    text += "\n## Projects\n\n| project | part of it, with the versions that the reports name | rows |\n|---|---|---|\n";
    for project in PROJECTS {
        let link = format!("[{}](https://github.com/{})", project.name, project.repository);
        text += &format!("| {link} | {} | {} |\n", project.part, bugs[project.name]);
    }
    text
}

#[test]
fn the_page_about_bugs_has_the_rows() {
    let tests = "-p kube-endpoint-simulation --test it bugs::";
    generated::check("docs/bugs-replayed.md", &page(), tests);
}

#[test]
fn each_bug_has_one_row_and_is_named_by_its_history() {
    let bugs: Vec<&Bug> = THEMES.iter().flat_map(|theme| theme.bugs).collect();
    let names: BTreeSet<&str> = bugs.iter().map(|bug| bug.name).collect();
    assert_eq!(names.len(), bugs.len(), "each bug has one row");
    assert!(bugs.len() >= 40, "{} bugs", bugs.len());
    for bug in bugs {
        let Shown::History(history) = bug.shown else { continue };
        let path = root().join(format!("integration-tests/simulation/tests/histories/{history}.txt"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let first = text.lines().next().unwrap_or_default();
        assert!(first.contains(&bug.title()), "the first line of {history}.txt names {}", bug.title());
    }
}
