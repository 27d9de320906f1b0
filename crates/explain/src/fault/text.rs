//! Message and code of each fault.

use std::fmt;

use kube_endpoint_core_model::Text;
use kube_endpoint_core_model::well_known::LABEL_HEADLESS;

use super::{
    Fault, LocalPolicy, NoPods, UnusedSlice, addresses, annotations, attached, consumers, elsewhere,
    families, ports, selector, topology, undeclared, unserved,
};
use crate::consumers::kube_proxy::LABEL_SERVICE_PROXY_NAME;
use crate::finding::Problem;
use crate::{Code, Open, Severity};

/// The maximum number of names in a sentence.
const NAMES_IN_A_SENTENCE: usize = 5;

pub(super) fn names(names: &[Text]) -> String {
    let listed: Vec<&str> = names.iter().take(NAMES_IN_A_SENTENCE).map(|name| &**name).collect();
    match names.len().saturating_sub(NAMES_IN_A_SENTENCE) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

pub(super) fn and(kinds: &[&str]) -> String {
    match kinds {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns how a text calls the objects of a resource.
fn plural(resource: &str) -> &str {
    match resource {
        "endpointslices" => "EndpointSlices",
        "endpoints" => "Endpoints",
        "endpointselectors" => "EndpointSelectors",
        resource => resource,
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotKnown { kinds, open } => {
                let kinds: Vec<&str> = kinds.iter().map(|kind| plural(kind)).collect();
                write!(f, "{} could not be read, so {} is not known", and(&kinds), open.subject())
            }
            Self::NoPodMatches { selector, endpoint_selector: None, cause } => {
                write!(f, "no pod has the labels {selector}{}", cause.text())
            }
            Self::NoPodMatches { selector, endpoint_selector: Some(name), cause } => {
                write!(f, "EndpointSelector {name} selects no pod: {selector}{}", cause.text())
            }
            Self::EndpointSelectorNotFound { endpoint_selector, is_served, is_name, others, namespaces } => {
                f.write_str(&attached::not_found(endpoint_selector, *is_served, *is_name, others))?;
                f.write_str(&attached::elsewhere(namespaces))
            }
            Self::EndpointSelectorInvalid { endpoint_selector, reason } => {
                f.write_str(&attached::invalid(endpoint_selector, reason))
            }
            Self::EndpointSelectorOverridden { endpoint_selector, rehearsal } => {
                f.write_str(&attached::overridden(endpoint_selector, rehearsal))
            }
            Self::RetirementIgnored { value, by } => {
                f.write_str(&annotations::retirement_ignored(value, by.as_deref()))
            }
            Self::AnnotationMistyped { mistyped, .. } => f.write_str(&annotations::mistyped(mistyped)),
            Self::HandOverHeld { endpoint_selector, slices } => {
                f.write_str(&attached::held(endpoint_selector.as_ref(), slices))
            }
            Self::EndpointSelectorUnserved { endpoint_selector, is_old, behind } => {
                behind.fmt(f, &attached::unserved(endpoint_selector, *is_old))
            }
            Self::SelectsUnlabelled { endpoint_selector, selector } => write!(
                f,
                "EndpointSelector {endpoint_selector} selects pods without any label, too: {selector}"
            ),
            Self::NobodyLeads { leads, .. } => leads.fmt(f),
            Self::SliceKept { endpoint_selector, slice, by, is_certain, endpoints } => f.write_str(
                &attached::kept(endpoint_selector, slice, by.as_ref(), *is_certain, endpoints.as_ref()),
            ),
            Self::ReadinessWithoutEffect { endpoint_selector } => write!(
                f,
                "publishNotReadyAddresses publishes all pods, so spec.readiness of EndpointSelector {endpoint_selector} has no effect"
            ),
            Self::PodsNotCreated { kind, workload, message } => {
                f.write_str(&selector::refused(kind, workload, message))
            }
            Self::PodsNearlyMatch { endpoint_selector, nearest, count } => {
                let pods = if *count == 1 { "1 pod differs" } else { "pods differ" };
                let count = if *count == 1 { String::new() } else { format!("{count} ") };
                match endpoint_selector {
                    Some(name) => write!(f, "EndpointSelector {name} selects no pod")?,
                    None => f.write_str("no pod matches the selector")?,
                }
                write!(f, ", but {count}{pods} in one label only: {nearest}")
            }
            Self::NoSelector { unlabelled } => {
                f.write_str("the Service has no selector, and there are no endpoints for it")?;
                match unlabelled.as_slice() {
                    [] => Ok(()),
                    [one] => write!(f, "; slice {one} names no Service"),
                    more => write!(f, "; slices {} name no Service", names(more)),
                }
            }
            Self::ExternalName => {
                f.write_str("the Service is an alias of a DNS name (type ExternalName) and has no endpoints")
            }
            Self::ExternalNameInvalid { external_name, why } => {
                f.write_str(&super::names::no_name_text(external_name, why))
            }
            Self::ServiceTerminating { seconds, finalizers, .. } => {
                match seconds {
                    Some(seconds) => {
                        write!(f, "the Service was deleted {} ago", crate::age::seconds(*seconds))?;
                    }
                    None => f.write_str("the Service is being deleted")?,
                }
                f.write_str(", so no new slices are created for it")?;
                match finalizers.as_slice() {
                    [] => Ok(()),
                    [one] => write!(f, "; the finalizer {one} holds it"),
                    more => write!(f, "; the finalizers {} hold it", names(more)),
                }
            }
            Self::ServiceLabelIgnored { old, known } => f.write_str(&consumers::service_label(*old, *known)),
            Self::NoServicePorts => {
                f.write_str("the Service has no ports, so no client is sent to its endpoints")
            }
            Self::HeadlessWithoutNames { subdomain, service, governing } => {
                f.write_str(&super::names::without_names(subdomain, service, *governing))
            }
            Self::NoZones { nodes } => {
                write!(f, "nodes without the label topology.kubernetes.io/zone: {}", names(nodes))
            }
            Self::UnknownTrafficDistribution { value } => {
                write!(f, "the field trafficDistribution is {value:?}, which has no effect")
            }
            Self::TopologyHintsWithheld { message, cause } => {
                f.write_str(&topology::withheld(cause, message))
            }
            Self::DistributionOverridden { annotation, value, .. } => {
                write!(f, "the annotation {annotation} overrides trafficDistribution: {value}")
            }
            Self::ClusterUnserved(unserved) => f.write_str(&unserved::told(unserved)),
            Self::AnnotationIgnored { annotation, value } => {
                write!(f, "the annotation {annotation}: {value:?} has no effect")
            }
            Self::EndpointsNotMirrored { cause, .. } => write!(f, "the Endpoints are not mirrored: {cause}"),
            Self::AddressNotMirrored { addresses, cause, maximum: Some(_) } => {
                let are = if addresses.len() == 1 {
                    "address of the Endpoints is"
                } else {
                    "addresses of the Endpoints are"
                };
                write!(f, "{} {are} not mirrored: {} ({cause})", addresses.len(), names(addresses))
            }
            Self::AddressNotMirrored { addresses, cause, .. } => {
                write!(f, "addresses of the Endpoints are not mirrored: {} ({cause})", names(addresses))
            }
            Self::NoAddressesWritten => f.write_str(
                "the Service has no selector, and the endpoints written for it hold no ready address",
            ),
            Self::EndpointPortsDiffer { wanted, has, family, none_is_left } => {
                f.write_str(&ports::differ(wanted, has, *family, *none_is_left))
            }
            Self::EndpointFamiliesDiffer { missing, has, .. } => f.write_str(&families::differ(missing, has)),
            Self::SlicesIgnored { slices, .. } => {
                let (noun, have) = if slices.len() == 1 { ("slice", "has") } else { ("slices", "have") };
                let slices = names(slices);
                write!(f, "kube-proxy ignores {noun} {slices}, which {have} the label {LABEL_HEADLESS}")
            }
            Self::NoLocalEndpoint {
                policy,
                with,
                without,
                closed,
                missing,
                are_nodes_known,
                has_health_check,
            } => {
                let nodes = consumers::LocalNodes {
                    with: *with,
                    without: without.len(),
                    closed: *closed,
                    names: &names(without),
                    missing: &names(missing),
                    are_known: *are_nodes_known,
                    has_health_check: *has_health_check,
                };
                f.write_str(&nodes.message(*policy))
            }
            Self::LabelKeysDiffer(other) => f.write_str(&elsewhere::other_keys(other)),
            Self::PodsElsewhere { selector, namespaces } => {
                f.write_str(&elsewhere::elsewhere(selector, namespaces))
            }
            Self::ServiceIpAsEndpoint { endpoints, .. } => f.write_str(&addresses::cluster_ips(endpoints)),
            Self::SharedPodIp { address, pods, count, more, .. } => {
                f.write_str(&addresses::shared(address, pods, *count, *more))
            }
            Self::HeadlessPort { port, name, targets, .. } => {
                f.write_str(&ports::headless(*port, name, targets))
            }
            Self::OtherProxy { proxy } => {
                f.write_str(&consumers::other_proxy(proxy, LABEL_SERVICE_PROXY_NAME))
            }
            Self::SliceUnused { slice, cause } => f.write_str(&consumers::unused(slice, cause)),
            Self::HintsIgnored { addresses, slices, .. } => {
                let (endpoints, have) =
                    if addresses.len() == 1 { ("endpoint", "has") } else { ("endpoints", "have") };
                let slices = if slices.len() == 1 {
                    format!("slice {}", names(slices))
                } else {
                    format!("slices {}", names(slices))
                };
                write!(
                    f,
                    "kube-proxy ignores the hints of all endpoints, because the ready {endpoints} {} of {slices} {have} none",
                    names(addresses)
                )
            }
            Self::SlicesBehind(behind) => behind.fmt(f, "the slices are not up to date"),
            Self::EndpointsBehind { behind, is_alone, others_written } => {
                let what = if *is_alone {
                    "the Endpoints are not up to date, and kube-proxy and DNS read the slices instead"
                } else {
                    "the Endpoints are not up to date"
                };
                behind.fmt(f, what)?;
                match (*others_written, &behind.refused) {
                    (true, None) => f.write_str("; those of other Services have been written since then"),
                    _ => Ok(()),
                }
            }
            Self::PortNotDeclared { port, name, target, declared, not_declared } => {
                let numbers = declared.iter().map(|number| Text::from(number.to_string()));
                let numbers = names(&numbers.collect::<Vec<_>>());
                let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
                f.write_str(&not_declared.text(&format!("port {port}{name}"), *target, &numbers))
            }
            Self::PortNameAmbiguous { name, first, others, pods } => {
                f.write_str(&undeclared::ambiguous(name, first, others, pods))
            }
            Self::MissingPodsServed { pods, left, .. } if !left.is_empty() => {
                f.write_str(&attached::gone(pods, left))
            }
            Self::MissingPodsServed { pods, .. } => {
                let (pod, does) = if pods.len() == 1 { ("pod", "does") } else { ("pods", "do") };
                write!(
                    f,
                    "slices send clients to {} {pod} that the Service does not select or that {does} not exist any more: {}",
                    pods.len(),
                    names(pods)
                )
            }
            Self::WrongOwner { slice, owner: Some(owner), .. } => {
                write!(f, "slice {slice} is owned by {owner}, not by this Service")
            }
            Self::WrongOwner { slice, owner: None, .. } => write!(f, "slice {slice} has no owner"),
            Self::ForeignSlice { slice, manager } => write!(f, "slice {slice} is managed by {manager}"),
            Self::UnmanagedSlice { slice, addresses, .. } if addresses.is_empty() => {
                write!(
                    f,
                    "no controller keeps slice {slice}, which has no label endpointslice.kubernetes.io/managed-by"
                )
            }
            Self::UnmanagedSlice { slice, addresses, besides_pods } => {
                let also = if *besides_pods { "also " } else { "" };
                write!(
                    f,
                    "clients are {also}sent to {} by slice {slice}, which no controller keeps",
                    names(addresses)
                )
            }
            Self::OrphanedSlice { slice, service } => {
                write!(f, "slice {slice} is for the Service {service}, which does not exist")
            }
            Self::DuplicateEndpoint { addresses, slices, undefined } => {
                let several = if addresses.len() == 1 { "is" } else { "are" };
                write!(f, "{} {several} in several slices: {}", names(addresses), names(slices))?;
                match undefined.as_slice() {
                    [] => Ok(()),
                    some => {
                        let what = match some {
                            [_] if addresses.len() == 1 => "its conditions, hints or node".to_owned(),
                            some => format!("the conditions, hints or nodes of {}", names(some)),
                        };
                        write!(f, "; the slices differ in {what}, and kube-proxy takes those of any of them")
                    }
                }
            }
            Self::EndpointsTruncated { held, wanted } => {
                write!(f, "the Endpoints object holds {held} of {wanted} addresses, its maximum")
            }
            Self::OrphanedEndpoints { endpoints } => {
                write!(
                    f,
                    "the Endpoints {endpoints} have the label of the endpoints controller, and the Service does not exist"
                )
            }
            Self::SlicesLeftBehind { slices, endpoints, mirrored, .. } => {
                f.write_str(&attached::left(slices, endpoints.as_ref(), !mirrored.is_empty()))
            }
            Self::SliceTerminating { slice, finalizers } => {
                write!(f, "slice {slice} is being deleted and held by {}", names(finalizers))
            }
            Self::EndpointsWrittenByOthers { by, in_endpoints, in_slices } => {
                f.write_str("the Endpoints are not those of the controller")?;
                by.iter().try_for_each(|by| write!(f, ": {by} wrote them last"))?;
                let ready = |count| {
                    if count == 1 { "1 ready address".to_owned() } else { format!("{count} ready addresses") }
                };
                match in_slices {
                    Some(in_slices) => write!(
                        f,
                        "; they hold {}, and the slices, which kube-proxy and DNS read, hold {}",
                        ready(*in_endpoints),
                        ready(*in_slices)
                    ),
                    None => write!(f, "; they hold {}", ready(*in_endpoints)),
                }
            }
        }
    }
}

impl Problem for Fault {
    fn code(&self) -> Code {
        match self {
            Self::NotKnown { .. } => Code::NotKnown,
            Self::NoPodMatches { .. } => Code::NoPodMatches,
            Self::PodsNearlyMatch { .. } => Code::PodsNearlyMatch,
            Self::LabelKeysDiffer(_) => Code::LabelKeysDiffer,
            Self::PodsElsewhere { .. } => Code::PodsElsewhere,
            Self::ServiceIpAsEndpoint { .. } => Code::ServiceIpAsEndpoint,
            Self::HeadlessPort { .. } => Code::HeadlessPort,
            Self::SharedPodIp { .. } => Code::SharedPodIp,
            Self::PodsNotCreated { .. } => Code::PodsNotCreated,
            Self::NoSelector { .. } => Code::NoSelector,
            Self::ExternalName => Code::ExternalName,
            Self::ExternalNameInvalid { .. } => Code::ExternalNameInvalid,
            Self::ServiceTerminating { .. } => Code::ServiceTerminating,
            Self::ServiceLabelIgnored { .. } => Code::ServiceLabelIgnored,
            Self::NoServicePorts => Code::NoServicePorts,
            Self::HeadlessWithoutNames { .. } => Code::HeadlessWithoutNames,
            Self::NoZones { .. } => Code::NoZones,
            Self::UnknownTrafficDistribution { .. } => Code::UnknownTrafficDistribution,
            Self::TopologyHintsWithheld { .. } => Code::TopologyHintsWithheld,
            Self::DistributionOverridden { .. } => Code::DistributionOverridden,
            Self::ClusterUnserved(_) => Code::ClusterUnserved,
            Self::AnnotationIgnored { .. } | Self::RetirementIgnored { .. } => Code::AnnotationIgnored,
            Self::AnnotationMistyped { .. } => Code::AnnotationMistyped,
            Self::EndpointsNotMirrored { .. } => Code::EndpointsNotMirrored,
            Self::AddressNotMirrored { .. } => Code::AddressNotMirrored,
            Self::NoAddressesWritten => Code::NoAddressesWritten,
            Self::EndpointPortsDiffer { .. } => Code::EndpointPortsDiffer,
            Self::EndpointFamiliesDiffer { .. } => Code::EndpointFamiliesDiffer,
            Self::SlicesIgnored { .. } => Code::SlicesIgnored,
            Self::NoLocalEndpoint { .. } => Code::NoLocalEndpoint,
            Self::OtherProxy { .. } => Code::OtherProxy,
            Self::SliceUnused { .. } => Code::SliceUnused,
            Self::HintsIgnored { .. } => Code::HintsIgnored,
            Self::SlicesBehind(_) => Code::SlicesBehind,
            Self::MissingPodsServed { .. } => Code::MissingPodsServed,
            Self::WrongOwner { .. } => Code::WrongOwner,
            Self::ForeignSlice { .. } => Code::ForeignSlice,
            Self::UnmanagedSlice { .. } => Code::UnmanagedSlice,
            Self::OrphanedSlice { .. } => Code::OrphanedSlice,
            Self::DuplicateEndpoint { .. } => Code::DuplicateEndpoint,
            Self::EndpointsTruncated { .. } => Code::EndpointsTruncated,
            Self::EndpointsBehind { .. } => Code::EndpointsBehind,
            Self::PortNotDeclared { .. } => Code::PortNotDeclared,
            Self::PortNameAmbiguous { .. } => Code::PortNameAmbiguous,
            Self::OrphanedEndpoints { .. } => Code::OrphanedEndpoints,
            Self::SlicesLeftBehind { .. } => Code::SlicesLeftBehind,
            Self::SliceTerminating { .. } => Code::SliceTerminating,
            Self::EndpointsWrittenByOthers { .. } => Code::EndpointsWrittenByOthers,
            Self::EndpointSelectorNotFound { .. } => Code::EndpointSelectorNotFound,
            Self::EndpointSelectorInvalid { .. } => Code::EndpointSelectorInvalid,
            Self::EndpointSelectorOverridden { .. } => Code::EndpointSelectorOverridden,
            Self::HandOverHeld { .. } => Code::HandOverHeld,
            Self::EndpointSelectorUnserved { .. } => Code::EndpointSelectorUnserved,
            Self::SelectsUnlabelled { .. } => Code::SelectsUnlabelled,
            Self::NobodyLeads { .. } => Code::NobodyLeads,
            Self::ReadinessWithoutEffect { .. } => Code::ReadinessWithoutEffect,
            Self::SliceKept { .. } => Code::SliceKept,
        }
    }

    fn severity(&self) -> Severity {
        match self {
            Self::NotKnown { open: Open::NoTraffic, .. }
            | Self::ServiceTerminating { none_is_left: true, .. }
            | Self::AnnotationMistyped { none_is_left: true, .. }
            | Self::MissingPodsServed { none_is_left: true, .. } => Severity::Error,
            Self::MissingPodsServed { left, .. } if !left.is_empty() => Severity::Error,
            Self::NoPodMatches { cause: NoPods::ScaledToZero { .. }, .. } => Severity::Info,
            Self::ServiceLabelIgnored { known: 0, .. } => Severity::Info,
            Self::PortNotDeclared { not_declared, .. } => not_declared.severity(),
            Self::EndpointPortsDiffer { none_is_left: false, .. }
            | Self::EndpointFamiliesDiffer { none_is_left: false, .. }
            | Self::SlicesIgnored { none_is_left: false, .. } => Severity::Warning,
            Self::SlicesBehind(behind) | Self::EndpointsBehind { behind, .. } if !behind.is_late => {
                Severity::Info
            }
            Self::SlicesBehind(behind) | Self::EndpointsBehind { behind, .. } if behind.is_meant() => {
                Severity::Info
            }
            Self::EndpointsBehind { behind, is_alone: true, others_written: false }
                if behind.refused.is_none() =>
            {
                Severity::Info
            }
            Self::DistributionOverridden { withheld: true, .. } => Severity::Warning,
            Self::NoLocalEndpoint { with: 0, .. } => Severity::Error,
            Self::ServiceIpAsEndpoint { none_is_left: false, .. }
            | Self::SharedPodIp { with_others: false, .. } => Severity::Warning,
            // Clients of a pod's own name rarely use the port of the Service.
            Self::HeadlessPort { has_pod_names: true, .. } => Severity::Info,
            // Load balancers leave out nodes without an endpoint.
            Self::NoLocalEndpoint { policy: LocalPolicy::External, .. }
            | Self::NoLocalEndpoint { are_nodes_known: false, .. }
            // Gateways and meshes may use addresses that kube-proxy does not.
            | Self::SliceUnused { cause: UnusedSlice::Family { .. }, .. } => Severity::Info,
            fault => fault.code().severity(),
        }
    }
}
