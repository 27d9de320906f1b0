//! Renders the kustomizations in `deploy/` with kubectl.

use std::path::{Path, PathBuf};
use std::process::Command;

use kube_endpoint_integration_tests::programs::kubectl_program;
use serde_json::Value;

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The kustomizations whose objects users apply to a cluster, for the three controllers.
pub(crate) const KUSTOMIZATIONS: [&str; 4] =
    ["deploy/base", "deploy/overlays/kubeadm", "deploy/overlays/k3s", "deploy/overlays/monitored"];

/// Those of the add-on.
pub(crate) const ADDONS: [&str; 3] =
    ["deploy/overlays/addon", "deploy/overlays/addon-namespaces", "deploy/overlays/addon-monitored"];

/// That of the custom resources.
pub(crate) const CRDS: &str = "deploy/crds";

/// The kustomization of the static pod, which the kubelet gets.
pub(crate) const STATIC_POD: &str = "deploy/overlays/kubeadm/static-pod";

/// Returns the objects of a kustomization.
#[track_caller]
pub(crate) fn rendered(kustomization: &str) -> Vec<Value> {
    let output = Command::new(kubectl_program()).arg("kustomize").arg(root().join(kustomization)).output();
    let output = output.unwrap();
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "kubectl kustomize {kustomization}: {errors}");
    assert!(!errors.contains("deprecated"), "kubectl kustomize {kustomization}: {errors}");
    documents(&text)
}

/// Returns the documents of a YAML text.
#[track_caller]
pub(crate) fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

/// Returns the only object of a kind and, unless it is empty, a name.
#[track_caller]
pub(crate) fn only<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut found = objects
        .iter()
        .filter(|object| object["kind"] == kind && (name.is_empty() || object["metadata"]["name"] == name));
    let object = found.next().unwrap_or_else(|| panic!("no {kind} {name}"));
    assert!(found.next().is_none(), "more than one {kind} {name}");
    object
}
