//! Tests that each manifest is a valid object of its kind: every field exists and has the right
//! type.

use k8s_openapi::api::{apps, coordination, core, flowcontrol, policy, rbac};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Definition;
use kube_endpoint_integration_tests::leader_examples::{EXAMPLES, manifests};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::deploy::manifests::{ADDONS, CRDS, KUSTOMIZATIONS, STATIC_POD, rendered};

/// Reads an object as `T` and writes it again: a field that `T` does not have is missing
/// afterwards.
fn read<T: Serialize + DeserializeOwned>(object: &Value) -> Result<(), String> {
    let typed: T = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    let again = serde_json::to_value(&typed).map_err(|error| error.to_string())?;
    if again == *object { Ok(()) } else { Err(format!("has unknown fields: read as\n{again:#}")) }
}

/// Checks an object. The error names the fault.
pub(crate) fn check(object: &Value) -> Result<(), String> {
    let kind = format!("{} {}", object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    match kind.as_str() {
        "apps/v1 Deployment" => read::<apps::v1::Deployment>(object),
        "apps/v1 StatefulSet" => read::<apps::v1::StatefulSet>(object),
        "coordination.k8s.io/v1 Lease" => read::<coordination::v1::Lease>(object),
        "flowcontrol.apiserver.k8s.io/v1 FlowSchema" => read::<flowcontrol::v1::FlowSchema>(object),
        "policy/v1 PodDisruptionBudget" => read::<policy::v1::PodDisruptionBudget>(object),
        "rbac.authorization.k8s.io/v1 ClusterRole" => read::<rbac::v1::ClusterRole>(object),
        "rbac.authorization.k8s.io/v1 ClusterRoleBinding" => read::<rbac::v1::ClusterRoleBinding>(object),
        "rbac.authorization.k8s.io/v1 Role" => read::<rbac::v1::Role>(object),
        "rbac.authorization.k8s.io/v1 RoleBinding" => read::<rbac::v1::RoleBinding>(object),
        "apiextensions.k8s.io/v1 CustomResourceDefinition" => read::<Definition>(object),
        "v1 ConfigMap" => read::<core::v1::ConfigMap>(object),
        "v1 Namespace" => read::<core::v1::Namespace>(object),
        "v1 Pod" => read::<core::v1::Pod>(object),
        "v1 ResourceQuota" => read::<core::v1::ResourceQuota>(object),
        "v1 Service" => read::<core::v1::Service>(object),
        "v1 ServiceAccount" => read::<core::v1::ServiceAccount>(object),
        // The embedded server validates it where the examples run.
        "kube-endpoint-manager.github.io/v1alpha1 EndpointSelector" => Ok(()),
        // Custom resources of the Prometheus operator. `alerts.rs` checks the rules.
        "monitoring.coreos.com/v1 PrometheusRule" | "monitoring.coreos.com/v1 ServiceMonitor" => Ok(()),
        _ => Err("is of an unknown kind".to_owned()),
    }
}

pub(crate) fn every_object_is_valid() {
    for kustomization in KUSTOMIZATIONS.iter().chain(&ADDONS).chain([&STATIC_POD, &CRDS]) {
        let objects = rendered(kustomization);
        assert!(!objects.is_empty());
        for object in &objects {
            let name = format!("{kustomization}: {} {}", object["kind"], object["metadata"]["name"]);
            check(object).unwrap_or_else(|error| panic!("{name} {error}"));
        }
    }
}

pub(crate) fn every_object_of_an_example_is_valid() {
    for example in EXAMPLES {
        for object in manifests(example) {
            check(&object).unwrap_or_else(|error| panic!("{example}: {} {error}", object["kind"]));
        }
    }
}

pub(crate) fn a_misspelt_field_and_a_wrong_type_are_found() {
    let service =
        |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec});
    assert_eq!(check(&service(json!({"clusterIP": "None"}))), Ok(()));
    assert!(check(&service(json!({"clusterIp": "None"}))).is_err());
    assert!(check(&service(json!({"ports": [{"port": "http"}]}))).is_err());
}

pub(crate) fn every_object_has_its_namespace_and_the_name_label() {
    let in_system = KUSTOMIZATIONS.map(|name| (name, "kube-system"));
    let addons = ADDONS.map(|name| (name, "kube-endpoint-manager"));
    for (kustomization, namespace) in in_system.into_iter().chain(addons) {
        for object in rendered(kustomization) {
            let metadata = &object["metadata"];
            let kind = object["kind"].as_str().unwrap();
            let is_cluster_wide = kind.starts_with("ClusterRole")
                || ["FlowSchema", "Namespace", "CustomResourceDefinition"].contains(&kind);
            let of_shop = kustomization.ends_with("-namespaces")
                && kind == "RoleBinding"
                && metadata["name"] == "kube-endpoint-manager-addon";
            let namespace = match (is_cluster_wide, of_shop) {
                (true, _) => Value::Null,
                (false, true) => json!("shop"),
                (false, false) => json!(namespace),
            };
            assert_eq!(metadata["namespace"], namespace, "{kustomization}: {metadata}");
            assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "kube-endpoint-manager", "{metadata}");
        }
    }
}
