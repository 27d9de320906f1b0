//! Reads pods: the programs that use Endpoints, and who runs as which ServiceAccount.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{ObjectKey, Text};
use serde_json::Value;

use super::evidence::{EvidenceKind, Findings, Names, Source};
use super::programs::{Container, Known, Program};
use super::prometheus::Configuration;
use crate::answers::doctor::{Instance, runs_beside};

/// The pods of a cluster, added up one by one. This keeps no pod.
#[derive(Clone, Debug, Default)]
pub struct Pods {
    by_account: BTreeMap<ObjectKey, Names>,
    programs: BTreeMap<Found, Names>,
    prometheus: BTreeMap<Configuration, Names>,
    managers: Vec<Instance>,
    /// The pods of kube-endpoint-manager that run, so that they may watch.
    running: Vec<Instance>,
}

/// A program in the pods of one owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    program: Program,
    namespace: Text,
    image: String,
}

impl Pods {
    /// Adds a pod. One that has ended tells nothing.
    pub fn add(&mut self, pod: &Value) {
        if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            return;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
        let shown = format!("{namespace}/{name}");
        let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
        self.by_account.entry(ObjectKey::new(&*namespace, account)).or_default().add(&shown);
        if pod["metadata"]["labels"]["app.kubernetes.io/name"] == "kube-endpoint-manager" {
            let instance = Instance::read(pod);
            if pod["status"]["phase"] == "Running" {
                self.running.push(instance.clone());
            }
            self.managers.push(instance);
        }
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            let read = container_of(container);
            let Some(program) = read.program() else { continue };
            if program == Program::Prometheus {
                let configuration = Configuration::of(pod, container);
                self.prometheus.entry(configuration).or_default().add(&shown);
            }
            let found = Found { program, namespace: (&*namespace).into(), image: read.image.to_owned() };
            self.programs.entry(found).or_default().add(&shown);
        }
    }

    /// Returns the configurations of the Prometheus servers, each once.
    pub fn configurations(&self) -> Vec<Configuration> {
        self.prometheus.keys().cloned().collect()
    }

    /// Returns true if prometheus-operator runs, or a Prometheus that it has configured.
    pub fn has_prometheus_operator(&self) -> bool {
        self.programs.keys().any(|found| found.program == Program::PrometheusOperator)
            || self.prometheus.contains_key(&Configuration::Operator)
    }

    /// Returns the pods with a configuration, in words.
    pub(super) fn with_configuration(&self, configuration: &Configuration) -> String {
        self.prometheus.get(configuration).map(ToString::to_string).unwrap_or_default()
    }

    pub(super) fn of_account(&self, account: &ObjectKey) -> Option<&Names> {
        self.by_account.get(account)
    }

    pub(super) fn has_kube_dns(&self) -> bool {
        self.programs.keys().any(|found| found.program == Program::KubeDns)
    }

    /// Returns the number of replicas of kube-endpoint-manager that watch Endpoints.
    pub(super) fn watching_replicas(&self) -> usize {
        if runs_beside(&self.running) { 0 } else { self.running.len() }
    }

    pub(super) fn known(&self) -> Known {
        let managers: BTreeSet<String> = self.managers.iter().filter_map(|pod| pod.user.clone()).collect();
        Known { managers }
    }
}

fn container_of(container: &Value) -> Container<'_> {
    let arguments =
        ["command", "args"].iter().flat_map(|list| container[list].as_array().into_iter().flatten());
    let environment = container["env"].as_array().into_iter().flatten();
    Container {
        image: container["image"].as_str().unwrap_or_default(),
        arguments: arguments.filter_map(Value::as_str).collect(),
        environment: environment
            .filter_map(|variable| {
                Some((variable["name"].as_str()?, variable["value"].as_str().unwrap_or_default()))
            })
            .collect(),
    }
}

/// Says which programs use Endpoints, by their images, arguments and environment.
pub(super) fn evidence(pods: &Pods) -> Findings {
    let mut findings = Findings::default();
    for (found, names) in &pods.programs {
        let kind = found.program.kind();
        if kind == EvidenceKind::Note {
            // The configuration tells more.
            continue;
        }
        let (why, remedy) = found.program.says();
        let what = format!("{why}: {names}, image {}", found.image);
        let namespace = (!found.program.is_of_cluster()).then_some(&found.namespace);
        findings.add(kind, Source::Pods, namespace, what, remedy);
    }
    let what = "Images and arguments show only programs of a list, which is never complete, and pods, not programs outside of \
                the cluster";
    findings.unseen.push(super::evidence::Unseen::new(what, false, ""));
    findings
}
