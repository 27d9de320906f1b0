//! The fields of a Service that kube-proxy reads and the controllers do not.

use kube_endpoint_core_model::Text;
use serde::{Deserialize, Deserializer};

use super::Through;

/// The fields of a Service that only kube-proxy reads. They deserialise from the whole object,
/// because the controllers' view of a Service lacks them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficPolicies {
    /// `spec.internalTrafficPolicy` is `Local`.
    pub internal_local: bool,
    /// `spec.externalTrafficPolicy` is `Local`.
    pub external_local: bool,
    /// The Service has a node port, an external IP or an address of a load balancer: some port, in
    /// some family.
    pub externally_accessible: bool,
    /// Load balancers ask a port of each node if it has an endpoint (`spec.healthCheckNodePort`).
    pub has_health_check: bool,
}

impl TrafficPolicies {
    pub(super) fn is_local(self, through: Through) -> bool {
        match through {
            Through::ClusterIp => self.internal_local,
            Through::External => self.external_local,
            Through::ExternalFromPod => false,
        }
    }

    /// Returns true if kube-proxy sends some clients to endpoints of all nodes (upstream
    /// `UsesClusterEndpoints`). Pods that use an external address are such clients, whatever the
    /// policies.
    pub fn uses_cluster(self) -> bool {
        !self.internal_local || self.externally_accessible
    }

    /// Returns true if kube-proxy sends some clients only to endpoints of their own node (upstream
    /// `UsesLocalEndpoints`).
    pub fn uses_local(self) -> bool {
        self.internal_local || (self.external_local && self.externally_accessible)
    }
}

impl<'de> Deserialize<'de> for TrafficPolicies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawService { spec, status } = RawService::deserialize(deserializer)?;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let is_local = |policy: Option<Text>| policy.is_some_and(|policy| *policy == *"Local");
        let has_node_port = spec.ports.iter().flatten().any(|port| port.node_port.unwrap_or(0) != 0);
        let has_external_ip = spec.external_ips.is_some_and(|addresses| !addresses.is_empty());
        let ingress = status.load_balancer.and_then(|balancer| balancer.ingress).unwrap_or_default();
        // kube-proxy leaves addresses of the mode `Proxy` to the load balancer.
        let is_virtual = |ingress: &RawIngress| {
            ingress.ip.as_deref().is_some_and(|ip| !ip.is_empty())
                && ingress.ip_mode.as_deref().is_none_or(|mode| mode == "VIP")
        };
        Ok(Self {
            internal_local: is_local(spec.internal_traffic_policy),
            external_local: is_local(spec.external_traffic_policy),
            has_health_check: spec.health_check_node_port.unwrap_or(0) != 0,
            externally_accessible: has_node_port || has_external_ip || ingress.iter().any(is_virtual),
        })
    }
}

#[derive(Deserialize)]
struct RawService {
    spec: Option<RawSpec>,
    status: Option<RawStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    internal_traffic_policy: Option<Text>,
    external_traffic_policy: Option<Text>,
    health_check_node_port: Option<i32>,
    #[serde(rename = "externalIPs")]
    external_ips: Option<Vec<Text>>,
    ports: Option<Vec<RawPort>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPort {
    node_port: Option<i32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    load_balancer: Option<RawLoadBalancer>,
}

#[derive(Deserialize)]
struct RawLoadBalancer {
    ingress: Option<Vec<RawIngress>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawIngress {
    ip: Option<Text>,
    ip_mode: Option<Text>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn policies_are_read_from_the_whole_service() {
        let check = |service: Value, want: (bool, bool, bool)| {
            let read: TrafficPolicies = serde_json::from_value(service.clone()).unwrap();
            let got = (read.internal_local, read.external_local, read.externally_accessible);
            assert_eq!(got, want, "{service}");
        };
        check(json!({}), (false, false, false));
        check(json!({"spec": null, "status": null}), (false, false, false));
        check(json!({"spec": {"internalTrafficPolicy": "Local"}}), (true, false, false));
        check(
            json!({"spec": {"externalTrafficPolicy": "Local", "internalTrafficPolicy": "Cluster"}}),
            (false, true, false),
        );
        check(
            json!({"spec": {"ports": [{"port": 80}, {"port": 81, "nodePort": 30080}]}}),
            (false, false, true),
        );
        check(
            json!({"spec": {"ports": [{"port": 80, "nodePort": 0}], "externalIPs": []}}),
            (false, false, false),
        );
        check(json!({"spec": {"externalIPs": ["192.0.2.9"]}}), (false, false, true));
        let ingress = |ingress: Value| json!({"status": {"loadBalancer": {"ingress": [ingress]}}});
        check(ingress(json!({"ip": "192.0.2.9"})), (false, false, true));
        check(ingress(json!({"ip": "192.0.2.9", "ipMode": "Proxy"})), (false, false, false));
        check(ingress(json!({"hostname": "lb.example.com"})), (false, false, false));
    }
}
