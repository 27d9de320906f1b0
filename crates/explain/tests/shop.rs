//! Explains the recorded namespace of a real cluster: its two faulty Services and its pods that are
//! not ready.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::text::{Colors, Layout, rendered};
use kube_endpoint_explain::{
    Code, Explanation, LintOptions, Objects, Options, diff, explain, explain_pod, lint, render,
};

fn objects() -> Objects {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integration-tests/fixtures/shop-cluster.json");
    let list = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    Objects::read([list]).unwrap()
}

/// Returns a time some minutes after the last change in the fixture.
fn now() -> Timestamp {
    "2026-11-20T12:25:00Z".parse().unwrap()
}

fn explained(objects: &Objects, name: &str) -> Explanation {
    let key = ObjectKey::new("shop", name);
    explain(objects, &key, &objects.topology(0.0), now(), None, &Options::default()).unwrap()
}

#[test]
fn each_service_has_a_verdict_in_one_line() {
    let objects = objects();
    let lines: Vec<String> = objects
        .services()
        .map(|key| {
            let explanation = explained(&objects, &key.name);
            let codes: Vec<&str> = explanation.codes().iter().map(|code| code.id()).collect();
            let verdict = explanation.verdict;
            format!("{:?} {} {}: {} {codes:?}", verdict.status, verdict.code, key.name, verdict.message)
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_service_with_a_mistyped_port_name() {
    insta::assert_snapshot!(
        explained(&objects(), "frontend-typo").text(Layout::NARROW, now()).render(Colors::Off)
    );
}

#[test]
fn a_service_with_a_mistyped_port_name_in_colours() {
    let text = explained(&objects(), "frontend-typo").text(Layout::NARROW, now()).render(Colors::On);
    insta::assert_snapshot!(text.replace('\u{1b}', "^"));
}

#[test]
fn a_service_that_selects_nothing() {
    insta::assert_snapshot!(explained(&objects(), "nobody").text(Layout::NARROW, now()).render(Colors::Off));
}

#[test]
fn pods_that_are_not_ready_narrow() {
    insta::assert_snapshot!(
        explained(&objects(), "frontend").text(Layout::NARROW, now()).render(Colors::Off)
    );
}

#[test]
fn pods_that_are_not_ready_wide() {
    insta::assert_snapshot!(explained(&objects(), "frontend").text(Layout::WIDE, now()).render(Colors::Off));
}

#[test]
fn pods_that_are_published_although_they_are_not_ready() {
    insta::assert_snapshot!(explained(&objects(), "db").text(Layout::WIDE, now()).render(Colors::Off));
}

#[test]
fn endpoints_that_somebody_else_wrote() {
    insta::assert_snapshot!(
        explained(&objects(), "payments").text(Layout::NARROW, now()).render(Colors::Off)
    );
}

#[test]
fn a_pod_and_the_services_that_select_it() {
    let objects = objects();
    let key = ObjectKey::new("shop", "frontend-7dfbff9db-gnqg8");
    let says = explain_pod(&objects, &key, &objects.topology(0.0), now(), &Options::default()).unwrap();
    insta::assert_snapshot!(says.text(Layout::NARROW, now()).render(Colors::Off));
}

#[test]
fn an_explanation_as_json() {
    let explanation = explained(&objects(), "db-primary");
    insta::assert_snapshot!(serde_json::to_string_pretty(&explanation).unwrap());
}

#[test]
fn lint_lists_the_worst_first() {
    let report = lint(&objects(), now(), &Options::default(), &LintOptions::default());
    assert_eq!(report.exit_code(), 1);
    insta::assert_snapshot!(report.text(Layout::NARROW).render(Colors::Off));
}

#[test]
fn lint_leaves_ignored_codes_out() {
    let ignore = [Code::NodeNotReady, Code::ContainerNotReady, Code::PortNameNotFound, Code::NoPodMatches];
    let ignore = LintOptions { ignore: ignore.into(), ..LintOptions::default() };
    let report = lint(&objects(), now(), &Options::default(), &ignore);
    let codes: Vec<Code> = report.problems.iter().map(|lint| lint.code).collect();
    assert_eq!(codes, [Code::TopologyHintsWithheld]);
}

#[test]
fn lint_as_sarif() {
    let report = lint(&objects(), now(), &Options::default(), &LintOptions::default());
    let sarif = report.sarif("0.1.0", "https://example.com/verdicts.md");
    let rules = sarif["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    for result in sarif["runs"][0]["results"].as_array().unwrap() {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
    }
    let first = &sarif["runs"][0]["results"][0];
    let rule = &rules[usize::try_from(first["ruleIndex"].as_u64().unwrap()).unwrap()];
    insta::assert_snapshot!(format!("{rule:#}\n{first:#}"));
}

/// Upstream's controllers wrote the fixture's outputs, and had settled.
#[test]
fn nothing_would_change() {
    for options in [Options::default(), Options::upstream()] {
        let diff = diff(&objects(), &options).unwrap();
        assert_eq!(diff.text().render(Colors::Off), "Nothing would change.\n");
        assert_eq!(diff.exit_code(), 0);
    }
}

#[test]
fn rendered_objects_are_those_of_the_fixture() {
    let objects = objects();
    let rendered_objects = render(&objects, &Options::default());
    let slices: usize = rendered_objects.iter().map(|one| one.slices.len()).sum();
    let existing: usize = objects.services().map(|key| objects.slices_of(key).len()).sum();
    assert_eq!(slices, existing);
    insta::assert_snapshot!(rendered(&rendered_objects).render(Colors::Off));
}
