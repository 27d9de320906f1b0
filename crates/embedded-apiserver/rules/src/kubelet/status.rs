//! The status of a pod when its containers start, become ready and end.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::times::print_seconds as rfc3339;
use crate::value::{Fields, spec};

/// The lists of containers in a pod's spec, and of their statuses.
const CONTAINERS: [(&str, &str); 2] =
    [("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")];

/// The reason of a condition Ready that is false because of a readiness gate.
const GATES_NOT_READY: &str = "ReadinessGatesNotReady";

/// Returns a pod on a node, with addresses. Its init containers have ended, and the others run and
/// are not ready yet.
pub fn started(mut pod: Value, node: &str, host: &[IpAddr], addresses: &[IpAddr], now: Timestamp) -> Value {
    let time = rfc3339(now);
    pod.child("spec").set("nodeName", node);
    let statuses = CONTAINERS.map(|(list, _)| {
        let containers = spec(&pod).list(list).iter();
        containers.map(|container| container_status(container, list == "initContainers", &time)).collect()
    });
    let unready: Vec<&str> = spec(&pod).list("containers").iter().map(|it| it.text("name")).collect();
    let unready = format!("containers with unready status: [{}]", unready.join(" "));
    let status = pod.child("status");
    for (field, addresses) in [("hostIP", host), ("podIP", addresses)] {
        let all: Vec<Value> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
        if let Some(first) = addresses.first() {
            status.set(field, first.to_string());
            status.set(&format!("{field}s"), all);
        }
    }
    status.set("phase", "Running");
    status.set("startTime", time);
    for ((_, field), statuses) in CONTAINERS.into_iter().zip(statuses) {
        let statuses: Vec<Value> = statuses;
        if !statuses.is_empty() {
            status.set(field, statuses);
        }
    }
    for kind in ["PodReadyToStartContainers", "Initialized"] {
        set_condition(&mut pod, kind, "True", None, now);
    }
    for kind in ["Ready", "ContainersReady"] {
        set_condition(&mut pod, kind, "False", Some(("ContainersNotReady", &unready)), now);
    }
    set_condition(&mut pod, "PodScheduled", "True", None, now);
    observed(pod)
}

/// Returns a pod whose status says that the kubelet has seen the latest generation.
pub fn observed(mut pod: Value) -> Value {
    let generation = pod["metadata"].int("generation");
    let gates: Vec<String> =
        spec(&pod).list("readinessGates").iter().map(|gate| gate.text("conditionType").to_owned()).collect();
    let status = pod.child("status");
    status.set("observedGeneration", generation);
    // The conditions of readiness gates belong to somebody else.
    for condition in status.items_mut("conditions") {
        if !gates.iter().any(|gate| gate == condition.text("type")) {
            condition.set("observedGeneration", generation);
        }
    }
    pod
}

/// Returns the status of a container that runs, or of an init container that has ended. An init
/// container with the restart policy Always is a sidecar: it runs, and the other containers start
/// once it is ready.
fn container_status(container: &Value, is_init: bool, time: &str) -> Value {
    let runs = !is_init || container.text("restartPolicy") == "Always";
    let state = match runs {
        true => json!({"running": {"startedAt": time}}),
        false => json!({"terminated": terminated(time, time)}),
    };
    json!({
        "name": container.text("name"), "image": container.text("image"), "imageID": "", "lastState": {},
        "ready": is_init, "restartCount": 0, "started": runs, "state": state,
    })
}

fn terminated(start: &str, end: &str) -> Value {
    json!({"exitCode": 0, "reason": "Completed", "startedAt": start, "finishedAt": end})
}

/// Returns a pod whose containers are ready. It is ready itself unless a condition of its readiness
/// gates is missing or false.
pub fn ready(mut pod: Value, now: Timestamp) -> Value {
    for (_, list) in CONTAINERS {
        for container in pod.child("status").items_mut(list) {
            container.set("ready", true);
        }
    }
    let missing = missing_gate(&pod);
    let why = missing.as_deref().map(|message| (GATES_NOT_READY, message));
    set_condition(&mut pod, "Ready", if why.is_some() { "False" } else { "True" }, why, now);
    set_condition(&mut pod, "ContainersReady", "True", None, now);
    observed(pod)
}

