//! Prints each moment in the life of a pod, as a real kubelet wrote it
//! (`integration-tests/kubelet`), as a person reads it: while the pod is the only one of its
//! Service, and beside two that serve. A person on call can read each line of the snapshots.
//! Another test checks what the controllers publish at each of these moments.

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::explanation::Advice;
use kube_endpoint_explain::{Explanation, FailOn, LintOptions, Objects, Options, Planned, explain, lint};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

use crate::fault_manifests::folder;

/// The seconds for which time goes on after the last event.
const AFTERWARDS: i64 = 420;

/// One event of a recording: the milliseconds since the first, and the pod, or `None` once it is
/// gone.
struct Moment {
    after: i64,
    pod: Option<Value>,
}

/// Reads a recording: the time of its first event, and all events.
fn recording(name: &str) -> (Timestamp, Vec<Moment>) {
    let text = std::fs::read_to_string(folder("kubelet").join(format!("{name}.jsonl"))).unwrap();
    let (mut metadata, mut spec) = (Value::Null, Value::Null);
    let mut moments: Vec<Moment> = Vec::new();
    let mut lives = 1;
    for line in text.lines() {
        let mut event: Value = serde_json::from_str(line).unwrap();
        for (field, kept) in [("metadata", &mut metadata), ("spec", &mut spec)] {
            if event[field].is_object() {
                *kept = event[field].take();
            }
        }
        let after = (event["after"].as_f64().unwrap() * 1000.0).round();
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": event["status"]});
        let is_gone = event["event"] == "DELETED";
        pod["metadata"]["uid"] = json!(format!("uid-{lives}-of-the-recorded-pod"));
        lives += u8::from(is_gone);
        // Of several events at one time, the last counts.
        moments.retain(|moment| moment.after as f64 != after);
        moments.push(Moment { after: after as i64, pod: (!is_gone).then_some(pod) });
    }
    let first = moments[0].pod.as_ref().unwrap();
    (first["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap(), moments)
}

/// Returns a cluster with a pod of a recording, if it is not gone, beside as many pods that serve.
fn cluster(name: &str, pod: Option<&Value>, others: usize) -> Cluster {
    let nodes = ["node-1", "node-2", "node-3"].into_iter().zip(["zone-1", "zone-2", "zone-3"]);
    let cluster = nodes.fold(Cluster::new(), |cluster, (node, zone)| cluster.node(node).zone(zone));
    let cluster = cluster.service(name).selector(&[("app", name)]).change(|service| {
        service["spec"]["ports"] =
            json!([{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]);
    });
    let cluster = (0..others).fold(cluster, |cluster, at| {
        cluster.pod(&format!("other-{at}"), &[("app", name)]).container_port("http", 8080)
    });
    let Some(mut pod) = pod.cloned() else { return cluster };
    pod["metadata"]["namespace"] = json!("default");
    if let Some(ip) = pod["status"]["podIP"].as_str() {
        pod["status"]["podIPs"] = json!([{"ip": ip}]);
    }
    cluster.with(pod)
}

/// Returns a cluster after the controllers have written.
fn written(name: &str, mut cluster: Cluster, now: Timestamp) -> Cluster {
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let key = ObjectKey::new("default", name);
    let planned = Planned::new(&objects, &key, &objects.topology(), now, &Options::default());
    for plan in planned.slices.into_iter().flat_map(|plan| plan.sub_plans) {
        cluster = cluster.apply(&plan.writes);
    }
    match planned.endpoints {
        Some(plan) => cluster.apply(&plan.writes),
        None => cluster,
    }
}

/// Explains a Service after the controllers have written.
fn explained(name: &str, cluster: Cluster, now: Timestamp) -> (Explanation, u8) {
    let (key, options) = (ObjectKey::new("default", name), Options::default());
    let cluster = written(name, cluster, now);
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let said = explain(&objects, &key, &objects.topology(), now, None, &options).unwrap();
    let linted = lint(&objects, now, &options, &LintOptions::default()).exit_code(FailOn::default());
    (said, linted)
}

/// Returns the text that a person reads: the status and the first code alone and beside others, the
/// sentence and the advice about the pod alone, and beside others if they differ.
fn told(name: &str, pod: &Value, now: Timestamp) -> String {
    let [alone, beside] = [0, 2].map(|others| {
        let (said, lint) = explained(name, cluster(name, Some(pod), others), now);
        let verdict = said.verdict;
        let (status, fails) =
            (format!("{:?}", verdict.status).to_uppercase(), if lint == 0 { "" } else { "!" });
        let all = said.to_do.iter().filter(|advice| advice.pods > 0);
        let line =
            |it: &Advice| format!("\n         {} {}\n           {}", it.code, it.message, it.remedy.sentence);
        let advice: String = all.map(line).collect();
        (format!("{status}{fails} {}", verdict.code), advice)
    });
    let (both, also) = (format!("{}, beside others {}", alone.0, beside.0), &beside.1);
    let also = if alone.1.replace("; clients fail now", "") == *also {
        String::new()
    } else {
        format!("\n       beside others{also}")
    };
    format!("{both}{}{also}", alone.1)
}

/// Two texts that differ in ages say the same.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Returns what a person reads from each point in time on.
fn table(name: &str) -> String {
    let (start, moments) = recording(name);
    let mut lines: Vec<(i64, String)> = Vec::new();
    for (at, moment) in moments.iter().enumerate() {
        let until = moments.get(at + 1).map_or(moment.after + AFTERWARDS * 1000, |next| next.after);
        let Some(pod) = &moment.pod else {
            lines.push((moment.after, "gone".to_owned()));
            continue;
        };
        // The text also changes as time goes on.
        let seconds = [0, 1, 2].into_iter().chain((5..60).step_by(5)).chain((60..AFTERWARDS).step_by(60));
        let seconds = seconds.map(|second| moment.after + second * 1000);
        for after in seconds.take_while(|after| *after < until) {
            let now = Timestamp::from_millisecond(start.as_millisecond() + after).unwrap();
            let told = told(name, pod, now);
            if lines.last().is_none_or(|(_, last)| without_numbers(last) != without_numbers(&told)) {
                lines.push((after, told));
            }
        }
    }
    lines.iter().map(|(after, told)| format!("{:>7.2} {told}\n", *after as f64 / 1000.0)).collect()
}

/// Returns the names of all recordings.
fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder("kubelet")).unwrap().map(|file| file.unwrap().file_name());
    let names = files.map(|name| name.into_string().unwrap());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned())).collect();
    names.sort_unstable();
    assert_eq!(names.len(), 28);
    names
}

