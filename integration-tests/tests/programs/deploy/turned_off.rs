//! Tests that the configuration that turns the three controllers of other distributions off names
//! all three.

use std::collections::BTreeSet;
use std::fs::read_to_string;

use clap::Parser;
use kube_endpoint_controllers::{ControllerName, Options, Settings};

use crate::deploy::manifests::{documents, root};

/// Checks the value of `--controllers`: `others`, and each of this project's controllers with a
/// minus sign.
#[track_caller]
fn check(value: &str, others: &[&str]) {
    let turned_off = ControllerName::DEFAULT.map(|name| format!("-{}", name.as_str()));
    let expected: BTreeSet<&str> =
        others.iter().copied().chain(turned_off.iter().map(String::as_str)).collect();
    assert_eq!(value.split(',').collect::<BTreeSet<_>>(), expected);
}

pub(crate) fn kubeadm() {
    let text = read_to_string(root().join("deploy/overlays/kubeadm/cluster-configuration.yaml")).unwrap();
    let configuration = &documents(&text)[0];
    assert_eq!(configuration["apiVersion"], "kubeadm.k8s.io/v1beta4");
    let arguments = configuration["controllerManager"]["extraArgs"].as_array().unwrap();
    assert_eq!((arguments.len(), &arguments[0]["name"]), (1, &"controllers".into()));
    check(arguments[0]["value"].as_str().unwrap(), &["*", "bootstrapsigner", "tokencleaner"]);
}

pub(crate) fn k3s() {
    let text = read_to_string(root().join("deploy/overlays/k3s/server.yaml")).unwrap();
    let arguments = documents(&text)[0]["kube-controller-manager-arg"].as_array().unwrap().clone();
    assert_eq!(arguments.len(), 1);
    check(arguments[0].as_str().unwrap().strip_prefix("controllers+=").unwrap(), &[]);
}

/// The files for a hand-over name the lease for which the manager campaigns.
pub(crate) fn hand_over() {
    let read = |name: &str| {
        let text = read_to_string(root().join("deploy/hand-over").join(name)).unwrap();
        documents(&text).remove(0)
    };
    let migration = read("leader-migration.yaml");
    assert_eq!(migration["apiVersion"], "controllermanager.config.k8s.io/v1");
    let options = Options::try_parse_from(["kube-endpoint-manager"]).unwrap();
    let lease = Settings::try_from(&options).unwrap().leader_election.unwrap();
    // The namespace of the common lease is kube-controller-manager's.
    assert_eq!(
        (lease.namespace.as_str(), &migration["leaderName"]),
        ("kube-system", &lease.name.as_str().into())
    );
    let controllers = migration["controllerLeaders"].as_array().unwrap();
    let names: Vec<&str> = controllers.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ControllerName::DEFAULT.map(|name| name.as_str()));
    assert!(controllers.iter().all(|it| it["component"] == "kube-controller-manager"));
}

/// The pages that tell to turn them off: a paragraph or block that turns one off turns all off.
pub(crate) fn pages() {
    for page in ["docs/replace-the-loops.md", "deploy/chart/templates/NOTES.txt"] {
        let text = read_to_string(root().join(page)).unwrap();
        let [first, others @ ..] = ControllerName::DEFAULT.map(|name| format!("-{}", name.as_str()));
        let blocks: Vec<&str> = text.split("\n\n").filter(|block| block.contains(&first)).collect();
        assert!(!blocks.is_empty(), "{page} does not say how to turn the controllers off");
        for block in blocks {
            assert!(others.iter().all(|name| block.contains(name)), "{page}: {block}");
        }
    }
}
