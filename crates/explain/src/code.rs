//! Codes: the stable names of all findings of an explanation. `docs/verdicts.md` has a section for
//! each.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The severity of a finding. Ordered from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing, without anything to do.
    Info,
    /// Part of the Service does not work, or stops working soon.
    Warning,
    /// Clients get no answer, or wrong ones.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A text that is neither the identifier nor the name of a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no code; write one such as `EP012` or `port-name-not-found` (docs/verdicts.md lists all)")]
pub struct UnknownCode(pub String);

macro_rules! codes {
    ($($variant:ident $id:literal $name:literal $severity:ident $title:literal)*) => {
        /// A stable code. Prints and serialises as its identifier, such as `EP012`. Neither
        /// identifiers nor names change once released, and a new code never gets the identifier of
        /// a withdrawn one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// All codes, by identifier.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the identifier, such as `EP012`.
            pub fn id(self) -> &'static str {
                match self { $(Self::$variant => $id),* }
            }

            /// Returns the name, such as `port-name-not-found`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Returns the severity of a finding with this code, unless the finding states another.
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity),* }
            }

            /// Returns the meaning of the code, as one sentence.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),* }
            }
        }
    };
}

codes! {
    Published "EP000" "published" Info "Nothing is wrong: each pod that should be published is."

    NotKnown "EP001" "not-known" Warning "Objects that tell whether or why the Service works could not be read."

    PodFinished "EP010" "pod-finished" Info "The pod has ended for good."
    NoAddress "EP011" "no-address" Warning "The pod has no IP address yet."
    PortNameNotFound "EP012" "port-name-not-found" Error "The pod has no container port with a name that the Service asks for."
    PodTerminating "EP013" "pod-terminating" Info "The pod is being deleted."
    NodeNotFound "EP014" "node-not-found" Warning "The pod's node does not exist."
    InvalidAddress "EP015" "invalid-address" Error "The pod's address is not an IP address."
    NoAddressOfFamily "EP016" "no-address-of-family" Error "The pod has no address of the Service's IP family."
    NotReady "EP017" "not-ready" Warning "The pod's Ready condition is not true."
    ReadinessGateNotMet "EP018" "readiness-gate-not-met" Warning "A readiness gate of the pod is not met."
    ContainerNotReady "EP019" "container-not-ready" Warning "A container of the pod runs but is not ready."
    ContainerNotRunning "EP020" "container-not-running" Warning "A container of the pod does not run."
    NodeNotReady "EP021" "node-not-ready" Warning "The pod's node is not ready, so the pod is not either."
    NotScheduled "EP022" "not-scheduled" Warning "The pod is bound to no node."
    SomePortsNotFound "EP023" "some-ports-not-found" Warning "The pod lacks some of the container ports that the Service asks for."
    PortProtocolDiffers "EP024" "port-protocol-differs" Error "The pod has a container port of that name, but with another protocol."
    OverCapacity "EP025" "over-capacity" Info "The Endpoints object has no room for the pod."
    ReadinessUnknown "EP026" "readiness-unknown" Warning "The pod has no Ready condition."
    PublishedNotReady "EP027" "published-not-ready" Info "The pod is not ready, and the Service publishes it nevertheless."
    NotWritten "EP028" "not-written" Info "The pod should receive traffic, and no slice that the Service uses holds it as ready."
    SomeFamiliesMissing "EP029" "some-families-missing" Warning "The pod has an address of one of the Service's IP families only."

    NoPodMatches "EP030" "no-pod-matches" Error "The Service's selector matches no pod."
    PodsNearlyMatch "EP031" "pods-nearly-match" Error "The Service's selector matches no pod, and one of its labels is likely mistyped."
    NoSelector "EP032" "no-selector" Error "The Service has no selector, and nobody has written endpoints for it."
    ExternalName "EP033" "external-name" Info "The Service is an alias of a DNS name and has no endpoints."
    ServiceTerminating "EP034" "service-terminating" Warning "The Service is being deleted."
    NoServicePorts "EP035" "no-service-ports" Error "The Service has no ports."
    HeadlessWithoutNames "EP036" "headless-without-names" Warning "No pod of the headless Service gets a DNS name of its own."
    NoZones "EP037" "no-zones" Warning "The Service asks for traffic within a zone, but nodes have no zone."
    UnknownTrafficDistribution "EP038" "unknown-traffic-distribution" Warning "The Service's trafficDistribution has an unknown value."
    TopologyHintsWithheld "EP039" "topology-hints-withheld" Warning "The Service asks for topology aware routing, but its endpoints cannot have hints."
    AnnotationIgnored "EP040" "annotation-ignored" Warning "An annotation of the Service has no effect."

    EndpointsNotMirrored "EP042" "endpoints-not-mirrored" Error "The Service's Endpoints are not mirrored to slices."
    AddressNotMirrored "EP043" "address-not-mirrored" Warning "Some addresses of the Endpoints are not mirrored to slices."
    NoAddressesWritten "EP044" "no-addresses-written" Error "The Service's endpoints are written by hand, and hold no ready address."
    EndpointPortsDiffer "EP045" "endpoint-ports-differ" Error "No endpoint written for the Service has the port that the Service asks for."
    EndpointFamiliesDiffer "EP046" "endpoint-families-differ" Error "An IP family of the Service has no ready endpoint."
    SlicesIgnored "EP047" "slices-ignored" Error "kube-proxy ignores slices of the Service because of a label."
    NoLocalEndpoint "EP048" "no-local-endpoint" Warning "A traffic policy is Local, and some nodes have no endpoint of the Service."
    OtherProxy "EP049" "other-proxy" Info "kube-proxy ignores the Service, because a label names another proxy."

    SlicesBehind "EP050" "slices-behind" Error "The slices differ from what they should be."
    WrongOwner "EP051" "wrong-owner" Warning "A slice of the Service is owned by another object."
    ForeignSlice "EP052" "foreign-slice" Info "A slice of the Service is managed by another controller."
    UnmanagedSlice "EP053" "unmanaged-slice" Warning "A slice of the Service names no controller."
    OrphanedSlice "EP054" "orphaned-slice" Warning "The Service of a slice does not exist."
    DuplicateEndpoint "EP055" "duplicate-endpoint" Warning "Several slices hold the same endpoint."
    EndpointsTruncated "EP056" "endpoints-truncated" Warning "The Endpoints object holds only some of the addresses."
    EndpointsBehind "EP057" "endpoints-behind" Warning "The Endpoints object differs from what it should be."
    OrphanedEndpoints "EP058" "orphaned-endpoints" Warning "The Service of an Endpoints object does not exist."
    SlicesLeftBehind "EP059" "slices-left-behind" Warning "Slices or Endpoints made from pods remain, although the Service selects no pods."
    SliceTerminating "EP060" "slice-terminating" Warning "A slice of the Service is being deleted and still there."
    EndpointsWrittenByOthers "EP061" "endpoints-written-by-others" Warning "The Service has a selector, and another client wrote its Endpoints."
    SliceUnused "EP062" "slice-unused" Warning "kube-proxy uses no endpoint of a slice, because of its ports or addresses."
    HintsIgnored "EP063" "hints-ignored" Warning "kube-proxy ignores the hints of the Service, because some ready endpoints have none."
    PortNotDeclared "EP064" "port-not-declared" Info "A targetPort is a number that containers of the pods do not declare."
    ServiceIpAsEndpoint "EP065" "service-ip-as-endpoint" Error "An endpoint of the Service is the cluster IP of a Service."
    HeadlessPort "EP066" "headless-port" Warning "The Service is headless, and its endpoints listen on another port than the Service's."
    LabelKeysDiffer "EP067" "label-keys-differ" Error "The Service's selector matches no pod, and pods have its values under other labels."
    PodsElsewhere "EP068" "pods-elsewhere" Info "The Service's selector matches no pod, and pods of other namespaces have its labels."
    SharedPodIp "EP069" "shared-pod-ip" Error "Several pods have the same IP address."
    ClusterUnserved "EP073" "cluster-unserved" Error "No endpoint controller writes, so each changed Service waits for its slices."
    DistributionOverridden "EP074" "distribution-overridden" Info "An annotation of the Service overrides its trafficDistribution."
    ExternalNameInvalid "EP085" "external-name-invalid" Error "The Service is an alias of an IP address, or of another text that is no DNS name."
    ServiceLabelIgnored "EP086" "service-label-ignored" Warning "kube-proxy before Kubernetes 1.36 ignores the Service because of a label for headless Services."
    PortNameAmbiguous "EP087" "port-name-ambiguous" Warning "Several containers of a pod have a port of the name that the Service asks for."
    PodsNotCreated "EP088" "pods-not-created" Error "The API server refuses the pods of a workload, and no pod of the Service runs."
    MissingPodsServed "EP089" "missing-pods-served" Warning "Slices that are behind, or that nobody maintains, send clients to pods that do not exist any more."

    EndpointSelectorNotFound "EP090" "endpoint-selector-not-found" Error "The Service names an EndpointSelector that does not exist."
    EndpointSelectorInvalid "EP091" "endpoint-selector-invalid" Error "The Service names an EndpointSelector that selects nothing, because it is invalid."
    EndpointSelectorOverridden "EP092" "endpoint-selector-overridden" Info "The Service names an EndpointSelector and has a selector, which wins."
    HandOverHeld "EP093" "hand-over-held" Warning "The slices of the controller that the Service has left stay, because those of the new one lack ready endpoints."
    EndpointSelectorUnserved "EP094" "endpoint-selector-unserved" Error "No running controller maintains the slices of a Service that names an EndpointSelector."
    SelectsUnlabelled "EP095" "selects-unlabelled" Info "The EndpointSelector of the Service selects pods without any label, too."
    NotChosen "EP096" "not-chosen" Info "The pod is ready, and the readiness of the EndpointSelector does not choose it."
    NobodyLeads "EP097" "nobody-leads" Error "The readiness of the Service's EndpointSelector chooses no ready pod."
    ReadinessWithoutEffect "EP098" "readiness-without-effect" Warning "The EndpointSelector has a readiness, and the Service publishes all pods."
    AnnotationMistyped "EP099" "annotation-mistyped" Warning "An annotation or a label of the Service has nearly the key of an annotation that controllers read."
    SliceKept "EP100" "slice-kept" Warning "A slice stays beside those of the EndpointSelector, because it is not certain that a controller made it."
}

