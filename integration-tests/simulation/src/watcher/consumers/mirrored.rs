//! Reads mirrored Endpoints, of a Service without a selector.

use std::collections::BTreeMap;
use std::net::IpAddr;

use kube_endpoint_core_model::Service;
use serde_json::Value;

use super::super::world::Endpoints;
use super::rules::{Claim, State};
use crate::cluster::text;

/// The name, the protocol and the number of a port.
type Port = (String, String, u16);

/// The addresses of Endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mirrored {
    /// `None` stands for an address that is ready in one subset and not in another.
    addresses: BTreeMap<IpAddr, Option<(State, Vec<Port>)>>,
}

impl Mirrored {
    /// Returns the addresses, or no addresses if the Endpoints are not to be mirrored.
    pub(super) fn of(endpoints: &Value) -> Self {
        let mut mirrored = Self::default();
        if !Endpoints::of(endpoints).is_mirrorable {
            return mirrored;
        }
        for subset in endpoints["subsets"].as_array().into_iter().flatten() {
            for (field, state) in [("addresses", State::Ready), ("notReadyAddresses", State::NotReady)] {
                let addresses = subset[field].as_array().into_iter().flatten();
                for ip in addresses.filter_map(|address| text(address, "/ip").parse().ok()) {
                    mirrored.add(ip, state, subset);
                }
            }
        }
        mirrored
    }

    fn add(&mut self, ip: IpAddr, state: State, subset: &Value) {
        let port = |port: &Value| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
            Some((text(port, "/name").to_owned(), protocol, port["port"].as_u64()?.try_into().ok()?))
        };
        let ports = subset["ports"].as_array().into_iter().flatten().filter_map(port);
        let address = self.addresses.entry(ip).or_insert_with(|| Some((state, Vec::new())));
        match address {
            Some((before, all)) if *before == state => all.extend(ports),
            _ => *address = None,
        }
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = &IpAddr> {
        self.addresses.keys()
    }

    pub(super) fn claim(&self, service: &Service, ip: IpAddr) -> Option<Claim> {
        let (state, ports) = self.addresses.get(&ip)?.as_ref()?;
        let number = |name: &str, protocol: &str| {
            let mut found = ports.iter().filter(|(held, by, _)| held == name && by == protocol);
            // If several subsets have such a port, each of its numbers is one.
            let (Some((_, _, number)), None) = (found.next(), found.next()) else { return None };
            Some(*number)
        };
        let ports = service.ports.iter().map(|port| number(&port.name, &port.protocol)).collect();
        Some(Claim { state: *state, node: String::new(), ports })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn an_address_has_the_ports_of_its_subsets_with_the_names_of_the_services() {
        let service: Service = from_value(json!({
            "metadata": {"name": "s"},
            "spec": {"ports": [{"name": "web", "port": 80, "protocol": "TCP"}, {"name": "raw", "port": 81, "protocol": "UDP"}]},
        }))
        .unwrap();
        let port = |name: &str, number: u16| json!({"name": name, "port": number});
        let mut endpoints = json!({"subsets": [
            {"addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::0"}], "notReadyAddresses": [{"ip": "192.0.2.2"}],
                "ports": [port("web", 9376)]},
            {"addresses": [{"ip": "192.0.2.2"}], "ports": [port("raw", 9377)]},
            {"notReadyAddresses": [{"ip": "192.0.2.3"}], "ports": [port("other", 9378)]},
        ]});
        let claim =
            |endpoints: &Value, ip: &str| Mirrored::of(endpoints).claim(&service, ip.parse().unwrap());
        let want = |state, ports: [Option<u16>; 2]| {
            Some(Claim { state, node: String::new(), ports: ports.to_vec() })
        };
        assert_eq!(claim(&endpoints, "192.0.2.1"), want(State::Ready, [Some(9376), None]));
        assert_eq!(claim(&endpoints, "2001:db8::"), want(State::Ready, [Some(9376), None]));
        assert_eq!(claim(&endpoints, "192.0.2.2"), None, "the subsets disagree");
        assert_eq!(claim(&endpoints, "192.0.2.3"), want(State::NotReady, [None, None]));
        assert_eq!(claim(&endpoints, "192.0.2.4"), None);
        endpoints["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] = "true".into();
        assert_eq!(claim(&endpoints, "192.0.2.1"), None);
    }
}
