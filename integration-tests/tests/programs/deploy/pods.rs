//! Tests the pods of the manifests: their flags, ports and probes fit the program, and they start
//! without any other pod.

use std::time::Duration;

use clap::Parser;
use kube_endpoint_controllers::{Options, ServingSettings, Settings};
use serde_json::{Value, json};

use crate::deploy::manifests::{ADDONS, STATIC_POD, only, rendered};

/// The kustomizations that run a Deployment.
const DEPLOYMENTS: [&str; 3] = ["deploy/base", "deploy/overlays/k3s", "deploy/overlays/monitored"];

fn pod(name: &'static str) -> (&'static str, Value) {
    let objects = rendered(name);
    (name, only(&objects, "Deployment", "kube-endpoint-manager")["spec"]["template"]["spec"].clone())
}

/// Returns the pod spec of each kustomization with the three controllers, with its name.
fn pods() -> Vec<(&'static str, Value)> {
    let deployments = DEPLOYMENTS.map(pod);
    let static_pod = (STATIC_POD, only(&rendered(STATIC_POD), "Pod", "")["spec"].clone());
    deployments.into_iter().chain([static_pod]).collect()
}

fn container(pod: &Value) -> &Value {
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
    &pod["containers"][0]
}

/// Returns the program's settings for a pod's arguments.
#[track_caller]
fn settings(pod: &Value) -> Settings {
    let arguments = container(pod)["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let options = Options::try_parse_from(["kube-endpoint-manager"].into_iter().chain(arguments)).unwrap();
    Settings::try_from(&options).unwrap()
}

/// Returns the same, and those of the add-on.
fn all_pods() -> Vec<(&'static str, Value)> {
    pods().into_iter().chain(ADDONS.map(pod)).collect()
}

pub(crate) fn the_program_accepts_the_arguments_of_each_pod() {
    for (name, pod) in all_pods() {
        let settings = settings(&pod);
        assert!(settings.leader_election.is_some(), "{name}: several replicas need leader election");
        assert!(!settings.dry_run, "{name}");
    }
}

/// Beside kube-controller-manager nobody may write before the administrator says so; the add-on
/// writes other objects.
pub(crate) fn the_first_replica_reserves_the_lease() {
    let week = Duration::from_secs(7 * 24 * 3600);
    for (name, pod) in pods() {
        assert_eq!(settings(&pod).leader_election.unwrap().reserve_for, week, "{name}");
    }
    for addon in ADDONS {
        assert_eq!(settings(&pod(addon).1).leader_election.unwrap().reserve_for, Duration::ZERO, "{addon}");
    }
}

pub(crate) fn probes_and_ports_are_those_that_are_served() {
    for (name, pod) in all_pods() {
        let serving: ServingSettings = settings(&pod).serving.unwrap();
        let container = container(&pod);
        let port = json!({"name": "https", "containerPort": serving.port, "protocol": "TCP"});
        assert_eq!(container["ports"], json!([port]), "{name}");
        for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            let get = json!({"path": path, "port": "https", "scheme": "HTTPS"});
            assert_eq!(container[probe]["httpGet"], get, "{name}: {probe}");
            // The kubelet has no credentials for it.
            assert!(serving.always_allow_paths.paths().iter().any(|open| open == path), "{name}: {probe}");
        }
        assert!(serving.bind_address.is_unspecified(), "{name}: the kubelet calls the address of the node");
    }
}

pub(crate) fn the_service_selects_the_pods_and_their_port() {
    for name in DEPLOYMENTS.into_iter().chain(["deploy/overlays/kubeadm"]).chain(ADDONS) {
        let objects = rendered(name);
        let service = &only(&objects, "Service", "kube-endpoint-manager")["spec"];
        let labels = match name {
            "deploy/overlays/kubeadm" => only(&rendered(STATIC_POD), "Pod", "")["metadata"]["labels"].clone(),
            _ => only(&objects, "Deployment", "")["spec"]["template"]["metadata"]["labels"].clone(),
        };
        for (key, value) in service["selector"].as_object().unwrap() {
            assert_eq!(&labels[key], value, "{name}");
        }
        assert_eq!(service["ports"][0]["targetPort"], "https", "{name}");
        assert_eq!(service["ports"][0]["port"], settings(&pods()[0].1).serving.unwrap().port, "{name}");
    }
}

/// Except in these fields, the static pod equals the Deployment's.
pub(crate) fn the_pods_differ_only_in_how_they_reach_the_api_server() {
    let strip = |pod: &Value| {
        let mut container = container(pod).clone();
        let arguments = container["args"].as_array_mut().unwrap();
        arguments.retain(|argument| !argument.as_str().unwrap().starts_with("--kubeconfig="));
        for field in ["env", "volumeMounts"] {
            container.as_object_mut().unwrap().remove(field);
        }
        json!({"container": container, "hostNetwork": pod["hostNetwork"], "dnsPolicy": pod["dnsPolicy"],
            "securityContext": pod["securityContext"], "enableServiceLinks": pod["enableServiceLinks"]})
    };
    let pods = pods();
    for (name, pod) in &pods[1..] {
        assert_eq!(strip(pod), strip(&pods[0].1), "{name}");
    }
    // The add-on uses the pod network and other flags.
    for (name, pod) in ADDONS.map(pod) {
        let (mut addon, mut first) = (strip(&pod), strip(&pods[0].1));
        for pod in [&mut addon, &mut first] {
            pod["container"]["args"].take();
            pod["hostNetwork"].take();
        }
        assert_eq!(addon, first, "{name}");
    }
}