/// Returns a message about the first readiness gate that keeps a pod from being ready.
fn missing_gate(pod: &Value) -> Option<String> {
    spec(pod).list("readinessGates").iter().map(|gate| gate.text("conditionType")).find_map(|kind| {
        match condition(pod, kind).map(|found| found.text("status")) {
            Some("True") => None,
            Some(_) => Some(format!("the status of pod readiness gate {kind:?} is not \"True\"")),
            None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
        }
    })
}

/// Returns a pod whose containers have ended. Init containers that had ended before stay ready.
pub fn ended(mut pod: Value, now: Timestamp) -> Value {
    let time = rfc3339(now);
    let status = pod.child("status");
    status.set("phase", "Succeeded");
    for (_, list) in CONTAINERS {
        for container in status.items_mut(list) {
            if let Some(start) = container["state"]["running"].opt_text("startedAt").map(str::to_owned) {
                container.set("ready", false);
                container.set("started", false);
                container.set("state", json!({"terminated": terminated(&start, &time)}));
            }
        }
    }
    set_condition(&mut pod, "PodReadyToStartContainers", "False", None, now);
    set_condition(&mut pod, "Initialized", "True", Some(("PodCompleted", "")), now);
    for kind in ["Ready", "ContainersReady"] {
        set_condition(&mut pod, kind, "False", Some(("PodCompleted", "")), now);
    }
    observed(pod)
}

/// Returns true if the condition ContainersReady of a pod is true.
pub(super) fn has_ready_containers(pod: &Value) -> bool {
    condition(pod, "ContainersReady").is_some_and(|found| found.text("status") == "True")
}

/// Returns true if the containers of a pod are ready, and its condition Ready does not follow from
/// the conditions of its readiness gates.
pub(super) fn has_old_readiness(pod: &Value) -> bool {
    let Some(found) = condition(pod, "Ready").filter(|_| has_ready_containers(pod)) else { return false };
    match missing_gate(pod) {
        Some(message) => found.text("status") != "False" || found.text("message") != message,
        None => found.text("status") != "True",
    }
}

/// Returns true if a write by somebody else makes the writer the owner of a pod's status: it
/// changes more than the conditions of readiness gates.
pub fn is_taken_over(old: &Value, new: &Value) -> bool {
    let gates: Vec<&str> =
        spec(old).list("readinessGates").iter().map(|gate| gate.text("conditionType")).collect();
    let own = |pod: &Value| {
        let mut status = pod["status"].clone();
        let is_own = |it: &&Value| !gates.contains(&it.text("type"));
        let conditions: Vec<Value> = status.list("conditions").iter().filter(is_own).cloned().collect();
        status.set("conditions", conditions);
        status
    };
    old["status"] != new["status"] && own(old) != own(new)
}

fn condition<'p>(pod: &'p Value, kind: &str) -> Option<&'p Value> {
    pod["status"].list("conditions").iter().find(|it| it.text("type") == kind)
}

