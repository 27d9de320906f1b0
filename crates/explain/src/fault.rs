//! The possible faults of a Service itself, its slices and its Endpoints.

mod addresses;
mod annotations;
mod attached;
mod consumers;
mod elsewhere;
mod families;
mod names;
mod ports;
mod remedy;
mod selector;
mod text;
mod topology;
mod undeclared;
mod unserved;

use std::fmt;

use kube_endpoint_core_model::display::PlannedObject;
use kube_endpoint_core_model::{AddressType, IpFamily, ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::details::write_optional_time;
use crate::leader::Leads;
use crate::near::{NearMatch, OtherKeys};
use crate::refused::Refused;
use crate::unviewed::MistypedKey;
use crate::{Elsewhere, NamedPort, Open, Rehearsal, Unserved};

pub use topology::Withheld;

pub(crate) use names::no_name;
pub use names::{Governing, NoName};
pub use selector::NoPods;
pub(crate) use selector::ROLLOUTS_HASH;
pub use undeclared::{NotDeclared, OfContainer};

/// A fault. Serialises with the tag `fault`, which holds the name of the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fault", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Fault {
    /// [`Code::NotKnown`](crate::Code::NotKnown)
    NotKnown {
        /// The kinds that could not be read, as the API names them: `pods`, `endpointslices`,
        /// `endpoints` or `nodes`.
        kinds: Vec<&'static str>,
        /// The question that stays open without them.
        open: Open,
    },
    /// [`Code::NoPodMatches`](crate::Code::NoPodMatches)
    NoPodMatches {
        /// The selector, as `key=value` pairs or, of an EndpointSelector, as kubectl writes it.
        selector: String,
        /// The EndpointSelector, if it selects the pods.
        #[serde(skip_serializing_if = "Option::is_none")]
        endpoint_selector: Option<Text>,
        #[serde(flatten)]
        cause: NoPods,
    },
    /// [`Code::PodsNotCreated`](crate::Code::PodsNotCreated)
    PodsNotCreated {
        /// The kind of the workload, such as `ReplicaSet`.
        kind: Text,
        workload: Text,
        /// The message of its last event `FailedCreate`.
        message: Text,
    },
    /// [`Code::PodsNearlyMatch`](crate::Code::PodsNearlyMatch)
    PodsNearlyMatch {
        /// The EndpointSelector, if it selects the pods.
        #[serde(skip_serializing_if = "Option::is_none")]
        endpoint_selector: Option<Text>,
        /// The mistyped label of most of these pods.
        nearest: NearMatch,
        /// Number of pods that differ in one mistyped label.
        count: usize,
    },
    /// [`Code::LabelKeysDiffer`](crate::Code::LabelKeysDiffer)
    LabelKeysDiffer(OtherKeys),
    /// [`Code::PodsElsewhere`](crate::Code::PodsElsewhere)
    PodsElsewhere {
        /// The selector, as `key=value` pairs.
        selector: String,
        /// The other namespaces with such pods, sorted.
        namespaces: Vec<Elsewhere>,
    },
    /// [`Code::NoSelector`](crate::Code::NoSelector)
    NoSelector {
        /// Slices whose names begin with that of the Service, and that name no Service.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        unlabelled: Vec<Text>,
    },
    /// [`Code::ExternalName`](crate::Code::ExternalName)
    ExternalName,
    /// [`Code::ExternalNameInvalid`](crate::Code::ExternalNameInvalid)
    ExternalNameInvalid {
        external_name: Text,
        #[serde(flatten)]
        why: NoName,
    },
    /// [`Code::ServiceTerminating`](crate::Code::ServiceTerminating)
    ServiceTerminating {
        /// Seconds since somebody deleted it, if that is known.
        seconds: Option<i64>,
        /// Its finalizers, if they are known.
        finalizers: Vec<Text>,
        /// True if no endpoint receives traffic.
        none_is_left: bool,
    },
    /// [`Code::ServiceLabelIgnored`](crate::Code::ServiceLabelIgnored)
    ServiceLabelIgnored {
        /// The number of nodes whose version of Kubernetes is known, and is older than 1.36.
        old: usize,
        /// The number of nodes whose version is known.
        known: usize,
    },
    /// [`Code::NoServicePorts`](crate::Code::NoServicePorts)
    NoServicePorts,
    /// [`Code::HeadlessWithoutNames`](crate::Code::HeadlessWithoutNames)
    HeadlessWithoutNames {
        /// The subdomain of pods that is not the Service's name, or empty if they have only a
        /// hostname.
        subdomain: Text,
        service: Text,
        governing: Governing,
    },
    /// [`Code::NoZones`](crate::Code::NoZones)
    NoZones {
        /// Nodes of the Service's pods that have no zone.
        nodes: Vec<Text>,
    },
    /// [`Code::UnknownTrafficDistribution`](crate::Code::UnknownTrafficDistribution)
    UnknownTrafficDistribution { value: Text },
    /// [`Code::TopologyHintsWithheld`](crate::Code::TopologyHintsWithheld)
    TopologyHintsWithheld {
        /// The reason, as the controller's event gives it.
        message: String,
        cause: Withheld,
    },
    /// [`Code::DistributionOverridden`](crate::Code::DistributionOverridden)
    DistributionOverridden {
        annotation: Text,
        /// The value of `spec.trafficDistribution`.
        value: Text,
        /// True if the annotation has no effect, either.
        withheld: bool,
    },
    /// [`Code::AnnotationIgnored`](crate::Code::AnnotationIgnored)
    AnnotationIgnored {
        annotation: Text,
        /// Its value.
        value: Text,
    },
    /// [`Code::AnnotationIgnored`](crate::Code::AnnotationIgnored)
    RetirementIgnored {
        /// The value of the annotation.
        value: Text,
        /// The writer of the Endpoints, which does not know the annotation, or `None` if the value
        /// is invalid.
        by: Option<Text>,
    },
    /// [`Code::AnnotationMistyped`](crate::Code::AnnotationMistyped)
    AnnotationMistyped {
        #[serde(flatten)]
        mistyped: MistypedKey,
        /// True if nobody selects pods for the Service because of it.
        none_is_left: bool,
    },
    /// [`Code::EndpointsNotMirrored`](crate::Code::EndpointsNotMirrored)
    EndpointsNotMirrored {
        cause: String,
        endpoints: Text,
        /// The label or annotation that prevents mirroring.
        key: Text,
    },
    /// [`Code::AddressNotMirrored`](crate::Code::AddressNotMirrored)
    AddressNotMirrored {
        /// The addresses, as the Endpoints spell them.
        addresses: Vec<Text>,
        cause: String,
        /// The maximum number of mirrored addresses of a subset, if these exceed it.
        maximum: Option<usize>,
    },
    /// [`Code::NoAddressesWritten`](crate::Code::NoAddressesWritten)
    NoAddressesWritten,
    /// [`Code::EndpointPortsDiffer`](crate::Code::EndpointPortsDiffer)
    EndpointPortsDiffer {
        /// The ports of the Service that no ready endpoint has.
        wanted: Vec<NamedPort>,
        /// The ports of ready endpoints that the Service does not have, or that have no number;
        /// each name and protocol once.
        has: Vec<NamedPort>,
        /// The IP family whose endpoints lack the ports, or `None` if there are no ready endpoints
        /// of other families, or they lack the ports, too.
        #[serde(skip_serializing_if = "Option::is_none")]
        family: Option<IpFamily>,
        /// True if no endpoint has any port of the Service.
        none_is_left: bool,
    },
    /// [`Code::EndpointFamiliesDiffer`](crate::Code::EndpointFamiliesDiffer)
    EndpointFamiliesDiffer {
        /// The IP families of the Service in which no ready endpoint has an address.
        missing: Vec<IpFamily>,
        /// The types of the addresses of its ready endpoints.
        has: Vec<AddressType>,
        /// True if the Service's first family, which never changes, is among the missing ones.
        first_is_missing: bool,
        /// True if the Service has no other families.
        none_is_left: bool,
    },
    /// [`Code::SlicesIgnored`](crate::Code::SlicesIgnored)
    SlicesIgnored {
        slices: Vec<Text>,
        /// The Endpoints that have the label, from which kube-controller-manager mirrors it.
        endpoints: Option<Text>,
        /// True if no ready endpoint is left.
        none_is_left: bool,
    },
    /// [`Code::NoLocalEndpoint`](crate::Code::NoLocalEndpoint)
    NoLocalEndpoint {
        /// The policy that is `Local`.
        policy: LocalPolicy,
        /// The number of nodes with an endpoint for their own clients.
        with: usize,
        /// The nodes without such an endpoint on which ordinary pods run. Empty if nodes are not
        /// known.
        without: Vec<Text>,
        /// The number of other nodes without such an endpoint. They keep away pods without
        /// tolerations.
        closed: usize,
        /// The nodes that endpoints name and that do not exist, if no client is sent to these
        /// endpoints.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        missing: Vec<Text>,
        /// True if all nodes are known.
        are_nodes_known: bool,
        /// True if load balancers leave nodes without an endpoint out, because they ask each
        /// node's health check.
        has_health_check: bool,
    },
    /// [`Code::OtherProxy`](crate::Code::OtherProxy)
    OtherProxy {
        /// The proxy that the label names. May be empty.
        proxy: Text,
    },
    /// [`Code::SliceUnused`](crate::Code::SliceUnused)
    SliceUnused { slice: Text, cause: UnusedSlice },
    /// [`Code::HintsIgnored`](crate::Code::HintsIgnored)
    HintsIgnored {
        /// The addresses of ready endpoints that have no hint.
        addresses: Vec<Text>,
        /// The slices that hold them.
        slices: Vec<Text>,
        /// The annotation or the field of the Service that asks for hints, or `None` if nothing
        /// does.
        asked_by: Option<&'static str>,
    },
    /// [`Code::PortNotDeclared`](crate::Code::PortNotDeclared)
    PortNotDeclared {
        /// The port of the Service.
        port: i32,
        /// Its name, or empty.
        name: Text,
        /// Its targetPort.
        target: i32,
        /// The numbers of the container ports of these pods.
        declared: Vec<i32>,
        #[serde(flatten)]
        not_declared: NotDeclared,
    },
    /// [`Code::PortNameAmbiguous`](crate::Code::PortNameAmbiguous)
    PortNameAmbiguous {
        name: Text,
        /// The container to whose port the Service sends clients.
        first: OfContainer,
        others: Vec<OfContainer>,
        /// The pods that have these containers.
        pods: Vec<Text>,
    },
    /// [`Code::ClusterUnserved`](crate::Code::ClusterUnserved)
    ClusterUnserved(Unserved),
    /// [`Code::ServiceIpAsEndpoint`](crate::Code::ServiceIpAsEndpoint)
    ServiceIpAsEndpoint {
        /// The ready endpoints that are cluster IPs, sorted by address.
        endpoints: Vec<ServiceIp>,
        /// True if no other endpoint is ready.
        none_is_left: bool,
    },
    /// [`Code::HeadlessPort`](crate::Code::HeadlessPort)
    HeadlessPort {
        /// The port of the Service.
        port: i32,
        /// Its name, or empty.
        name: Text,
        protocol: Text,
        /// The ports on which its endpoints listen, sorted.
        targets: Vec<u16>,
        /// True if pods have DNS names of their own, which their clients use in place of the
        /// Service's.
        has_pod_names: bool,
    },
    /// [`Code::SharedPodIp`](crate::Code::SharedPodIp)
    SharedPodIp {
        address: Text,
        /// The first 20 pods that have this address, sorted.
        pods: Vec<ObjectKey>,
        /// The number of pods that have it.
        count: usize,
        /// The number of other addresses that several pods have, too.
        more: usize,
        /// True if some of the pods are not the Service's.
        with_others: bool,
    },
    /// [`Code::SlicesBehind`](crate::Code::SlicesBehind)
    SlicesBehind(Behind),
    /// [`Code::MissingPodsServed`](crate::Code::MissingPodsServed)
    MissingPodsServed {
        /// The pods that the slices name.
        pods: Vec<Text>,
        /// True if no pod of the Service receives traffic.
        none_is_left: bool,
        /// True if the Service names an EndpointSelector.
        is_attached: bool,
        /// The slices, if nobody maintains them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        left: Vec<Text>,
    },
    /// [`Code::WrongOwner`](crate::Code::WrongOwner)
    WrongOwner {
        slice: Text,
        /// Kind, name and uid of its owner, or `None` if it has no owner.
        owner: Option<String>,
        /// True if it is a slice of the endpoint selector controller.
        is_attached: bool,
    },
    /// [`Code::ForeignSlice`](crate::Code::ForeignSlice)
    ForeignSlice {
        slice: Text,
        /// The manager that its label names.
        manager: Text,
    },
    /// [`Code::UnmanagedSlice`](crate::Code::UnmanagedSlice)
    UnmanagedSlice {
        slice: Text,
        /// The addresses to which it sends clients and that no pod of the Service has, with the
        /// port.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<Text>,
        /// True if pods receive traffic, too.
        besides_pods: bool,
    },
    /// [`Code::OrphanedSlice`](crate::Code::OrphanedSlice)
    OrphanedSlice {
        slice: Text,
        /// The Service that the slice names.
        service: Text,
    },
    /// [`Code::DuplicateEndpoint`](crate::Code::DuplicateEndpoint)
    DuplicateEndpoint {
        /// The endpoints, as addresses.
        addresses: Vec<Text>,
        /// Slices that hold the first of them.
        slices: Vec<Text>,
        /// The endpoints that the slices hold with different conditions or hints, or, if a traffic
        /// policy is `Local`, on different nodes.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        undefined: Vec<Text>,
    },
    /// [`Code::EndpointsTruncated`](crate::Code::EndpointsTruncated)
    EndpointsTruncated {
        /// Number of addresses that the object holds.
        held: usize,
        /// Number of pods that it would hold without a limit.
        wanted: usize,
    },
    /// [`Code::EndpointsBehind`](crate::Code::EndpointsBehind)
    EndpointsBehind {
        #[serde(flatten)]
        behind: Behind,
        /// True if no slice is known to be behind. Only clients that read Endpoints miss something
        /// then, and the endpoints controller may be switched off on purpose.
        is_alone: bool,
        /// True if other Endpoints have been written since the change, so that the endpoints
        /// controller works.
        others_written: bool,
    },
    /// [`Code::OrphanedEndpoints`](crate::Code::OrphanedEndpoints)
    OrphanedEndpoints { endpoints: ObjectKey },
    /// [`Code::SlicesLeftBehind`](crate::Code::SlicesLeftBehind)
    SlicesLeftBehind {
        slices: Vec<Text>,
        /// The Endpoints that a controller made.
        #[serde(skip_serializing_if = "Option::is_none")]
        endpoints: Option<Text>,
        /// The slices that are mirrored from these Endpoints, and go with them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        mirrored: Vec<Text>,
        /// True if clients get something from them that no other slice has.
        is_needed: bool,
        /// True if some of the slices are those of an EndpointSelector.
        was_attached: bool,
        /// True if the Service is an alias, so that no client uses the slices.
        is_alias: bool,
    },
    /// [`Code::SliceTerminating`](crate::Code::SliceTerminating)
    SliceTerminating { slice: Text, finalizers: Vec<Text> },
    /// [`Code::EndpointsWrittenByOthers`](crate::Code::EndpointsWrittenByOthers)
    EndpointsWrittenByOthers {
        /// The client that wrote the Endpoints last, if that is known.
        by: Option<Text>,
        /// The number of ready addresses that the Endpoints hold.
        in_endpoints: usize,
        /// The number of ready endpoints that slices hold, if it is known.
        in_slices: Option<usize>,
    },
    /// [`Code::EndpointSelectorNotFound`](crate::Code::EndpointSelectorNotFound)
    EndpointSelectorNotFound {
        endpoint_selector: Text,
        /// False if the cluster does not serve EndpointSelectors.
        is_served: bool,
        /// False if no EndpointSelector can have this name.
        is_name: bool,
        /// Names of EndpointSelectors of the namespace.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        others: Vec<Text>,
        /// Other namespaces with an EndpointSelector of this name.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        namespaces: Vec<Text>,
    },
    /// [`Code::EndpointSelectorInvalid`](crate::Code::EndpointSelectorInvalid)
    EndpointSelectorInvalid { endpoint_selector: Text, reason: String },
    /// [`Code::EndpointSelectorOverridden`](crate::Code::EndpointSelectorOverridden)
    EndpointSelectorOverridden {
        endpoint_selector: Text,
        #[serde(flatten)]
        rehearsal: Rehearsal,
    },
    /// [`Code::HandOverHeld`](crate::Code::HandOverHeld)
    HandOverHeld {
        /// The EndpointSelector that takes the Service over, or `None` if its selector does.
        #[serde(skip_serializing_if = "Option::is_none")]
        endpoint_selector: Option<Text>,
        /// The slices that stay.
        slices: Vec<Text>,
    },
    /// [`Code::EndpointSelectorUnserved`](crate::Code::EndpointSelectorUnserved)
    EndpointSelectorUnserved {
        endpoint_selector: Text,
        /// True if a controller has seen an older version of it.
        is_old: bool,
        #[serde(flatten)]
        behind: Behind,
    },
    /// [`Code::SelectsUnlabelled`](crate::Code::SelectsUnlabelled)
    SelectsUnlabelled {
        endpoint_selector: Text,
        /// The selector, as kubectl writes it.
        selector: String,
    },
    /// [`Code::NobodyLeads`](crate::Code::NobodyLeads)
    NobodyLeads { endpoint_selector: Text, leads: Leads },
    /// [`Code::ReadinessWithoutEffect`](crate::Code::ReadinessWithoutEffect)
    ReadinessWithoutEffect { endpoint_selector: Text },
    /// [`Code::SliceKept`](crate::Code::SliceKept)
    SliceKept {
        endpoint_selector: Text,
        slice: Text,
        /// The client that wrote it, or the Endpoints, if that is known.
        by: Option<Text>,
        /// True if that is certainly no controller.
        is_certain: bool,
        /// The Endpoints from which the slice is mirrored.
        #[serde(skip_serializing_if = "Option::is_none")]
        endpoints: Option<Text>,
    },
}

