//! Which slices of a Service are used by kube-proxy. For a headless Service, which kube-proxy ignores, it is DNS that uses them.
//!
//! kube-proxy ignores slices with the label `service.kubernetes.io/headless`. The label of a Service that takes it away from
//! kube-proxy (`service.kubernetes.io/service-proxy-name`) is not looked at.

use kube_endpoint_core_model::service::{ServicePort, ServiceType};
use kube_endpoint_core_model::well_known::LABEL_HEADLESS;
use kube_endpoint_core_model::{AddressType, EndpointPort, EndpointSlice, IpFamily, Service, Text};

use crate::NamedPort;

/// The slices that a Service needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing: the Service is an alias of a DNS name.
    Nothing,
    /// Slices with these addresses and ports.
    Slices(Matching),
}

/// The conditions on the slices of a Service. By default there are none, so that all slices match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Matching {
    /// The types of addresses; one is enough, and any if there are none.
    families: Vec<IpFamily>,
    /// The ports; one is enough, and none is needed if there are none.
    ports: Vec<NamedPort>,
    /// A slice needs a port, and any is enough.
    needs_a_port: bool,
    /// kube-proxy ignores slices with the label of a headless Service.
    lacks_headless_label: bool,
}

/// The properties by which kube-proxy chooses a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    address_type: AddressType,
    ports: Box<[NamedPort]>,
    /// It has the label of a headless Service.
    is_labelled_headless: bool,
}

impl Default for Wanted {
    /// Any slice.
    fn default() -> Self {
        Self::Slices(Matching::default())
    }
}

impl Wanted {
    /// DNS takes addresses of any type, and knows them without ports. The slices of pods have no ports if the pods lack all that a
    /// headless Service names; such pods are nevertheless not what its clients look for.
    pub(crate) fn by(service: &Service) -> Self {
        if service.service_type == ServiceType::ExternalName {
            return Self::Nothing;
        }
        if service.is_headless() {
            let needs_a_port = service.selects_pods() && !service.ports.is_empty();
            return Self::Slices(Matching { needs_a_port, ..Matching::default() });
        }
        Self::Slices(Matching {
            families: service.slice_families(),
            ports: service.ports.iter().map(asked_for).collect(),
            needs_a_port: false,
            lacks_headless_label: true,
        })
    }

    /// Returns true if a slice is used for a port of the Service.
    pub(crate) fn uses(&self, offered: &Offered) -> bool {
        let Self::Slices(wanted) = self else { return false };
        let has_port = |port: &NamedPort| offered.ports.iter().any(|held| is_for(held, port));
        wanted.has_type(offered.address_type)
            && (wanted.ports.is_empty() || wanted.ports.iter().any(has_port))
            && (!wanted.needs_a_port || offered.ports.iter().any(|port| port.port.is_some()))
            && !wanted.ignores(offered)
    }

    /// Returns true if addresses of this type are used.
    pub(crate) fn has_type(&self, address_type: AddressType) -> bool {
        matches!(self, Self::Slices(wanted) if wanted.has_type(address_type))
    }
}

impl Matching {
    /// Returns true if addresses of this type are used. Only DNS uses domain names.
    pub(crate) fn has_type(&self, address_type: AddressType) -> bool {
        self.families.is_empty()
            || self.families.iter().any(|family| AddressType::from(*family) == address_type)
    }

    /// Returns true if a slice is ignored because of a label, whatever its addresses and ports.
    pub(crate) fn ignores(&self, offered: &Offered) -> bool {
        self.lacks_headless_label && offered.is_labelled_headless
    }

    pub(crate) fn families(&self) -> &[IpFamily] {
        &self.families
    }

    pub(crate) fn ports(&self) -> &[NamedPort] {
        &self.ports
    }
}

impl Offered {
    pub(crate) fn by(slice: &EndpointSlice) -> Self {
        Self {
            address_type: slice.address_type,
            ports: slice.ports.iter().map(held).collect(),
            is_labelled_headless: slice.metadata.labels.contains_key(LABEL_HEADLESS),
        }
    }

    pub(crate) fn ports(&self) -> &[NamedPort] {
        &self.ports
    }
}

/// kube-proxy matches the ports of slices and Services by name and protocol, and ignores ports without a number.
pub(crate) fn is_for(held: &NamedPort, wanted: &NamedPort) -> bool {
    held.name == wanted.name && held.protocol == wanted.protocol && held.port.is_some()
}

fn held(port: &EndpointPort) -> NamedPort {
    let protocol = protocol(port.protocol.clone().unwrap_or_default());
    let number = port.port.filter(|number| *number != 0);
    NamedPort { name: port.name.clone().unwrap_or_default(), protocol, port: number }
}

fn asked_for(port: &ServicePort) -> NamedPort {
    NamedPort { name: port.name.clone(), protocol: protocol(port.protocol.clone()), port: None }
}

/// Returns a protocol, or the default of the API.
fn protocol(protocol: Text) -> Text {
    if protocol.is_empty() { "TCP".into() } else { protocol }
}
