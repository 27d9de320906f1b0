//! Tests that the advice about pods fits the cause, also where following it would do harm: what
//! makes a pod again, a probe that has not run yet, a container that never ran, and several pods
//! that differ.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::{Explanation, Objects, Options, Status, Step, explain, explain_pod};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// Returns a Service and pods `web-1`, `web-2` and so on with these fields in addition, after the
/// controllers have written.
fn cluster(service: &Value, pods: &[Value]) -> Cluster {
    let mut cluster = Cluster::new().node("a").service("web").pods("web", pods.len());
    cluster = cluster.select("Service", "web").change(|it| json_patch::merge(it, service));
    for (at, pod) in pods.iter().enumerate() {
        cluster = cluster.select("Pod", &format!("web-{}", at + 1)).change(|it| json_patch::merge(it, pod));
    }
    written(cluster)
}

fn written(cluster: Cluster) -> Cluster {
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let key = ObjectKey::new("default", "web");
    let topology = objects.topology();
    let planned = kube_endpoint_explain::Planned::new(&objects, &key, &topology, now(), &Options::default());
    let cluster = match &planned.endpoints {
        Some(plan) => cluster.apply(&plan.writes),
        None => cluster,
    };
    let plans = planned.slices.into_iter().flat_map(|plan| plan.sub_plans);
    plans.fold(cluster, |cluster, plan| cluster.apply(&plan.writes))
}

fn explained(cluster: &Cluster) -> Explanation {
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let key = ObjectKey::new("default", "web");
    explain(&objects, &key, &objects.topology(), now(), None, &Options::default()).unwrap()
}

/// Returns what an operator reads: the verdict, and each advice with its commands. No command may
/// delete a pod.
fn told(cluster: &Cluster) -> String {
    let explained = explained(cluster);
    let advice = explained.to_do.iter().map(|advice| {
        assert!(!advice.remedy.steps.iter().any(Step::changes), "{advice:?}");
        let commands: String = advice.remedy.commands().map(|it| format!("\n    {it}")).collect();
        let severity = advice.severity;
        format!("\n  {severity} {} {}\n    {}{commands}", advice.code, advice.message, advice.remedy.sentence)
    });
    let verdict = &explained.verdict;
    format!("{:?} {} {}{}\n", verdict.status, verdict.code, verdict.message, advice.collect::<String>())
}

fn all_told<const N: usize>(cases: [(&str, Value, Vec<Value>); N]) -> String {
    let texts = cases.map(|(what, service, pods)| format!("{what}:\n{}", told(&cluster(&service, &pods))));
    texts.join("\n")
}

/// Returns a pod that is not ready, with these container statuses and this container.
fn unready(container: &Value, status: &Value) -> Value {
    let mut spec =
        json!({"name": "app", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]});
    json_patch::merge(&mut spec, container);
    json!({"spec": {"containers": [spec]}, "status": {
        "conditions": [{"type": "ContainersReady", "status": "False"}, {"type": "Ready", "status": "False"}],
        "containerStatuses": [status]}})
}

fn crashes(restarts: u32, exit_code: i32, pod: &str) -> Value {
    json!({"name": "app", "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff",
            "message": format!("back-off 5m0s restarting failed container=app pod={pod}_default(1)")}},
        "lastState": {"terminated": {"exitCode": exit_code, "reason": "Error"}}})
}

