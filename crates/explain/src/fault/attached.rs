//! Messages and remedies for Services that name an EndpointSelector.

use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINT_SELECTOR;
use kube_endpoint_core_model::{ObjectKey, Text};
use serde_json::json;

use super::text::names;
use super::{Fault, unserved};
use crate::doctor::Answer;
use crate::leader::{Leads, LeadsBy, NobodyLeads};
use crate::remedy::Person::{ClusterAdministrator, EndpointsWriter, PodOwner, ServiceOwner};
use crate::selection::RESOURCE;
use crate::{PatchForm, Rehearsal, Remedy, Step};

/// Says that a Service names an EndpointSelector that does not exist.
pub(super) fn not_found(name: &str, is_served: bool, is_name: bool, others: &[Text]) -> String {
    let why = match (is_served, is_name, others) {
        (false, ..) => "; the cluster does not serve EndpointSelectors".to_owned(),
        (true, false, _) => ", and none can have this name".to_owned(),
        (true, true, []) => String::new(),
        (true, true, others) => format!("; the namespace has {}", names(others)),
    };
    format!("EndpointSelector {name} does not exist, so endpoints leave and none comes{why}")
}

/// Says which other namespaces have an EndpointSelector of the name.
pub(super) fn elsewhere(namespaces: &[Text]) -> String {
    match namespaces {
        [] => String::new(),
        [one] => format!("; the namespace {one} has one of this name, which selects pods of that namespace"),
        more => format!(
            "; the namespaces {} have one of this name, which selects pods of its own namespace",
            names(more)
        ),
    }
}

pub(super) fn not_found_remedy(service: &ObjectKey, name: &str, is_served: bool, is_name: bool) -> Remedy {
    let all = Step::kubectl_in(&service.namespace, ["get", RESOURCE]);
    if !is_served {
        let definition = Step::kubectl(["get", "customresourcedefinition", RESOURCE]);
        return Remedy::ask(
            ClusterAdministrator,
            format!(
                "Install the CustomResourceDefinition {RESOURCE}, and create EndpointSelector {name} again, or give the Service a selector in place of the annotation {ANNOTATION_ENDPOINT_SELECTOR}"
            ),
        )
        .shown_by([definition]);
    }
    let sentence = match is_name {
        true => format!(
            "Create EndpointSelector {name} in the namespace {}, or correct the annotation {ANNOTATION_ENDPOINT_SELECTOR} of the Service",
            service.namespace
        ),
        false => format!(
            "Correct the annotation {ANNOTATION_ENDPOINT_SELECTOR} of the Service: write the name of an EndpointSelector of its namespace"
        ),
    };
    Remedy::ask(ServiceOwner, sentence).shown_by([all])
}

/// Says that the EndpointSelector of a Service selects nothing.
pub(super) fn invalid(name: &str, reason: &str) -> String {
    format!("EndpointSelector {name} is not accepted, so endpoints leave and none comes: {reason}")
}

/// Says what the EndpointSelector would do for a Service whose selector wins.
pub(super) fn overridden(name: &str, rehearsal: &Rehearsal) -> String {
    let Rehearsal { pods, ready, coming, going, obstacles, .. } = rehearsal;
    let obstacles = obstacles.join("; ");
    match rehearsal.is_ready_to_attach {
        Answer::No => {
            format!("the Service has a selector, which wins, and is not ready to attach: {obstacles}")
        }
        Answer::NotKnown => {
            format!("the Service has a selector, which wins, and may be ready to attach: {obstacles}")
        }
        Answer::Yes => {
            let noun = if *pods == 1 { "pod" } else { "pods" };
            let moves = [("come", coming), ("go", going)].map(|(verb, moving)| match moving.count {
                0 => format!("none would {verb}"),
                _ => format!("{} would {verb}", moving.names()),
            });
            let moves = match (coming.count, going.count) {
                (0, 0) => ", the same that the Service selects now".to_owned(),
                _ => format!("; {}", moves.join(", and ")),
            };
            format!(
                "the Service has a selector, which wins, and is ready to attach: EndpointSelector {name} selects {pods} {noun}, {ready} ready{moves}"
            )
        }
    }
}

