//! The fields of a Service that kube-proxy reads and the controllers do not.

use std::convert::Infallible;

use serde::{Deserialize, Deserializer};

use crate::meta::or_default;
use crate::{Text, text};

/// The fields of a Service that tell kube-proxy to which endpoints it may send whom.
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

/// Returns true for the policy `Local`.
pub(crate) fn is_local(policy: &str) -> bool {
    policy == "Local"
}

pub(crate) fn read_is_local<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let read = |policy: &str| Ok::<_, Infallible>(is_local(policy));
    Ok(text::through(deserializer, read)?.unwrap_or_default())
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawStatus {
    #[serde(deserialize_with = "or_default")]
    pub(crate) load_balancer: RawLoadBalancer,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawLoadBalancer {
    #[serde(deserialize_with = "or_default")]
    pub(crate) ingress: Vec<RawIngress>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RawIngress {
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) ip: Text,
    #[serde(deserialize_with = "text::or_empty")]
    pub(crate) ip_mode: Text,
}

/// Returns true if kube-proxy serves an address of a load balancer. It leaves addresses of the mode
/// `Proxy` to the load balancer.
pub(crate) fn is_virtual(ip: &str, ip_mode: &str) -> bool {
    !ip.is_empty() && matches!(ip_mode, "" | "VIP")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::Service;

    #[test]
    fn policies_are_read_from_the_whole_service() {
        let check = |mut service: Value, want: (bool, bool, bool)| {
            service["metadata"] = json!({"name": "web"});
            let read = serde_json::from_value::<Service>(service.clone()).unwrap().policies;
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
