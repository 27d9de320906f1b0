//! The pods that workloads would make: manifests have none. Manifests determine labels, ports and
//! probes, and nothing about the state of a pod, so these pods count as ready, unless the status of
//! a stored workload tells that fewer are.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::bail;
use kube_endpoint_apiserver_rules::selector::LabelSelector;
use kube_endpoint_core_model::Text;
use kube_endpoint_explain::{Idle, IdleWorkload};
use serde_json::{Value, json};

use super::Files;

/// The kinds with a template of pods.
const WORKLOADS: [(&str, &str); 7] = [
    // Its pods have the names that others must not take.
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("", "replicationcontrollers"),
    ("argoproj.io", "rollouts"),
    ("batch", "jobs"),
];

/// The node of a pod that is on none, if the files have no nodes.
const NODE: &str = "not-known";

/// The most pods of one workload.
const MOST: u64 = 1000;

impl Files {
    /// Adds the pods without a status, and those of workloads that have none in the files. A server
    /// that has stored a workload has its pods, too: they are missing only if no file has pods.
    pub(super) fn add_missing_pods(&mut self) -> anyhow::Result<()> {
        let pods = self.kinds.get(&(String::new(), "pods".to_owned()));
        let has_pods = pods.is_some_and(|pods| self.is_known(pods));
        let (mut made, mut of_workloads) = (Vec::new(), BTreeSet::new());
        let with_status = pods.into_iter().flat_map(|pods| pods.objects.keys().cloned());
        let without = self.without_status.iter().map(key_of);
        let mut taken: BTreeSet<(String, String)> = with_status
            .map(|(namespace, name)| (namespace.to_string(), name.to_string()))
            .chain(without)
            .collect();
        for of in WORKLOADS {
            let Some(kind) = self.kinds.get(&(of.0.to_owned(), of.1.to_owned())) else { continue };
            for ((namespace, name), object) in &kind.objects {
                let workload = object.value();
                if object.is_stored && has_pods {
                    continue;
                }
                of_workloads.insert(Text::from(&**namespace));
                if is_owned(&workload)
                    || lacks_its_labels(&workload)
                    || self.has_pods_of(namespace, &workload)
                {
                    continue;
                }
                check_template(&workload, namespace, name)?;
                let ready = ready_of(&workload);
                for at in 0..count_of(&workload) {
                    let pod_name = free_name(&workload, name, at, |name| {
                        taken.insert((namespace.to_string(), name.to_owned()))
                    });
                    let is_ready = ready.is_none_or(|ready| at < ready);
                    made.push((pod(&workload, namespace, name, pod_name), is_ready));
                }
            }
        }
        // The Jobs of a CronJob come and go.
        let cron_jobs = self.kinds.get(&("batch".to_owned(), "cronjobs".to_owned()));
        let cron_jobs = cron_jobs.into_iter().flat_map(|kind| &kind.objects);
        let cron_jobs = cron_jobs.filter(|(_, object)| !(object.is_stored && has_pods));
        of_workloads.extend(cron_jobs.map(|((namespace, _), _)| Text::from(&**namespace)));
        if !of_workloads.is_empty() {
            let pods = self.kind("v1", "Pod");
            // There may be none, if these are scaled to zero.
            pods.has_manifests = true;
            pods.extents.note_manifests(&of_workloads);
        }
        let is_each_ready = made.iter().all(|(_, is_ready)| *is_ready);
        let without_status = std::mem::take(&mut self.without_status).into_iter().map(|pod| (pod, true));
        for (pod, is_ready) in without_status.chain(made) {
            self.add_assumed(pod, is_ready)?;
        }
        let count = self.assumed.len();
        if let Some(first) = self.assumed.first() {
            let (pods, them) = if count == 1 { ("pod has", "it is") } else { ("pods have", "they are") };
            let ready = match is_each_ready {
                true => "to be ready and to have addresses",
                false => {
                    "to have addresses, and to be ready unless the status of their workload tells otherwise"
                }
            };
            self.notes.push(format!(
                "{count} {pods} no status, such as {first}, as manifests have none: {them} taken to run, {ready}."
            ));
        }
        Ok(())
    }

