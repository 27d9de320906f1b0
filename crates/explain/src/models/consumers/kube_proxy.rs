//! Finds the endpoints to which kube-proxy of one node sends the clients of a Service.
//!
//! ```
//! use kube_endpoint_core_model::{EndpointSlice, IpFamily, Service};
//! use kube_endpoint_explain::consumers::kube_proxy::{KubeProxy, Through, TrafficPolicies, Unused};
//! use serde_json::{from_value, json};
//!
//! let service: Service = from_value(json!({
//!     "metadata": {"name": "web", "namespace": "shop"},
//!     "spec": {"clusterIP": "10.96.0.7", "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]},
//! }))?;
//! let slice: EndpointSlice = from_value(json!({
//!     "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
//!     "addressType": "IPv4",
//!     "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
//!     "endpoints": [
//!         {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
//!         {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
//!     ],
//! }))?;
//! let proxy = KubeProxy { node: "node-1", ..KubeProxy::default() };
//! let routes = proxy.routes(&service, TrafficPolicies::default(), [&slice], IpFamily::IPv4, Through::ClusterIp);
//! assert_eq!(routes.ports[0].backends[0].to_string(), "10.0.0.1:8080");
//! assert_eq!(routes.ports[0].unused[0].1, Unused::NotReady);
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! The source is `pkg/proxy` of Kubernetes 1.36: `endpointslicecache.go`, `topology.go`,
//! `servicechangetracker.go`, and the selectors of the informers in `cmd/kube-proxy/app/server.go`.
//! Older versions of kube-proxy differ:
//!
//! | what | since | before |
//! |---|---|---|
//! | Of two entries of an endpoint, one that terminates loses. | 1.36 | The entry on the client's node wins. |
//! | A label takes away Services (`service-proxy-name`) or slices (`headless`). | 1.36 | Each label takes away both. |
//! | It follows hints for nodes ([`KubeProxy::reads_node_hints`]). | 1.34 | It ignores them. |
//! | It follows hints whatever the annotations of the Service are. | 1.31 | The Service needs `service.kubernetes.io/topology-mode`. |
//! | Clients are sent to endpoints that terminate and serve if none is ready. | 1.26 | They are refused. |
//!
//! A caller can switch only the hints for nodes off; the rest of the model is 1.36.

mod all_nodes;
mod endpoints;

use std::fmt;
use std::net::SocketAddr;

use kube_endpoint_core_model::service::{ServicePort, ServiceType};
use kube_endpoint_core_model::well_known::{LABEL_HEADLESS, LABEL_SERVICE_NAME};
use kube_endpoint_core_model::{AddressType, EndpointSlice, IpFamily, Service, StringMap, Text};

pub use all_nodes::{Nodes, cluster_backends, local_backends, on_several_nodes};
pub use kube_endpoint_core_model::TrafficPolicies;

use endpoints::{Candidate, Topology, candidates};

/// Takes a Service away from kube-proxy, whatever its value (KEP-2447).
pub(crate) const LABEL_SERVICE_PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";

/// kube-proxy of one node.
#[derive(Clone, Copy, Debug)]
pub struct KubeProxy<'a> {
    pub node: &'a str,
    /// The node's label `topology.kubernetes.io/zone`, or empty. A kube-proxy 1.36 on a busy node
    /// may get the node from its informer before it registers `OnTopologyChange`; it then follows
    /// no hints for zones until the label changes.
    pub zone: &'a str,
    /// True if it reads hints for nodes, which it does by default since Kubernetes 1.34.
    pub reads_node_hints: bool,
}

impl Default for KubeProxy<'_> {
    fn default() -> Self {
        Self { node: "", zone: "", reads_node_hints: true }
    }
}

/// The address of a Service that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// The cluster IP, from a pod or a node. `spec.internalTrafficPolicy` applies.
    ClusterIp,
    /// A node port, an external IP or a load balancer, from outside of the cluster.
    /// `spec.externalTrafficPolicy` applies.
    External,
    /// An external IP or a load balancer's address, from a pod. kube-proxy sends such clients to
    /// endpoints directly: no policy applies.
    ExternalFromPod,
}

/// The routes of a Service for one family of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Set if kube-proxy makes no rules for the Service. Then there are no ports.
    pub ignored: Option<IgnoredService>,
    /// The ports of the Service, in its order.
    pub ports: Vec<PortRoutes>,
    /// Slices that kube-proxy does not read for this family, with the reason.
    pub ignored_slices: Vec<(Text, IgnoredSlice)>,
    /// Ports of slices that belong to no port of the Service, or that kube-proxy cannot use.
    pub ignored_ports: Vec<(Text, IgnoredPort)>,
}

