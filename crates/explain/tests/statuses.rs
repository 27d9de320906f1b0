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
    let explained = explain(&objects, &key, &objects.topology(0.0), now, None, &options).unwrap();
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