fn owned_by(kind: &str) -> Value {
    json!({"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "u", "controller": true}]}})
}

fn both(one: &Value, two: &Value) -> Value {
    let mut both = one.clone();
    json_patch::merge(&mut both, two);
    both
}

/// Only who knows that the machine is off may delete a pod of a StatefulSet, and a pod that nothing
/// makes again is saved first.
#[test]
fn a_pod_whose_node_is_gone_is_deleted_only_if_that_does_no_harm() {
    let gone = |node: &str| json!({"spec": {"nodeName": node}});
    let pods = |kind: &str| vec![both(&gone("gone"), &owned_by(kind))];
    insta::assert_snapshot!(all_told([
        ("of nobody", json!({}), vec![gone("gone")]),
        ("of a StatefulSet", json!({}), pods("StatefulSet")),
        ("of a ReplicaSet", json!({}), pods("ReplicaSet")),
        (
            "two of a StatefulSet, and one of nobody",
            json!({}),
            vec![
                both(&gone("gone"), &owned_by("StatefulSet")),
                both(&gone("lost"), &owned_by("StatefulSet")),
                gone("gone"),
            ],
        ),
    ]));
}

/// Clients are refused, so the Service is down however its slices look.
#[test]
fn a_published_pod_whose_containers_do_not_run_answers_nobody() {
    let publishes = json!({"spec": {"publishNotReadyAddresses": true}});
    let broken = |at: u32| unready(&json!({}), &crashes(7 + at, 1, &format!("web-{at}")));
    let runs = unready(
        &json!({"readinessProbe": {}}),
        &json!({"name": "app", "started": true, "state": {"running": {}}}),
    );
    let one_of_two = json!({"spec": {"containers": [{"name": "app"}, {"name": "log"}]}, "status": {
        "conditions": [{"type": "ContainersReady", "status": "False"}, {"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "app", "ready": true, "state": {"running": {}}},
            {"name": "log", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
    let init = json!({"spec": {"initContainers": [{"name": "wait"}]}, "status": {
        "conditions": [{"type": "ContainersReady", "status": "False"}, {"type": "Ready", "status": "False"}],
        "initContainerStatuses": [{"name": "wait", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
        "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "PodInitializing"}}}]}});
    let all = cluster(&publishes, &[broken(1), broken(2)]);
    assert_eq!(explained(&all).verdict.status, Status::Down);
    let some = cluster(&publishes, &[broken(1), runs.clone()]);
    assert_eq!(explained(&some).verdict.status, Status::Degraded);
    insta::assert_snapshot!(all_told([
        ("all crash", publishes.clone(), vec![broken(1), broken(2)]),
        ("one of two pods crashes", publishes.clone(), vec![broken(1), runs.clone()]),
        ("one of two containers does not run", publishes.clone(), vec![one_of_two]),
        ("an init container runs", publishes.clone(), vec![init]),
        ("the containers run", publishes, vec![runs]),
    ]));
}

/// A probe that has not run cannot have failed.
#[test]
fn a_probe_that_has_not_run_yet_is_no_failure() {
    let container = |probe: Value| json!({"readinessProbe": probe});
    let runs =
        |started: &str| json!({"name": "app", "started": true, "state": {"running": {"startedAt": started}}});
    let waits = |started: &str| unready(&container(json!({"initialDelaySeconds": 600})), &runs(started));
    insta::assert_snapshot!(all_told([
        ("it has six minutes left", json!({}), vec![waits("2026-01-01T00:56:00Z")]),
        (
            "two pods, one of them started later",
            json!({}),
            vec![waits("2026-01-01T00:56:00Z"), waits("2026-01-01T00:58:00Z")],
        ),
        ("its delay is over", json!({}), vec![waits("2026-01-01T00:49:00Z")]),
        (
            "one waits, one fails",
            json!({}),
            vec![waits("2026-01-01T00:56:00Z"), waits("2026-01-01T00:40:00Z")]
        ),
        (
            "its startup probe waits",
            json!({}),
            vec![unready(
                &json!({"startupProbe": {"initialDelaySeconds": 60}}),
                &json!({"name": "app", "started": false, "state": {"running": {"startedAt": "2026-01-01T00:59:30Z"}}}),
            )],
        ),
    ]));
}

/// Each way in which a container does not come up has its own advice.
#[test]
fn a_container_that_does_not_come_up_is_told_with_the_command_that_shows_why() {
    let last = |last: Value| {
        json!({"name": "app", "restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff",
            "message": "back-off 5m0s restarting failed container=app pod=web-1_default(1)"}},
        "lastState": {"terminated": last}})
    };
    let lives = json!({"livenessProbe": {"httpGet": {"port": 8080}}});
    let hook = json!({"lifecycle": {"postStart": {"exec": {"command": ["sleep", "1d"]}}}});
    let creating = json!({"name": "app", "state": {"waiting": {"reason": "ContainerCreating"}}});
    let no_address = json!({"metadata": {"creationTimestamp": "2026-01-01T00:20:00Z"},
        "status": {"podIP": "", "podIPs": [], "phase": "Pending"}});
    insta::assert_snapshot!(all_told([
        (
            "its program does not exist",
            json!({}),
            vec![unready(
                &json!({}),
                &last(json!({"exitCode": 128, "reason": "StartError",
                    "message": "failed to create containerd task: exec: \"/app/server\": stat /app/server: no such file or directory"})),
            )],
        ),
        (
            "told to stop, and it has a liveness probe",
            json!({}),
            vec![unready(&lives, &last(json!({"exitCode": 143, "reason": "Error"})))],
        ),
        (
            "told to stop, and it has none",
            json!({}),
            vec![unready(&json!({}), &last(json!({"exitCode": 143, "reason": "Error"})))],
        ),
        (
            "out of memory, and it has a liveness probe",
            json!({}),
            vec![unready(&lives, &last(json!({"exitCode": 137, "reason": "OOMKilled"})))],
        ),
        (
            "runs again after it was told to stop",
            json!({}),
            vec![unready(
                &both(&lives, &json!({"readinessProbe": {"httpGet": {"port": 8080}}})),
                &json!({"name": "app", "started": true, "restartCount": 6, "state": {"running": {}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "Error"}}}),
            )],
        ),
        (
            "its hook fails",
            json!({}),
            vec![unready(
                &hook,
                &json!({"name": "app", "restartCount": 1, "state": {"waiting": {"reason": "PostStartHookError"}}})
            )],
        ),
        ("its hook hangs", json!({}), vec![both(&unready(&hook, &creating), &no_address)]),
        ("its hook hangs, and it has an address", json!({}), vec![unready(&hook, &creating)]),
        (
            "an init container waits for an hour",
            json!({}),
            vec![json!({"spec": {"initContainers": [{"name": "wait"}]}, "status": {
                "conditions": [{"type": "ContainersReady", "status": "False"}, {"type": "Ready", "status": "False"}],
                "initContainerStatuses": [{"name": "wait", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
                "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "PodInitializing"}}}]}})],
        ),
        (
            "its probe asks a port that nobody declares",
            json!({}),
            vec![unready(
                &json!({"readinessProbe": {"httpGet": {"port": 8081}}}),
                &json!({"name": "app", "started": true, "state": {"running": {}}}),
            )],
        ),
        (
            "its probe asks a name that nobody declares",
            json!({}),
            vec![unready(
                &json!({"readinessProbe": {"tcpSocket": {"port": "htpp"}}}),
                &json!({"name": "app", "started": true, "state": {"running": {}}}),
            )],
        ),
    ]));
}

/// A sentence about several pods holds for each of them.
#[test]
fn several_pods_are_told_by_what_they_have_in_common() {
    let gate = |message: &str| {
        json!({"spec": {"readinessGates": [{"conditionType": "target-health.elbv2.k8s.aws/k8s-web"}]},
        "status": {"conditions": [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"},
            {"type": "target-health.elbv2.k8s.aws/k8s-web", "status": "False", "reason": "Target.Timeout", "message": message}]}})
    };
    let rejected = |node: &str, message: &str| {
        json!({"spec": {"nodeName": node}, "status": {
        "phase": "Failed", "reason": "UnexpectedAdmissionError", "message": format!("Pod was rejected: {message}"),
        "conditions": []}})
    };
    let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted", "conditions": [],
        "message": "The node was low on resource: ephemeral-storage. Threshold quantity: 5Gi, available: 3Gi. ."}});
    insta::assert_snapshot!(all_told([
        (
            "restarted differently often",
            json!({}),
            vec![unready(&json!({}), &crashes(9, 1, "web-1")), unready(&json!({}), &crashes(4, 1, "web-2")),],
        ),
        (
            "with different exit codes",
            json!({}),
            vec![unready(&json!({}), &crashes(9, 1, "web-1")), unready(&json!({}), &crashes(9, 2, "web-2")),],
        ),
        ("one gate, one message", json!({}), vec![gate("Request timed out"), gate("Request timed out")]),
        ("one gate, two messages", json!({}), vec![gate("10.1.0.1 timed out"), gate("10.1.0.2 timed out")]),
        (
            "rejected by two nodes",
            json!({}),
            vec![rejected("a", "no healthy devices"), rejected("b", "no healthy devices")],
        ),
        ("evicted", json!({}), vec![evicted]),
    ]));
}

/// The node controller sets Ready to false, and the kubelet should set it to true again.
#[test]
fn a_condition_that_nobody_corrects_is_told_with_the_kubelet() {
    let stale = |owner: &Value| {
        both(
            owner,
            &json!({"status": {"conditions": [
        {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}]}}),
        )
    };
    let maintained = json!({"status": {"conditions": [{"type": "ContainersReady", "status": "True"},
        {"type": "Ready", "status": "False", "reason": "Maintenance"}]}});
    insta::assert_snapshot!(all_told([
        ("of a ReplicaSet", json!({}), vec![stale(&owned_by("ReplicaSet"))]),
        ("of nobody", json!({}), vec![stale(&json!({}))]),
        ("somebody says why", json!({}), vec![maintained]),
    ]));
}

/// The node, an event and the age of a pod tell the cause.
#[test]
fn a_pod_without_an_address_is_told_with_its_node_and_its_warnings() {
    let pending = |created: &str| {
        json!({"metadata": {"creationTimestamp": created},
        "status": {"podIP": "", "podIPs": [], "phase": "Pending",
            "conditions": [{"type": "Ready", "status": "False"}]}})
    };
    let old = pending("2026-01-01T00:20:00Z");
    let silent = cluster(&json!({}), &[old.clone(), old.clone()]).select("Node", "a").change(|node| {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "reason": "KubeletNotReady",
            "message": "container runtime network not ready: cni plugin not initialized"}]);
    });
    let warned =
        cluster(&json!({}), std::slice::from_ref(&old)).with(json!({"kind": "Event", "type": "Warning",
        "metadata": {"name": "e", "namespace": "default"}, "reason": "FailedAttachVolume",
        "message": "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) web-0",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-1"}}));
    let told_by_node = |status: &str| {
        let not_ready = json!({"status": {"conditions": [
            {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "False"}]}});
        cluster(&json!({}), &[not_ready]).select("Node", "a").change(|node| {
            node["status"]["conditions"] =
                json!([{"type": "Ready", "status": status, "message": "Kubelet stopped posting node status."}]);
        })
    };
    insta::assert_snapshot!(
        [
            ("it is new", told(&cluster(&json!({}), &[pending("2026-01-01T00:59:30Z")]))),
            ("it is old", told(&cluster(&json!({}), &[old]))),
            ("its node is not ready", told(&silent)),
            ("its volume is elsewhere", told(&warned)),
            ("it has an address, and its node is silent", told(&told_by_node("Unknown"))),
        ]
        .map(|(what, text)| format!("{what}:\n{text}"))
        .join("\n")
    );
}

/// A pod that should be gone is told with the time.
#[test]
fn a_pod_that_is_deleted_and_stays_is_told_with_the_time() {
    let deleted = |at: &str| json!({"metadata": {"deletionTimestamp": at}});
    let held = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:10:00Z", "finalizers": ["example.com/flush"]}});
    let finished = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    insta::assert_snapshot!(all_told([
        ("it is in its grace period", json!({}), vec![deleted("2026-01-01T01:00:20Z")]),
        ("it still serves after that", json!({}), vec![deleted("2026-01-01T00:40:00Z")]),
        (
            "two, one of them longer",
            json!({}),
            vec![deleted("2026-01-01T00:40:00Z"), deleted("2026-01-01T00:30:00Z")],
        ),
        ("besides another", json!({}), vec![deleted("2026-01-01T00:40:00Z"), json!({})]),
        ("of a StatefulSet, held", json!({}), vec![both(&both(&held, &owned_by("StatefulSet")), &finished)]),
        ("of nobody, held", json!({}), vec![both(&held, &finished)]),
    ]));
}

/// Peers that wait for one another never become ready, because DNS has no names of pods that are
/// not.
#[test]
fn peers_that_may_wait_for_one_another_are_told_with_the_field_that_helps() {
    let headless = json!({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}});
    let peer = |name: &str| {
        let status = json!({"name": "app", "started": true, "state": {"running": {}}});
        let unready = unready(&json!({"readinessProbe": {"exec": {}}}), &status);
        both(&unready, &json!({"spec": {"hostname": name, "subdomain": "web"}}))
    };
    let ready = json!({"spec": {"hostname": "web-2", "subdomain": "web"}});
    insta::assert_snapshot!(all_told([
        ("none is ready", headless.clone(), vec![peer("web-1"), peer("web-2")]),
        ("one is ready", headless, vec![peer("web-1"), ready]),
        ("clients use the cluster IP", json!({}), vec![peer("web-1")]),
    ]));
}

/// A pod is not said to be replaced if no other pod runs.
#[test]
fn an_explanation_of_one_pod_knows_if_another_runs() {
    let ended = json!({"status": {"phase": "Failed", "reason": "Evicted",
        "message": "The node was low on resource: memory.", "conditions": []}});
    let remedy = |pods: &[Value]| {
        let cluster = cluster(&json!({}), pods);
        // The plugin reads the one pod only.
        let is_read = |object: &&Value| object["kind"] != "Pod" || object["metadata"]["name"] == "web-1";
        let objects = Objects::read(cluster.objects().iter().filter(is_read).cloned()).unwrap();
        let key = ObjectKey::new("default", "web-1");
        let services = explain_pod(&objects, &key, &objects.topology(), now(), &Options::default()).unwrap();
        services.services[0].pod.remedy().unwrap().sentence
    };
    let alone = remedy(std::slice::from_ref(&ended));
    assert!(!alone.contains("if another pod runs in its place"), "{alone}");
    let one_of_two = remedy(&[ended, json!({})]);
    assert!(one_of_two.contains("if another pod runs in its place"), "{one_of_two}");
}