/// Says how to attach a Service that has a selector, or what to look at before.
fn overridden_remedy(service: &ObjectKey, name: &str, rehearsal: &Rehearsal) -> Remedy {
    if rehearsal.is_ready_to_attach != Answer::Yes {
        let sentence = format!(
            "Leave spec.selector as it is until that is mended, or remove the annotation {ANNOTATION_ENDPOINT_SELECTOR}"
        );
        let all = Step::kubectl_in(&service.namespace, ["get", RESOURCE]);
        return Remedy::ask(ServiceOwner, sentence).shown_by([all]);
    }
    let path = ANNOTATION_ENDPOINT_SELECTOR.replace('/', "~1");
    let attach = Step::Patch {
        kind: "service",
        object: service.clone(),
        form: PatchForm::Json,
        patch: json!([
            {"op": "test", "path": format!("/metadata/annotations/{path}"), "value": name},
            {"op": "remove", "path": "/spec/selector"},
        ]),
    };
    Remedy::ask(
        ServiceOwner,
        format!(
            "Remove spec.selector if EndpointSelector {name} should select the pods; otherwise remove the annotation {ANNOTATION_ENDPOINT_SELECTOR}, or leave both"
        ),
    )
    .then([attach])
}

/// Says what to do about an EndpointSelector that selects nothing or the wrong pods.
pub(super) fn correct(service: &ObjectKey, name: &str, sentence: String) -> Remedy {
    let show = Step::kubectl_in(&service.namespace, ["get", RESOURCE, name, "-o", "yaml"]);
    Remedy::ask(ServiceOwner, sentence).shown_by([show])
}

/// Says that slices of the controller that a Service has left stay.
pub(super) fn held(endpoint_selector: Option<&Text>, slices: &[Text]) -> String {
    let (noun, stay) = if slices.len() == 1 { ("slice", "stays") } else { ("slices", "stay") };
    let slices = names(slices);
    match endpoint_selector {
        Some(name) => format!(
            "EndpointSelector {name} selects no ready pod, so clients use {noun} {slices} of kube-controller-manager, which {stay}"
        ),
        None => format!(
            "{noun} {slices} of an EndpointSelector {stay} until the slices of spec.selector have the same ready endpoints"
        ),
    }
}

pub(super) fn held_remedy(service: &ObjectKey, endpoint_selector: Option<&Text>) -> Remedy {
    match endpoint_selector {
        Some(name) => correct(
            service,
            name,
            format!(
                "Correct spec.selector of EndpointSelector {name}, or make its pods ready; nobody adds endpoints to the slices that stay"
            ),
        ),
        None => Remedy::ask(
            ClusterAdministrator,
            "Look at the EndpointSlice controller of kube-controller-manager, whose slices lack endpoints: does it run, and does it log errors?",
        )
        .shown_by([unserved::doctor()]),
    }
}

/// Says that slices that nobody maintains send clients to pods that have gone.
pub(super) fn gone(pods: &[Text], slices: &[Text]) -> String {
    let (noun, send) = if slices.len() == 1 { ("slice", "sends") } else { ("slices", "send") };
    let pod = if pods.len() == 1 { "pod that has ended" } else { "pods that have ended" };
    format!(
        "{noun} {}, which nobody maintains, {send} clients to {} {pod}: {}",
        names(slices),
        pods.len(),
        names(pods)
    )
}

pub(super) fn gone_remedy(service: &ObjectKey, slices: &[Text], is_attached: bool) -> Remedy {
    let slices: Vec<&str> = slices.iter().map(|slice| &**slice).collect();
    let show = Step::kubectl_in(
        &service.namespace,
        [&["get", "endpointslice"], &*slices, &["-o", "yaml", "--show-managed-fields"]].concat(),
    );
    let sentence = match is_attached {
        true => {
            "Look why the endpoint selector controller leaves them: does it run, and do its events on the Service name a right that it lacks or another maker? Until then, delete the slices: clients reach addresses that other pods may have by now"
        }
        false => {
            "Look why the endpoint selector controller leaves them: does it run? Until then, delete the slices: clients reach addresses that other pods may have by now"
        }
    };
    Remedy::ask(EndpointsWriter, sentence).shown_by([show])
}

