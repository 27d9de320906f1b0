//! Tests that kubectl takes the examples of Services that follow a leader.

use kube_endpoint_integration_tests::leader_examples::{EXAMPLES, manifests};
use serde_json::{Value, json};

use crate::kubectl::common::*;

/// The kinds that the embedded server does not serve.
const NOT_SERVED: [&str; 2] = ["Deployment", "StatefulSet"];

pub(crate) fn the_examples_of_leaders_are_accepted() {
    let kubectl = Kubectl::start();
    for namespace in ["ops", "shop"] {
        kubectl.ok(&format!("create namespace {namespace}"));
    }
    for example in EXAMPLES {
        let mut objects = manifests(example);
        let all = objects.len();
        objects.retain(|object| !NOT_SERVED.contains(&object["kind"].as_str().unwrap()));
        assert_eq!(objects.len() + 1, all, "{example}");
        let list: Value = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let created = kubectl.with("create --dry-run=server -o name -f -", &list);
        assert_eq!(created.lines().count(), objects.len(), "{example}: {created}");
    }
}