/// Sets a condition. Its time changes with its status only.
pub(super) fn set_condition(
    pod: &mut Value,
    kind: &str,
    status: &str,
    why: Option<(&str, &str)>,
    now: Timestamp,
) {
    let before = condition(pod, kind).filter(|found| found.text("status") == status);
    let time = before.map_or_else(|| rfc3339(now), |found| found.text("lastTransitionTime").to_owned());
    let mut new = json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": time});
    if let Some((reason, message)) = why {
        new.set("reason", reason);
        if !message.is_empty() {
            new.set("message", message);
        }
    }
    let all = pod.child("status");
    if !all["conditions"].is_array() {
        all.set("conditions", Vec::<Value>::new());
    }
    if let Some(known) = all.items_mut("conditions").iter_mut().find(|it| it.text("type") == kind) {
        *known = new;
    } else if let Some(conditions) = all["conditions"].as_array_mut() {
        conditions.push(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::PODS;
    use crate::strategy::{self, Families};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn made(spec: Value) -> Value {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        let decoded = strategy::decode(&PODS, pod).unwrap().object;
        strategy::before_create(&PODS, decoded).unwrap().object
    }

    fn web(more: Value) -> Value {
        let mut spec = json!({"containers": [{"name": "web", "image": "nginx"}]});
        json_patch::merge(&mut spec, &more);
        let ips = |texts: &[&str]| texts.iter().map(|it| it.parse().unwrap()).collect::<Vec<IpAddr>>();
        let (host, own) = (ips(&["192.0.2.1"]), ips(&["10.244.0.1", "fd00:10:244::1"]));
        started(made(spec), "embedded", &host, &own, at(0))
    }

    fn conditions(pod: &Value) -> Vec<String> {
        let conditions = pod["status"]["conditions"].as_array().unwrap().iter();
        let text = |it: &Value| format!("{} {} {}", it.text("type"), it.text("status"), it.text("reason"));
        conditions.map(|it| text(it).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_pod_from_its_start_to_its_end() {
        let pod = web(json!({"initContainers": [
            {"name": "once", "image": "a"}, {"name": "mesh", "image": "b", "restartPolicy": "Always"},
        ]}));
        assert_eq!(pod["spec"]["nodeName"], "embedded");
        insta::assert_json_snapshot!(pod["status"]);
        let ready = ready(pod, at(1));
        insta::assert_json_snapshot!(ready["status"]);
        insta::assert_json_snapshot!(ended(ready, at(31))["status"]);
    }

    #[test]
    fn a_status_is_one_that_the_server_could_have_stored() {
        let started = web(json!({}));
        for pod in [started.clone(), ready(started.clone(), at(1)), ended(started, at(2))] {
            assert_eq!(strategy::default_on_read(&PODS, pod.clone(), Families::default()), pod);
        }
    }

    #[test]
    fn the_conditions_of_readiness_gates_belong_to_whoever_writes_them() {
        let gates = json!({"readinessGates": [{"conditionType": "example.com/up"}]});
        let check = |kind: &str, message: Option<&str>, want: bool| {
            let old = web(gates.clone());
            let mut new = old.clone();
            set_condition(&mut new, kind, "True", None, at(1));
            if let Some(message) = message {
                new.child("status").set("message", message);
            }
            assert_eq!(is_taken_over(&old, &new), want, "{kind} {message:?}");
        };
        check("example.com/up", None, false);
        check("example.com/up", Some("mine"), true);
        check("example.com/other", None, true);
        check("Ready", None, true);
        let pod = web(gates);
        assert!(!is_taken_over(&pod, &pod));
        // The pod may have no status yet.
        let mut new = pod.clone();
        new.set("status", json!({"conditions": [{"type": "example.com/up", "status": "True"}]}));
        let mut old = pod;
        old.set("status", json!({}));
        assert!(!is_taken_over(&old, &new));
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let pod = ready(web(json!({})), at(1));
        let times = |pod: &Value| -> Vec<String> {
            pod["status"]
                .list("conditions")
                .iter()
                .map(|it| it.text("lastTransitionTime").to_owned())
                .collect()
        };
        assert_eq!(times(&ready(pod.clone(), at(9))), times(&pod));
        assert_eq!(
            conditions(&pod),
            [
                "PodReadyToStartContainers True",
                "Initialized True",
                "Ready True",
                "ContainersReady True",
                "PodScheduled True",
            ]
        );
    }

    #[test]
    fn a_pod_without_addresses_has_no_empty_fields() {
        let pod = started(made(json!({"containers": [{"name": "c", "image": "i"}]})), "n", &[], &[], at(0));
        for field in ["podIP", "podIPs", "hostIP", "hostIPs", "initContainerStatuses"] {
            assert!(!pod["status"].has(field), "{field}");
        }
    }
}