/// Says that a slice of another controller stays after a take-over.
pub(super) fn kept(
    selector: &str,
    slice: &str,
    by: Option<&Text>,
    is_certain: bool,
    endpoints: Option<&Text>,
) -> String {
    let what = endpoints
        .map_or_else(|| "it".to_owned(), |name| format!("the Endpoints {name}, from which it is mirrored,"));
    let why = match by {
        Some(by) if is_certain => {
            format!("{by} wrote {what} and not a controller, although its label says so")
        }
        Some(by) => format!(
            "{by} wrote {what} in the form of a controller, and may be kube-controller-manager under another name"
        ),
        None => format!("nothing tells who wrote {what}"),
    };
    format!("slice {slice} stays beside those of EndpointSelector {selector}, and nobody updates it: {why}")
}

pub(super) fn kept_remedy(
    service: &ObjectKey,
    slice: &str,
    by: Option<&Text>,
    is_certain: bool,
    endpoints: Option<&Text>,
) -> Remedy {
    let (kind, name) = endpoints.map_or(("endpointslice", slice), |endpoints| ("endpoints", &**endpoints));
    let show =
        Step::kubectl_in(&service.namespace, ["get", kind, name, "-o", "yaml", "--show-managed-fields"]);
    let what = if endpoints.is_some() { format!("the Endpoints {name}") } else { format!("slice {slice}") };
    let sentence = match by {
        Some(by) if !is_certain => format!(
            "If {by} is the program that runs kube-controller-manager here, give kube-endpoint-manager --controller-field-managers={by}, which then deletes what it left; if not, delete {what} once nothing needs it"
        ),
        _ => format!("Delete {what} if it is left over"),
    };
    Remedy::ask(EndpointsWriter, sentence).shown_by([show])
}

/// Says that no controller has seen an EndpointSelector.
pub(super) fn unserved(name: &str, is_old: bool) -> String {
    match is_old {
        true => format!("no controller has seen the last change of EndpointSelector {name}"),
        false => format!("no controller has seen EndpointSelector {name}"),
    }
}

pub(super) fn unserved_remedy() -> Remedy {
    Remedy::ask(
        ClusterAdministrator,
        "Start kube-endpoint-manager with --controllers=endpoint-selector-controller, which * does not include; if it runs, look at the errors that it logs",
    )
    .shown_by([unserved::doctor()])
}

/// Says which outputs remain of the time when a Service selected pods.
pub(super) fn left(slices: &[Text], endpoints: Option<&Text>, is_mirrored: bool) -> String {
    let slices = (!slices.is_empty()).then(|| format!("slices made from pods remain: {}", names(slices)));
    let mirrored = if is_mirrored { ", which are mirrored to slices" } else { "" };
    let what = match (slices, endpoints) {
        (Some(slices), Some(name)) => format!("{slices}; so do the Endpoints {name}{mirrored}"),
        (Some(slices), None) => slices,
        (None, Some(name)) => format!("Endpoints made from pods remain{mirrored}: {name}"),
        (None, None) => String::new(),
    };
    format!("the Service selects no pods, and {what}")
}

/// Names what controllers left.
pub(super) fn what_is_left(slices: &[Text], endpoints: Option<&Text>) -> String {
    match (slices, endpoints) {
        (_, None) => "the slices".to_owned(),
        ([], Some(name)) => format!("the Endpoints {name}"),
        (_, Some(name)) => format!("the slices and the Endpoints {name}"),
    }
}

pub(super) fn left_remedy(
    namespace: &str,
    slices: &[Text],
    endpoints: Option<&Text>,
    is_needed: bool,
    was_attached: bool,
) -> Remedy {
    let restore = match was_attached {
        true => format!("Restore the annotation {ANNOTATION_ENDPOINT_SELECTOR}"),
        false => "Restore the selector".to_owned(),
    };
    let what = what_is_left(slices, endpoints);
    let sentence = match is_needed {
        true => format!("{restore}, or delete {what} once other endpoints are written for the Service"),
        false => format!("{restore}, or delete {what}: no client needs them any more"),
    };
    // It tells who made the Endpoints, and deletes them with --yes if they can go.
    let cleanup = endpoints.map(|_| Step::kubectl(["endpoints", "cleanup", "-n", namespace]));
    Remedy::ask(if slices.is_empty() { EndpointsWriter } else { ServiceOwner }, sentence).shown_by(cleanup)
}

