//! kube-proxy uses no endpoint of a slice, because of its ports or addresses.

use std::sync::Arc;

use kube_endpoint_core_model::{AddressType, EndpointSlice, IpFamily, Service};

use super::words::{addresses, families, ports, the_port};
use crate::findings::inputs::{asked_for, other_ports};
use crate::findings::pod_reason::NamedPort;
use crate::findings::prelude::*;
use crate::models::consumers::kube_proxy::numbers_used;
use crate::models::traffic::{ServedBy, has_family, has_ready, is_labelled_headless};

about! {
    /// The slice has ready endpoints and none of the Service's ports, by name and protocol, or
    /// addresses of a family that the Service does not have. The latter has the severity info,
    /// because gateways and meshes that read slices themselves may use them. If no endpoint has the
    /// port or the family, [EP045](#ep045-endpoint-ports-differ) or
    /// [EP046](#ep046-endpoint-families-differ) says so instead. [EP050](#ep050-slices-behind)
    /// reports slices that the controllers are about to write.
    EP062 "slice-unused" Warning
    "kube-proxy uses no endpoint of a slice, because of its ports or addresses."
}

/// A slice with ready endpoints that kube-proxy does not use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceUnused {
    pub slice: Text,
    /// The type of its addresses.
    #[serde(skip)]
    pub address_type: AddressType,
    pub cause: UnusedSlice,
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

impl Finding for SliceUnused {
    /// Slices made from pods always have the Service's ports and families.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        if inputs.served.by != ServedBy::KubeProxy || !inputs.options.known.slices {
            return Vec::new();
        }
        let manager = &inputs.selection.plan_options(inputs.options).manager;
        let is_judged = |slice: &&Arc<EndpointSlice>| {
            let is_planned = inputs.selection.selects_pods() && slice.is_managed_by(manager);
            !is_planned && !inputs.is_due(slice)
        };
        let found = inputs.slices().iter().filter(is_judged).filter_map(|slice| {
            let cause = UnusedSlice::of(inputs.service, slice)?;
            Some(Self { slice: slice.metadata.name.clone(), address_type: slice.address_type, cause })
        });
        found.collect()
    }

    /// Gateways and meshes may use addresses that kube-proxy does not.
    fn severity(&self) -> Option<Severity> {
        matches!(self.cause, UnusedSlice::Family { .. }).then_some(Severity::Info)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        match self.cause {
            UnusedSlice::Ports { .. } => vec![read.ports(), read.ports_of_slice(&self.slice)],
            UnusedSlice::Family { .. } => vec![read.families(), read.type_of_slice(&self.slice)],
        }
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let sentence = match &self.cause {
            UnusedSlice::Ports { .. } => format!(
                "Give the ports of slice {} the names and protocols of the Service's ports, or delete the slice",
                self.slice
            ),
            UnusedSlice::Family { .. } => {
                "Nothing, if other clients than kube-proxy read the slice".to_owned()
            }
        };
        Remedy::ask(EndpointsWriter, sentence)
    }
}

impl fmt::Display for SliceUnused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slice = &self.slice;
        match &self.cause {
            UnusedSlice::Family { has, wanted } => {
                let (has, wanted) = (addresses(*has), families(wanted).replace(" or ", " and "));
                write!(f, "kube-proxy ignores slice {slice}: it holds {has}, and the Service is {wanted}")
            }
            UnusedSlice::Ports { has, wanted } => {
                let wanted = ports(wanted, the_port);
                write!(f, "kube-proxy uses no endpoint of slice {slice}: it has ")?;
                if has.is_empty() {
                    return write!(f, "no ports, and the Service has {wanted}");
                }
                let has = ports(has, the_port);
                write!(f, "{has}, and the Service has {wanted}; ports are matched by name and protocol")
            }
        }
    }
}

impl UnusedSlice {
    /// Returns the reason why kube-proxy uses no endpoint of a slice, or `None` if it uses one, or
    /// if a label is the reason.
    fn of(service: &Service, slice: &EndpointSlice) -> Option<Self> {
        let is_judged =
            !service.ports.is_empty() && has_ready(slice) && !is_labelled_headless(service, slice);
        if !is_judged || !numbers_used(service, slice).is_empty() {
            return None;
        }
        if !has_family(service, slice) {
            return Some(Self::Family { has: slice.address_type, wanted: service.slice_families() });
        }
        Some(Self::Ports {
            has: other_ports(&slice.ports, &service.ports),
            wanted: service.ports.iter().map(asked_for).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_slice_needs_one_port_of_the_service() {
        let other = example("ep062-slice-unused");
        assert!(other.finds(Code::SliceUnused));
        let both = json!([
            {"name": "web", "port": 8080, "protocol": "TCP"},
            {"name": "http", "port": 8080, "protocol": "TCP"},
        ]);
        let same = other.with("EndpointSlice/web-second", json!({"ports": both}));
        assert!(!same.finds(Code::SliceUnused));
    }
}
