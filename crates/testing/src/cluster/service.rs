//! Services.

use serde_json::{Value, json};

use super::{Cluster, string_map};

impl Cluster {
    /// Adds a Service of type ClusterIP and family IPv4. It selects `app: NAME`, and its one port,
    /// 80, has no name and goes to port 8080 of the pods.
    #[track_caller]
    pub fn service(self, name: &str) -> Self {
        let number = self.objects().iter().filter(|object| object["kind"] == "Service").count() + 10;
        let address = format!("10.96.{}.{}", number / 256, number % 256);
        self.with(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name},
            "spec": {
                "type": "ClusterIP", "selector": {"app": name},
                "clusterIP": &address, "clusterIPs": [&address],
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
            },
        }))
    }

    /// Adds a named TCP port to the current Services. The first takes the place of the port without
    /// a name. `target` is the number or the name of a container's port.
    #[track_caller]
    pub fn port(self, name: &str, port: u16, target: impl Into<Value>) -> Self {
        let target = target.into();
        self.change_only(&["Service"], "port", |service| {
            let named = json!({"name": name, "port": port, "targetPort": &target, "protocol": "TCP"});
            match service["spec"]["ports"].as_array_mut() {
                Some(ports) => {
                    ports.retain(|port| port["name"].is_string());
                    ports.push(named);
                }
                None => service["spec"]["ports"] = json!([named]),
            }
        })
    }

    /// Makes the current Services headless.
    #[track_caller]
    pub fn headless(self) -> Self {
        self.change_only(&["Service"], "headless", |service| {
            service["spec"]["clusterIP"] = "None".into();
            service["spec"]["clusterIPs"] = json!(["None"]);
        })
    }

    /// Gives the current Services both families, IPv4 first.
    #[track_caller]
    pub fn dual_stack(self) -> Self {
        self.change_only(&["Service"], "dual_stack", |service| {
            let spec = &mut service["spec"];
            spec["ipFamilies"] = json!(["IPv4", "IPv6"]);
            spec["ipFamilyPolicy"] = "RequireDualStack".into();
            if let Some(last) = spec["clusterIP"].as_str().and_then(|address| address.rsplit_once('.')) {
                let second = format!("fd00:10:96::{}", last.1);
                spec["clusterIPs"] = json!([spec["clusterIP"], second]);
            }
        })
    }

    /// Gives the current Services the one family IPv6.
    #[track_caller]
    pub fn ipv6(self) -> Self {
        self.change_only(&["Service"], "ipv6", |service| {
            let spec = &mut service["spec"];
            spec["ipFamilies"] = json!(["IPv6"]);
            if let Some(last) = spec["clusterIP"].as_str().and_then(|address| address.rsplit_once('.')) {
                let address = format!("fd00:10:96::{}", last.1);
                spec["clusterIPs"] = json!([&address]);
                spec["clusterIP"] = address.into();
            }
        })
    }

    /// Makes the current Services select pods with these labels.
    #[track_caller]
    pub fn selector(self, labels: &[(&str, &str)]) -> Self {
        self.change_only(&["Service"], "selector", |service| service["spec"]["selector"] = string_map(labels))
    }

    /// Removes the selector of the current Services.
    #[track_caller]
    pub fn without_selector(self) -> Self {
        self.change_only(&["Service"], "without_selector", |service| {
            if let Some(spec) = service["spec"].as_object_mut() {
                spec.remove("selector");
            }
        })
    }

    /// Makes the current Services aliases of a DNS name.
    #[track_caller]
    pub fn external_name(self, name: &str) -> Self {
        self.change_only(&["Service"], "external_name", |service| {
            let (selector, ports) = (service["spec"]["selector"].take(), service["spec"]["ports"].take());
            service["spec"] =
                json!({"type": "ExternalName", "externalName": name, "selector": selector, "ports": ports});
        })
    }

    /// Sets `publishNotReadyAddresses` of the current Services.
    #[track_caller]
    pub fn publish_not_ready(self) -> Self {
        self.change_only(&["Service"], "publish_not_ready", |service| {
            service["spec"]["publishNotReadyAddresses"] = true.into();
        })
    }

    /// Sets `trafficDistribution` of the current Services, such as `PreferClose`.
    #[track_caller]
    pub fn traffic_distribution(self, value: &str) -> Self {
        self.change_only(&["Service"], "traffic_distribution", |service| {
            service["spec"]["trafficDistribution"] = value.into();
        })
    }

    /// Asks for topology-aware hints by the annotation of the current Services.
    #[track_caller]
    pub fn topology_aware(self) -> Self {
        self.change_only(&["Service"], "topology_aware", |service| {
            service["metadata"]["annotations"]["service.kubernetes.io/topology-mode"] = "Auto".into();
        })
    }
}