/// Says what to do so that a pod leads.
fn nobody_leads_remedy(service: &ObjectKey, selector: &Text, leads: &Leads) -> Option<Remedy> {
    let (name, lease) = match &leads.by {
        LeadsBy::Lease { name, .. } | LeadsBy::UnreadLease { name } => (name, true),
        LeadsBy::Condition { kind, .. } => (kind, false),
    };
    let sentence = match leads.nobody.as_ref()? {
        NobodyLeads::NotFound => format!(
            "Look if the program runs and elects with a Lease of this name in the namespace {}; if it uses another name, correct spec.readiness.lease.name of the EndpointSelector",
            service.namespace
        ),
        NobodyLeads::NotHeld | NobodyLeads::NotRenewed { .. } => {
            "Look at the logs of the pods: why does none of them get the Lease?".to_owned()
        }
        NobodyLeads::NotRecognised | NobodyLeads::Ambiguous => {
            "Let the program use an identity that has the name, uid, hostname or an address of its own pod, and of no other, as one of its parts, such as POD-NAME_SUFFIX".to_owned()
        }
        NobodyLeads::NoCondition => format!("Set the condition {name} of the pod that should lead to True"),
        NobodyLeads::NotReady { pod } => format!("Look why Pod {pod} is not ready"),
        NobodyLeads::Ending { .. } => {
            "Nothing, if another pod is about to lead; else look at the logs of the others: why does none take over?".to_owned()
        }
    };
    let show = match (leads.nobody.as_ref()?, lease) {
        (NobodyLeads::NotReady { pod } | NobodyLeads::Ending { pod }, _) => {
            Step::kubectl_in(&service.namespace, ["describe", "pod", pod])
        }
        (_, true) => Step::kubectl_in(&service.namespace, ["get", "lease", name, "-o", "yaml"]),
        (_, false) => Step::kubectl_in(&service.namespace, ["get", RESOURCE, selector, "-o", "yaml"]),
    };
    Some(Remedy::ask(PodOwner, sentence).shown_by([show]))
}

impl Fault {
    /// Returns the remedy of a fault of an EndpointSelector.
    pub(super) fn selector_remedy(&self, service: &ObjectKey) -> Option<Remedy> {
        Some(match self {
            Self::EndpointSelectorNotFound { endpoint_selector, is_served, is_name, .. } => {
                not_found_remedy(service, endpoint_selector, *is_served, *is_name)
            }
            Self::EndpointSelectorInvalid { endpoint_selector, .. } => correct(
                service,
                endpoint_selector,
                format!("Correct EndpointSelector {endpoint_selector} as the message says"),
            ),
            Self::EndpointSelectorOverridden { endpoint_selector, rehearsal } => {
                overridden_remedy(service, endpoint_selector, rehearsal)
            }
            Self::HandOverHeld { endpoint_selector, .. } => held_remedy(service, endpoint_selector.as_ref()),
            Self::EndpointSelectorUnserved { .. } => unserved_remedy(),
            Self::SliceKept { slice, by, is_certain, endpoints, .. } => {
                kept_remedy(service, slice, by.as_ref(), *is_certain, endpoints.as_ref())
            }
            Self::SelectsUnlabelled { endpoint_selector, .. } => correct(
                service,
                endpoint_selector,
                format!(
                    "Nothing, if all other pods of the namespace are meant; else add a label of the pods to spec.selector.matchLabels of EndpointSelector {endpoint_selector}"
                ),
            ),
            Self::NobodyLeads { endpoint_selector, leads } => {
                nobody_leads_remedy(service, endpoint_selector, leads)?
            }
            Self::ReadinessWithoutEffect { endpoint_selector } => Remedy::ask(
                ServiceOwner,
                format!(
                    "Unset publishNotReadyAddresses of the Service, or remove spec.readiness from EndpointSelector {endpoint_selector}"
                ),
            ),
            Self::NoPodMatches { endpoint_selector: Some(name), .. } => correct(
                service,
                name,
                format!(
                    "Start pods that EndpointSelector {name} selects: look for a Deployment or StatefulSet that is scaled to zero or whose pods are refused; if there should be none, correct its spec.selector"
                ),
            ),
            _ => return None,
        })
    }
}
