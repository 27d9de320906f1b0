//! Tests the manifests of `integration-tests/faults`, which have one fault each: the explanation
//! has the code that the manifest names. `integration-tests/tests/remedies` carries the remedies
//! out.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::collections::BTreeSet;

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{
    Code, Explanation, LintOptions, LintReport, Objects, Options, Remedy, explain, lint,
};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

use crate::fault_manifests::{Fault, manifests};

pub(crate) fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

/// The state of a cluster, after its controllers have written.
pub(crate) struct State {
    fault: Fault,
    cluster: Cluster,
}

impl State {
    pub(crate) fn of(fault: &Fault) -> Self {
        Self { fault: fault.clone(), cluster: fault.settled(now(), &fault.options()) }
    }

    pub(crate) fn objects(&self) -> &[Value] {
        self.cluster.objects()
    }

    fn readable(&self) -> Objects {
        self.fault.readable(&self.cluster)
    }

    fn reading(&self) -> Options {
        self.fault.options().with_known(self.fault.known())
    }

    pub(crate) fn explained(&self) -> Option<Explanation> {
        let objects = self.readable();
        let key = ObjectKey::new("default", "web");
        explain(&objects, &key, &objects.topology(), now(), None, &self.reading())
    }

    pub(crate) fn linted(&self) -> LintReport {
        let all = LintOptions { include_info: true, ..LintOptions::default() };
        lint(&self.readable(), now(), &self.reading(), &all).with_root_cause(now())
    }
}

pub(crate) fn code(text: &str) -> Code {
    text.parse().unwrap()
}

/// Returns the message and the remedy that an operator reads about a fault.
pub(crate) fn found(state: &State, wanted: Code) -> Option<(String, Remedy)> {
    if let Some(lint) = state.linted().problems.into_iter().find(|lint| lint.code == wanted) {
        return Some((lint.message, lint.remedy));
    }
    let explained = state.explained()?;
    // The notes of lint tell which kinds could not be read.
    if let Some(advice) = explained.to_do.into_iter().find(|advice| advice.code == wanted) {
        return Some((advice.message, advice.remedy));
    }
    // A reason that only follows from a fault is in the explanation of the pod.
    let pod = explained.pods.into_iter().find(|pod| pod.code() == wanted)?;
    Some((pod.reason.as_ref()?.to_string(), pod.remedy()?))
}

#[test]
fn each_fault_is_explained() {
    let mut failed = Vec::new();
    let manifests = manifests();
    assert!(manifests.len() >= 25, "only {} manifests", manifests.len());
    for (file, fault) in &manifests {
        let wanted = code(&fault.code);
        let state = State::of(fault);
        let codes: Vec<Code> = state.linted().problems.iter().map(|lint| lint.code).collect();
        let explained = state.explained().map(|explanation| explanation.codes()).unwrap_or_default();
        if !codes.contains(&wanted) && !explained.contains(&wanted) {
            failed.push(format!("{file}: {wanted} is not among {codes:?}"));
        }
        if let Some(explanation) = state.explained() {
            let want = fault.verdict.as_deref().map_or(wanted, code);
            let got = explanation.verdict.code;
            if got != want {
                failed.push(format!(
                    "{file}: the verdict is {got}, not {want}: {}",
                    explanation.verdict.message
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn each_code_but_the_good_one_has_a_manifest() {
    let manifests = manifests();
    let with: BTreeSet<Code> = manifests.values().map(|fault| code(&fault.code)).collect();
    let without: Vec<&Code> =
        Code::ALL.iter().filter(|code| **code != Code::Published && !with.contains(code)).collect();
    assert!(without.is_empty(), "{without:?}");
    for (file, fault) in &manifests {
        assert!(file.starts_with(&fault.code.to_lowercase()), "{file}: {}", fault.code);
        assert!(fault.about.ends_with('.'), "{file}: {}", fault.about);
    }
}

#[test]
fn what_an_operator_reads_about_each_fault() {
    let mut texts = String::new();
    for (file, fault) in manifests() {
        let state = State::of(&fault);
        let text = match state.explained() {
            Some(explanation) => explanation.text(Layout::NARROW, now()).render(Colors::Off),
            None => state.linted().text(Layout::WIDE).render(Colors::Off),
        };
        texts.push_str(&format!("=== {file}: {}\n{text}\n", fault.about));
    }
    insta::assert_snapshot!(texts);
}

/// The advice is right below the verdict, with each command. A reader of two texts would have to
/// compare them, so each finding has one.
#[test]
fn what_to_do_comes_first_and_each_finding_is_told_once() {
    for (file, fault) in manifests() {
        let Some(explanation) = State::of(&fault).explained() else { continue };
        let text = explanation.text(Layout { columns: 100_000, ..Layout::NARROW }, now()).render(Colors::Off);
        let above = 3 + usize::from(explanation.last_change.is_some());
        assert_eq!(text.lines().nth(above), Some("What to do"), "{file}\n{text}");
        for advice in &explanation.to_do {
            // The first letter may be a capital one.
            let rest: String = advice.message.chars().skip(1).collect();
            assert_eq!(text.matches(&rest).count(), 1, "{file}: {}\n{text}", advice.message);
            for command in advice.remedy.commands() {
                assert!(text.contains(&command), "{file}: {command}\n{text}");
            }
        }
    }
}

/// The API server writes the slice of its own Service without a manager, and labels the Endpoints
/// so that the controller does not mirror them.
#[test]
fn nothing_is_wrong_with_the_service_of_the_api_server() {
    let objects = Objects::read([
        json!({"kind": "Service", "metadata": {"name": "kubernetes"}, "spec": {
            "clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]}}),
        json!({"kind": "Endpoints", "metadata": {"name": "kubernetes",
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"name": "https", "port": 6443}]}]}),
        json!({"kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": "kubernetes",
                "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "endpoints": [{"addresses": ["192.0.2.7"], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}),
    ])
    .unwrap();
    let all = LintOptions { include_info: true, ..LintOptions::default() };
    assert_eq!(lint(&objects, now(), &Options::default(), &all).problems, []);
}
