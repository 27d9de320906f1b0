//! Explains the recorded namespace of a real cluster: its two faulty Services and its pods that are
//! not ready.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::text::{Colors, Layout, rendered};
use kube_endpoint_explain::{
    Code, Explanation, FailOn, Known, LintOptions, Objects, Options, Severity, TrafficLost, diff, explain,
    explain_pod, lint, render,
};
use serde_json::json;

pub(crate) fn objects() -> Objects {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integration-tests/fixtures/shop-cluster.json");
    let list = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    Objects::read([list]).unwrap()
}

/// Returns a time some minutes after the last change in the fixture.
pub(crate) fn now() -> Timestamp {
    "2026-11-20T12:25:00Z".parse().unwrap()
}

fn explained(objects: &Objects, name: &str) -> Explanation {
    let key = ObjectKey::new("shop", name);
    explain(objects, &key, &objects.topology(), now(), None, &Options::default()).unwrap()
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
    let says = explain_pod(&objects, &key, &objects.topology(), now(), &Options::default()).unwrap();
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
    assert_eq!(report.exit_code(FailOn::default()), 1);
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
fn lint_fails_on_the_severity_that_is_asked_for() {
    let errors = [Code::NodeNotReady, Code::ContainerNotReady, Code::PortNameNotFound, Code::NoPodMatches];
    let only_a_warning = LintOptions { ignore: errors.into(), ..LintOptions::default() };
    let check = |options: &LintOptions, want: [u8; 3]| {
        let report = lint(&objects(), now(), &Options::default(), options);
        let severities = [Some(Severity::Error), Some(Severity::Warning), None];
        let codes = severities.map(|severity| report.exit_code(FailOn { severity, strict: false }));
        assert_eq!(codes, want, "{options:?}");
    };
    check(&LintOptions::default(), [1, 1, 0]);
    check(&only_a_warning, [0, 1, 0]);
    check(
        &LintOptions {
            include_info: true,
            ignore: Code::ALL.iter().copied().collect(),
            ..LintOptions::default()
        },
        [0; 3],
    );
}

#[test]
fn nodes_alone_that_could_not_be_read_fail_only_if_strict() {
    let check = |known: Known, want: [u8; 2]| {
        let options = Options::default().with_known(known);
        let report = lint(&Objects::new(), now(), &options, &LintOptions::default());
        let report = report.with_not_read(vec!["You may not read it.".to_owned()]);
        let codes = [false, true].map(|strict| report.exit_code(FailOn { severity: None, strict }));
        assert_eq!(codes, want, "{known:?}");
    };
    check(Known { nodes: false, ..Known::ALL }, [0, 2]);
    check(Known { nodes: false, pods: false, ..Known::ALL }, [2, 2]);
    check(Known { slices: false, ..Known::ALL }, [2, 2]);
    check(Known { endpoints: false, ..Known::ALL }, [2, 2]);
    // A note about something else.
    check(Known::ALL, [2, 2]);
}

#[test]
fn a_selector_chooses_services_and_what_is_left_over_by_their_labels() {
    let service = |name: &str, team: &str| {
        json!({"kind": "Service", "metadata": {"name": name, "labels": {"team": team}},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}})
    };
    let slice = |service: &str, team: &str| {
        json!({"kind": "EndpointSlice", "metadata": {"name": format!("{service}-1"), "labels": {"team": team,
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
            "addressType": "IPv4", "endpoints": [], "ports": []})
    };
    let objects = Objects::read([
        service("cart", "checkout"),
        service("web", "front"),
        slice("cart", "checkout"),
        slice("web", "front"),
        slice("gone", "front"),
        slice("old", "checkout"),
    ])
    .unwrap();
    let found = |selector: &str| {
        let selector = Some(selector.parse().unwrap());
        let options = LintOptions { selector, ..LintOptions::default() };
        let report = lint(&objects, now(), &Options::default(), &options);
        let mut names: Vec<String> =
            report.problems.iter().map(|lint| lint.object.name.to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(report.services, report.checked.len());
        format!("{} {}", report.services, names.join(" "))
    };
    assert_eq!(found("team=front"), "1 gone-1 web");
    assert_eq!(found("team in (checkout)"), "1 cart old-1");
    assert_eq!(found("!team"), "0 ");
    assert_eq!(found(""), "2 cart gone-1 old-1 web");
}

/// A problem that costs traffic comes first, whatever the names are.
#[test]
fn a_service_that_is_down_comes_before_one_that_is_not_and_more_pods_before_fewer() {
    let service = |name: &str, port: &str| {
        json!({"kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": port}],
                "clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"]}})
    };
    let pod = |app: &str, number: usize, port: &str| {
        json!({"kind": "Pod", "metadata": {"name": format!("{app}-{number}"), "labels": {"app": app}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": [{"name": port, "containerPort": 80, "protocol": "TCP"}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let slice = json!({"kind": "EndpointSlice", "metadata": {"name": "a-1", "labels": {
            "kubernetes.io/service-name": "a",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 80, "protocol": "TCP"}], "endpoints": [
            {"addresses": ["10.0.0.1"], "targetRef": {"kind": "Pod", "name": "a-0"}}]});
    let node = json!({"kind": "Node", "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let mut objects = vec![node, service("a", "http"), service("b", "http"), service("c", "http"), slice];
    objects.extend([pod("a", 0, "http"), pod("a", 1, "odd"), pod("a", 2, "odd"), pod("a", 3, "odd")]);
    objects.extend([pod("b", 0, "odd"), pod("c", 0, "odd"), pod("c", 1, "odd")]);
    let objects = Objects::read(objects).unwrap();
    let report = lint(&objects, now(), &Options::default(), &LintOptions::default());
    let all: Vec<_> = report.problems.iter().map(|lint| (lint.code, &*lint.object.name)).collect();
    let found = report.problems.iter().filter(|lint| lint.code == Code::PortNameNotFound);
    let found: Vec<_> = found.map(|lint| (&*lint.object.name, lint.pods, lint.traffic_lost)).collect();
    let want = [("c", 2, TrafficLost::All), ("b", 1, TrafficLost::All), ("a", 3, TrafficLost::None)];
    assert_eq!(found, want, "{all:?}");
}

#[test]
fn lint_as_sarif() {
    let report = lint(&objects(), now(), &Options::default(), &LintOptions::default());
    let sarif = report.sarif("0.1.0");
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
        let diff = diff(&objects(), now(), &options).unwrap();
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