/// The routes of a port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortRoutes {
    /// The port's name; may be empty.
    pub name: Text,
    pub protocol: Text,
    /// The endpoints among which kube-proxy chooses, sorted. If there is none, it refuses or drops
    /// connections.
    pub backends: Vec<SocketAddr>,
    /// The endpoints to which kube-proxy does not send this client, sorted, with the reason.
    pub unused: Vec<(SocketAddr, Unused)>,
    /// Endpoints that several slices hold with different conditions or hints. kube-proxy chooses an
    /// entry by the random order of a Go map; this model takes that of the first slice by name.
    pub undefined: Vec<SocketAddr>,
    /// The ready endpoints without a hint, if others have one: kube-proxy ignores all hints then.
    pub without_hints: Vec<SocketAddr>,
}

/// The reason why kube-proxy makes no rules for a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredService {
    /// It is headless, or has no cluster IP yet.
    NoClusterIp,
    /// It is an alias of a DNS name.
    ExternalName,
    /// Its label `service.kubernetes.io/service-proxy-name` names another proxy.
    OtherProxy,
    /// It has no address of this family.
    NoAddressOfFamily,
}

/// The reason why kube-proxy does not read a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredSlice {
    /// The label `kubernetes.io/service-name` is absent or names another Service.
    OtherService,
    /// It has the label `service.kubernetes.io/headless`, whatever its value.
    Headless,
    /// Its addresses are not of this family.
    OtherAddressType,
}

/// The reason why kube-proxy does not use a port of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredPort {
    /// It has no name, not even an empty one.
    NoName,
    /// It has no number, or 0.
    NoNumber(Text),
    /// The Service has no port of this name and protocol.
    NotOfService(Text, Text),
}

/// The reason why kube-proxy does not send a client to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unused {
    /// It is not ready, and neither serving nor terminating.
    NotReady,
    /// It terminates, and others are ready.
    Terminating,
    /// Its hints are for other zones.
    OtherZone,
    /// Its hints are for other nodes.
    OtherNode,
    /// It is on another node, and the traffic policy is `Local`.
    NotLocal,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReady => "it is not ready",
            Self::Terminating => "it terminates, and others are ready",
            Self::OtherZone => "its hints are for other zones",
            Self::OtherNode => "its hints are for other nodes",
            Self::NotLocal => "it is on another node, and the traffic policy is Local",
        })
    }
}

impl KubeProxy<'_> {
    /// Returns where this kube-proxy sends a client that uses an address of one family. `slices`
    /// are those of the Service's namespace, of any manager; this ignores those of other Services.
    ///
    /// For clients outside, the answer assumes that the port has a node port, or the Service an
    /// external IP or a load balancer's address of the family. Otherwise kube-proxy makes no rules
    /// for the port.
    pub fn routes<'a>(
        &self,
        service: &Service,
        policies: TrafficPolicies,
        slices: impl IntoIterator<Item = &'a EndpointSlice>,
        family: IpFamily,
        through: Through,
    ) -> Routes {
        if let Some(reason) = ignores(service, family) {
            return Routes { ignored: Some(reason), ..Routes::default() };
        }
        let mut slices: Vec<&EndpointSlice> = slices.into_iter().collect();
        slices.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let mut routes = Routes::default();
        slices.retain(|slice| match ignores_slice(service, slice, family) {
            Some(reason) => {
                routes.ignored_slices.push((slice.metadata.name.clone(), reason));
                false
            }
            None => true,
        });
        for slice in &slices {
            routes
                .ignored_ports
                .extend(ignored_ports(service, slice).map(|reason| (slice.metadata.name.clone(), reason)));
        }
        routes.ports =
            service.ports.iter().map(|port| self.routes_of_port(port, policies, &slices, through)).collect();
        routes
    }

    fn routes_of_port(
        &self,
        port: &ServicePort,
        policies: TrafficPolicies,
        slices: &[&EndpointSlice],
        through: Through,
    ) -> PortRoutes {
        let candidates = candidates(self, port, slices);
        let wants_local = is_local(policies, through);
        let topology = if wants_local { Topology::Anywhere } else { Topology::of(self, &candidates) };
        let without_hints = if wants_local { Vec::new() } else { endpoints::without_hints(&candidates) };
        let endpoints::Candidates { by_address, undefined, .. } = candidates;
        let mut routes = PortRoutes {
            name: port.name.clone(),
            protocol: or_tcp(&port.protocol),
            undefined,
            without_hints,
            ..PortRoutes::default()
        };
        let is_in_reach = |candidate: &Candidate<'_>| {
            if wants_local && !candidate.is_on(self.node) { Err(Unused::NotLocal) } else { Ok(()) }
        };
        let any_ready =
            by_address.values().any(|candidate| candidate.ready && is_in_reach(candidate).is_ok());
        for (address, candidate) in &by_address {
            let verdict = is_in_reach(candidate).and_then(|()| {
                if any_ready {
                    self.judge_ready(candidate, topology)
                } else if candidate.is_last_resort() {
                    Ok(())
                } else {
                    Err(Unused::NotReady)
                }
            });
            match verdict {
                Ok(()) => routes.backends.push(*address),
                Err(reason) => routes.unused.push((*address, reason)),
            }
        }
        routes
    }

    fn judge_ready(&self, candidate: &Candidate<'_>, topology: Topology) -> Result<(), Unused> {
        if !candidate.ready {
            return Err(if candidate.is_last_resort() { Unused::Terminating } else { Unused::NotReady });
        }
        match topology {
            Topology::SameNode if !candidate.nodes.contains(&self.node) => Err(Unused::OtherNode),
            Topology::SameZone if !candidate.zones.contains(&self.zone) => Err(Unused::OtherZone),
            _ => Ok(()),
        }
    }
}

