//! Tests that `docs/verdicts.md` is current. Its introduction is written by hand. The sections
//! about codes are generated from the findings, with the example of a manifest:
//! `UPDATE_DOCS=1 cargo test -p kube-endpoint-explain verdicts`.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kube_endpoint_explain::{Code, Person, Severity, Step};

use crate::fault_manifests::{Fault, manifests};
use crate::faults::{State, code, found};
use crate::generated;

/// The paragraph before the codes by what their advice can do.
const POWERS: &str = "The codes by what their advice can do:\n";

/// The paragraph before the severities of all codes.
const SEVERITIES: &str = "\
## Severities

A severity answers one question: would a person on call want to know? An error: now. A warning: today, as some clients
fail, or all will after the next change. Information: no, somebody reads it who changes the Service. `lint` lists errors
and warnings, and information with `--info`. Findings of one code may differ in what clients lose: *Also* has the other
severities of the examples.
";

/// The width of the page.
const COLUMNS: usize = 120;

/// Returns the first lines of the section about a code.
fn begin(of: Code) -> String {
    let severity = capital(&of.severity().to_string());
    format!("## {} {}\n\n*{severity}.* {}\n", of.id(), of.name(), of.title())
}

/// Returns the last lines of the section about a code: the example, and what the program says about
/// it.
fn end(of: Code, manifests: &BTreeMap<String, Fault>) -> String {
    let Some((file, fault)) = manifests.iter().find(|(_, fault)| code(&fault.code) == of) else {
        return String::new();
    };
    let (message, remedy) = found(&State::of(fault), of).unwrap();
    let stop = if remedy.sentence.ends_with('?') { "" } else { "." };
    let items = [
        format!("Example: `integration-tests/faults/{file}`. {}", fault.about),
        format!("Explained as: {message}."),
        format!("Remedy: {}{stop}", remedy.sentence),
    ];
    let mut text: String = items.iter().map(|item| wrapped(item)).collect();
    let commands: Vec<String> = remedy.commands().collect();
    if !commands.is_empty() {
        text.push_str(&format!("\n```text\n{}\n```\n", commands.join("\n")));
    }
    format!("\n{text}")
}

/// Returns an item of a list.
fn wrapped(item: &str) -> String {
    let mut text = "-".to_owned();
    let mut column = 1;
    for word in item.split_whitespace() {
        if column + 1 + word.chars().count() > COLUMNS {
            text.push_str("\n ");
            column = 1;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + word.chars().count();
    }
    text + "\n"
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default() + chars.as_str()
}

/// Returns the reason why no command can do what advice asks of a person.
fn why(who: Person) -> &'static str {
    match who {
        Person::ServiceOwner => "Only the owner of the Service knows which pods, ports and clients it is for",
        Person::PodOwner => "Only the owner of the pods can change their program and their template",
        Person::EndpointsWriter => {
            "Only who writes the endpoints by hand, or with a controller, knows their addresses and ports"
        }
        Person::ClusterAdministrator => {
            "Only the administrator of the cluster can repair nodes, networks, controllers and permissions"
        }
    }
}

/// Returns the section about the codes whose advice is a command that repairs, and those whose
/// advice can only ask.
fn powers(manifests: &BTreeMap<String, Fault>) -> String {
    let mut by_power: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for of in Code::ALL {
        let faults = manifests.values().filter(|fault| code(&fault.code) == *of);
        let steps: Vec<Step> =
            faults.flat_map(|fault| found(&State::of(fault), *of).unwrap().1.steps).collect();
        let asked = steps.iter().find_map(|step| match step {
            Step::Ask { who, .. } => Some(*who),
            _ => None,
        });
        let power = match asked {
            _ if *of == Code::Published => continue,
            _ if steps.iter().any(Step::changes) => (0, "A command or a patch repairs".to_owned()),
            Some(who) => (1 + who as usize, why(who).to_owned()),
            None => (9, "Time repairs".to_owned()),
        };
        let link = format!("[{}](#{}-{})", of.id(), of.id().to_lowercase(), of.name());
        by_power.entry(power).or_default().push(link);
    }
    let items = by_power.iter().map(|((_, why), codes)| wrapped(&format!("{why}: {}.", codes.join(", "))));
    items.collect()
}

/// Returns the table of severities: that of the code, and others that findings with it have in the
/// manifests, since they state their own.
fn severities(manifests: &BTreeMap<String, Fault>) -> String {
    let mut all: BTreeMap<Code, BTreeSet<Severity>> = BTreeMap::new();
    for fault in manifests.values() {
        let state = State::of(fault);
        let linted = state.linted().problems.into_iter().map(|lint| (lint.code, lint.severity));
        let explained = state.explained().into_iter().flat_map(|explained| explained.to_do);
        let advice = explained.map(|advice| (advice.code, advice.severity));
        for (code, severity) in linted.chain(advice) {
            all.entry(code).or_default().insert(severity);
        }
    }
    let mut text = "| Code | Severity | Also |\n|---|---|---|\n".to_owned();
    for of in Code::ALL.iter().filter(|of| **of != Code::Published) {
        let others = all.get(of).into_iter().flatten().rev().filter(|other| **other != of.severity());
        let others: Vec<String> = others.map(ToString::to_string).collect();
        let (id, name, severity) = (of.id(), of.name(), of.severity());
        let link = format!("[{id}](#{}-{name}) {name}", id.to_lowercase());
        text.push_str(&format!("| {link} | {severity} | {} |\n", others.join(", ")));
    }
    text
}

/// Returns the page with the texts of the findings. The paragraphs before them stay.
fn expected(page: &str) -> String {
    let manifests = manifests();
    let (head, _) = page.split_once("\n## EP").unwrap();
    let (head, _) = head.split_once(POWERS).unwrap();
    let mut text =
        format!("{head}{POWERS}\n{}\n{SEVERITIES}\n{}", powers(&manifests), severities(&manifests));
    for of in Code::ALL {
        let own = of.about().text();
        text.push_str(&format!("\n{}\n{own}\n{}", begin(*of), end(*of, &manifests)));
    }
    text
}

#[test]
fn the_page_about_verdicts_describes_each_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verdicts.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let expected = expected(&page);
    generated::check("docs/verdicts.md", &expected, "-p kube-endpoint-explain verdicts");
}
