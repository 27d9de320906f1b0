//! The findings about a Service or its pods: one module each.
//!
//! A module says what its finding is about ([`About`], with the text of `docs/verdicts.md`), when
//! it holds, and what a person reads about it ([`Finding`]), and tests that. To add one, write its
//! module, declare it below and name it in `registry!`; docs/add-a-finding.md walks through that.

pub(crate) mod code;
pub(crate) mod counts;
pub mod evidence;
pub mod finding;
pub(crate) mod inputs;
pub(crate) mod pod;
pub(crate) mod pod_reason;
mod prelude;
pub(crate) mod rank;
mod words;

#[cfg(test)]
mod testing;

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::facts::remedy::Remedy;
use crate::findings::code::Severity;
use crate::findings::evidence::{Evidence, Read};
use crate::findings::finding::Problem;
use crate::findings::inputs::FaultInputs;
use crate::findings::pod_reason::{PodFinding, PodsOf};
use crate::findings::rank::TrafficLost;

/// The properties of all findings with one code.
#[derive(Debug)]
pub struct About {
    /// The identifier, such as `EP012`. It never changes once released.
    pub id: &'static str,
    /// The name, such as `port-name-not-found`. It never changes once released.
    pub name: &'static str,
    /// The severity, unless a finding states another.
    pub severity: Severity,
    /// The meaning, as one sentence.
    pub title: &'static str,
    /// The text of the documentation, in Markdown, with one space before each line.
    text: &'static str,
    /// True if the finding may only mean that a write is under way. It is a problem if it is still
    /// there some seconds later.
    pub may_be_under_way: bool,
}

