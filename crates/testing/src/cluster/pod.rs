//! Pods.

use serde_json::{Value, json};

use super::{Cluster, string_map};

impl Cluster {
    /// Adds pods that a Service selects, called `SERVICE-1`, `SERVICE-2` and so on. Each is running
    /// and ready, has an address of either family and a container port `http`, 8080. This binds
    /// them to the nodes in turn. Add the nodes first: the EndpointSlice controller leaves out pods
    /// without a node.
    #[track_caller]
    pub fn pods(mut self, service: &str, count: usize) -> Self {
        let labels = self
            .object("Service", service)
            .map(|service| service["spec"]["selector"].clone())
            .filter(Value::is_object)
            .unwrap_or_else(|| string_map(&[("app", service)]));
        let mut added = Vec::with_capacity(count);
        let mut number = 0;
        while added.len() < count {
            number += 1;
            let name = format!("{service}-{number}");
            if self.object("Pod", &name).is_none() {
                self = self.add_pod(&name, &labels);
                added.append(&mut self.current);
            }
        }
        self.current = added;
        self
    }

    /// Adds one pod like those of [`pods`](Self::pods), with a name and labels of its own.
    #[track_caller]
    pub fn pod(self, name: &str, labels: &[(&str, &str)]) -> Self {
        self.add_pod(name, &string_map(labels))
    }

    #[track_caller]
    fn add_pod(self, name: &str, labels: &Value) -> Self {
        let number = self.objects().iter().filter(|object| object["kind"] == "Pod").count() + 1;
        let nodes: Vec<&str> =
            self.objects_of("Node").filter_map(|node| node["metadata"]["name"].as_str()).collect();
        let node = nodes.get((number - 1) % nodes.len().max(1)).map(|node| (*node).to_owned());
        let ipv4 = format!("10.1.{}.{}", number / 256, number % 256);
        let ipv6 = format!("fd00:10:1::{number:x}");
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "containers": [{
                    "name": "app", "image": "example.invalid/app",
                    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                }],
            },
            "status": {
                "phase": "Running", "podIP": &ipv4, "podIPs": [{"ip": &ipv4}, {"ip": &ipv6}],
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"},
                ],
            },
        });
        if let Some(node) = node {
            pod["spec"]["nodeName"] = node.into();
        }
        self.with(pod)
    }

    /// Binds the current pods to a node.
    #[track_caller]
    pub fn on(self, node: &str) -> Self {
        self.change_only(&["Pod"], "on", |pod| pod["spec"]["nodeName"] = node.into())
    }

    /// Sets the addresses of the current pods; an empty list stands for a pod without an address.
    #[track_caller]
    pub fn addresses(self, addresses: &[&str]) -> Self {
        self.change_only(&["Pod"], "addresses", |pod| {
            let entries: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            pod["status"]["podIPs"] = entries.into();
            pod["status"]["podIP"] = addresses.first().copied().unwrap_or_default().into();
        })
    }

    /// Sets the phase of the current pods, such as `Succeeded`.
    #[track_caller]
    pub fn phase(self, phase: &str) -> Self {
        self.change_only(&["Pod"], "phase", |pod| pod["status"]["phase"] = phase.into())
    }

    /// Sets the deletion timestamp of the current pods; they stay ready.
    #[track_caller]
    pub fn terminating(self) -> Self {
        self.change_only(&["Pod"], "terminating", |_| {}).deleting()
    }

    /// Sets hostname and subdomain of the current pods. A headless Service named like the subdomain
    /// publishes the hostname.
    #[track_caller]
    pub fn hostname(self, hostname: &str, subdomain: &str) -> Self {
        self.change_only(&["Pod"], "hostname", |pod| {
            pod["spec"]["hostname"] = hostname.into();
            pod["spec"]["subdomain"] = subdomain.into();
        })
    }

    /// Gives the current pods one container port with a name, in place of those that they have.
    #[track_caller]
    pub fn container_port(self, name: &str, number: u16) -> Self {
        self.change_only(&["Pod"], "container_port", |pod| {
            pod["spec"]["containers"][0]["ports"] =
                json!([{"name": name, "containerPort": number, "protocol": "TCP"}]);
        })
    }
}
