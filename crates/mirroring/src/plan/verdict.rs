//! Verdicts on the addresses of Endpoints: each is mirrored, or is skipped for a first reason.

use std::fmt;
use std::sync::Arc;

use kube_endpoint_core_model::display::Ports;
use kube_endpoint_core_model::endpoints::{EndpointSubset, EndpointsPort};
use kube_endpoint_core_model::{Endpoints, Text};
use serde::Serialize;

/// The decision of a plan about one address under one set of ports. Prints as
/// `address IP (PORTS): VERDICT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AddressVerdict {
    /// The address as the Endpoints spell it.
    pub address: Text,
    /// The ports of its subset.
    pub ports: Arc<[EndpointsPort]>,
    #[serde(flatten)]
    pub verdict: MirrorVerdict,
}

/// Mirrored, or the first reason why not. Serialises with the tag `verdict`: `mirrored` or
/// `skipped`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum MirrorVerdict {
    /// A slice has an endpoint for the address.
    Mirrored {
        /// The condition `ready` of that endpoint. If the Endpoints contain the address as ready
        /// and as not ready, it is not ready.
        ready: bool,
    },
    /// The address is not mirrored.
    Skipped(SkipReason),
}

/// The first reason why an address is not mirrored. Serialises with the tag `reason`, which holds
/// [`SkipReason::code`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum SkipReason {
    /// The text of the address is not an IP address.
    InvalidAddress,
    /// The subset has more addresses than the controller mirrors.
    OverMaximum {
        /// The maximum number of mirrored addresses of a subset.
        max: usize,
    },
    /// The controller does not mirror these Endpoints.
    NotMirrored { cause: NotMirrored },
}

impl SkipReason {
    /// Returns the stable code of the reason, in kebab case. It never changes once released.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidAddress => "invalid-address",
            Self::OverMaximum { .. } => "over-maximum",
            Self::NotMirrored { .. } => "not-mirrored",
        }
    }
}

/// The reason why the controller does not mirror Endpoints. Each but [`Self::EndpointSelector`]
/// also deletes the slices that it mirrored before. Serialises as [`NotMirrored::code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NotMirrored {
    /// There is no Endpoints object.
    NoEndpoints,
    /// The Endpoints carry the label `endpointslice.kubernetes.io/skip-mirror: "true"`.
    SkipLabel,
    /// The Endpoints are a leader-election lock.
    LeaderElection,
    /// There is no Service of that name.
    NoService,
    /// The Service has a selector: the endpointslice controller makes its slices from pods.
    Selector,
    /// The endpoints controller left the Endpoints, and the Service names an EndpointSelector.
    EndpointSelector,
}

impl NotMirrored {
    /// Returns true if the controller deletes the slices that it mirrored before. The endpoint
    /// selector controller decides about those of a Service that it takes over: while it has no
    /// ready endpoint, clients need them.
    pub(crate) fn ends_mirroring(self) -> bool {
        self != Self::EndpointSelector
    }

    /// Returns the stable code of the reason, in kebab case. It never changes once released.
    pub fn code(self) -> &'static str {
        match self {
            Self::NoEndpoints => "no-endpoints",
            Self::SkipLabel => "skip-label",
            Self::LeaderElection => "leader-election",
            Self::NoService => "no-service",
            Self::Selector => "selector",
            Self::EndpointSelector => "endpoint-selector",
        }
    }
}

/// Returns the verdicts on the addresses of Endpoints that the controller does not mirror.
pub(super) fn not_mirrored(endpoints: &Endpoints, cause: NotMirrored) -> Vec<AddressVerdict> {
    let of_subset = |subset: &EndpointSubset| {
        let ports: Arc<[EndpointsPort]> = subset.ports.clone().into();
        let addresses = subset.addresses.iter().chain(&subset.not_ready_addresses);
        let verdict = |ip: &Text| AddressVerdict {
            address: ip.clone(),
            ports: Arc::clone(&ports),
            verdict: MirrorVerdict::Skipped(SkipReason::NotMirrored { cause }),
        };
        addresses.map(|address| verdict(&address.ip)).collect::<Vec<_>>()
    };
    endpoints.subsets.listed().into_iter().flatten().flat_map(of_subset).collect()
}

impl fmt::Display for AddressVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address {:?} ({}): {}", self.address, Ports(&self.ports), self.verdict)
    }
}

impl fmt::Display for MirrorVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mirrored { ready: true } => f.write_str("mirrored as ready"),
            Self::Mirrored { ready: false } => f.write_str("mirrored as not ready"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidAddress => f.write_str("it is not an IP address"),
            Self::OverMaximum { max } => {
                write!(f, "at most {max} addresses of a subset are mirrored")
            }
            Self::NotMirrored { cause } => cause.fmt(f),
        }
    }
}

impl fmt::Display for NotMirrored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoEndpoints => "there are no Endpoints",
            Self::SkipLabel => "the Endpoints have the skip-mirror label",
            Self::LeaderElection => "the Endpoints are a leader-election lock",
            Self::NoService => "there is no Service of that name",
            Self::Selector => "the Service has a selector",
            Self::EndpointSelector => {
                "the endpoints controller left the Endpoints, and the Service names an EndpointSelector"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialised_verdicts_carry_stable_codes() {
        let causes = [
            NotMirrored::NoEndpoints,
            NotMirrored::SkipLabel,
            NotMirrored::LeaderElection,
            NotMirrored::NoService,
            NotMirrored::Selector,
            NotMirrored::EndpointSelector,
        ];
        let mut reasons = vec![SkipReason::InvalidAddress, SkipReason::OverMaximum { max: 3 }];
        reasons.extend(causes.map(|cause| {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.code());
            SkipReason::NotMirrored { cause }
        }));
        let print = |verdict: MirrorVerdict| {
            let verdict = AddressVerdict { address: "192.0.2.1".into(), ports: Arc::default(), verdict };
            let json = serde_json::to_value(&verdict).unwrap();
            if let MirrorVerdict::Skipped(reason) = &verdict.verdict {
                assert_eq!(json["reason"], reason.code());
            }
            format!("{verdict}\n  {json}\n")
        };
        let mirrored = [true, false].map(|ready| MirrorVerdict::Mirrored { ready });
        let all = mirrored.into_iter().chain(reasons.into_iter().map(MirrorVerdict::Skipped));
        insta::assert_snapshot!(all.map(print).collect::<String>());
    }
}