/// An endpoint that is the cluster IP of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceIp {
    pub address: Text,
    /// The Service with this cluster IP.
    pub service: ObjectKey,
}

/// A traffic policy of a Service. Prints as the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LocalPolicy {
    /// `spec.internalTrafficPolicy`: clients of the cluster IP.
    Internal,
    /// `spec.externalTrafficPolicy`: clients from outside of the cluster.
    External,
}

impl fmt::Display for LocalPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Internal => "internalTrafficPolicy",
            Self::External => "externalTrafficPolicy",
        })
    }
}

/// The reason why kube-proxy uses no endpoint of a slice. Serialises with the tag `why`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum UnusedSlice {
    /// It has none of the Service's ports.
    Ports {
        /// The ports of the slice, each name and protocol once.
        has: Vec<NamedPort>,
        /// The ports of the Service.
        wanted: Vec<NamedPort>,
    },
    /// The Service has no address of this family.
    Family {
        /// The type of the slice's addresses.
        has: AddressType,
        /// The families of the Service.
        wanted: Vec<IpFamily>,
    },
}

/// The writes that the controllers still have to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Behind {
    /// Number of due creates.
    pub create: usize,
    /// Number of due updates.
    pub update: usize,
    /// Number of due deletes.
    pub delete: usize,
    /// Time of the newest unpublished change, or `None` if it is not known.
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
    /// Age of that change in seconds, if it is known.
    pub seconds: Option<i64>,
    /// True if that is longer than a working controller takes, or the API server refuses the
    /// writes.
    pub is_late: bool,
    /// The reason why the last write failed, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// The seconds since a controller wrote such an object of another Service, if that is a short
    /// time ago: a controller runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others_written_seconds: Option<i64>,
}

