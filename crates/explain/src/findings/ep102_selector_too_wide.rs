//! The selector of the Service takes in workloads that run different programs.

use std::collections::BTreeMap;

use serde_json::json;

use super::words::pairs;
use super::{NotDeclared, PodReason, PortNameNotFound, PortNotDeclared, SomePortsNotFound};
use crate::facts::remedy::PatchForm;
use crate::findings::pod::Publication;
use crate::findings::prelude::*;
use crate::models::programs::{self, Program, ServingPod};
use crate::models::selection::Selection;

about! {
    /// Clients of the Service reach any of these programs, or the pods of one have no port for
    /// them. Two workloads (owners of pods: a Deployment, a StatefulSet, a DaemonSet, a Job,
    /// or nobody) run different programs if their labels `app.kubernetes.io/name`, `instance` or
    /// `component` differ, or the name or the image repository of the container that serves the
    /// Service. Versions, tracks and colours do not count, nor the names of releases such as
    /// `web-canary`: canaries, blue and green, and rollouts are intended. It is no finding if the
    /// templates have the same labels, if the workloads are components of one program behind a
    /// headless Service, or if the selector asks for a label with the value `true`, with which
    /// templates take part.
    EP102 "selector-too-wide" Warning
    "The selector of the Service takes in workloads that run different programs."
}

/// A selector that takes in several programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectorTooWide {
    /// The EndpointSelector whose selector it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_selector: Option<Text>,
    /// The selector, as kubectl writes it.
    pub selector: String,
    /// The program for which the Service is, if that is known, then the others.
    pub programs: Vec<OfProgram>,
    /// True if the Service is for the first one.
    pub first_is_meant: bool,
}

/// The workloads that run one program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfProgram {
    /// Such as `Deployment web`.
    pub workloads: Vec<Text>,
    /// A label that their pods have, and those of the other programs have not, or nothing.
    pub label: BTreeMap<Text, Text>,
    pub pods: Vec<Text>,
    /// True if clients are sent to some of them.
    pub serves: bool,
}

impl Finding for SelectorTooWide {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let (endpoint_selector, own, selector) = match inputs.selection {
            Selection::Own(selector) => (None, Some(selector), pairs(selector)),
            Selection::Attached { name, selector, .. } => (Some(name.clone()), None, selector.to_string()),
            _ => return Vec::new(),
        };
        let lasting = inputs.pods.iter().filter(|pod| !pod.is_terminal() && !pod.is_terminating());
        let pods = lasting.map(|pod| Some((pod, inputs.objects.raw.serving(&pod.key)?)));
        let Some(pods) = pods.collect::<Option<Vec<ServingPod<'_>>>>() else { return Vec::new() };
        let mut programs = programs::several(inputs.service, own, &pods);
        if programs.is_empty() {
            return Vec::new();
        }
        let meant = programs::meant(inputs.service, &programs);
        if let Some(meant) = meant {
            let first = programs.remove(meant);
            programs.insert(0, first);
        }
        let published = inputs.explained.iter().filter(|pod| pod.publication == Publication::Ready);
        let published: Vec<&Text> = published.map(|pod| &pod.name).collect();
        let key = telling_label(&programs);
        let programs =
            programs.iter().map(|program| OfProgram::of(program, key.as_ref(), &published)).collect();
        vec![Self { endpoint_selector, selector, programs, first_is_meant: meant.is_some() }]
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let selector = read.selector_of(self.endpoint_selector.as_ref());
        let labels = self.programs.iter().flat_map(|program| {
            let pod = program.pods.get(..1).unwrap_or_default();
            program.label.iter().flat_map(|(label, value)| read.label_of_pods(pod, label, Some(value)))
        });
        std::iter::once(selector).chain(labels).collect()
    }

    /// The label of the program that is meant makes the selector narrow enough.
    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let place = match &self.endpoint_selector {
            Some(name) => format!("spec.selector.matchLabels of EndpointSelector {name}"),
            None => "spec.selector".to_owned(),
        };
        let show =
            Step::kubectl_in(&service.namespace, ["get", "pods", "-l", &self.selector, "--show-labels"]);
        let first = self.programs.first().filter(|_| self.first_is_meant);
        let labels: Vec<Text> = self.programs.iter().filter_map(OfProgram::pair).map(Text::from).collect();
        let remedy = match (first, first.and_then(OfProgram::pair)) {
            (Some(first), Some(pair)) => {
                let added = json!(first.label);
                let (kind, name, selector) = match &self.endpoint_selector {
                    Some(name) => ("endpointselector", name, json!({"matchLabels": added})),
                    None => ("service", &service.name, added),
                };
                let patch = Step::Patch {
                    kind,
                    object: ObjectKey { namespace: service.namespace.clone(), name: name.clone() },
                    form: PatchForm::Merge,
                    patch: json!({"spec": {"selector": selector}}),
                };
                let sentence = format!("Add {pair} to {place}, if only {} is meant", names(&first.workloads));
                Remedy::ask(ServiceOwner, sentence).then([patch])
            }
            (Some(first), None) => Remedy::ask(
                PodOwner,
                format!(
                    "Give the pods of {} a label of their own and add it to {place}, or take a label that it asks for out of the other pod template",
                    names(&first.workloads)
                ),
            ),
            (None, _) => Remedy::ask(
                ServiceOwner,
                format!("Add the label of the workload that is meant to {place}: {}", labels.join(" or ")),
            ),
        };
        remedy.shown_by([show])
    }

    fn traffic_lost(&self) -> TrafficLost {
        let serving = self.programs.iter().filter(|program| program.serves).count();
        if serving > 1 { TrafficLost::Some } else { TrafficLost::None }
    }

    /// A port that only another program has.
    fn explains(&self, other: &Fault) -> bool {
        let Fault::PortNotDeclared(PortNotDeclared { not_declared, .. }) = other else { return false };
        let (NotDeclared::Some { pods, .. } | NotDeclared::Job { pods, .. }) = not_declared else {
            return false;
        };
        pods.iter().all(|pod| {
            self.program_of(pod).is_some_and(|program| program.pods.iter().all(|it| pods.contains(it)))
        })
    }

    fn explains_pod(&self, pod: &Text, reason: &PodReason) -> bool {
        let is_elsewhere = matches!(
            reason,
            PodReason::PortNameNotFound(PortNameNotFound { elsewhere: true, .. })
                | PodReason::SomePortsNotFound(SomePortsNotFound { elsewhere: true, .. })
        );
        is_elsewhere && self.program_of(pod).is_some_and(|program| !program.serves)
    }
}