    /// Returns true if some pod has the labels of a workload's selector, as those that it made
    /// have.
    fn has_pods_of(&self, namespace: &str, workload: &Value) -> bool {
        let selector = &workload["spec"]["selector"];
        // That of a ReplicationController has labels alone.
        let is_plain = workload["kind"] == "ReplicationController";
        let labels = if is_plain { selector } else { &selector["matchLabels"] }.as_object();
        let labels = labels.into_iter().flatten();
        let text: Vec<String> =
            labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
        let Ok(selector) = LabelSelector::parse(&text.join(",")) else { return false };
        let pods = self.kinds.get(&(String::new(), "pods".to_owned()));
        let pods = pods.into_iter().flat_map(|pods| &pods.objects);
        let mut own = pods.filter(|((of, _), _)| **of == *namespace).map(|(_, pod)| pod);
        !selector.is_everything() && own.any(|pod| selector.matches(|label| pod.label(label)))
    }

    /// Adds a pod without a status as one that runs and has an address of each family.
    fn add_assumed(&mut self, mut pod: Value, is_ready: bool) -> anyhow::Result<()> {
        let nodes = self.kinds.get(&(String::new(), "nodes".to_owned()));
        if pod["spec"]["nodeName"].is_null() && pod["spec"].is_object() {
            let first = nodes.and_then(|nodes| nodes.objects.keys().next());
            pod["spec"]["nodeName"] = first.map_or(NODE, |(_, name)| &**name).into();
        }
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        self.assumed.push(format!("{}/{}", text("namespace"), text("name")));
        // From ranges that no cluster uses: for benchmarks, and for documentation.
        let number = u32::try_from(self.assumed.len()).unwrap_or(u32::MAX);
        let ipv4 = Ipv4Addr::from(0xC612_0000_u32.saturating_add(number));
        let ipv6 = Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(number));
        // Nobody knows which container is not ready.
        let statuses = if is_ready { statuses_of(&pod["spec"]) } else { Vec::new() };
        let ready = is_ready && statuses.iter().all(|it| it["ready"] == true);
        let ready = if ready { "True" } else { "False" };
        let conditions =
            [("PodScheduled", "True"), ("Initialized", "True"), ("ContainersReady", ready), ("Ready", ready)]
                .map(|(of, status)| json!({"type": of, "status": status}));
        pod["status"] = json!({
            "phase": "Running",
            "podIP": ipv4,
            "podIPs": [{"ip": ipv4}, {"ip": ipv6}],
            "conditions": conditions,
            "containerStatuses": statuses,
        });
        self.kind("v1", "Pod").add(&pod, false)
    }
}

/// Returns the statuses of the containers of a pod that runs. One is not ready if its startup or
/// readiness probe asks a port by a name that no container has: such a probe never succeeds.
fn statuses_of(spec: &Value) -> Vec<Value> {
    let list = |of: &str| spec[of].as_array().into_iter().flatten();
    let sidecars = || list("initContainers").filter(|it| it["restartPolicy"] == "Always");
    let ports =
        list("containers").chain(sidecars()).flat_map(|it| it["ports"].as_array().into_iter().flatten());
    let names: BTreeSet<&str> = ports.filter_map(|port| port["name"].as_str()).collect();
    let asks_nobody = |probe: &Value| {
        let port = ["httpGet", "tcpSocket"].iter().find_map(|form| probe[*form]["port"].as_str());
        // A number in quotes is one.
        port.is_some_and(|port| port.parse::<u16>().is_err() && !names.contains(port))
    };
    let status = |container: &Value| {
        let started = !asks_nobody(&container["startupProbe"]);
        let ready = started && !asks_nobody(&container["readinessProbe"]);
        json!({"name": container["name"], "ready": ready, "started": started, "state": {"running": {}}})
    };
    list("containers").map(status).collect()
}

/// Returns the labels that a controller gives one of the pods of a workload, beside those of the
/// template.
fn labels_of_controller(workload: &Value, name: &str, pod_name: &str) -> Value {
    match workload["kind"].as_str() {
        Some("StatefulSet") => {
            let index = pod_name.rsplit('-').next().unwrap_or_default();
            json!({"statefulset.kubernetes.io/pod-name": pod_name, "apps.kubernetes.io/pod-index": index})
        }
        Some("Job") => json!({"batch.kubernetes.io/job-name": name, "job-name": name}),
        _ => json!({}),
    }
}

