//! Parts of the remedies of several reasons.

use kube_endpoint_core_model::{ObjectKey, Text};

use super::{NamedPort, PodReason};
use crate::facts::remedy::{Remedy, Step};
use crate::models::near::is_typo;

impl PodReason {
    /// Adds to the remedy for pods that are not ready what to do if they wait for one another.
    pub(crate) fn with_peers(remedy: Remedy) -> Remedy {
        let sentence = format!(
            "{}; if the pods wait for one another, set publishNotReadyAddresses of the Service, because DNS has the name of a pod only while it is ready",
            remedy.sentence
        );
        remedy.saying(sentence)
    }
}

/// Returns the command that describes a pod.
pub(in crate::findings) fn describe(service: &ObjectKey, pod: &str) -> Step {
    Step::kubectl_in(&service.namespace, ["describe", "pod", pod])
}

/// Returns the command that prints a pod, so that somebody can save it.
pub(in crate::findings) fn save(service: &ObjectKey, pod: &str) -> Step {
    Step::kubectl_in(&service.namespace, ["get", "pod", pod, "-o", "yaml"])
}

/// Says who removes finalizers, as the end of a sentence.
pub(crate) fn held(finalizers: &[Text]) -> String {
    let (finalizer, it) = if finalizers.len() == 1 { ("finalizer", "it") } else { ("finalizers", "them") };
    // Kubernetes' own ones; those of others have a domain.
    let is_collectors = |finalizer: &Text| matches!(&**finalizer, "foregroundDeletion" | "orphan");
    let program = if finalizers.iter().all(is_collectors) {
        "the garbage collector of kube-controller-manager, which"
    } else {
        "the program that"
    };
    format!("look at {program} handles the {finalizer} {}, and has to remove {it}", finalizers.join(" and "))
}

/// Says how a Service and the container ports of a pod get the same name. If other pods have the
/// name, the Service has to keep it: with another name or a number they would get no traffic, or
/// this pod would get some that it does not serve. `free` are the names of ports of the pod to
/// which no port of the Service leads, if the Service has other ports that the pod has.
pub(in crate::findings) fn name_port(
    wanted: &[NamedPort],
    has: &[NamedPort],
    elsewhere: bool,
    free: Option<&Vec<Text>>,
) -> String {
    let names: Vec<String> = wanted.iter().map(|port| format!("{:?}", port.name)).collect();
    let names = names.join(" and ");
    if elsewhere {
        return format!(
            "Give the container port of this pod that serves clients the name {names}, or change its labels so that the Service does not select it"
        );
    }
    let choice = |ports: Vec<&NamedPort>| {
        ports.iter().map(|port| format!("{:?}", port.name)).collect::<Vec<_>>().join(" or ")
    };
    let typos = has.iter().filter(|port| wanted.iter().any(|wanted| is_typo(&wanted.name, &port.name)));
    let typos: Vec<&NamedPort> = typos.collect();
    match (typos.is_empty(), has) {
        (false, _) => format!(
            "Set the Service's targetPort to {}, or give that container port the name {names}",
            choice(typos)
        ),
        (true, _) if free.is_some() => {
            let free: Vec<String> = free.into_iter().flatten().map(|name| format!("{name:?}")).collect();
            let choice = free.join(" or ");
            let name = match &*choice {
                "" => format!("Give the container port that serves it the name {names}"),
                choice => format!(
                    "Set the targetPort to the name of the container port that serves it ({choice}), or give that container port the name {names}"
                ),
            };
            format!("{name}; remove the port from the Service only if no client uses it")
        }
        (true, []) => format!(
            "Give the container port that serves clients the name {names}, or set the Service's targetPort to its number"
        ),
        (true, has) => format!(
            "Set the Service's targetPort to the name of the container port that serves clients ({}), or give it the name {names}",
            choice(has.iter().collect())
        ),
    }
}