pub(crate) fn a_pod_is_unprivileged_and_cannot_change_its_image() {
    for (name, pod) in all_pods() {
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{name}");
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", "{name}");
        let context = &container(&pod)["securityContext"];
        let expected = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]}});
        assert_eq!(*context, expected, "{name}");
    }
}

/// The manager writes endpoints, so it must not need anything that depends on them: the pod
/// network, kube-proxy and the cluster's DNS.
pub(crate) fn a_pod_needs_nothing_that_needs_endpoints() {
    for (name, pod) in pods() {
        assert_eq!(pod["hostNetwork"], true, "{name}");
        assert_eq!(pod["dnsPolicy"], "Default", "{name}");
        let environment = container(&pod)["env"].as_array().cloned().unwrap_or_default();
        let variable = |name: &str| environment.iter().find(|it| it["name"] == name).cloned();
        let has_address =
            ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"].map(|it| variable(it).is_some());
        assert_eq!(has_address, [name != STATIC_POD; 2], "{name}: the address of the API server");
        for probe in ["livenessProbe", "readinessProbe"] {
            assert!(container(&pod)[probe]["exec"].is_null(), "{name}");
        }
    }
}

/// The kubelet refuses static pods that refer to API objects, and knows no priority classes without
/// an API server.
pub(crate) fn a_static_pod_refers_to_no_api_object() {
    let objects = rendered(STATIC_POD);
    let pod = &only(&objects, "Pod", "")["spec"];
    for field in
        ["serviceAccountName", "serviceAccount", "imagePullSecrets", "resourceClaims", "nodeSelector"]
    {
        assert!(pod[field].is_null(), "{field}");
    }
    assert_eq!(pod["automountServiceAccountToken"], false);
    for volume in pod["volumes"].as_array().unwrap() {
        let sources: Vec<&String> = volume.as_object().unwrap().keys().filter(|key| *key != "name").collect();
        assert!(sources == ["hostPath"] || sources == ["emptyDir"], "{volume}");
    }
    let container = container(pod);
    assert!(container["env"].is_null() && container["envFrom"].is_null(), "{container}");
    assert_eq!(pod["priorityClassName"], "system-node-critical");
    assert_eq!(pod["priority"], 2_000_001_000);
    let mounted = &container["volumeMounts"][0]["mountPath"];
    let kubeconfig = container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());
    let kubeconfig = kubeconfig.filter_map(|argument| argument.strip_prefix("--kubeconfig=")).next().unwrap();
    assert!(kubeconfig.starts_with(mounted.as_str().unwrap()), "{kubeconfig} is not in {mounted}");
}

pub(crate) fn a_rollout_or_drain_takes_one_replica_at_a_time() {
    for name in DEPLOYMENTS {
        let objects = rendered(name);
        let deployment = &only(&objects, "Deployment", "")["spec"];
        assert_eq!(deployment["replicas"], 3, "{name}");
        // The port is the host's: a node has no room for the old pod and the new one.
        assert_eq!(
            deployment["strategy"]["rollingUpdate"],
            json!({"maxSurge": 0, "maxUnavailable": 1}),
            "{name}"
        );
        let budget = &only(&objects, "PodDisruptionBudget", "")["spec"];
        assert_eq!(budget["maxUnavailable"], 1, "{name}");
        assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow", "{name}");
        assert_eq!(budget["selector"], deployment["selector"], "{name}");
    }
}

/// It needs no control-plane node, which managed clusters do not show, and no port of the host.
pub(crate) fn the_add_on_runs_on_any_node_and_always_has_a_standby() {
    for name in ADDONS {
        let objects = rendered(name);
        let deployment = &only(&objects, "Deployment", "")["spec"];
        let pod = &deployment["template"]["spec"];
        for field in ["hostNetwork", "affinity", "tolerations", "nodeSelector"] {
            assert!(pod[field].is_null(), "{name}: {field}");
        }
        for constraint in pod["topologySpreadConstraints"].as_array().unwrap() {
            assert_eq!(constraint["whenUnsatisfiable"], "ScheduleAnyway", "{name}");
        }
        assert_eq!(deployment["replicas"], 2, "{name}");
        let strategy = json!({"maxSurge": 1, "maxUnavailable": 0});
        assert_eq!(deployment["strategy"]["rollingUpdate"], strategy, "{name}");
        let budget = &only(&objects, "PodDisruptionBudget", "")["spec"];
        assert_eq!((&budget["maxUnavailable"], &budget["selector"]), (&json!(1), &deployment["selector"]));
        let quota = &only(&objects, "ResourceQuota", "")["spec"];
        let priorities = &quota["scopeSelector"]["matchExpressions"][0]["values"];
        assert_eq!(*priorities, json!([pod["priorityClassName"]]), "{name}");
    }
}