#[test]
fn each_moment_has_a_right_sentence_and_advice() {
    for name in names() {
        insta::with_settings!({ snapshot_suffix => &name, omit_expression => true }, {
            insta::assert_snapshot!("moments", table(&name));
        });
    }
}

/// Returns a pod with a condition, which replaces one of the same type, or without it.
fn with_condition(mut pod: Value, kind: &str, status: Option<(&str, &str)>) -> Value {
    let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|it| it["type"] != kind);
    conditions.extend(status.map(|(status, reason)| {
        json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": "2026-11-28T15:32:20Z"})
    }));
    pod
}

/// Lives without a recording, after the sources of the kubelet: its node shuts down, and it
/// resizes a pod in place.
fn unrecorded() -> [(&'static str, Vec<Option<Value>>); 2] {
    let is_ready = |pod: &Value| {
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|it| it["type"] == "Ready" && it["status"] == "True")
    };
    let ready = recording("slow-readiness").1.into_iter().find_map(|it| it.pod.filter(is_ready)).unwrap();

    // There is no deletion. A kubelet never shows a failed pod that is ready.
    let disrupted = with_condition(ready.clone(), "DisruptionTarget", Some(("True", "TerminationByKubelet")));
    let unready = ["Ready", "ContainersReady"]
        .into_iter()
        .fold(disrupted.clone(), |pod, kind| with_condition(pod, kind, Some(("False", "PodFailed"))));
    let mut failed = unready.clone();
    failed["status"]["phase"] = json!("Failed");
    failed["status"]["reason"] = json!("Terminated");
    failed["status"]["message"] = json!("Pod was terminated in response to imminent node shutdown.");

    let mut asked = ready.clone();
    asked["metadata"]["generation"] = json!(2);
    asked["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "200m"}});
    let deferred = with_condition(asked.clone(), "PodResizePending", Some(("True", "Deferred")));
    let under_way = with_condition(asked.clone(), "PodResizeInProgress", Some(("True", "")));
    let mut done = asked.clone();
    done["status"]["observedGeneration"] = json!(2);
    [
        ("node-shutdown", [ready.clone(), disrupted, unready, failed].map(Some).into()),
        ("resize", [ready, asked, deferred, under_way, done].map(Some).into()),
    ]
}

/// Returns what a pod's status asks for: its uid and the conditions ready, serving and terminating
/// of its endpoint in a slice, and if its address is ready in the Endpoints.
fn wanted(pod: Option<&Value>) -> (Option<(String, [bool; 3])>, Option<bool>) {
    let Some(pod) = pod else { return (None, None) };
    let status = &pod["status"];
    if !status["podIP"].is_string() || status["phase"] == "Succeeded" || status["phase"] == "Failed" {
        return (None, None);
    }
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let serves = conditions.any(|it| it["type"] == "Ready" && it["status"] == "True");
    let ends = pod["metadata"]["deletionTimestamp"].is_string();
    let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
    (Some((uid, [serves && !ends, serves, ends])), (!ends).then_some(serves))
}

/// Returns the same of the outputs. The name of the pod is that of the Service.
fn published(name: &str, outputs: &[Value]) -> (Option<(String, [bool; 3])>, Option<bool>) {
    let is_own = |it: &&Value| it["targetRef"]["name"] == name;
    let lists = |kind: &'static str, parts: &'static str, list: &'static str| {
        let objects = outputs.iter().filter(move |it| it["kind"] == kind);
        let parts = objects.flat_map(move |it| match parts {
            "" => vec![it],
            _ => it[parts].as_array().into_iter().flatten().collect(),
        });
        parts.flat_map(move |it| it[list].as_array().into_iter().flatten())
    };
    let endpoints: Vec<&Value> = lists("EndpointSlice", "", "endpoints").filter(is_own).collect();
    let of_slice = |it: &&Value| {
        let conditions = ["ready", "serving", "terminating"].map(|kind| it["conditions"][kind] == true);
        (it["targetRef"]["uid"].as_str().unwrap().to_owned(), conditions)
    };
    let [ready, unready] = ["addresses", "notReadyAddresses"]
        .map(|list| lists("Endpoints", "subsets", list).filter(is_own).count());
    assert!(endpoints.len() <= 1 && ready + unready <= 1, "{outputs:#?}");
    (endpoints.first().map(of_slice), (ready + unready == 1).then_some(ready == 1))
}

