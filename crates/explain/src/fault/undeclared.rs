//! Messages and remedies for ports that containers do not declare, or declare twice.

use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use super::text::names;
use crate::remedy::Person::{PodOwner, ServiceOwner};
use crate::{Remedy, Severity, Step};

/// The pods that do not declare a targetPort. Serialises with the tag `by`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum NotDeclared {
    /// No pod declares it.
    All {
        /// The port through whose probe all pods are ready, if no probe tells of the targetPort.
        #[serde(skip_serializing_if = "Option::is_none")]
        probed: Option<i32>,
    },
    /// Other pods of the Service declare it.
    Some {
        pods: Vec<Text>,
        /// The port through whose probe they are ready.
        #[serde(skip_serializing_if = "Option::is_none")]
        probed: Option<i32>,
    },
    /// These pods of a Job do not, and pods of other workloads do.
    Job { job: Text, pods: Vec<Text> },
    /// All declare it for another protocol only.
    Protocol { has: Text, wanted: Text },
}

/// A container and the number of one of its ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfContainer {
    pub container: Text,
    pub port: i32,
}

impl NotDeclared {
    /// Returns a warning if something else than the missing declaration shows that clients are
    /// refused.
    pub(super) fn severity(&self) -> Severity {
        match self {
            Self::All { probed: Some(_) } | Self::Some { probed: Some(_), .. } | Self::Job { .. } => {
                Severity::Warning
            }
            _ => Severity::Info,
        }
    }

    /// Says it. `port` is the port of the Service, in words; `declared` are the numbers that the
    /// pods declare.
    pub(super) fn text(&self, port: &str, target: i32, declared: &str) -> String {
        let target_port = format!("{port} of the Service has the targetPort {target}");
        match self {
            Self::All { probed: None } => {
                format!("{target_port}, and the containers of the pods declare only {declared}")
            }
            Self::All { probed: Some(probed) } => format!(
                "{target_port}, and the containers of the pods declare only {declared}; the pods are ready through a probe of port {probed}, so clients are likely refused"
            ),
            Self::Some { pods, probed } => {
                let (pod, declare, are, refuse) = match pods.len() {
                    1 => ("pod", "declares", "it is", "refuses"),
                    _ => ("pods", "declare", "they are", "refuse"),
                };
                let ready = probed.map_or_else(String::new, |probed| {
                    format!("; {are} ready through a probe of port {probed}, so likely {refuse} clients")
                });
                format!(
                    "{target_port}, which other pods declare; {pod} {} {declare} only {declared}{ready}",
                    names(pods)
                )
            }
            Self::Job { job, pods } => {
                let (pod, get, do_it) = match pods.len() {
                    1 => ("pod", "gets", "it does"),
                    _ => ("pods", "get", "they do"),
                };
                format!(
                    "{pod} {} of Job {job} {get} clients of the Service, whose targetPort {target} other pods declare and {do_it} not",
                    names(pods)
                )
            }
            Self::Protocol { has, wanted } => format!(
                "{port} of the Service is for {wanted}, and the containers of the pods declare its targetPort {target} for {has} only"
            ),
        }
    }

    pub(super) fn remedy(&self, target: i32) -> Remedy {
        match self {
            Self::All { probed: None } => Remedy::ask(
                ServiceOwner,
                format!(
                    "Nothing, if the pods listen on port {target}; else set the targetPort to the port on which they listen"
                ),
            ),
            Self::All { probed: Some(probed) } => Remedy::ask(
                ServiceOwner,
                format!(
                    "Set the targetPort to the port on which the pods listen for these clients, such as {probed}; if they listen on {target}, too, declare it on the container"
                ),
            ),
            Self::Some { pods, .. } => Remedy::ask(
                PodOwner,
                format!(
                    "Give the container port that serves these clients the same name in all pods, and set the targetPort to the name; if {} {} on {target}, too, declare it on the container",
                    names(pods),
                    if pods.len() == 1 { "listens" } else { "listen" }
                ),
            ),
            Self::Job { job, .. } => Remedy::ask(
                PodOwner,
                format!(
                    "Take a label that the Service selects out of the pod template of Job {job}, or add a label to spec.selector that only the serving pods have"
                ),
            ),
            Self::Protocol { has, wanted } => Remedy::ask(
                ServiceOwner,
                format!(
                    "Nothing, if the pods listen on port {target} for {wanted}, too; else set the protocol of the Service's port to {has}"
                ),
            ),
        }
    }
}

/// Says which containers name a port alike.
pub(super) fn ambiguous(name: &str, first: &OfContainer, others: &[OfContainer], pods: &[Text]) -> String {
    let others: Vec<String> = others.iter().map(|it| format!("{} ({})", it.container, it.port)).collect();
    format!(
        "several containers of {} {} name a port {name:?}: the Service sends clients to {} ({}), the first, and not to {}",
        if pods.len() == 1 { "pod" } else { "pods" },
        names(pods),
        first.container,
        first.port,
        others.join(", ")
    )
}

pub(super) fn ambiguous_remedy(
    service: &ObjectKey,
    name: &str,
    first: &OfContainer,
    others: &[OfContainer],
    pods: &[Text],
) -> Remedy {
    let containers: Vec<&str> = std::iter::once(first).chain(others).map(|it| &*it.container).collect();
    let shown = pods.first().map(|pod| Step::kubectl_in(&service.namespace, ["describe", "pod", pod]));
    Remedy::ask(
        PodOwner,
        format!(
            "Give the port {name:?} another name in all of the containers {} but the one that serves these clients",
            containers.join(", ")
        ),
    )
    .shown_by(shown)
}
