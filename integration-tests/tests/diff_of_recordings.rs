//! Tests that after each step of each recording, once the outputs equal those of upstream's
//! controllers, `diff` with upstream's behaviour finds no changes, and that `lint` finds no fault
//! of addresses, ports and labels.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_explain::text::Colors;
use kube_endpoint_explain::{Code, LintOptions, Objects, Options, diff, lint};
use kube_endpoint_integration_tests::conformance::{Parts, Scenario, TestBed, play_and_check, recordings};

/// Returns the objects of a server that explanations read.
fn objects(server: &EmbeddedApiServer) -> Objects {
    let kinds = [
        ("nodes", "Node"),
        ("services", "Service"),
        ("pods", "Pod"),
        ("endpoints", "Endpoints"),
        ("endpointslices", "EndpointSlice"),
    ];
    let of_kind = |(plural, kind): (&str, &'static str)| {
        server.list(plural).into_iter().map(move |mut item| {
            item["kind"] = kind.into();
            item
        })
    };
    Objects::read(kinds.into_iter().flat_map(of_kind)).unwrap()
}

/// Returns the changes as text, or `None` if there are no changes.
fn changes(objects: &Objects, server: &EmbeddedApiServer, options: &Options) -> Option<String> {
    let diff = diff(objects, server.now(), options).unwrap();
    (!diff.is_empty()).then(|| diff.text().render(Colors::Off))
}

/// The codes about addresses, ports and labels that no correct Service has. Lint may not find them
/// in recordings, whose Services are correct, except for headless ones with another port than that
/// of their pods.
const FAULTS: [Code; 6] = [
    Code::NoLocalEndpoint,
    Code::ServiceIpAsEndpoint,
    Code::HeadlessPort,
    Code::LabelKeysDiffer,
    Code::PodsElsewhere,
    Code::SharedPodIp,
];

/// Returns which of these codes lint finds.
fn faults(objects: &Objects, server: &EmbeddedApiServer) -> impl Iterator<Item = Code> {
    let all = LintOptions { include_info: true, ..LintOptions::default() };
    let problems = lint(objects, server.now(), &Options::upstream(), &all).problems;
    problems.into_iter().map(|lint| lint.code).filter(|code| FAULTS.contains(code))
}

/// The steps after which upstream's controllers had not settled: they set no hints when a node's
/// zone becomes known, until something else starts a sync of the Service.
const NOT_SETTLED: [(&str, &str); 1] = [("topology-node-without-zone", "its zone label arrives")];

#[tokio::test(start_paused = true)]
async fn nothing_would_change_after_any_step() {
    let (mut failed, mut not_settled, steps) = (Vec::new(), Vec::new(), Cell::new(0));
    let found: RefCell<BTreeSet<String>> = RefCell::default();
    for file in recordings().unwrap() {
        let scenario = Scenario::read(&file).unwrap();
        let bed = TestBed::in_process(Parts::ALL).await.unwrap();
        let server = bed.server();
        let check = |_: &_| {
            steps.set(steps.get() + 1);
            let objects = objects(server);
            let faults = faults(&objects, server).map(|code| format!("{} {code}", scenario.name));
            found.borrow_mut().extend(faults);
            changes(&objects, server, &Options::upstream())
        };
        let failures = Box::pin(play_and_check(&bed, &scenario, Parts::ALL, check)).await.unwrap();
        for failure in failures {
            if NOT_SETTLED.contains(&(&scenario.name, &failure.step)) {
                not_settled.push(failure.report);
            } else {
                failed.push(format!("{}, {failure}", scenario.name));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(not_settled.len(), NOT_SETTLED.len());
    for report in not_settled {
        let changed = |line: &&str| {
            line.starts_with(['+', '-']) && !line.starts_with("+++") && !line.starts_with("---")
        };
        let changed: Vec<&str> = report.lines().filter(changed).collect();
        let is_hint =
            |line: &&str| ["hints:", "forZones:", "- name: zone-"].iter().any(|part| line.contains(part));
        assert!(report.contains("--- EndpointSlice ") && !changed.is_empty(), "{report}");
        assert!(changed.iter().all(is_hint), "{report}");
    }
    assert!(steps.get() > 80, "only {} steps were compared", steps.get());
    let found: Vec<String> = found.into_inner().into_iter().collect();
    assert_eq!(found, ["headless EP066", "hostname-subdomain EP066"]);
}

/// The comparison finds the missing writes of a stopped controller.
#[tokio::test(start_paused = true)]
async fn a_missed_step_is_found() {
    let scenario = Scenario::recorded("ready-and-not-ready").unwrap();
    let bed = TestBed::in_process(Parts::NONE).await.unwrap();
    let failures = Box::pin(play_and_check(&bed, &scenario, Parts::NONE, |_| {
        changes(&objects(bed.server()), bed.server(), &Options::upstream())
    }))
    .await
    .unwrap();
    let first = failures.first().unwrap().to_string();
    assert!(first.contains("+ create EndpointSlice"), "{first}");
    assert!(first.contains("+ create Endpoints"), "{first}");
}
