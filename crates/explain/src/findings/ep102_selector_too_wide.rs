//! The selector takes in the pods of two workloads.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Pod, Text};
use serde::Serialize;
use serde_json::json;

use super::Finding;
use super::words::names;
use crate::facts::raw::Serving;
use crate::facts::remedy::Person::ServiceOwner;
use crate::facts::remedy::{PatchForm, Remedy, Step};
use crate::findings::inputs::{FaultInputs, ReadyPod};
use crate::findings::rank::TrafficLost;

about! {
    /// Clients of the Service reach pods of different programs in turn. Two workloads differ if the
    /// labels `app.kubernetes.io/name`, `instance` or `component` of their pods differ, or, where
    /// pods have none of these, the name or the image repository of the container that serves.
    /// Releases, canaries, blue and green of one program do not differ, and neither do workloads
    /// whose pods have the same labels: nobody could tell them apart. Headless Services are left
    /// out, as members of a ring of several programs find one another through one. The remedy names
    /// the labels that tell them apart, and narrows the selector if the Service has the name of one
    /// of the workloads.
    EP102 "selector-too-wide" Warning
    "The selector takes in the pods of two workloads that differ."
}

/// A selector that takes in different workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectorTooWide {
    /// The workloads, such as `Deployment web`. That with the name of the Service is first.
    pub workloads: Vec<String>,
    /// Labels that all pods of the first workload have, and no pod of the others.
    pub labels: Vec<(Text, Text)>,
    /// True if the Service has the name of the first workload.
    pub is_named: bool,
}

/// The labels by which workloads of one program are told apart.
const IDENTITY: [&str; 3] =
    ["app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"];

/// Labels that a controller changes, or that name a release and no program.
const PASSING: [&str; 6] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "rollouts-pod-template-hash",
];

/// Pods of one workload.
struct Workload<'a> {
    kind: &'a str,
    name: &'a str,
    pods: Vec<ReadyPod<'a>>,
}

impl Workload<'_> {
    fn called(&self) -> String {
        match self.kind {
            "" => format!("pod {}", self.name),
            kind => format!("{kind} {}", self.name),
        }
    }

    /// Returns the labels that all of its pods have, without those that change.
    fn labels(&self) -> BTreeMap<&Text, &Text> {
        let of = |pod: &Pod| -> BTreeSet<(Text, Text)> {
            pod.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let all = self.pods.iter().map(|(pod, _)| of(pod)).reduce(|one, two| &one & &two);
        let all = all.unwrap_or_default();
        let of_first = self.pods.first().into_iter().flat_map(|(pod, _)| pod.labels.iter());
        of_first
            .filter(|(key, value)| {
                !PASSING.contains(&&***key) && all.contains(&((*key).clone(), (*value).clone()))
            })
            .collect()
    }

    /// Returns true if another workload is another program: by its labels, or without them by the
    /// container that serves these ports.
    fn differs_from(&self, other: &Self, ports: &BTreeSet<i32>) -> bool {
        let of = |it: &Self| {
            it.pods.first().map(|(pod, serving)| {
                let labels = IDENTITY.map(|key| pod.labels.get(key).cloned());
                let container =
                    serving.container_for(ports).map(|it| (it.name.clone(), it.repository().to_owned()));
                (labels, container)
            })
        };
        let (Some((labels, container)), Some((other_labels, other_container))) = (of(self), of(other)) else {
            return false;
        };
        match labels.iter().chain(&other_labels).any(Option::is_some) {
            true => labels != other_labels,
            false => container != other_container,
        }
    }
}

/// Returns the workload of a pod. A Deployment's name is that of its ReplicaSet without the hash.
fn workload_of<'a>(pod: &'a Pod, serving: &'a Serving) -> (&'a str, &'a str) {
    let Some((kind, name)) = &serving.owner else { return ("", &pod.key.name) };
    let hash = pod.labels.get("pod-template-hash");
    let of_deployment = hash.and_then(|hash| name.strip_suffix(&**hash)?.strip_suffix('-'));
    match of_deployment.filter(|_| **kind == *"ReplicaSet") {
        Some(name) => ("Deployment", name),
        None => (kind, name),
    }
}

