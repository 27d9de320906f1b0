//! Allocation of cluster IPs and node ports, after `pkg/registry/core/service/storage/alloc.go`,
//! but deterministic: numbers count up.

use std::net::IpAddr;

use serde_json::Value;

use crate::resource;
use crate::status::Status;
use crate::validation::{Errors, Path, ip};
use crate::value::{Fields, spec};

use super::families::Families;
use super::ranges::{Addresses, Pool, RangeError};
use super::service_util::{is_headless, needs_cluster_ip, needs_health_check};

const NODE_PORTS: (u128, u128) = (30_000, 32_767);

/// The allocated cluster IPs and node ports. Allocation is deterministic: the next free value after
/// the last one allocated. A dry run works on a clone.
#[derive(Clone, Debug)]
pub struct ClusterIps {
    /// One range, or one for each family. The first one is that of a Service that asks for none.
    ranges: Vec<Addresses>,
    node_ports: Pool,
}

/// The addresses and ports that a Service has allocated.
#[derive(Debug, Default, PartialEq, Eq)]
struct Allocations {
    addresses: Vec<IpAddr>,
    ports: Vec<u128>,
}

impl Allocations {
    fn of(service: &Value) -> Self {
        let spec = spec(service);
        let mut held = Self::default();
        if needs_cluster_ip(service) && !is_headless(service) {
            held.addresses = spec.texts("clusterIPs").into_iter().filter_map(ip::parse_sloppy).collect();
        }
        let ports = spec.list("ports").iter().map(|p| p.int("nodePort"));
        let checked = needs_health_check(service).then(|| spec.int("healthCheckNodePort"));
        for port in ports.chain(checked).filter_map(|p| u128::try_from(p).ok()).filter(|p| *p != 0) {
            // TCP and UDP may share a node port: this allocates it once.
            if !held.ports.contains(&port) {
                held.ports.push(port);
            }
        }
        held
    }
}

impl ClusterIps {
    /// Returns an allocator over one range, or over one of each family. The first one is that of
    /// Services that ask for no family.
    ///
    /// # Errors
    ///
    /// If a text is not a range that can be used, if there are none or more than two, or if both
    /// are of one family.
    pub fn new<R: AsRef<str>>(ranges: &[R]) -> Result<Self, RangeError> {
        let parsed: Vec<Addresses> =
            ranges.iter().map(|range| Addresses::parse(range.as_ref())).collect::<Result<_, _>>()?;
        match (&parsed[..], ranges) {
            ([_], _) => {}
            ([one, other], [first, second]) => {
                if one.is_ipv4() == other.is_ipv4() {
                    let [first, second] = [first, second].map(|range| range.as_ref().to_owned());
                    return Err(RangeError::SameFamily(first, second));
                }
            }
            _ => return Err(RangeError::WrongNumber(ranges.len())),
        }
        let (first, last) = NODE_PORTS;
        // The first ports are for Services that ask for one (KEP-3668).
        let node_ports = Pool::new(first, last).with_static_band(last - first + 1, 32, 128);
        Ok(Self { ranges: parsed.into_iter().map(Addresses::with_static_band).collect(), node_ports })
    }

    /// Returns the families of the ranges.
    pub fn families(&self) -> Families {
        Families::new(self.ranges.first().is_some_and(Addresses::is_ipv4), self.ranges.len() == 2)
    }

    /// Returns the ranges.
    pub fn ranges(&self) -> &[Addresses] {
        &self.ranges
    }

    /// Fills in clusterIP, clusterIPs and node ports of a Service before the server stores it
    /// (after [`before_create`](super::before_create) or [`before_update`](super::before_update),
    /// which fill in ipFamilies and ipFamilyPolicy), and releases the addresses and ports that only
    /// `old` had. It allocates nothing on an error.
    ///
    /// # Errors
    ///
    /// 422 for an address or port that is allocated already or out of range, 500 if a range is
    /// full.
    pub fn allocate(&mut self, old: Option<&Value>, service: &mut Value) -> Result<(), Status> {
        let held = old.map(Allocations::of).unwrap_or_default();
        let mut taken = Allocations::default();
        let done = self
            .allocate_addresses(&held, service, &mut taken)
            .and_then(|()| self.allocate_ports(&held, service, &mut taken));
        if done.is_err() {
            self.release_all(&taken);
            return done;
        }
        let kept = Allocations::of(service);
        self.release_all(&Allocations {
            addresses: held.addresses.into_iter().filter(|a| !kept.addresses.contains(a)).collect(),
            ports: held.ports.into_iter().filter(|p| !kept.ports.contains(p)).collect(),
        });
        Ok(())
    }

    /// Marks the addresses and ports of a loaded Service as allocated.
    pub fn occupy(&mut self, service: &Value) {
        let held = Allocations::of(service);
        for address in held.addresses {
            if let Some(range) = self.range(address.is_ipv4()) {
                range.occupy(address);
            }
        }
        for port in held.ports {
            self.node_ports.take(port);
        }
    }

    /// Releases the addresses and ports of a deleted Service.
    pub fn release(&mut self, service: &Value) {
        let held = Allocations::of(service);
        self.release_all(&held);
    }

    fn range(&mut self, ipv4: bool) -> Option<&mut Addresses> {
        self.ranges.iter_mut().find(|range| range.is_ipv4() == ipv4)
    }

