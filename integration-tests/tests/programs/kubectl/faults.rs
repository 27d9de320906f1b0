//! Tests that kubectl takes the examples of `docs/verdicts.md` as they are.

use std::process::Stdio;

use crate::kubectl::common::*;

/// Servers of today refuse these objects. They may be in a cluster nevertheless, where a server of
/// an older version, or with other rules, has stored them. A dry run alone refuses the last one,
/// since it makes no namespace.
const REFUSED: [&str; 4] = [
    "spec.ports: Required value",
    "spec.trafficDistribution: Unsupported value",
    "subsets[0].addresses[1].ip: Invalid value",
    "namespaces \"shop\" not found",
];

/// The kinds that the embedded server does not serve.
const NOT_SERVED: [&str; 5] = ["Deployment", "Ingress", "IngressClass", "HTTPRoute", "NetworkPolicy"];

pub(crate) fn the_examples_of_faults_are_accepted() {
    let kubectl = Kubectl::start();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/faults");
    let files = std::fs::read_dir(folder).unwrap().count();
    let output = kubectl
        .command(&format!("create --dry-run=server -f {folder}"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let created = String::from_utf8(output.stdout).unwrap();
    assert!(created.lines().count() > 2 * files, "{created}");
    assert!(created.lines().all(|line| line.ends_with(" created (server dry run)")), "{created}");
    let errors = String::from_utf8(output.stderr).unwrap();
    let known = |line: &&str| {
        line.starts_with("Warning: ")
            || line.trim_end_matches(']') == "ensure CRDs are installed first"
            || NOT_SERVED.iter().any(|kind| line.contains(&format!("no matches for kind \"{kind}\"")))
            || REFUSED.iter().any(|refused| line.contains(refused))
    };
    let others: Vec<&str> = errors.lines().filter(|line| !line.is_empty() && !known(line)).collect();
    assert!(others.is_empty(), "{others:#?}");
    for refused in REFUSED {
        assert!(errors.contains(refused), "{refused}: {errors}");
    }
}
