//! The nodes on which a pod can run, and the node of a cluster that has none.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::status::set_condition;
use crate::times::print_seconds as rfc3339;
use crate::value::{Fields, spec};

/// The name of the node of a cluster that has none.
pub const NODE_NAME: &str = "embedded";

/// The taint of a node that takes no new pods.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The reason why a pod cannot run on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    /// The pod's nodeSelector selects other nodes.
    NotSelected,
    /// A taint of the node keeps the pod away.
    Tainted,
    NotReady,
    /// Somebody has cordoned the node.
    Unschedulable,
    /// All addresses of pods are in use.
    NoAddress,
}

impl Unfit {
    /// Returns the reason in the words of the scheduler.
    fn as_str(self) -> &'static str {
        match self {
            Self::NotSelected => "node(s) didn't match Pod's node affinity/selector",
            Self::Tainted => "node(s) had untolerated taint(s)",
            Self::NotReady => "node(s) were not ready",
            Self::Unschedulable => "node(s) were unschedulable",
            Self::NoAddress => "node(s) had no free address for a pod",
        }
    }
}

/// Checks whether a pod can run on a node, by its nodeSelector and tolerations.
///
/// # Errors
///
/// The first reason against it.
pub fn fits(pod: &Value, node: &Value) -> Result<(), Unfit> {
    let labels = &node["metadata"]["labels"];
    if spec(pod).entries("nodeSelector").any(|(key, value)| labels.opt_text(key) != Some(value)) {
        return Err(Unfit::NotSelected);
    }
    let cordon = json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"});
    if spec(node).flag("unschedulable") && !tolerates(pod, &cordon) {
        return Err(Unfit::Unschedulable);
    }
    let mut conditions = node["status"].list("conditions").iter();
    if !conditions.any(|it| it.text("type") == "Ready" && it.text("status") == "True") {
        return Err(Unfit::NotReady);
    }
    let keeps_away = |taint: &&Value| matches!(taint.text("effect"), "NoSchedule" | "NoExecute");
    match spec(node).list("taints").iter().filter(keeps_away).all(|taint| tolerates(pod, taint)) {
        true => Ok(()),
        false => Err(Unfit::Tainted),
    }
}

/// Returns true if a change of a node can change the answer of [`fits`]. Heartbeats do not.
pub fn concerns_pods(old: &Value, new: &Value) -> bool {
    fn read(node: &Value) -> (&Value, bool, &[Value], Option<&str>) {
        let mut conditions = node["status"].list("conditions").iter();
        let ready = conditions.find(|it| it.text("type") == "Ready").map(|it| it.text("status"));
        (&node["metadata"]["labels"], spec(node).flag("unschedulable"), spec(node).list("taints"), ready)
    }
    read(old) != read(new)
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    spec(pod).list("tolerations").iter().any(|toleration| {
        let (key, effect) = (toleration.text("key"), toleration.text("effect"));
        let exists = toleration.text("operator") == "Exists";
        (effect.is_empty() || effect == taint.text("effect"))
            && (key == taint.text("key") || (key.is_empty() && exists))
            && (exists || toleration.text("value") == taint.text("value"))
    })
}

/// Returns a pod whose condition PodScheduled says why no node takes it. `unfit` has the number of
/// nodes for each reason.
pub fn unschedulable(mut pod: Value, unfit: &BTreeMap<Unfit, usize>, now: Timestamp) -> Value {
    let all: usize = unfit.values().sum();
    let reasons = unfit.iter().map(|(reason, count)| format!("{count} {}", reason.as_str()));
    let reasons = reasons.collect::<Vec<_>>().join(", ");
    let message = format!("0/{all} nodes are available: {reasons}.");
    set_condition(&mut pod, "PodScheduled", "False", Some(("Unschedulable", &message)), now);
    pod
}

/// Returns the internal addresses of a node, of each family the first.
pub fn node_addresses(node: &Value) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for address in node["status"].list("addresses").iter().filter(|it| it.text("type") == "InternalIP") {
        if let Ok(address) = address.text("address").parse::<IpAddr>()
            && !found.iter().any(|known| known.is_ipv4() == address.is_ipv4())
        {
            found.push(address);
        }
    }
    found
}