impl Behind {
    /// Returns the due writes of a kind of object.
    pub(crate) fn of<T: PlannedObject>(writes: &kube_endpoint_core_model::Writes<T>) -> Self {
        Self {
            create: writes.create.len(),
            update: writes.update.len(),
            delete: writes.delete.len(),
            since: None,
            seconds: None,
            is_late: true,
            refused: None,
            others_written_seconds: None,
        }
    }

    /// Returns true if the API server refuses the writes as it should.
    pub(crate) fn is_meant(&self) -> bool {
        self.refused.as_ref().is_some_and(|refused| refused.refusal.is_meant())
    }

    /// Returns true if no write is due.
    pub fn is_empty(&self) -> bool {
        self.create + self.update + self.delete == 0
    }

    /// Prints the due writes, and the age of the newest change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>, what: &str) -> fmt::Result {
        let due = [("create", self.create), ("update", self.update), ("delete", self.delete)];
        let due = due.iter().filter(|(_, count)| *count > 0);
        let due: Vec<String> = due.map(|(verb, count)| format!("{count} to {verb}")).collect();
        write!(f, "{what}: {}", due.join(", "))?;
        if let Some(seconds) = self.seconds {
            write!(f, "; the newest change is {} old", crate::age::seconds(seconds))?;
        }
        match (&self.refused, self.others_written_seconds) {
            (Some(refused), _) => write!(f, "; {refused}"),
            (None, Some(seconds)) if self.is_late => {
                write!(f, "; a controller wrote for another Service {} ago", crate::age::seconds(seconds))
            }
            (None, _) => Ok(()),
        }
    }
}
