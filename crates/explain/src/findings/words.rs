//! Parts of sentences, commands and remedies that several findings have.

use kube_endpoint_core_model::{AddressType, IpFamily, ObjectKey, StringMap, Text};

use crate::facts::remedy::Person::{ClusterAdministrator, ServiceOwner};
use crate::facts::remedy::{Remedy, Step};
use crate::findings::inputs::Behind;
use crate::findings::pod_reason::NamedPort;
use crate::models::selection::RESOURCE;

/// The maximum number of names in a sentence.
const NAMES_IN_A_SENTENCE: usize = 5;

/// The maximum number of objects in one command.
const OBJECTS_IN_A_COMMAND: usize = 20;

/// Lists the first names, and the number of the others.
pub(super) fn names(names: &[Text]) -> String {
    let listed: Vec<&str> = names.iter().take(NAMES_IN_A_SENTENCE).map(|name| &**name).collect();
    match names.len().saturating_sub(NAMES_IN_A_SENTENCE) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

/// Returns the commands for all of these objects.
pub(super) fn each(names: &[Text], command: impl Fn(&[&str]) -> Step) -> impl Iterator<Item = Step> {
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let steps: Vec<Step> = names.chunks(OBJECTS_IN_A_COMMAND).map(command).collect();
    steps.into_iter()
}

/// Returns the command that tells which controllers run.
pub(super) fn doctor() -> Step {
    Step::kubectl(["diagnose-svc", "doctor"])
}

/// Returns the command that shows the events about a Service and its Endpoints.
pub(super) fn events(service: &ObjectKey) -> Step {
    let about = format!("involvedObject.name={}", service.name);
    Step::kubectl_in(&service.namespace, ["get", "events", "--field-selector", &about])
}

/// Asks the owner of the Service to correct an EndpointSelector, and shows it.
pub(super) fn correct_selector(service: &ObjectKey, name: &str, sentence: String) -> Remedy {
    let show = Step::kubectl_in(&service.namespace, ["get", RESOURCE, name, "-o", "yaml"]);
    Remedy::ask(ServiceOwner, sentence).shown_by([show])
}

/// Asks for a controller that serves EndpointSelectors.
pub(super) fn start_selector_controller() -> Remedy {
    Remedy::ask(
        ClusterAdministrator,
        "Start kube-endpoint-manager with --controllers=endpoint-selector-controller, which * does not include; if it runs, look at the errors that it logs",
    )
    .shown_by([doctor()])
}

/// Asks for the Service of an output that has none. Labels do not prove that a controller made the
/// output: cleanup looks at managedFields.
pub(super) fn create_or_clean_up(service: &ObjectKey) -> Remedy {
    // kubectl accepts no flag before the name of a plugin.
    let cleanup = Step::kubectl(["diagnose-svc", "cleanup", "-n", &service.namespace]);
    Remedy::ask(ServiceOwner, "Create the Service, or see what is left over and who wrote it")
        .shown_by([cleanup])
}

/// Returns the command that prints why pods of a namespace could not be created.
pub(super) fn failed_creates(service: &ObjectKey) -> Step {
    Step::kubectl_in(&service.namespace, ["get", "events", "--field-selector", "reason=FailedCreate"])
}

/// Returns the `key=value` pairs of a selector.
pub(super) fn pairs(selector: &StringMap) -> String {
    selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// Names a port of a Service or of its endpoints.
pub(super) fn the_port(port: &NamedPort) -> String {
    match &*port.name {
        "" => format!("the port without a name ({})", port.protocol),
        name => format!("the port {name:?} ({})", port.protocol),
    }
}

/// Lists ports.
pub(super) fn ports(ports: &[NamedPort], text: impl Fn(&NamedPort) -> String) -> String {
    ports.iter().map(text).collect::<Vec<_>>().join(" and ")
}

/// Lists IP families.
pub(super) fn families(families: &[IpFamily]) -> String {
    let families: Vec<&str> = families.iter().map(|family| AddressType::from(*family).as_str()).collect();
    families.join(" or ")
}

/// Names the addresses of a slice.
pub(super) fn addresses(address_type: AddressType) -> &'static str {
    match address_type {
        AddressType::IPv4 => "IPv4 addresses",
        AddressType::IPv6 => "IPv6 addresses",
        AddressType::Fqdn => "domain names",
    }
}

/// Returns what to do about writes that are not late, or that the API server refuses.
pub(super) fn wait_or_permit(behind: &Behind, service: &ObjectKey) -> Option<Remedy> {
    match &behind.refused {
        None if behind.unseen_lease.is_some() => Some(
            Remedy::ask(
                ClusterAdministrator,
                "Wait a few seconds, if the Lease is new; else permit the user of kube-endpoint-manager to get, list and watch Leases in this namespace",
            )
            .shown_by([doctor()]),
        ),
        _ if behind.may_be_under_way() => Some(Remedy::new("Wait a few seconds")),
        refused => refused.as_ref().map(|refused| refused.refusal.remedy(service)),
    }
}

/// Asks to look at a controller that may not run.
pub(super) fn look_at_controller() -> Remedy {
    Remedy::ask(
        ClusterAdministrator,
        "Look at the controller: is there a leader, does it log errors, may it write to this namespace?",
    )
    .shown_by([doctor()])
}

/// Asks to look at a controller that runs. `which` is its name, if it has one.
pub(super) fn look_at_running_controller(which: &str, service: &ObjectKey) -> Remedy {
    let sentence = format!(
        "Look at what the {which}controller, which runs, logs and reports in events about this Service"
    );
    Remedy::ask(ClusterAdministrator, sentence).shown_by([events(service)])
}

/// Says who removes finalizers, as the end of a sentence.
pub(super) fn held(finalizers: &[Text]) -> String {
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

/// Begins a sentence with a capital letter.
pub(super) fn capital(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
