//! Tests that `docs/diagnosis.md` is current. Its introduction is written by hand, and the sections
//! are generated from the cases: `UPDATE_DOCS=1 cargo test -p kube-endpoint-explain diagnosis`. A
//! new case needs this before, with kubectl, for the column `describe`:
//! `UPDATE_DOCS=1 cargo test -p kube-endpoint-integration-tests --test programs described`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use kube_endpoint_explain::Code;

use super::JUDGED;
use super::judged::Judged;
use super::shares::{Shares, percent};
use crate::fault_manifests::{Fault, folder};
use crate::generated;

/// Returns the counted answers.
fn summary(shares: &Shares, (described, with_words): (usize, usize)) -> String {
    let share = |all, right| format!("{right} of {all} ({} %)", percent((all, right)));
    let (all, right) = shares.right();
    let rows = [
        ("Right in every part", share(all, right), "95 %"),
        ("Right first code", share(shares.faults, shares.first_codes), "98 %"),
        ("Faults that are called OK", format!("{} of {}", shares.false_ok, shares.faults), "0"),
        ("Healthy clusters with an alarm", format!("{} of {}", shares.false_alarms, shares.healthy), "0"),
    ];
    let mut text = "| | Today | Aim |\n|---|---|---|\n".to_owned();
    for (name, today, aim) in rows {
        writeln!(text, "| {name} | {today} | {aim} |").unwrap();
    }
    let described = share(described, with_words);
    writeln!(text, "| Words of the cause in `kubectl describe` | {described} | |").unwrap();
    text
}

/// Returns the names of the faults about which `kubectl describe` prints the words of the cause. A
/// test of kubectl writes the list.
fn described() -> BTreeSet<String> {
    let text = std::fs::read_to_string(folder("diagnosis").join("described")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Returns the row of a case.
fn row(name: &str, case: &Fault, judged: &Judged, described: &BTreeSet<String>) -> String {
    let described = match case.is_described() {
        false => "",
        true if described.contains(name) => "yes",
        true => "no",
    };
    let first = match case.healthy {
        true => "healthy".to_owned(),
        false => {
            let id = &case.code;
            // The finding may not be there yet.
            id.parse::<Code>().map_or(id.clone(), |code| {
                format!("[{id}](verdicts.md#{}-{})", id.to_lowercase(), code.name())
            })
        }
    };
    let today = if judged.wrong.is_empty() { "right" } else { "open" };
    format!("| `{name}` | {} | {} | {first} | {today} | {described} |\n", case.about, case.source)
}

/// Returns the sections of all kinds.
fn expected(head: &str) -> String {
    let shares = Shares::of(JUDGED.values());
    let mut kinds: BTreeMap<&str, Vec<(&str, &Fault, &Judged)>> = BTreeMap::new();
    for (name, (case, judged)) in JUDGED.iter() {
        kinds.entry(&case.kind).or_default().push((name, case, judged));
    }
    let described = described();
    let compared = JUDGED.values().filter(|(case, _)| case.is_described()).count();
    let mut text = format!("{head}\n## Summary\n\n{}", summary(&shares, (compared, described.len())));
    for (kind, cases) in kinds {
        let (all, right) = shares.kinds[kind];
        writeln!(text, "\n## Kind: {kind}\n\n{right} of {all} are right.\n").unwrap();
        text.push_str(
            "| Case | State | Source | First code | Today | `describe` |\n|---|---|---|---|---|---|\n",
        );
        text.extend(cases.into_iter().map(|(name, case, judged)| row(name, case, judged, &described)));
    }
    text
}

#[test]
fn the_page_about_diagnosis_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnosis.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (head, _) = page.split_once("\n## Summary").unwrap();
    let expected = expected(head);
    generated::check("docs/diagnosis.md", &expected, "-p kube-endpoint-explain diagnosis");
}