/// Returns true if the template of a workload lacks the labels of its selector: it makes no pods.
fn lacks_its_labels(workload: &Value) -> bool {
    let kind = workload["kind"].as_str().unwrap_or_default();
    let idle = IdleWorkload::read(kind, workload);
    matches!(idle, Some(IdleWorkload { idle: Idle::OtherLabels { .. }, .. }))
}

/// Returns true if another workload made this one, as a Deployment makes ReplicaSets.
fn is_owned(workload: &Value) -> bool {
    let owners = workload["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.into_iter().any(|owner| owner["controller"] == true)
}

/// Returns how many pods a workload would make.
fn count_of(workload: &Value) -> u64 {
    let wanted = match workload["kind"].as_str() {
        // One for each node, and nobody knows the nodes.
        Some("DaemonSet") => return 1,
        Some("Job") => &workload["spec"]["parallelism"],
        _ => &workload["spec"]["replicas"],
    };
    wanted.as_u64().unwrap_or(1).min(MOST)
}

/// Returns how many of its pods are ready by the status of a workload, or `None` if it has none.
fn ready_of(workload: &Value) -> Option<u64> {
    let status = workload["status"].as_object().filter(|status| !status.is_empty())?;
    let field = match workload["kind"].as_str() {
        Some("DaemonSet") => "numberReady",
        Some("Job") => "ready",
        _ => "readyReplicas",
    };
    // A count of none is left out.
    Some(status.get(field).and_then(Value::as_u64).unwrap_or_default())
}

fn key_of(pod: &Value) -> (String, String) {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// Returns the name of a pod, that of its kind if another workload has pods of the shorter one.
fn free_name(workload: &Value, name: &str, at: u64, mut take: impl FnMut(&str) -> bool) -> String {
    let kind = workload["kind"].as_str().unwrap_or_default().to_lowercase();
    let names = [format!("{name}-{at}"), format!("{name}-{kind}-{at}")];
    let more = (1_u64..).map(|number| format!("{name}-{kind}-{at}-{number}"));
    let mut names = names.into_iter().chain(more);
    names.find(|name| take(name)).unwrap_or_default()
}

/// Checks the fields of a template that the pods get.
fn check_template(workload: &Value, namespace: &str, name: &str) -> anyhow::Result<()> {
    let kind = workload["kind"].as_str().unwrap_or_default();
    for field in ["labels", "annotations"] {
        let values = workload["spec"]["template"]["metadata"][field].as_object();
        if let Some((key, _)) = values.into_iter().flatten().find(|(_, value)| !value.is_string()) {
            bail!(
                "{kind} {namespace}/{name}: spec.template.metadata.{field}: the value of {key:?} is no string; put it in quotes"
            );
        }
    }
    Ok(())
}

/// Returns a pod of a workload.
fn pod(workload: &Value, namespace: &str, name: &str, pod_name: String) -> Value {
    let template = &workload["spec"]["template"];
    let mut metadata = json!({
        "name": pod_name,
        "namespace": namespace,
        "ownerReferences": [{
            "apiVersion": workload["apiVersion"], "kind": workload["kind"], "name": name, "controller": true,
        }],
    });
    for field in ["labels", "annotations"] {
        if template["metadata"][field].is_object() {
            metadata[field] = template["metadata"][field].clone();
        }
    }
    let mut labels = labels_of_controller(workload, name, &pod_name);
    if let (Value::Object(all), Some(own)) = (&mut labels, metadata["labels"].as_object()) {
        all.extend(own.clone());
    }
    metadata["labels"] = labels;
    let mut spec = template["spec"].clone();
    if workload["kind"] == "StatefulSet" && spec.is_object() {
        // The pods get DNS names from these.
        spec["hostname"] = pod_name.into();
        if workload["spec"]["serviceName"].is_string() {
            spec["subdomain"] = workload["spec"]["serviceName"].clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}
