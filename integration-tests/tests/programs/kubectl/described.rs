//! Finds out about which clusters of `integration-tests/diagnosis` `kubectl describe` prints the
//! words of the cause, for the comparison in `docs/diagnosis.md`.

use kube_endpoint_explain::Options;

use super::fault_manifests::{Fault, all_of};
use super::generated;
use crate::kubectl::common::*;

/// The kinds that the server stores and that `kubectl describe` of a Service and of pods reads.
const KINDS: [&str; 6] = ["Node", "Service", "Pod", "Endpoints", "EndpointSlice", "Event"];

/// Returns all that `kubectl describe` prints about the Service and the pods of a case, in lower
/// case.
fn described(case: &Fault) -> String {
    let kubectl = Kubectl::start();
    let cluster = case.settled(case.now(), &Options::default());
    let is_read = |object: &&serde_json::Value| KINDS.iter().any(|kind| object["kind"] == *kind);
    kubectl.server.load(cluster.objects().iter().filter(is_read).cloned()).unwrap();
    let said = kubectl.ok(&format!("describe {} -n default", case.subject))
        + &kubectl.ok("describe pods -n default");
    said.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Counts of pods and statuses are words of our own.
fn is_cause(words: &str) -> bool {
    !words.to_lowercase().contains("traffic")
}

pub(crate) fn the_comparison_with_describe_is_current() {
    let mut names = Vec::new();
    for (file, case) in all_of("diagnosis") {
        if !case.is_described() {
            continue;
        }
        let said = described(&case);
        if case.says.iter().filter(|words| is_cause(words)).all(|words| said.contains(&words.to_lowercase()))
        {
            names.push(file.trim_end_matches(".yaml").to_owned() + "\n");
        }
    }
    assert!(names.len() > 20, "only {names:?}");
    let tests = "-p kube-endpoint-integration-tests --test programs described";
    generated::check("integration-tests/diagnosis/described", &names.concat(), tests);
}