/// Returns the node of a cluster that has none. Its addresses are documentation's, so that nothing
/// reaches another machine by mistake.
pub fn node(version: &str, now: Timestamp) -> Value {
    let now = rfc3339(now);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": NODE_NAME,
            "labels": {"kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux"},
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "192.0.2.1"},
                {"type": "InternalIP", "address": "2001:db8::1"},
                {"type": "Hostname", "address": NODE_NAME},
            ],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady",
                "message": "the embedded API server plays the kubelet",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": version, "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "",
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready_node(fields: Value) -> Value {
        let mut node = node("v1", Timestamp::UNIX_EPOCH);
        json_patch::merge(&mut node, &fields);
        node
    }

    #[track_caller]
    fn check(pod_spec: Value, node_fields: Value, want: Result<(), Unfit>) {
        assert_eq!(fits(&json!({ "spec": pod_spec }), &ready_node(node_fields)), want);
    }

    #[test]
    fn a_pod_runs_where_selector_readiness_and_taints_allow() {
        check(json!({}), json!({}), Ok(()));
        let selector = json!({"nodeSelector": {"zone": "a"}});
        check(selector.clone(), json!({"metadata": {"labels": {"zone": "a"}}}), Ok(()));
        check(selector.clone(), json!({"metadata": {"labels": {"zone": "b"}}}), Err(Unfit::NotSelected));
        check(selector, json!({}), Err(Unfit::NotSelected));
        check(json!({}), json!({"spec": {"unschedulable": true}}), Err(Unfit::Unschedulable));
        check(json!({}), json!({"status": {"conditions": null}}), Err(Unfit::NotReady));
        let not_ready = json!([{"type": "Ready", "status": "Unknown"}]);
        check(json!({}), json!({"status": {"conditions": not_ready}}), Err(Unfit::NotReady));
    }

    #[test]
    fn a_heartbeat_concerns_no_pod() {
        let check = |fields: Value, want: bool| {
            assert_eq!(concerns_pods(&ready_node(json!({})), &ready_node(fields.clone())), want, "{fields}");
        };
        let ready = |status: &str| {
            let ready =
                json!({"type": "Ready", "status": status, "lastHeartbeatTime": "2026-01-01T00:00:09Z"});
            json!({"status": {"conditions": [ready]}})
        };
        check(ready("True"), false);
        check(ready("Unknown"), true);
        check(json!({"metadata": {"annotations": {"a": "b"}}}), false);
        check(json!({"metadata": {"labels": {"a": "b"}}}), true);
        check(json!({"spec": {"unschedulable": true}}), true);
        check(json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}), true);
    }

    #[test]
    fn taints_need_a_toleration() {
        let tainted =
            |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
        check(json!({}), tainted("NoSchedule"), Err(Unfit::Tainted));
        check(json!({}), tainted("NoExecute"), Err(Unfit::Tainted));
        check(json!({}), tainted("PreferNoSchedule"), Ok(()));
        let tolerating = |toleration: Value| json!({ "tolerations": [toleration] });
        for good in [
            json!({"key": "k", "value": "v", "effect": "NoSchedule"}),
            json!({"key": "k", "operator": "Exists"}),
            json!({"operator": "Exists"}),
        ] {
            check(tolerating(good), tainted("NoSchedule"), Ok(()));
        }
        for bad in [
            json!({"key": "k", "value": "w"}),
            json!({"key": "k", "value": "v", "effect": "NoExecute"}),
            json!({"key": "other", "operator": "Exists"}),
            json!({"value": "v"}),
        ] {
            check(tolerating(bad), tainted("NoSchedule"), Err(Unfit::Tainted));
        }
        let cordoned = json!({"spec": {"unschedulable": true}});
        check(tolerating(json!({"key": UNSCHEDULABLE, "operator": "Exists"})), cordoned, Ok(()));
    }

    #[test]
    fn a_pod_that_no_node_takes_says_why_as_the_scheduler_does() {
        let unfit = BTreeMap::from([(Unfit::Unschedulable, 1), (Unfit::NotSelected, 2)]);
        let pod = unschedulable(json!({"spec": {}}), &unfit, Timestamp::UNIX_EPOCH);
        insta::assert_snapshot!(pod["status"]["conditions"][0]["message"].as_str().unwrap(), @"0/3 nodes are available: 2 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable.");
        let again = unschedulable(pod.clone(), &unfit, Timestamp::from_second(9).unwrap());
        assert_eq!(again, pod, "nothing has changed");
    }

    #[test]
    fn a_node_has_one_address_of_each_family() {
        let addresses = node_addresses(&ready_node(json!({})));
        assert_eq!(addresses, ["192.0.2.1", "2001:db8::1"].map(|it| it.parse::<IpAddr>().unwrap()));
        assert!(node_addresses(&json!({})).is_empty());
    }
}
