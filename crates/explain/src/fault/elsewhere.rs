//! Messages and remedies for pods that a selector misses: they have other labels, or are in another
//! namespace.

use kube_endpoint_core_model::{ObjectKey, Text};

use super::text::names;
use crate::near::OtherKeys;
use crate::remedy::Person::ServiceOwner;
use crate::{Elsewhere, Remedy, Step};

/// Returns `b=x in place of a=x` for each label.
fn in_place_of(other: &OtherKeys) -> String {
    let each =
        other.keys.iter().map(|key| format!("{0}={2} in place of {1}={2}", key.found, key.wanted, key.value));
    each.collect::<Vec<_>>().join(" and ")
}

/// Says under which labels pods have the values of the selector.
pub(super) fn other_keys(other: &OtherKeys) -> String {
    let listed: Vec<&str> = other.pods.iter().take(2).map(|name| &**name).collect();
    let more = other.count.saturating_sub(listed.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (pods, have) = if other.count == 1 { ("pod", "has") } else { ("pods", "have") };
    format!(
        "no pod matches the selector, but {pods} {}{more} {have} {}",
        listed.join(", "),
        in_place_of(other)
    )
}

/// Returns the remedy. The pods that are meant may only be missing, so they come first.
pub(super) fn other_keys_remedy(other: &OtherKeys, service: &ObjectKey) -> Remedy {
    let pairs = |key: fn(&crate::OtherKey) -> &Text| {
        let pairs = other.keys.iter().map(|one| format!("{}={}", key(one), one.value));
        pairs.collect::<Vec<_>>().join(",")
    };
    let (wanted, found) = (pairs(|key| &key.wanted), pairs(|key| &key.found));
    let ask = format!(
        "Start pods with {wanted} if they are missing; if all pods with {found} are meant, ask for that in spec.selector in place of {wanted}"
    );
    Remedy::ask(ServiceOwner, ask)
        .shown_by([Step::kubectl_in(&service.namespace, ["get", "pods", "-l", &found])])
}

/// Says which other namespaces have the pods.
pub(super) fn elsewhere(selector: &str, namespaces: &[Elsewhere]) -> String {
    let (of, have) = match namespaces {
        [Elsewhere { pods: 1, .. }] => ("a pod of the namespace", "has"),
        [_] => ("pods of the namespace", "have"),
        _ => ("pods of the namespaces", "have"),
    };
    let all: Vec<Text> = namespaces.iter().map(|one| one.namespace.clone()).collect();
    format!(
        "{of} {} {have} the labels {selector}, and a Service selects pods of its own namespace only",
        names(&all)
    )
}

/// Says what to do if the pods of another namespace are meant.
pub(super) fn elsewhere_remedy(selector: &str, namespaces: &[Elsewhere], service: &ObjectKey) -> Remedy {
    let name = &service.name;
    let (place, show) = match namespaces {
        [Elsewhere { namespace, .. }] => (
            format!("{namespace}: create the Service there, and let clients call {name}.{namespace}"),
            Step::kubectl_in(namespace, ["get", "pods", "-l", selector]),
        ),
        _ => (
            format!("another namespace: create the Service there, and let clients call {name}.NAMESPACE"),
            Step::kubectl(["get", "pods", "-A", "-l", selector]),
        ),
    };
    Remedy::ask(ServiceOwner, format!("Nothing, unless the Service is meant for the pods of {place}"))
        .shown_by([show])
}
