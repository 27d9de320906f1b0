//! The controllers that are compared, and those that every cluster needs.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::holders::pod_of;

/// The environment variable with the path of kube-endpoint-manager.
const BINARY: &str = "KEM_BINARY";

/// The loops of kube-controller-manager that make pods of Deployments, and end what is lost.
const OTHERS: &str = "deployment-controller,replicaset-controller,statefulset-controller,garbage-collector-controller,\
namespace-controller,node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller";
const LOOPS: &str = "endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller";

/// The option with which kube-endpoint-manager is the add-on.
const ADDON: &str = "--controllers=endpoint-selector-controller";

/// The controllers that write EndpointSlices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// kube-controller-manager's loops.
    Upstream,
    /// This project's.
    Ours,
}

impl Subject {
    /// The name in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Upstream => "kube-controller-manager",
            Self::Ours => "kube-endpoint-manager",
        }
    }

    /// Starts them, and stops the others.
    pub(crate) fn start(self, cluster: &Cluster) -> anyhow::Result<()> {
        match self {
            Self::Upstream => kube_controller_manager(cluster, "loops", LOOPS),
            Self::Ours => kube_endpoint_manager(cluster, "loops", &[]),
        }
    }
}

/// Stops the controllers that write EndpointSlices, if they are processes beside the API server.
pub(crate) fn stop(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.output(&["stop", "loops"]).map(drop)
}

/// Starts the scheduler and the other loops of kube-controller-manager.
pub(crate) fn start_others(cluster: &Cluster) -> anyhow::Result<()> {
    kube_controller_manager(cluster, "others", OTHERS)?;
    let kubeconfig = format!("--kubeconfig={}", kubeconfig(cluster)?);
    let words =
        ["start", "scheduler", "kube-scheduler", &kubeconfig, "--leader-elect=false", "--secure-port=0"];
    cluster.output(&words).map(drop)
}

/// Starts the add-on as a process beside the API server.
pub(crate) fn start_addon(cluster: &Cluster) -> anyhow::Result<()> {
    kube_endpoint_manager(cluster, "addon", &[ADDON])
}

/// Stops the add-on.
pub(crate) fn stop_addon(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.output(&["stop", "addon"]).map(drop)
}

fn kube_endpoint_manager(cluster: &Cluster, name: &str, options: &[&str]) -> anyhow::Result<()> {
    let binary = std::env::var(BINARY)
        .with_context(|| format!("set {BINARY} to the path of kube-endpoint-manager"))?;
    let fixed = ["start", name, &binary, "--leader-elect=false", "--secure-port=0"];
    cluster.output(&[&fixed, options].concat()).map(drop)
}

fn kube_controller_manager(cluster: &Cluster, name: &str, controllers: &str) -> anyhow::Result<()> {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig(cluster)?);
    let controllers = format!("--controllers={controllers}");
    let fixed = ["--leader-elect=false", "--secure-port=0"];
    let words = [&["start", name, "kube-controller-manager", &kubeconfig, &controllers], &fixed[..]].concat();
    cluster.output(&words).map(drop)
}

fn kubeconfig(cluster: &Cluster) -> anyhow::Result<String> {
    Ok(cluster.output(&["run", "printenv", "KUBECONFIG"])?.trim().to_owned())
}

/// Gives the pods of a Deployment a kubeconfig, and the folder `/kept`, which outlives a container.
pub(crate) fn with_kubeconfig(cluster: &Cluster, mut deployment: Value) -> anyhow::Result<Value> {
    let pod = &mut deployment["spec"]["template"]["spec"];
    pod["volumes"] = json!([
        {"name": "kubeconfig", "hostPath": {"path": kubeconfig(cluster)?, "type": "File"}},
        {"name": "kept", "emptyDir": {}},
    ]);
    let container = &mut pod["containers"][0];
    container["env"] = json!([{"name": "KUBECONFIG", "value": "/kubeconfig"}]);
    container["volumeMounts"] =
        json!([{"name": "kubeconfig", "mountPath": "/kubeconfig"}, {"name": "kept", "mountPath": "/kept"}]);
    Ok(deployment)
}

/// The process that holds a Lease, in one of the pods whose label `app` has the name of the Lease.
pub(crate) struct Leader {
    /// The name of its pod.
    pub(crate) pod: String,
    /// The number of its node.
    pub(crate) node: String,
    /// Its number in the namespace of the machine.
    pub(crate) process: String,
}

impl Leader {
    /// Finds it.
    pub(crate) fn find(cluster: &Cluster, name: &str) -> anyhow::Result<Self> {
        let lease = cluster.get(&["lease", name])?;
        let pod = pod_of(lease["spec"]["holderIdentity"].as_str().unwrap_or_default()).to_owned();
        ensure!(!pod.is_empty(), "nobody holds the Lease {name}");
        let object = cluster.get(&["pod", &pod])?;
        let process = process(cluster, &object)?;
        Ok(Self { node: node(&object), pod, process })
    }
}

/// The number of the node of a pod.
fn node(pod: &Value) -> String {
    pod["spec"]["nodeName"].as_str().unwrap_or_default().replace("node-", "")
}

/// The process of the first container of a pod, by its number in the namespace of the machine.
pub(crate) fn process(cluster: &Cluster, pod: &Value) -> anyhow::Result<String> {
    let container = pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap_or_default();
    let process = cluster.output(&["pid", &node(pod), &container.replace("containerd://", "")])?;
    ensure!(!process.is_empty(), "{} has no process", pod["metadata"]["name"]);
    Ok(process.trim().to_owned())
}

/// A Deployment of kube-endpoint-manager, which elects a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    /// It is the add-on.
    pub(crate) addon: bool,
    /// A container that restarts takes its Lease back.
    pub(crate) identity_file: bool,
}

impl Replicas {
    /// The name of the Deployment and of its Lease.
    pub(crate) fn name(self) -> &'static str {
        if self.addon { "kube-endpoint-manager-addon" } else { "kube-endpoint-manager" }
    }

    /// Makes the Deployment anew, and waits until a replica leads. Old pods would know of earlier
    /// crashes, and the kubelet would restart their containers later.
    pub(crate) fn start(self, cluster: &Cluster) -> anyhow::Result<()> {
        cluster.delete("deployment", self.name())?;
        cluster.apply(&self.deployment(cluster)?)?;
        cluster.wait_for(&format!("deployment/{}", self.name()))?;
        for _ in 0..60 {
            if Leader::find(cluster, self.name()).is_ok() {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        anyhow::bail!("no replica of {} holds its Lease after 30 s", self.name())
    }

    fn deployment(self, cluster: &Cluster) -> anyhow::Result<Value> {
        let mut command = vec![
            "kube-endpoint-manager".to_owned(),
            "--leader-elect-resource-namespace=default".to_owned(),
            format!("--leader-elect-resource-name={}", self.name()),
        ];
        if self.addon {
            command.push(ADDON.to_owned());
        }
        if self.identity_file {
            command.push("--leader-elect-identity-file=/kept/identity".to_owned());
        }
        let probe =
            json!({"httpGet": {"path": "/readyz", "port": 10270, "scheme": "HTTPS"}, "periodSeconds": 1});
        let container = json!({
            "name": "manager", "image": "localhost/nodes:1", "imagePullPolicy": "Never",
            "command": command, "readinessProbe": probe,
        });
        let labels = json!({"app": self.name()});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.name()},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "automountServiceAccountToken": false, "enableServiceLinks": false,
                    "containers": [container],
                },
            }},
        });
        with_kubeconfig(cluster, deployment)
    }
}
