//! Tests that the status of a pod is read whole: the container that is the cause, its reason and
//! exit code, the probe that exists, and the commands that show more.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::{Objects, Options, explain};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

/// Returns what an operator reads about the pod `web-1` with this spec and status: the code, the
/// message, the remedy and the commands.
fn told(spec: &Value, status: &Value) -> String {
    let conditions = json!({"conditions": [
        {"type": "ContainersReady", "status": "False"}, {"type": "Ready", "status": "False"}]});
    let cluster =
        Cluster::new().node("a").service("web").pods("web", 1).select("Pod", "web-1").change(|pod| {
            json_patch::merge(&mut pod["status"], &conditions);
            json_patch::merge(&mut pod["spec"], spec);
            json_patch::merge(&mut pod["status"], status);
        });
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
    let key = ObjectKey::new("default", "web");
    let options = Options::default();
    let explained = explain(&objects, &key, &objects.topology(), now, None, &options).unwrap();
    let pod = &explained.pods[0];
    let remedy = pod.remedy().unwrap();
    let commands: String = remedy.commands().map(|command| format!("\n  {command}")).collect();
    format!("{} {}\n  {}{commands}", pod.code(), pod.reason.as_ref().unwrap(), remedy.sentence)
}

fn main_only(status: &Value) -> String {
    told(&json!({}), &json!({"containerStatuses": [status]}))
}

#[test]
fn the_cause_is_told_with_its_command() {
    let waits = |name: &str, reason: &str| json!({"name": name, "state": {"waiting": {"reason": reason}}});
    let runs = |name: &str, ready: bool, started: Value| json!({"name": name, "ready": ready, "started": started, "state": {"running": {}}});
    let two = json!({"containers": [{"name": "app"}, {"name": "log", "readinessProbe": {}}]});
    let texts = [
        ("waits for its creation, with an address", main_only(&waits("app", "ContainerCreating"))),
        (
            "waits for its creation, without an address",
            told(
                &json!({}),
                &json!({"podIP": null, "podIPs": null, "phase": "Pending",
                "containerStatuses": [waits("app", "ContainerCreating")]}),
            ),
        ),
        (
            "one waits because the image of the other is missing",
            told(
                &two,
                &json!({"containerStatuses": [waits("app", "ContainerCreating"), waits("log", "ImagePullBackOff")]}),
            ),
        ),
        ("cannot be run", main_only(&waits("app", "RunContainerError"))),
        (
            "has ended once",
            main_only(
                &json!({"name": "app", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}),
            ),
        ),
        (
            "was restarted once and waits",
            main_only(
                &json!({"name": "app", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 139, "reason": "Error"}}}),
            ),
        ),
        ("has no probe", told(&two, &json!({"containerStatuses": [runs("app", false, json!(true))]}))),
        (
            "one of two has a readiness probe",
            told(
                &two,
                &json!({"containerStatuses": [runs("app", true, json!(true)), runs("log", false, json!(true))]}),
            ),
        ),
        (
            "two probes of two containers",
            told(
                &json!({"containers": [{"name": "app", "startupProbe": {}, "readinessProbe": {}}, {"name": "log", "readinessProbe": {}}]}),
                &json!({"containerStatuses": [runs("app", false, json!(false)), runs("log", false, json!(true))]}),
            ),
        ),
        (
            "a kubelet that does not say if it has started",
            told(
                &json!({"containers": [{"name": "app", "startupProbe": {}, "readinessProbe": {}}]}),
                &json!({"containerStatuses": [runs("app", false, Value::Null)]}),
            ),
        ),
        (
            "the second init container fails, the third waits",
            told(
                &json!({"initContainers": [{"name": "one"}, {"name": "two"}, {"name": "three"}]}),
                &json!({"initContainerStatuses": [
                        {"name": "one", "ready": true, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                        {"name": "two", "state": {"terminated": {"exitCode": 7, "reason": "Error"}}},
                        waits("three", "PodInitializing")],
                    "containerStatuses": [waits("app", "PodInitializing")]}),
            ),
        ),
        (
            "the image of an init container is missing",
            told(
                &json!({"initContainers": [{"name": "one"}]}),
                &json!({"initContainerStatuses": [waits("one", "ErrImagePull")],
                    "containerStatuses": [waits("app", "PodInitializing")]}),
            ),
        ),
        (
            "a sidecar ends while the container runs",
            told(
                &json!({"initContainers": [{"name": "one"}, {"name": "proxy", "restartPolicy": "Always"}]}),
                &json!({"initContainerStatuses": [
                        {"name": "one", "ready": true, "state": {"terminated": {"exitCode": 0}}},
                        {"name": "proxy", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                            "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}],
                    "containerStatuses": [runs("app", true, json!(true))]}),
            ),
        ),
        ("a condition that is not true, without statuses", told(&json!({}), &json!({}))),
        (
            "evicted",
            told(
                &json!({}),
                &json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory.",
                "containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 137, "reason": "Error"}}}]}),
            ),
        ),
        (
            "is about to be preempted",
            told(
                &two,
                &json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                    "message": "preempting"}, {"type": "Ready", "status": "False"}],
                    "containerStatuses": [waits("app", "CrashLoopBackOff")]}),
            ),
        ),
        (
            "was to be preempted, which was given up",
            told(
                &json!({}),
                &json!({"conditions": [{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"},
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]}),
            ),
        ),
        (
            "ended as its node shut down",
            told(
                &json!({}),
                &json!({"phase": "Failed", "reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}),
            ),
        ),
        (
            "ended by its kubelet",
            told(
                &json!({}),
                &json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True",
                    "reason": "TerminationByKubelet", "message": "The node was low on resource: pids."}]}),
            ),
        ),
        (
            "ended at its deadline",
            told(
                &json!({}),
                &json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "Pod was active on the node longer than the specified deadline"}),
            ),
        ),
        (
            "refused by its node",
            told(
                &json!({}),
                &json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource: cpu"}),
            ),
        ),
        (
            "no node has room",
            told(
                &json!({"nodeName": null}),
                &json!({"podIP": null, "podIPs": null, "phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]}),
            ),
        ),
    ];
    insta::assert_snapshot!(texts.map(|(what, text)| format!("{what}:\n{text}\n")).join("\n"));
}