    fn release_all(&mut self, held: &Allocations) {
        for address in &held.addresses {
            if let Some(range) = self.range(address.is_ipv4()) {
                range.release(*address);
            }
        }
        for port in &held.ports {
            self.node_ports.release(*port);
        }
    }

    fn allocate_addresses(
        &mut self,
        held: &Allocations,
        service: &mut Value,
        taken: &mut Allocations,
    ) -> Result<(), Status> {
        if !needs_cluster_ip(service) || is_headless(service) {
            return Ok(());
        }
        let families: Vec<String> =
            spec(service).texts("ipFamilies").into_iter().map(str::to_owned).collect();
        let mut addresses: Vec<String> =
            spec(service).texts("clusterIPs").into_iter().map(str::to_owned).collect();
        for (index, family) in families.iter().enumerate() {
            // A Service loaded from another cluster may have a family that this one lacks.
            let Some(range) = self.range(family == "IPv4") else { continue };
            let Some(asked) = addresses.get(index).filter(|a| !a.is_empty()) else {
                let Some(address) = range.take_next() else {
                    let name = service["metadata"].text("name");
                    return Err(internal(&format!(
                        "failed to allocate a serviceIP for Service {name:?}: range is full"
                    )));
                };
                taken.addresses.push(address);
                addresses.truncate(index);
                addresses.push(address.to_string());
                continue;
            };
            let Some(address) = ip::parse_sloppy(asked).filter(|a| !held.addresses.contains(a)) else {
                continue;
            };
            if let Err(why) = range.take(address) {
                let why = format!("failed to allocate IP {asked}: {why}");
                let shown: Vec<&str> = addresses.iter().map(String::as_str).collect();
                return Err(invalid(service, "spec.clusterIPs", |errors, at| {
                    errors.invalid(at, shown.as_slice(), &why);
                }));
            }
            taken.addresses.push(address);
        }
        if let Some(first) = addresses.first().cloned()
            && let Some(spec) = service.get_mut("spec")
        {
            spec.set("clusterIP", first);
            spec.set("clusterIPs", addresses);
        }
        Ok(())
    }

    fn allocate_ports(
        &mut self,
        held: &Allocations,
        service: &mut Value,
        taken: &mut Allocations,
    ) -> Result<(), Status> {
        let kind = spec(service).text("type");
        let typed = matches!(kind, "NodePort" | "LoadBalancer");
        let automatic = kind == "NodePort" || spec(service).flag("allocateLoadBalancerNodePorts");
        let count = if typed { spec(service).list("ports").len() } else { 0 };
        for index in 0..count {
            let port = &spec(service)["ports"][index];
            let (number, asked) = (port.int("port"), port.int("nodePort"));
            if asked == 0 && !automatic {
                continue;
            }
            // A port number with two protocols gets one node port.
            let shared = spec(service)["ports"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|p| p.int("port") == number && p.int("nodePort") != 0)
                .map_or(0, |p| p.int("nodePort"));
            let wanted = if asked == 0 && held.ports.is_empty() { shared } else { asked };
            let port = match u128::try_from(wanted) {
                Ok(0) | Err(_) => self.next_port(taken)?,
                Ok(port) => {
                    if !held.ports.contains(&port) && !taken.ports.contains(&port) {
                        self.take_port(port).map_err(|why| {
                            let at = format!("spec.ports[{index}].nodePort");
                            invalid(service, &at, |errors, at| errors.invalid(at, &wanted, &why))
                        })?;
                        taken.ports.push(port);
                    }
                    port
                }
            };
            if let Some(item) = service["spec"].items_mut("ports").get_mut(index) {
                item.set("nodePort", u64::try_from(port).unwrap_or_default());
            }
        }
        if needs_health_check(service) {
            let asked = spec(service).int("healthCheckNodePort");
            match u128::try_from(asked) {
                Ok(0) | Err(_) => {
                    let port = self.next_port(taken)?;
                    service["spec"].set("healthCheckNodePort", u64::try_from(port).unwrap_or_default());
                }
                Ok(port) if held.ports.contains(&port) || taken.ports.contains(&port) => {}
                Ok(port) => {
                    self.take_port(port).map_err(|why| {
                        internal(&format!("failed to allocate requested HealthCheck NodePort {asked}: {why}"))
                    })?;
                    taken.ports.push(port);
                }
            }
        }
        Ok(())
    }

    fn take_port(&mut self, port: u128) -> Result<(), String> {
        let (first, last) = NODE_PORTS;
        if !self.node_ports.contains(port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            ));
        }
        if self.node_ports.take(port) { Ok(()) } else { Err("provided port is already allocated".to_owned()) }
    }

    fn next_port(&mut self, taken: &mut Allocations) -> Result<u128, Status> {
        let port = self
            .node_ports
            .take_next()
            .ok_or_else(|| internal("failed to allocate a nodePort: range is full"))?;
        taken.ports.push(port);
        Ok(port)
    }
}

fn internal(why: &str) -> Status {
    Status::new(500, "InternalError", format!("Internal error occurred: {why}"))
}

fn invalid(service: &Value, at: &str, add: impl FnOnce(&mut Errors, &Path<'_>)) -> Status {
    let mut errors = Errors::default();
    add(&mut errors, &Path::Root(at));
    Status::invalid(&resource::SERVICES, service["metadata"].text("name"), errors)
}
