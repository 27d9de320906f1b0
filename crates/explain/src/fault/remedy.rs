//! The remedy of each fault.

use kube_endpoint_core_model::well_known::{
    LABEL_HEADLESS, LABEL_MANAGED_BY, LABEL_SERVICE_NAME, LABEL_SKIP_MIRROR,
};
use kube_endpoint_core_model::{ObjectKey, Text};

use super::text::{and, names};
use super::{
    Fault, UnusedSlice, addresses, annotations, attached, consumers, elsewhere, families, ports, selector,
    topology, undeclared, unserved,
};
use crate::pod_reason::{capital, held};
use crate::remedy::Person::{ClusterAdministrator, EndpointsWriter, ServiceOwner};
use crate::selection::RESOURCE;
use crate::{Remedy, Step};

/// The maximum number of objects in one command.
const OBJECTS_IN_A_COMMAND: usize = 20;

impl Fault {
    /// Returns the remedy. `service` is the Service that has the fault.
    pub fn remedy(&self, service: &ObjectKey) -> Remedy {
        let namespace = &*service.namespace;
        let in_namespace = |words: &[&str]| Step::kubectl_in(namespace, words.iter().copied());
        if let Some(remedy) = self.selector_remedy(service) {
            return remedy;
        }
        match self {
            Self::NotKnown { kinds, .. } => {
                let checks = kinds.iter().map(|kind| match *kind {
                    "nodes" => Step::kubectl(["auth", "can-i", "list", kind]),
                    "endpointselectors" => in_namespace(&["auth", "can-i", "list", RESOURCE]),
                    kind => in_namespace(&["auth", "can-i", "list", kind]),
                });
                let say = if kinds.len() == 1 { "this says" } else { "these say" };
                let ask = format!(
                    "Ask for the permission to get and list {}, and explain the Service again; you have it if {say} yes",
                    and(kinds),
                );
                Remedy::ask(ClusterAdministrator, ask).then(checks)
            }
            Self::EndpointsNotMirrored { endpoints, key, .. } if **key == *LABEL_SKIP_MIRROR => {
                let remove = in_namespace(&["label", "endpoints", endpoints, &format!("{key}-")]);
                Remedy::new("Remove the label, unless you will write EndpointSlices yourself").then([remove])
            }
            // A program elects its leader with this annotation.
            Self::EndpointsNotMirrored { key, .. } => Remedy::ask(
                EndpointsWriter,
                format!("Write EndpointSlices, or other Endpoints than those with the annotation {key}"),
            ),
            Self::AddressNotMirrored { maximum: Some(_), .. } => Remedy::ask(
                EndpointsWriter,
                "Write EndpointSlices yourself, which hold as many, or raise --mirroring-max-endpoints-per-subset",
            ),
            Self::EndpointPortsDiffer { wanted, has, family, none_is_left } => {
                Remedy::ask(EndpointsWriter, ports::remedy(wanted, has, *family, *none_is_left))
            }
            Self::EndpointFamiliesDiffer { missing, has, first_is_missing, none_is_left } => {
                let is_new = *first_is_missing || *none_is_left;
                Remedy::ask(EndpointsWriter, families::remedy(missing, has, is_new))
            }
            // Nobody else serves the Service, whose name the slices carry.
            Self::SlicesIgnored { slices, endpoints, none_is_left: true } => {
                let label = format!("{LABEL_HEADLESS}-");
                let of_endpoints =
                    endpoints.iter().map(|name| in_namespace(&["label", "endpoints", name, &label]));
                let of_slices = each(slices, |names| {
                    in_namespace(&[&["label", "endpointslice"], names, &[&label]].concat())
                });
                Remedy::new("Remove the label").then(of_endpoints).then(of_slices)
            }
            Self::SlicesIgnored { .. } => Remedy::ask(
                EndpointsWriter,
                format!("Remove the label {LABEL_HEADLESS} if kube-proxy should send clients to these endpoints, too"),
            ),
            Self::NoLocalEndpoint { policy, with, without, has_health_check, .. } => Remedy::ask(
                ServiceOwner,
                consumers::no_local_remedy(*policy, *with, without.len(), *has_health_check),
            ),
            Self::LabelKeysDiffer(other) => elsewhere::other_keys_remedy(other, service),
            Self::PodsElsewhere { selector, namespaces } => {
                elsewhere::elsewhere_remedy(selector, namespaces, service)
            }
            Self::ServiceIpAsEndpoint { endpoints, .. } => addresses::cluster_ips_remedy(endpoints, service),
            Self::SharedPodIp { address, .. } => addresses::shared_remedy(address),
            Self::HeadlessPort { port, name, protocol, targets, .. } => Remedy::ask(
                ServiceOwner,
                ports::headless_remedy(*port, name, protocol, targets, service),
            ),
            Self::OtherProxy { .. } => Remedy::ask(
                ServiceOwner,
                "Nothing, if that proxy runs on the nodes of the clients; else remove the label from the Service",
            ),
            // The controllers set this label where it belongs: on slices and Endpoints.
            Self::ServiceLabelIgnored { .. } => {
                let remove = in_namespace(&["label", "service", &service.name, &format!("{LABEL_HEADLESS}-")]);
                Remedy::new("Remove the label from the Service, which has a cluster IP").then([remove])
            }
            Self::SliceUnused { slice, cause: UnusedSlice::Ports { .. } } => Remedy::ask(
                EndpointsWriter,
                format!("Give the ports of slice {slice} the names and protocols of the Service's ports, or delete the slice"),
            ),
            Self::SliceUnused { cause: UnusedSlice::Family { .. }, .. } => Remedy::ask(
                EndpointsWriter,
                "Nothing, if other clients than kube-proxy read the slice",
            ),
            Self::HintsIgnored { slices, asked_by, .. } => {
                let otherwise = match asked_by {
                    Some(asked_by) => format!("unset {asked_by} of the Service"),
                    None => "let nobody set hints, for which the Service does not ask".to_owned(),
                };
                let writers = names(slices);
                Remedy::ask(
                    EndpointsWriter,
                    format!("Let whoever writes {writers} set hints, too, or {otherwise}"),
                )
            }
            Self::PodsNearlyMatch { nearest, endpoint_selector, .. } => {
                Remedy::ask(ServiceOwner, nearest.remedy(endpoint_selector.as_deref()))
            }
            Self::HeadlessWithoutNames { subdomain, service, governing } => {
                super::names::without_names_remedy(subdomain, service, *governing)
            }
            Self::NoZones { .. } => Remedy::ask(
                ClusterAdministrator,
                "Label each node with topology.kubernetes.io/zone, or unset trafficDistribution",
            ),
            Self::DuplicateEndpoint { slices, .. } => {
                let managers = each(slices, |names| {
                    in_namespace(&[&["get", "endpointslice"], names, &["-L", LABEL_MANAGED_BY]].concat())
                });
                Remedy::ask(
                    EndpointsWriter,
                    "Find out who writes these slices (label managed-by), and delete those that no controller keeps",
                )
                .shown_by(managers)
            }
            Self::MissingPodsServed { left, is_attached, .. } if !left.is_empty() => {
                attached::gone_remedy(service, left, *is_attached)
            }
            Self::MissingPodsServed { is_attached: true, .. } => attached::unserved_remedy(),
            Self::MissingPodsServed { .. } => Remedy::ask(
                ClusterAdministrator,
                "Bring the EndpointSlice controller back, which takes these endpoints out of the slices",
            ),
            // If no controller runs to replace it, clients use this slice.
            Self::WrongOwner { slice, is_attached, .. } => {
                let controller = if *is_attached { "endpoint selector" } else { "EndpointSlice" };
                Remedy::ask(
                    ClusterAdministrator,
                    format!("Look at the {controller} controller, which replaces slice {slice} if it runs; until then clients use the slice"),
                )
            }
            Self::UnmanagedSlice { slice, addresses, .. } => Remedy::ask(
                EndpointsWriter,
                match addresses.as_slice() {
                    [] => "Find out who writes the slice, and delete it if nobody does".to_owned(),
                    addresses => format!(
                        "Find out if clients should still reach {}, and who writes the slice; if they should not, delete it",
                        names(addresses)
                    ),
                },
            )
            .shown_by([in_namespace(&["get", "endpointslice", slice, "-o", "yaml", "--show-managed-fields"])]),
            // Their labels do not prove that a controller made them: cleanup looks at
            // managedFields. kubectl accepts no flag before the name of a plugin.
            Self::OrphanedSlice { .. } | Self::OrphanedEndpoints { .. } => Remedy::ask(
                ServiceOwner,
                "Create the Service, or see what is left over and who wrote it",
            )
            .shown_by([Step::kubectl(["endpoints", "cleanup", "-n", namespace])]),
            Self::ForeignSlice { manager, .. } => Remedy::ask(
                ServiceOwner,
                format!("Nothing, if {manager} is meant to add endpoints to this Service"),
            ),
            Self::SlicesLeftBehind { slices, endpoints, is_alias: true, .. } => {
                // The slices that are mirrored from the Endpoints go with these.
                let with_them = endpoints.iter().map(|name| in_namespace(&["delete", "endpoints", name]));
                let delete = each(slices, |names| in_namespace(&[&["delete", "endpointslice"], names].concat()));
                let what = attached::what_is_left(slices, endpoints.as_ref());
                Remedy::new(format!("Delete {what}, which no client of an alias uses"))
                    .then(delete.into_iter().chain(with_them))
            }
            Self::SlicesLeftBehind { slices, endpoints, is_needed, was_attached, .. } => {
                attached::left_remedy(namespace, slices, endpoints.as_ref(), *is_needed, *was_attached)
            }
            Self::SlicesBehind(behind) | Self::EndpointsBehind { behind, .. } if !behind.is_late => {
                Remedy::new("Wait a few seconds")
            }
            Self::SlicesBehind(behind) | Self::EndpointsBehind { behind, .. } if behind.refused.is_some() => {
                behind.refused.as_ref().map(|refused| refused.refusal.remedy(service)).unwrap_or_default()
            }
            Self::NoPodMatches { cause, .. } => cause.remedy(service),
            Self::PodsNotCreated { kind, workload, message } => {
                selector::refused_remedy(service, kind, workload, message)
            }
            Self::NoSelector { unlabelled } if !unlabelled.is_empty() => Remedy::ask(
                EndpointsWriter,
                format!(
                    "Look at whether the addresses of {} are meant for this Service; if so, label them with {LABEL_SERVICE_NAME}={}",
                    names(unlabelled),
                    service.name
                ),
            )
            .shown_by(each(unlabelled, |names| {
                in_namespace(&[&["get", "endpointslice"], names, &["-o", "wide"]].concat())
            })),
            Self::NoSelector { .. } => Remedy::ask(
                ServiceOwner,
                format!("Set spec.selector, or write an EndpointSlice with the label {LABEL_SERVICE_NAME}"),
            ),
            Self::ExternalName => Remedy::ask(
                ServiceOwner,
                "Nothing, if clients should reach the DNS name; else set spec.type to ClusterIP and add a selector",
            ),
            Self::ExternalNameInvalid { why, .. } => super::names::no_name_remedy(why),
            Self::ServiceTerminating { .. } => Remedy::ask(
                ServiceOwner,
                "Look at the controllers whose finalizers hold it, and create the Service again if it is needed",
            )
            .shown_by([Step::finalizers(namespace, "service", &service.name)]),
            Self::NoServicePorts => Remedy::ask(ServiceOwner, "Add a port to spec.ports"),
            Self::UnknownTrafficDistribution { .. } => {
                Remedy::ask(
                ServiceOwner,
                "Use PreferSameZone or PreferSameNode (before Kubernetes 1.34 PreferClose), or unset the field",
            )
            }
            Self::TopologyHintsWithheld { cause, .. } => topology::withheld_remedy(cause),
            Self::DistributionOverridden { annotation, .. } => Remedy::ask(
                ServiceOwner,
                format!("Remove the annotation {annotation} if the field is meant, else unset the field trafficDistribution"),
            ),
            Self::ClusterUnserved(unserved) => unserved::remedy(unserved),
            Self::AnnotationIgnored { annotation, .. } => {
                let remove = in_namespace(&["annotate", "service", &service.name, &format!("{annotation}-")]);
                Remedy::ask(
                    ServiceOwner,
                    "Remove the annotation, and set spec.publishNotReadyAddresses if clients should reach pods that are not ready",
                )
                .then([remove])
            }
            Self::RetirementIgnored { by, .. } => annotations::retirement_remedy(service, by.is_some()),
            Self::AnnotationMistyped { mistyped, .. } => annotations::mistyped_remedy(service, mistyped),
            Self::AddressNotMirrored { .. } => {
                Remedy::ask(EndpointsWriter, "Correct the addresses, or write EndpointSlices yourself")
            }
            Self::NoAddressesWritten => {
                Remedy::ask(EndpointsWriter, "Write ready addresses into them, or set spec.selector")
            }
            Self::EndpointsBehind { is_alone: true, others_written: false, .. } => Remedy::ask(
                ClusterAdministrator,
                "Nothing, if no client reads Endpoints and the endpoints controller is switched off (--controllers=*,-endpoints-controller) or retires them (--endpoints-default=retired, --endpoints-retired-namespaces); else it is broken: start it, or look at the errors that it logs",
            )
            .shown_by([unserved::doctor()]),
            Self::EndpointsBehind { others_written: true, .. } => Remedy::ask(
                ClusterAdministrator,
                "Look at what the endpoints controller, which runs, logs and reports in events about this Service",
            )
            .shown_by([unserved::events(service)]),
            Self::PortNotDeclared { target, not_declared, .. } => not_declared.remedy(*target),
            Self::PortNameAmbiguous { name, first, others, pods } => {
                undeclared::ambiguous_remedy(service, name, first, others, pods)
            }
            Self::SlicesBehind(behind) if behind.others_written_seconds.is_some() => Remedy::ask(
                ClusterAdministrator,
                "Look at what the controller, which runs, logs and reports in events about this Service",
            )
            .shown_by([unserved::events(service)]),
            Self::SlicesBehind(_) | Self::EndpointsBehind { .. } => Remedy::ask(
                ClusterAdministrator,
                "Look at the controller: is there a leader, does it log errors, may it write to this namespace?",
            )
            .shown_by([unserved::doctor()]),
            Self::EndpointsTruncated { .. } => {
                Remedy::ask(ServiceOwner, "Let clients read EndpointSlices, or split the Service")
            }
            Self::SliceTerminating { slice, finalizers } => Remedy::ask(
                EndpointsWriter,
                capital(&held(finalizers)),
            )
            .shown_by([Step::finalizers(namespace, "endpointslice", slice)]),
            // `selector_remedy` has these.
            Self::EndpointSelectorNotFound { .. }
            | Self::EndpointSelectorInvalid { .. }
            | Self::EndpointSelectorOverridden { .. }
            | Self::HandOverHeld { .. }
            | Self::EndpointSelectorUnserved { .. }
            | Self::SelectsUnlabelled { .. }
            | Self::NobodyLeads { .. }
            | Self::ReadinessWithoutEffect { .. }
            | Self::SliceKept { .. } => Remedy::default(),
            Self::EndpointsWrittenByOthers { by, .. } => {
                let by = by.as_deref().unwrap_or("the other client");
                Remedy::ask(
                    EndpointsWriter,
                    format!(
                        "Decide which addresses are meant: if those of {by}, remove the selector from the Service and then the slices made from its pods; if the pods, let {by} write Endpoints of another name, and the endpoints controller corrects these"
                    ),
                )
            }
        }
    }
}

/// Returns the commands for all of these objects.
fn each(names: &[Text], command: impl Fn(&[&str]) -> Step) -> impl Iterator<Item = Step> {
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let steps: Vec<Step> = names.chunks(OBJECTS_IN_A_COMMAND).map(command).collect();
    steps.into_iter()
}