/// Returns the message and the remedy of each advice about pods that are being deleted, on these
/// nodes. Node `a` is ready and node `b` is not; others do not exist.
fn deleted(nodes: &[&str], condition: &Value, keep_others: bool) -> String {
    let mut cluster = Cluster::new().node("a").node("b").not_ready().service("web");
    cluster = cluster.pods("web", nodes.len());
    if keep_others {
        cluster = cluster.pod("spare-1", &[("app", "web")]).on("a");
    }
    for (at, node) in nodes.iter().enumerate() {
        cluster = cluster.select("Pod", &format!("web-{}", at + 1)).change(|pod| {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:59:00Z");
            pod["spec"]["nodeName"] = json!(node);
            pod["status"]["conditions"].as_array_mut().unwrap().push(condition.clone());
        });
    }
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
    let key = ObjectKey::new("default", "web");
    let explained = explain(&objects, &key, &objects.topology(), now, None, &Options::default()).unwrap();
    let of_pods = explained.to_do.iter().filter(|advice| advice.pods > 0);
    let texts = of_pods.map(|advice| {
        let commands: String = advice.remedy.commands().map(|command| format!("\n  {command}")).collect();
        format!("{} {}\n  {}{commands}", advice.code, advice.message, advice.remedy.sentence)
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The advice does no harm.
#[test]
fn a_pod_that_is_leaving_is_told_with_who_ends_it_and_the_node_that_keeps_it() {
    let by = |reason: &str| json!({"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m"});
    let none = json!({"type": "Initialized", "status": "True"});
    let texts = [
        ("one of several, evicted", deleted(&["a"], &by("EvictionByEvictionAPI"), true)),
        ("one of several, preempted", deleted(&["a"], &by("PreemptionByScheduler"), true)),
        ("the only one, because of a taint", deleted(&["a"], &by("DeletionByTaintManager"), false)),
        ("the only one, by the garbage collector", deleted(&["a"], &by("DeletionByPodGC"), false)),
        ("one of several, by the kubelet", deleted(&["a"], &by("TerminationByKubelet"), true)),
        ("one of several, by something new", deleted(&["a"], &by("DeletionByDeviceTaintManager"), true)),
        ("the node is not ready", deleted(&["b"], &none, true)),
        ("two nodes, one of them ready", deleted(&["a", "b"], &none, false)),
        ("the node does not exist", deleted(&["gone"], &none, true)),
    ];
    let texts = texts.map(|(what, text)| format!("{what}:\n{text}\n")).join("\n");
    assert!(!texts.contains("\n  kubectl -n default delete"), "{texts}");
    insta::assert_snapshot!(texts);
}