#[test]
fn the_endpoints_are_right_at_each_moment() {
    let recorded = names().into_iter().map(|name| {
        let pods = recording(&name).1.into_iter().map(|moment| moment.pod).collect();
        (name, pods)
    });
    let lives = recorded.chain(unrecorded().map(|(name, pods)| (name.to_owned(), pods)));
    let mut written_moments = 0;
    for (name, pods) in lives {
        let mut pods: Vec<Option<Value>> = pods;
        for pod in pods.iter_mut().flatten() {
            pod["metadata"]["name"] = json!(name);
            pod["metadata"]["labels"] = json!({"app": name});
        }
        let (mut outputs, mut before): (Vec<Value>, _) = (Vec::new(), None);
        for (at, pod) in pods.iter().enumerate() {
            let cluster = outputs.iter().fold(cluster(&name, pod.as_ref(), 1), |it, object| it.with(object));
            let cluster = written(&name, cluster, Timestamp::UNIX_EPOCH);
            let is_output = |it: &&Value| it["kind"] == "EndpointSlice" || it["kind"] == "Endpoints";
            let now: Vec<Value> = cluster.objects().iter().filter(is_output).cloned().collect();
            let wanted = wanted(pod.as_ref());
            assert_eq!(published(&name, &now), wanted, "{name} at event {at}");
            // A change of the pod that no client sees costs no write.
            assert_eq!(now != outputs, before.as_ref() != Some(&wanted), "{name} at event {at}");
            written_moments += usize::from(now != outputs);
            (outputs, before) = (now, Some(wanted));
        }
    }
    assert!(written_moments > 100, "{written_moments}");
}