/// The page that describes the codes.
const PAGE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/verdicts.md");

impl Code {
    /// Returns the address of the page that describes all codes.
    pub fn page() -> &'static str {
        PAGE
    }

    /// Returns the address of the description of the code.
    pub fn address(self) -> String {
        format!("{PAGE}#{}-{}", self.id().to_lowercase(), self.name())
    }

    /// Returns true if the code may only mean that a write is under way. It is a problem if it is
    /// still there some seconds later.
    pub fn may_be_under_way(self) -> bool {
        matches!(
            self,
            Self::SlicesBehind
                | Self::EndpointsBehind
                | Self::NotWritten
                | Self::ClusterUnserved
                | Self::EndpointSelectorUnserved
                | Self::MissingPodsServed
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

impl FromStr for Code {
    type Err = UnknownCode;

    /// Reads an identifier or a name, in upper or lower case.
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        let is =
            |code: &&Self| code.id().eq_ignore_ascii_case(text) || code.name().eq_ignore_ascii_case(text);
        Self::ALL.iter().find(is).copied().ok_or_else(|| UnknownCode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_ascend_and_names_are_unique() {
        assert!(Code::ALL.is_sorted_by(|one, two| one.id() < two.id()));
        let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        names.sort_unstable();
        assert!(names.is_sorted_by(|one, two| one < two));
    }

    #[test]
    fn identifiers_and_names_have_one_form() {
        for code in Code::ALL {
            let digits = code.id().strip_prefix("EP").unwrap_or_default();
            assert!(digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()), "{code}");
            assert!(code.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{code}");
            assert!(code.title().ends_with('.'), "{code}");
        }
    }

    #[test]
    fn a_code_is_read_by_identifier_or_name() {
        let check = |text: &str, want: Option<Code>| assert_eq!(text.parse().ok(), want, "{text}");
        check("EP012", Some(Code::PortNameNotFound));
        check("ep012", Some(Code::PortNameNotFound));
        check("port-name-not-found", Some(Code::PortNameNotFound));
        check("EP999", None);
        check("", None);
    }

    #[test]
    fn an_unknown_code_is_an_error_that_says_what_to_write() {
        insta::assert_snapshot!(
            "EP1".parse::<Code>().unwrap_err(),
            @r#""EP1" is no code; write one such as `EP012` or `port-name-not-found` (docs/verdicts.md lists all)"#
        );
    }
}
