//! Prints each moment in the life of a pod, as a real kubelet wrote it
//! (`integration-tests/kubelet`), as a person reads it: while the pod is the only one of its
//! Service, and beside two that serve. A person on call can read each line of the snapshots.

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
    for line in text.lines() {
        let mut event: Value = serde_json::from_str(line).unwrap();
        for (field, kept) in [("metadata", &mut metadata), ("spec", &mut spec)] {
            if event[field].is_object() {
                *kept = event[field].take();
            }
        }
        let after = (event["after"].as_f64().unwrap() * 1000.0).round();
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": event["status"]});
        let is_gone = event["event"] == "DELETED";
        // Of several events at one time, the last counts.
        moments.retain(|moment| moment.after as f64 != after);
        moments.push(Moment { after: after as i64, pod: (!is_gone).then_some(pod) });
    }
    let created = metadata["creationTimestamp"].as_str().unwrap().parse().unwrap();
    (created, moments)
}

/// Returns a cluster with a pod of a recording, beside as many pods that serve.
fn cluster(name: &str, pod: &Value, others: usize) -> Cluster {
    let nodes = ["node-1", "node-2", "node-3"].into_iter().zip(["zone-1", "zone-2", "zone-3"]);
    let cluster = nodes.fold(Cluster::new(), |cluster, (node, zone)| cluster.node(node).zone(zone));
    let cluster = cluster.service(name).selector(&[("app", name)]).change(|service| {
        service["spec"]["ports"] =
            json!([{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}]);
    });
    let cluster = (0..others).fold(cluster, |cluster, at| {
        cluster.pod(&format!("other-{at}"), &[("app", name)]).container_port("http", 8080)
    });
    let mut pod = pod.clone();
    pod["metadata"]["namespace"] = json!("default");
    pod["metadata"]["uid"] = json!("uid-of-the-recorded-pod");
    if let Some(ip) = pod["status"]["podIP"].as_str() {
        pod["status"]["podIPs"] = json!([{"ip": ip}]);
    }
    cluster.with(pod)
}

/// Explains a Service after the controllers have written.
fn explained(name: &str, mut cluster: Cluster, now: Timestamp) -> (Explanation, u8) {
    let (key, options) = (ObjectKey::new("default", name), Options::default());
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let planned = Planned::new(&objects, &key, &objects.topology(), now, &options);
    for plan in planned.slices.into_iter().flat_map(|plan| plan.sub_plans) {
        cluster = cluster.apply(&plan.writes);
    }
    if let Some(plan) = planned.endpoints {
        cluster = cluster.apply(&plan.writes);
    }
    let objects = Objects::read(cluster.objects().iter().cloned()).unwrap();
    let said = explain(&objects, &key, &objects.topology(), now, None, &options).unwrap();
    let linted = lint(&objects, now, &options, &LintOptions::default()).exit_code(FailOn::default());
    (said, linted)
}

/// Returns the text that a person reads: the status and the first code alone and beside others, the
/// sentence and the advice about the pod alone, and beside others if they differ.
fn told(name: &str, pod: &Value, now: Timestamp) -> String {
    let [alone, beside] = [0, 2].map(|others| {
        let (said, lint) = explained(name, cluster(name, pod, others), now);
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
            break;
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

#[test]
fn each_moment_has_a_right_sentence_and_advice() {
    let files = std::fs::read_dir(folder("kubelet")).unwrap().map(|file| file.unwrap().file_name());
    let names = files.map(|name| name.into_string().unwrap());
    let mut names: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".jsonl")?.to_owned())).collect();
    names.sort_unstable();
    assert_eq!(names.len(), 27);
    for name in names {
        insta::with_settings!({ snapshot_suffix => &name, omit_expression => true }, {
            insta::assert_snapshot!("moments", table(&name));
        });
    }
}
