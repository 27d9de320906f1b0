//! Single fields that the views of objects lack.

use std::net::IpAddr;

use kube_endpoint_core_model::address;
use serde_json::Value;

/// Returns the cluster IPs that somebody has given a Service.
pub(crate) fn cluster_ips(service: &Value) -> Vec<IpAddr> {
    let spec = &service["spec"];
    let all = spec["clusterIPs"].as_array().into_iter().flatten();
    let texts = all.chain([&spec["clusterIP"]]).filter_map(Value::as_str);
    let mut addresses: Vec<IpAddr> = texts.filter_map(address::parse_sloppy).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Returns true if a pod is in the network of its node.
pub(crate) fn is_on_host_network(pod: &Value) -> bool {
    pod["spec"]["hostNetwork"] == true
}

/// Returns true if a node keeps pods away that tolerate none of its taints: it is cordoned, or has
/// a taint with the effect `NoSchedule` or `NoExecute`.
pub(crate) fn keeps_pods_away(node: &Value) -> bool {
    let spec = &node["spec"];
    let keeps = |taint: &Value| matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute"));
    spec["unschedulable"] == true || spec["taints"].as_array().into_iter().flatten().any(keeps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cluster_ips_are_those_of_all_families() {
        let check = |spec: Value, want: &[&str]| {
            let found = cluster_ips(&json!({"spec": spec}));
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, want, "{spec}");
        };
        check(json!({"clusterIP": "10.96.0.7"}), &["10.96.0.7"]);
        check(
            json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7", "fd00::7"]}),
            &["10.96.0.7", "fd00::7"],
        );
        check(json!({"clusterIP": "None", "clusterIPs": ["None"]}), &[]);
        check(json!({"clusterIP": "", "clusterIPs": null}), &[]);
        check(Value::Null, &[]);
    }

    #[test]
    fn a_cordoned_or_tainted_node_keeps_pods_away() {
        let check = |spec: Value, want: bool| {
            assert_eq!(keeps_pods_away(&json!({"spec": spec})), want, "{spec}");
        };
        check(json!({"unschedulable": true}), true);
        check(json!({"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}), false);
        check(
            json!({"taints": [{"key": "a", "effect": "PreferNoSchedule"}, {"key": "b", "effect": "NoSchedule"}]}),
            true,
        );
        check(json!({"taints": [{"key": "a", "effect": "NoExecute"}]}), true);
        check(json!({"unschedulable": false, "taints": null}), false);
        check(Value::Null, false);
    }
}
