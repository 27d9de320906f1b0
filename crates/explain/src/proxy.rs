//! Which slices of a Service kube-proxy uses, or DNS, if the Service is headless.

use kube_endpoint_core_model::service::ServicePort;
use kube_endpoint_core_model::{AddressType, EndpointPort, EndpointSlice, IpFamily, Service, Text};

use crate::NamedPort;

/// What kube-proxy looks for in the slices of a Service. The default is any slice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The types of addresses, of which one is enough; empty if any is.
    families: Vec<IpFamily>,
    /// The ports, of which one is enough; empty if none is needed.
    ports: Vec<NamedPort>,
}

/// What kube-proxy chooses a slice by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    address_type: AddressType,
    ports: Box<[NamedPort]>,
}

impl Wanted {
    /// DNS takes addresses of any type, and knows them without ports. A pod without the ports that a headless Service asks for
    /// is nevertheless not what its clients look for.
    pub(crate) fn by(service: &Service) -> Self {
        let is_headless = service.is_headless();
        let needs_no_port = is_headless && !service.selects_pods();
        Self {
            families: if is_headless { Vec::new() } else { service.slice_families() },
            ports: if needs_no_port { Vec::new() } else { service.ports.iter().map(asked_for).collect() },
        }
    }

    /// Returns true if a slice is used for a port of the Service.
    pub(crate) fn uses(&self, offered: &Offered) -> bool {
        self.has_type(offered.address_type)
            && (self.ports.is_empty()
                || self.ports.iter().any(|port| offered.ports.iter().any(|held| is_for(held, port))))
    }

    /// Returns true if addresses of this type are used. There is none for domain names but DNS.
    pub(crate) fn has_type(&self, address_type: AddressType) -> bool {
        self.families.is_empty()
            || self.families.iter().any(|family| AddressType::from(*family) == address_type)
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
        Self { address_type: slice.address_type, ports: slice.ports.iter().map(held).collect() }
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
