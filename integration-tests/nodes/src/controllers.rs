//! The controllers that are compared, and those that every cluster needs.

use anyhow::Context;
use serde_json::{Value, json};

use crate::cluster::Cluster;

/// The environment variable with the path of kube-endpoint-manager.
const BINARY: &str = "KEM_BINARY";

/// The loops of kube-controller-manager that make pods of Deployments, and end what is lost.
const OTHERS: &str = "deployment-controller,replicaset-controller,garbage-collector-controller,\
namespace-controller,node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller";
const LOOPS: &str = "endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller";

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
        stop(cluster)?;
        match self {
            Self::Upstream => {
                kube_controller_manager(cluster, "loops", LOOPS)?;
            }
            Self::Ours => {
                let binary = std::env::var(BINARY)
                    .with_context(|| format!("set {BINARY} to the path of kube-endpoint-manager"))?;
                let words = ["start", "loops", &binary, "--leader-elect=false", "--secure-port=0"];
                cluster.output(&words)?;
            }
        }
        Ok(())
    }
}

/// Stops the controllers that write EndpointSlices, if they are processes beside the API server.
pub(crate) fn stop(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.output(&["stop", "loops"]).map(drop)
}

/// Starts the scheduler and the other loops of kube-controller-manager.
pub(crate) fn start_others(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.output(&["stop", "others"])?;
    cluster.output(&["stop", "scheduler"])?;
    kube_controller_manager(cluster, "others", OTHERS)?;
    let kubeconfig = format!("--kubeconfig={}", kubeconfig(cluster)?);
    let words =
        ["start", "scheduler", "kube-scheduler", &kubeconfig, "--leader-elect=false", "--secure-port=0"];
    cluster.output(&words).map(drop)
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

/// A Deployment of kube-endpoint-manager, which elects a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replicas {
    /// It is the add-on.
    pub(crate) addon: bool,
    /// A container that restarts takes its Lease back.
    pub(crate) identity_file: bool,
}

/// The process of a leader.
pub(crate) struct Leader {
    /// The name of its pod.
    pub(crate) pod: String,
    /// Its number in the namespace of the machine.
    pub(crate) process: String,
}

impl Replicas {
    /// The name of the Deployment and of its Lease.
    pub(crate) fn name(self) -> &'static str {
        if self.addon { "kube-endpoint-manager-addon" } else { "kube-endpoint-manager" }
    }

    /// Makes the Deployment anew, and waits until a replica leads. Old pods would know of earlier
    /// crashes, and the kubelet would restart their containers later.
    pub(crate) fn start(self, cluster: &Cluster) -> anyhow::Result<()> {
        self.stop(cluster)?;
        cluster.apply(&self.deployment(&kubeconfig(cluster)?))?;
        cluster.wait_for(self.name())?;
        for _ in 0..60 {
            if self.leader(cluster).is_ok() {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        anyhow::bail!("no replica of {} holds its Lease after 30 s", self.name())
    }

    /// Deletes the Deployment, and waits until its pods are gone.
    pub(crate) fn stop(self, cluster: &Cluster) -> anyhow::Result<()> {
        cluster.kubectl(&[
            "delete",
            "deployment",
            self.name(),
            "--ignore-not-found",
            "--cascade=foreground",
        ])?;
        let app = format!("--selector=app={}", self.name());
        cluster.kubectl(&["wait", "pod", &app, "--for=delete", "--timeout=60s"]).map(drop)
    }

    /// The replica that holds the Lease.
    pub(crate) fn leader(self, cluster: &Cluster) -> anyhow::Result<Leader> {
        let lease = cluster.get(&["lease", self.name()])?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let pods = cluster.get(&["pods", &format!("--selector=app={}", self.name())])?;
        let pods = pods["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names = |pod: &&Value| pod["metadata"]["name"].as_str().is_some_and(|it| holder.starts_with(it));
        let pod = pods.iter().find(names).with_context(|| format!("`{holder}` names no pod"))?;
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let node = text(&pod["spec"]["nodeName"]).replace("node-", "");
        let container =
            text(&pod["status"]["containerStatuses"][0]["containerID"]).replace("containerd://", "");
        let process = cluster.output(&["pid", &node, &container])?.trim().to_owned();
        anyhow::ensure!(!process.is_empty(), "{} has no process", pod["metadata"]["name"]);
        Ok(Leader { pod: text(&pod["metadata"]["name"]), process })
    }

    fn deployment(self, kubeconfig: &str) -> Value {
        let mut command = vec![
            "kube-endpoint-manager".to_owned(),
            "--kubeconfig=/cluster/kubeconfig".to_owned(),
            "--leader-elect-resource-namespace=default".to_owned(),
            format!("--leader-elect-resource-name={}", self.name()),
        ];
        if self.addon {
            command.push("--controllers=endpoint-selector-controller".to_owned());
        }
        if self.identity_file {
            command.push("--leader-elect-identity-file=/identity/file".to_owned());
        }
        let probe =
            json!({"httpGet": {"path": "/readyz", "port": 10270, "scheme": "HTTPS"}, "periodSeconds": 1});
        let container = json!({
            "name": "manager", "image": "localhost/nodes:1", "imagePullPolicy": "Never",
            "command": command, "readinessProbe": probe,
            "volumeMounts": [
                {"name": "cluster", "mountPath": "/cluster/kubeconfig"},
                {"name": "identity", "mountPath": "/identity"},
            ],
        });
        let volumes = json!([
            {"name": "cluster", "hostPath": {"path": kubeconfig, "type": "File"}},
            {"name": "identity", "emptyDir": {}},
        ]);
        let labels = json!({"app": self.name()});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.name()},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "automountServiceAccountToken": false, "enableServiceLinks": false,
                    "containers": [container], "volumes": volumes,
                },
            }},
        })
    }
}