impl SelectorTooWide {
    fn program_of(&self, pod: &Text) -> Option<&OfProgram> {
        self.programs.iter().find(|program| program.pods.contains(pod))
    }
}

impl OfProgram {
    fn of(program: &Program<'_>, key: Option<&Text>, published: &[&Text]) -> Self {
        let told = key.and_then(|key| program.own.get_key_value(key)).or_else(|| program.own.iter().next());
        Self {
            workloads: program.workloads.iter().map(|(kind, name)| format!("{kind} {name}").into()).collect(),
            label: told.map(|(key, value)| (key.clone(), value.clone())).into_iter().collect(),
            pods: program.pods.iter().map(|(pod, _)| pod.key.name.clone()).collect(),
            serves: program.pods.iter().any(|(pod, _)| published.contains(&&pod.key.name)),
        }
    }

    fn pair(&self) -> Option<String> {
        self.label.iter().next().map(|(key, value)| format!("{key}={value}"))
    }
}

/// Returns the label that tells most of the programs apart, one that names a component, an
/// installation or a program before others.
fn telling_label(programs: &[Program<'_>]) -> Option<Text> {
    let mut programs_with: BTreeMap<&Text, usize> = BTreeMap::new();
    for key in programs.iter().flat_map(|program| program.own.keys()) {
        *programs_with.entry(key).or_default() += 1;
    }
    let is_other =
        |key: &str| programs::NAMING.iter().position(|it| *it == key).unwrap_or(programs::NAMING.len());
    let best =
        programs_with.into_iter().min_by_key(|(key, count)| (std::cmp::Reverse(*count), is_other(key)));
    best.map(|(key, _)| key.clone())
}

impl fmt::Display for SelectorTooWide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint_selector, selector, programs, .. } = self;
        let of = |program: &OfProgram| {
            let label = program.pair().map(|pair| format!(" ({pair})"));
            format!("{}{}", names(&program.workloads), label.unwrap_or_default())
        };
        let all: Vec<Text> = programs.iter().map(|program| of(program).into()).collect();
        let by =
            endpoint_selector.iter().map(|name| format!(" of EndpointSelector {name}")).collect::<String>();
        let listed = match all.as_slice() {
            [one, other] => format!("{one} and {other}"),
            all => names(all),
        };
        write!(f, "the selector {selector}{by} takes in workloads of several programs: {listed}")?;
        let serving: Vec<&OfProgram> = programs.iter().filter(|program| program.serves).collect();
        match serving.as_slice() {
            [] => Ok(()),
            [only] => write!(f, "; only {} gets clients", names(&only.workloads)),
            _ => f.write_str("; each gets clients"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::findings::testing::*;

    /// Gives the second pod labels and a container.
    fn other(example: Example, labels: Value, name: &str, image: &str) -> Example {
        let container =
            json!([{"name": name, "image": image, "ports": [{"name": "http", "containerPort": 8080}]}]);
        let patch = json!({"metadata": {"labels": labels}, "spec": {"containers": container}});
        example.with("Pod/db-5f6c7d8b9c-abcde", patch)
    }

    #[test]
    fn a_canary_is_the_same_program() {
        let wide = example("ep102-selector-too-wide");
        assert!(wide.finds(Code::SelectorTooWide));
        let canary = json!({"app.kubernetes.io/name": "web", "track": "canary"});
        assert!(!other(wide, canary, "app-canary", "example.com/web:2").finds(Code::SelectorTooWide));
    }

    #[test]
    fn templates_with_the_same_labels_are_meant() {
        let same = json!({"app.kubernetes.io/name": "web"});
        let wide = example("ep102-selector-too-wide");
        assert!(!other(wide, same, "db", "example.com/db:1").finds(Code::SelectorTooWide));
    }
}