impl Finding for SelectorTooWide {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let service = inputs.service;
        let Some(pods) = inputs.ready_pods().filter(|_| !service.is_headless()) else { return Vec::new() };
        let mut all: BTreeMap<(&str, &str), Vec<ReadyPod<'_>>> = BTreeMap::new();
        for (pod, serving) in pods {
            all.entry(workload_of(pod, serving)).or_default().push((pod, serving));
        }
        let mut all: Vec<Workload<'_>> =
            all.into_iter().map(|((kind, name), pods)| Workload { kind, name, pods }).collect();
        // Jobs have a finding of their own.
        all.retain(|workload| workload.kind != "Job");
        let is_named = |workload: &Workload<'_>| *workload.name == *service.key.name;
        all.sort_by_key(|workload| (!is_named(workload), std::cmp::Reverse(workload.pods.len())));
        let Some((first, others)) = all.split_first() else { return Vec::new() };
        let targets = service
            .ports
            .iter()
            .flat_map(|port| {
                first.pods.iter().filter_map(|(pod, _)| kube_endpoint_core_model::port::find_port(pod, port))
            })
            .collect();
        let own = first.labels();
        let differs = |it: &&Workload<'_>| it.differs_from(first, &targets) && it.labels() != own;
        let others: Vec<&Workload<'_>> = others.iter().filter(differs).collect();
        if others.is_empty() {
            return Vec::new();
        }
        let tells_apart = |(key, value): &(&Text, &Text)| {
            others.iter().all(|it| it.pods.iter().all(|(pod, _)| pod.labels.get(key) != Some(value)))
        };
        let mut labels: Vec<(Text, Text)> = own
            .iter()
            .map(|(key, value)| (*key, *value))
            .filter(tells_apart)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        labels.sort_by_key(|(key, _)| !IDENTITY.contains(&&**key));
        labels.truncate(3);
        let workloads = std::iter::once(first).chain(others.iter().copied()).map(Workload::called).collect();
        vec![Self { workloads, labels, is_named: is_named(first) }]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let show = Step::kubectl_in(&service.namespace, ["get", "deployments,statefulsets,replicasets"]);
        let Some((key, value)) = self.labels.first() else {
            let sentence = "Give the pods of each workload a label of its own, and add it to spec.selector";
            return Remedy::ask(ServiceOwner, sentence).shown_by([show]);
        };
        let first = self.workloads.first().map_or("", String::as_str);
        let sentence = format!(
            "Add {key}={value} to spec.selector, if only {first} should get the clients of the Service"
        );
        let narrow = Step::Patch {
            kind: "service",
            object: service.clone(),
            form: PatchForm::Merge,
            patch: json!({"spec": {"selector": {&**key: value}}}),
        };
        Remedy::ask(ServiceOwner, sentence).shown_by([show]).then(self.is_named.then_some(narrow))
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl fmt::Display for SelectorTooWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<Text> = self.workloads.iter().map(|it| it.as_str().into()).collect();
        write!(f, "the selector takes in different workloads: {}", names(&all))?;
        let labels: Vec<String> = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        match &*labels {
            [] => Ok(()),
            labels => write!(f, "; only the first has {}", labels.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::findings::Code;
    use crate::findings::testing::{Example, example};

    /// Gives the second pod labels and an image.
    fn other(example: Example, labels: Value, image: &str) -> Example {
        let container = json!([{"name": "app", "image": image,
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]);
        let patch = json!({"metadata": {"labels": labels}, "spec": {"containers": container}});
        example.with("Pod/db-5f6c7d8b9c-abcde", patch)
    }

    #[test]
    fn a_canary_of_the_same_program_is_no_other_workload() {
        let wide = example("ep102-selector-too-wide");
        assert!(wide.finds(Code::SelectorTooWide));
        let canary = json!({"app.kubernetes.io/name": "web", "track": "canary"});
        assert!(!other(wide.clone(), canary, "example.com/web:2").finds(Code::SelectorTooWide));
        let headless = wide.with("Service/web", json!({"spec": {"clusterIP": "None"}}));
        assert!(!headless.finds(Code::SelectorTooWide));
    }
}