impl About {
    /// Returns the text of the documentation, in Markdown: when the finding holds, what it means,
    /// how its severity is decided.
    pub fn text(&self) -> String {
        let lines = self.text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Declares what a code is about: the text of the documentation as doc comments, identifier, name,
/// severity, and the meaning as one sentence.
macro_rules! about {
    ($(#[doc = $text:literal])* $id:ident $name:literal $severity:ident $($way:ident)? $title:literal) => {
        pub(super) const ABOUT: $crate::findings::About = $crate::findings::About {
            id: stringify!($id),
            name: $name,
            severity: $crate::findings::code::Severity::$severity,
            title: $title,
            text: concat!($($text, "\n"),*),
            may_be_under_way: about!(@way $($way)?),
        };
    };
    (@way) => { false };
    (@way may_be_under_way) => { true };
}

/// A finding about a Service, its slices or its Endpoints. `Display` prints the message, one
/// sentence without a full stop.
pub(crate) trait Finding: fmt::Display {
    /// Returns the findings that hold for a Service. Those about objects without a Service hold for
    /// none.
    fn find(_: &FaultInputs<'_>) -> Vec<Self>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// Returns the severity, or `None` if it is that of the code.
    fn severity(&self) -> Option<Severity> {
        None
    }

    /// Returns the time since which it holds, if that is known.
    fn since(&self) -> Option<Timestamp> {
        None
    }

    /// Returns the fields that it rests on, with the values that were read.
    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        std::iter::once(read.selector()).chain(read.slices()).collect()
    }

    /// Returns what to do about it. `service` is the Service that has it.
    fn remedy(&self, service: &ObjectKey) -> Remedy;

    /// Returns the traffic that clients lose because of it while other endpoints answer.
    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::None
    }

    /// Returns true if this is the cause of `other`, which then says nothing more to a reader and
    /// is left out.
    fn explains(&self, _other: &Fault) -> bool {
        false
    }

    /// Returns true if this is the cause why a pod has a reason, which then needs no advice.
    fn explains_pod(&self, _pod: &Text, _reason: &PodReason) -> bool {
        false
    }
}

macro_rules! registry {
    ($($code:ident = $module:ident $(: $($fault:ident)+)? $(, of pod: $($reason:ident)+)?;)*) => {
        $(#[allow(unused_imports, unreachable_pub, reason = "a module may declare its text only")] pub use $module::*;)*

        /// A stable code. Prints and serialises as its identifier, such as `EP012`. Neither
        /// identifiers nor names change once released, and a new code never gets the identifier of
        /// a withdrawn one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = concat!("`", stringify!($module), "`")] $code,)*
        }

        impl Code {
            /// All codes, by identifier.
            pub const ALL: &'static [Self] = &[$(Self::$code),*];

            /// Returns the properties of findings with the code.
            pub fn about(self) -> &'static About {
                match self { $(Self::$code => &$module::ABOUT),* }
            }
        }

        /// A finding about a Service itself, its slices or its Endpoints. Serialises with the tag
        /// `fault`, which holds its name.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(tag = "fault", rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum Fault {
            $($($(#[doc = concat!("`", stringify!($module), "`")] $fault($fault),)+)?)*
        }

        impl Fault {
            fn finding(&self) -> &dyn Finding {
                match self { $($($(Self::$fault(finding) => finding,)+)?)* }
            }
        }

        impl Problem for Fault {
            fn code(&self) -> Code {
                match self { $($($(Self::$fault(_) => Code::$code,)+)?)* }
            }

            fn severity(&self) -> Severity {
                self.finding().severity().unwrap_or(self.code().severity())
            }
        }

        $($($(impl From<$fault> for Fault {
            fn from(finding: $fault) -> Self {
                Self::$fault(finding)
            }
        })+)?)*

        /// A reason why a pod receives no traffic, or not all of it, from a Service. Serialises
        /// with the tag `reason`, which holds its name.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
        #[serde(tag = "reason", rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum PodReason {
            $($($(#[doc = concat!("`", stringify!($module), "`")] $reason($reason),)+)?)*
        }

        impl PodReason {
            pub(crate) fn finding(&self) -> &dyn PodFinding {
                match self { $($($(Self::$reason(finding) => finding,)+)?)* }
            }

            /// Tells reasons of one [group](Self::group) as one sentence, without a full stop.
            pub(crate) fn message(all: &[&Self]) -> String {
                match all.first() {
                    $($($(Some(Self::$reason(_)) => <$reason as PodFinding>::message(&of_kind(all)),)+)?)*
                    None => String::new(),
                }
            }

            /// Returns the remedy for pods whose reasons are of one [group](Self::group).
            pub(crate) fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
                match all.first() {
                    $($($(Some(Self::$reason(_)) => <$reason as PodFinding>::remedy(&of_kind(all), pods),)+)?)*
                    None => Remedy::default(),
                }
            }
        }

        $($($(impl<'a> TryFrom<&'a PodReason> for &'a $reason {
            type Error = ();

            fn try_from(reason: &'a PodReason) -> Result<Self, ()> {
                match reason {
                    PodReason::$reason(finding) => Ok(finding),
                    _ => Err(()),
                }
            }
        }

        impl From<$reason> for PodReason {
            fn from(finding: $reason) -> Self {
                Self::$reason(finding)
            }
        })+)?)*

        impl Problem for PodReason {
            fn code(&self) -> Code {
                match self { $($($(Self::$reason(_) => Code::$code,)+)?)* }
            }

            fn severity(&self) -> Severity {
                self.finding().severity().unwrap_or(self.code().severity())
            }
        }

        /// Returns all findings that hold, those that others explain, too.
        fn found(inputs: &FaultInputs<'_>) -> Vec<Fault> {
            let mut found: Vec<Fault> = Vec::new();
            $($($(found.extend(<$fault as Finding>::find(inputs).into_iter().map(Fault::from));)+)?)*
            found
        }
    };
}

// rustfmt does not see modules that a macro declares.
mod ep000_published;
mod ep001_not_known;
mod ep010_pod_finished;
mod ep011_no_address;
mod ep012_port_name_not_found;
mod ep013_pod_terminating;
mod ep014_node_not_found;
mod ep015_invalid_address;
mod ep016_no_address_of_family;
mod ep017_not_ready;
mod ep018_readiness_gate_not_met;
mod ep019_container_not_ready;
mod ep020_container_not_running;
mod ep021_node_not_ready;
mod ep022_not_scheduled;
mod ep023_some_ports_not_found;
mod ep024_port_protocol_differs;
mod ep025_over_capacity;
mod ep026_readiness_unknown;
mod ep027_published_not_ready;
mod ep028_not_written;
mod ep029_some_families_missing;
mod ep030_no_pod_matches;
mod ep031_pods_nearly_match;
mod ep032_no_selector;
mod ep033_external_name;
mod ep034_service_terminating;
mod ep035_no_service_ports;
mod ep036_headless_without_names;
mod ep037_no_zones;
mod ep038_unknown_traffic_distribution;
mod ep039_topology_hints_withheld;
mod ep040_annotation_ignored;
mod ep042_endpoints_not_mirrored;
mod ep043_address_not_mirrored;
mod ep044_no_addresses_written;
mod ep045_endpoint_ports_differ;
mod ep046_endpoint_families_differ;
mod ep047_slices_ignored;
mod ep048_no_local_endpoint;
mod ep049_other_proxy;
mod ep050_slices_behind;
mod ep051_wrong_owner;
mod ep052_foreign_slice;
mod ep053_unmanaged_slice;
mod ep054_orphaned_slice;
mod ep055_duplicate_endpoint;
mod ep056_endpoints_truncated;
mod ep057_endpoints_behind;
mod ep058_orphaned_endpoints;
mod ep059_slices_left_behind;
mod ep060_slice_terminating;
mod ep061_endpoints_written_by_others;
mod ep062_slice_unused;
mod ep063_hints_ignored;
mod ep064_port_not_declared;
mod ep065_service_ip_as_endpoint;
mod ep066_headless_port;
mod ep067_label_keys_differ;
mod ep068_pods_elsewhere;
mod ep069_shared_pod_ip;
mod ep073_cluster_unserved;
mod ep074_distribution_overridden;
mod ep085_external_name_invalid;
mod ep086_service_label_ignored;
mod ep087_port_name_ambiguous;
mod ep088_pods_not_created;
mod ep089_missing_pods_served;
mod ep090_endpoint_selector_not_found;
mod ep091_endpoint_selector_invalid;
mod ep092_endpoint_selector_overridden;
mod ep093_hand_over_held;
mod ep094_endpoint_selector_unserved;
mod ep095_selects_unlabelled;
mod ep096_not_chosen;
mod ep097_nobody_leads;
mod ep098_readiness_without_effect;
mod ep099_annotation_mistyped;
mod ep100_slice_kept;
mod ep101_pod_starting;
mod ep102_selector_too_wide;
mod ep103_load_balancer_pending;
mod ep120_backend_not_found;
mod ep121_backend_port_not_found;
mod ep122_backend_not_permitted;
mod ep123_policy_admits_nobody;
mod ep124_client_not_admitted;
mod ep125_proxy_not_ready;
mod ep126_not_attached;

registry! {
    Published = ep000_published;
    NotKnown = ep001_not_known: NotKnown;
    PodFinished = ep010_pod_finished, of pod: PodFinished;
    NoAddress = ep011_no_address, of pod: NoAddress;
    PortNameNotFound = ep012_port_name_not_found, of pod: PortNameNotFound;
    PodTerminating = ep013_pod_terminating, of pod: PodTerminating;
    NodeNotFound = ep014_node_not_found, of pod: NodeNotFound;
    InvalidAddress = ep015_invalid_address, of pod: InvalidAddress;
    NoAddressOfFamily = ep016_no_address_of_family, of pod: NoAddressOfFamily;
    NotReady = ep017_not_ready, of pod: NotReady;
    ReadinessGateNotMet = ep018_readiness_gate_not_met, of pod: ReadinessGateNotMet;
    ContainerNotReady = ep019_container_not_ready, of pod: ContainerNotReady;
    ContainerNotRunning = ep020_container_not_running, of pod: ContainerNotRunning InitContainerRuns;
    NodeNotReady = ep021_node_not_ready, of pod: NodeNotReady;
    NotScheduled = ep022_not_scheduled, of pod: NotScheduled;
    SomePortsNotFound = ep023_some_ports_not_found, of pod: SomePortsNotFound;
    PortProtocolDiffers = ep024_port_protocol_differs, of pod: PortProtocolDiffers;
    OverCapacity = ep025_over_capacity, of pod: OverCapacity;
    ReadinessUnknown = ep026_readiness_unknown, of pod: ReadinessUnknown;
    PublishedNotReady = ep027_published_not_ready, of pod: PublishedNotReady;
    NotWritten = ep028_not_written, of pod: NotWritten;
    SomeFamiliesMissing = ep029_some_families_missing, of pod: SomeFamiliesMissing;
    NoPodMatches = ep030_no_pod_matches: NoPodMatches;
    PodsNearlyMatch = ep031_pods_nearly_match: PodsNearlyMatch;
    NoSelector = ep032_no_selector: NoSelector;
    ExternalName = ep033_external_name: ExternalName;
    ServiceTerminating = ep034_service_terminating: ServiceTerminating;
    NoServicePorts = ep035_no_service_ports: NoServicePorts, of pod: NoServicePorts;
    HeadlessWithoutNames = ep036_headless_without_names: HeadlessWithoutNames;
    NoZones = ep037_no_zones: NoZones;
    UnknownTrafficDistribution = ep038_unknown_traffic_distribution: UnknownTrafficDistribution;
    TopologyHintsWithheld = ep039_topology_hints_withheld: TopologyHintsWithheld;
    AnnotationIgnored = ep040_annotation_ignored: AnnotationIgnored RetirementIgnored;
    EndpointsNotMirrored = ep042_endpoints_not_mirrored: EndpointsNotMirrored;
    AddressNotMirrored = ep043_address_not_mirrored: AddressNotMirrored;
    NoAddressesWritten = ep044_no_addresses_written: NoAddressesWritten;
    EndpointPortsDiffer = ep045_endpoint_ports_differ: EndpointPortsDiffer;
    EndpointFamiliesDiffer = ep046_endpoint_families_differ: EndpointFamiliesDiffer;
    SlicesIgnored = ep047_slices_ignored: SlicesIgnored;
    NoLocalEndpoint = ep048_no_local_endpoint: NoLocalEndpoint;
    OtherProxy = ep049_other_proxy: OtherProxy;
    SlicesBehind = ep050_slices_behind: SlicesBehind;
    WrongOwner = ep051_wrong_owner: WrongOwner;
    ForeignSlice = ep052_foreign_slice: ForeignSlice;
    UnmanagedSlice = ep053_unmanaged_slice: UnmanagedSlice;
    OrphanedSlice = ep054_orphaned_slice: OrphanedSlice;
    DuplicateEndpoint = ep055_duplicate_endpoint: DuplicateEndpoint;
    EndpointsTruncated = ep056_endpoints_truncated: EndpointsTruncated;
    EndpointsBehind = ep057_endpoints_behind: EndpointsBehind;
    OrphanedEndpoints = ep058_orphaned_endpoints: OrphanedEndpoints;
    SlicesLeftBehind = ep059_slices_left_behind: SlicesLeftBehind;
    SliceTerminating = ep060_slice_terminating: SliceTerminating;
    EndpointsWrittenByOthers = ep061_endpoints_written_by_others: EndpointsWrittenByOthers;
    SliceUnused = ep062_slice_unused: SliceUnused;
    HintsIgnored = ep063_hints_ignored: HintsIgnored;
    PortNotDeclared = ep064_port_not_declared: PortNotDeclared;
    ServiceIpAsEndpoint = ep065_service_ip_as_endpoint: ServiceIpAsEndpoint;
    HeadlessPort = ep066_headless_port: HeadlessPort;
    LabelKeysDiffer = ep067_label_keys_differ: LabelKeysDiffer;
    PodsElsewhere = ep068_pods_elsewhere: PodsElsewhere;
    SharedPodIp = ep069_shared_pod_ip: SharedPodIp;
    ClusterUnserved = ep073_cluster_unserved: ClusterUnserved;
    DistributionOverridden = ep074_distribution_overridden: DistributionOverridden;
    ExternalNameInvalid = ep085_external_name_invalid: ExternalNameInvalid;
    ServiceLabelIgnored = ep086_service_label_ignored: ServiceLabelIgnored;
    PortNameAmbiguous = ep087_port_name_ambiguous: PortNameAmbiguous;
    PodsNotCreated = ep088_pods_not_created: PodsNotCreated;
    MissingPodsServed = ep089_missing_pods_served: MissingPodsServed;
    EndpointSelectorNotFound = ep090_endpoint_selector_not_found: EndpointSelectorNotFound;
    EndpointSelectorInvalid = ep091_endpoint_selector_invalid: EndpointSelectorInvalid;
    EndpointSelectorOverridden = ep092_endpoint_selector_overridden: EndpointSelectorOverridden;
    HandOverHeld = ep093_hand_over_held: HandOverHeld;
    EndpointSelectorUnserved = ep094_endpoint_selector_unserved: EndpointSelectorUnserved;
    SelectsUnlabelled = ep095_selects_unlabelled: SelectsUnlabelled;
    NotChosen = ep096_not_chosen, of pod: NotChosen;
    NobodyLeads = ep097_nobody_leads: NobodyLeads;
    ReadinessWithoutEffect = ep098_readiness_without_effect: ReadinessWithoutEffect;
    AnnotationMistyped = ep099_annotation_mistyped: AnnotationMistyped;
    SliceKept = ep100_slice_kept: SliceKept;
    PodStarting = ep101_pod_starting, of pod: PodStarting;
    SelectorTooWide = ep102_selector_too_wide: SelectorTooWide;
    LoadBalancerPending = ep103_load_balancer_pending: LoadBalancerPending;
    BackendNotFound = ep120_backend_not_found: BackendNotFound;
    BackendPortNotFound = ep121_backend_port_not_found: BackendPortNotFound;
    BackendNotPermitted = ep122_backend_not_permitted: BackendNotPermitted;
    PolicyAdmitsNobody = ep123_policy_admits_nobody: PolicyAdmitsNobody;
    ClientNotAdmitted = ep124_client_not_admitted: ClientNotAdmitted;
    ProxyNotReady = ep125_proxy_not_ready: ProxyNotReady;
    NotAttached = ep126_not_attached: NotAttached;
}

/// Returns those reasons that are of one kind.
fn of_kind<'a, F>(reasons: &[&'a PodReason]) -> Vec<&'a F>
where
    &'a F: TryFrom<&'a PodReason>,
{
    reasons.iter().filter_map(|reason| (*reason).try_into().ok()).collect()
}

/// Returns the findings that hold for a Service, without those that others explain, in no
/// particular order.
pub(crate) fn find(inputs: &FaultInputs<'_>) -> Vec<Fault> {
    let found = found(inputs);
    let is_explained = |fault: &Fault| found.iter().any(|cause| cause.finding().explains(fault));
    let explained: Vec<bool> = found.iter().map(is_explained).collect();
    let all = found.into_iter().zip(explained);
    all.filter_map(|(fault, is_explained)| (!is_explained).then_some(fault)).collect()
}

impl Fault {
    /// Returns the remedy. `service` is the Service that has the finding.
    pub fn remedy(&self, service: &ObjectKey) -> Remedy {
        self.finding().remedy(service)
    }

    pub(crate) fn since(&self) -> Option<Timestamp> {
        self.finding().since()
    }

    pub(crate) fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        self.finding().evidence(read)
    }

    pub(crate) fn explains_pod(&self, pod: &Text, reason: &PodReason) -> bool {
        self.finding().explains_pod(pod, reason)
    }

    /// Returns the traffic that clients lose because of it. `is_down` is true if no endpoint of the
    /// Service receives traffic.
    pub(crate) fn traffic_lost(&self, is_down: bool) -> TrafficLost {
        match self.severity() {
            Severity::Error if is_down => TrafficLost::All,
            _ => self.finding().traffic_lost(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.finding().fmt(f)
    }
}
