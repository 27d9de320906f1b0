//! Services and the Deployments behind them.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::serve::{PORT, PROBE_PORT};

/// A Deployment or StatefulSet, and a Service of its name.
pub(crate) struct Workload<'a> {
    /// The name of both, and the label `app` of the pods.
    pub(crate) name: &'a str,
    /// The number of pods.
    pub(crate) pods: u32,
    /// Options of the server.
    pub(crate) options: &'a [&'a str],
    /// How long the kubelet waits before it ends a pod.
    pub(crate) pre_stop: Option<u32>,
    /// It is a StatefulSet, and its Service is headless.
    pub(crate) is_stateful: bool,
}

impl Workload<'_> {
    /// Makes both, and waits for the pods.
    pub(crate) fn start(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let mut service = service(self.name, Some(self.name), None);
        let mut pods = self.deployment();
        if self.is_stateful {
            service["spec"]["type"] = json!("ClusterIP");
            service["spec"]["clusterIP"] = json!("None");
            pods["kind"] = json!("StatefulSet");
            pods["spec"]["serviceName"] = json!(self.name);
            pods["spec"].as_object_mut().map(|spec| spec.remove("strategy"));
        }
        cluster.apply(&service)?;
        cluster.apply(&pods)?;
        // Pods whose readiness flaps are never all ready.
        if self.options.contains(&"flaps") { Ok(()) } else { self.wait(cluster) }
    }

    /// Waits for the pods of the newest template.
    pub(crate) fn wait(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let kind = if self.is_stateful { "statefulset" } else { "deployment" };
        cluster.wait_for(&format!("{kind}/{}", self.name))
    }

    pub(crate) fn deployment(&self) -> Value {
        let probe =
            json!({"httpGet": {"path": "/", "port": PROBE_PORT}, "periodSeconds": 1, "failureThreshold": 1});
        let mut container = json!({
            "name": "server", "image": "localhost/nodes:1", "imagePullPolicy": "Never",
            "command": ["kube-endpoint-nodes", "serve"], "args": self.options, "readinessProbe": probe,
        });
        if let Some(seconds) = self.pre_stop {
            container["lifecycle"] = json!({"preStop": {"sleep": {"seconds": seconds}}});
        }
        let labels = json!({"app": self.name});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": self.name},
            "spec": {
                "replicas": self.pods, "selector": {"matchLabels": labels}, "revisionHistoryLimit": 0,
                "strategy": {"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}},
                "template": {"metadata": {"labels": {"app": self.name, "group": "all"}}, "spec": {
                    "automountServiceAccountToken": false, "enableServiceLinks": false,
                    "terminationGracePeriodSeconds": 10, "containers": [container],
                }},
            },
        })
    }
}

/// A Service of pods with the label `app`, or of an EndpointSelector.
pub(crate) fn service(name: &str, app: Option<&str>, selector: Option<&str>) -> Value {
    let ports = json!([{"port": 80, "targetPort": PORT}]);
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "NodePort", "ports": ports},
    });
    if let Some(app) = app {
        service["spec"]["selector"] = json!({"app": app});
    }
    if let Some(selector) = selector {
        let annotation = "kube-endpoint-manager.github.io/endpoint-selector";
        service["metadata"]["annotations"] = json!({annotation: selector});
    }
    service
}