/// Returns true if kube-proxy sends a client only to endpoints of its own node.
fn is_local(policies: TrafficPolicies, through: Through) -> bool {
    match through {
        Through::ClusterIp => policies.internal_local,
        Through::External => policies.external_local,
        Through::ExternalFromPod => false,
    }
}

/// Returns the numbers of a slice's ports that kube-proxy uses for a Service, in the order of the
/// Service's ports. The list is empty if kube-proxy does not read the slice.
pub(crate) fn numbers_used(service: &Service, slice: &EndpointSlice) -> Vec<u16> {
    let family = service.slice_families().into_iter().find(|it| AddressType::from(*it) == slice.address_type);
    if family.is_none_or(|family| ignores_slice(service, slice, family).is_some()) {
        return Vec::new();
    }
    let of_port = |port| slice.ports.iter().filter_map(move |held| number_for(held, port));
    service.ports.iter().flat_map(of_port).collect()
}

/// Returns why kube-proxy makes no rules of a family for a Service (upstream `ShouldSkipService`,
/// `GetClusterIPByFamily`, and the selector of its informer).
fn ignores(service: &Service, family: IpFamily) -> Option<IgnoredService> {
    if service.service_type == ServiceType::ExternalName {
        return Some(IgnoredService::ExternalName);
    }
    if service.is_headless() {
        return Some(IgnoredService::NoClusterIp);
    }
    if service.labels.get(LABEL_SERVICE_PROXY_NAME).is_some() {
        return Some(IgnoredService::OtherProxy);
    }
    (!service.slice_families().contains(&family)).then_some(IgnoredService::NoAddressOfFamily)
}

/// Returns why kube-proxy does not read a slice for a family. The label counts before the family.
pub(crate) fn ignores_slice(
    service: &Service,
    slice: &EndpointSlice,
    family: IpFamily,
) -> Option<IgnoredSlice> {
    let labels: &StringMap = &slice.metadata.labels;
    if labels.get(LABEL_SERVICE_NAME).is_none_or(|name| *name != service.key.name) {
        return Some(IgnoredSlice::OtherService);
    }
    if labels.get(LABEL_HEADLESS).is_some() {
        return Some(IgnoredSlice::Headless);
    }
    (slice.address_type != AddressType::from(family)).then_some(IgnoredSlice::OtherAddressType)
}

/// Returns the ports of a slice that no port of the Service uses, with the reason.
fn ignored_ports<'a>(
    service: &'a Service,
    slice: &'a EndpointSlice,
) -> impl Iterator<Item = IgnoredPort> + 'a {
    slice.ports.iter().filter_map(|held| {
        let Some(name) = &held.name else { return Some(IgnoredPort::NoName) };
        if held.port.unwrap_or(0) == 0 {
            return Some(IgnoredPort::NoNumber(name.clone()));
        }
        let is_used = service.ports.iter().any(|port| number_for(held, port).is_some());
        (!is_used).then(|| IgnoredPort::NotOfService(name.clone(), held.protocol.clone().unwrap_or_default()))
    })
}

/// Returns the number of a slice's port if it belongs to a port of the Service, with equal name and
/// protocol.
pub(crate) fn number_for(held: &kube_endpoint_core_model::EndpointPort, port: &ServicePort) -> Option<u16> {
    let is_same = held.name.as_deref() == Some(&*port.name)
        && or_tcp(held.protocol.as_ref().unwrap_or(&Text::default())) == or_tcp(&port.protocol);
    let number = held.port.filter(|_| is_same)?;
    u16::try_from(number).ok().filter(|number| *number != 0)
}

/// Returns a protocol, or the API's default.
fn or_tcp(protocol: &Text) -> Text {
    if protocol.is_empty() { "TCP".into() } else { protocol.clone() }
}
