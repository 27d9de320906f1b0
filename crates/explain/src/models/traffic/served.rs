//! Finds the endpoints that receive the traffic of a Service's clients, by the model of the program
//! that sends them there.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kube_endpoint_core_model::service::ServiceType;
use kube_endpoint_core_model::well_known::CLUSTER_IP_NONE;
use kube_endpoint_core_model::{Endpoint, EndpointSlice, Service, Text, address};
use serde::Serialize;

use crate::models::consumers::core_dns::{CoreDns, Question};
use crate::models::consumers::kube_proxy::{
    KubeProxy, LABEL_SERVICE_PROXY_NAME, Nodes, Through, TrafficPolicies, cluster_backends, local_backends,
    numbers_used, on_several_nodes,
};

/// The program that sends the clients of a Service to its endpoints. Serialises with the tag `by`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum ServedBy {
    /// kube-proxy, or a replacement of it on all nodes.
    KubeProxy,
    /// The proxy that the Service's label `service.kubernetes.io/service-proxy-name` names. Its
    /// choice of endpoints is not known, so the ready ones count.
    OtherProxy {
        /// The label's value. May be empty.
        name: Text,
    },
    /// DNS: the Service is headless.
    Dns,
    /// Nobody: the Service is an alias of a DNS name.
    Nobody,
}

impl ServedBy {
    pub(crate) fn of(service: &Service) -> Self {
        if service.service_type == ServiceType::ExternalName {
            return Self::Nobody;
        }
        if service.is_headless() {
            return Self::Dns;
        }
        match service.labels.get(LABEL_SERVICE_PROXY_NAME) {
            Some(name) => Self::OtherProxy { name: name.clone() },
            None => Self::KubeProxy,
        }
    }
}

/// The endpoints of a Service that receive traffic from a client on some node. If nodes are not
/// known, this assumes that each node and zone exists that an endpoint or a hint names.
#[derive(Clone, Debug)]
pub(crate) struct Served<'a> {
    service: &'a Service,
    pub(crate) by: ServedBy,
    /// The endpoints to which a proxy sends clients.
    backends: BTreeSet<SocketAddr>,
    /// The endpoints in DNS's answers.
    records: BTreeSet<Text>,
    /// Endpoints that several slices hold with different conditions or hints or, if a policy is
    /// `Local`, nodes.
    pub(crate) undefined: BTreeSet<IpAddr>,
    /// Ready endpoints without a hint. They make kube-proxy ignore the hints of the others.
    pub(crate) without_hints: BTreeSet<IpAddr>,
    /// The nodes whose clients have an endpoint by the policy `Local`.
    pub(crate) local_nodes: BTreeSet<Text>,
    /// The nodes that endpoints name and that do not exist, if a policy is `Local`.
    pub(crate) missing_nodes: BTreeSet<Text>,
}

impl<'a> Served<'a> {
    /// Finds the endpoints. `slices` are those with the Service's name in their label. `nodes` are
    /// those of the cluster, if they are known.
    pub(crate) fn by(
        service: &'a Service,
        policies: TrafficPolicies,
        slices: &[Arc<EndpointSlice>],
        nodes: Option<Nodes<'_>>,
    ) -> Self {
        let by = ServedBy::of(service);
        let mut served = Self {
            service,
            by,
            backends: BTreeSet::new(),
            records: BTreeSet::new(),
            undefined: BTreeSet::new(),
            without_hints: BTreeSet::new(),
            local_nodes: BTreeSet::new(),
            missing_nodes: BTreeSet::new(),
        };
        let slices = || slices.iter().map(|slice| &**slice);
        match served.by {
            ServedBy::Nobody | ServedBy::OtherProxy { .. } => {}
            ServedBy::Dns => {
                // A Service without a cluster IP, which no API server stores, is headless for the
                // controllers.
                let headless = Service { cluster_ip: CLUSTER_IP_NONE.into(), ..service.clone() };
                let records = CoreDns::default().resolve(&headless, slices(), &Question::Service);
                served.records = records.into_iter().map(|record| record.host).collect();
            }
            ServedBy::KubeProxy => served.add_routes(policies, slices, nodes),
        }
        served
    }

    fn add_routes<'s, I>(
        &mut self,
        policies: TrafficPolicies,
        slices: impl Fn() -> I,
        nodes: Option<Nodes<'_>>,
    ) where
        I: Iterator<Item = &'s EndpointSlice>,
    {
        let anywhere = KubeProxy::default();
        // A policy that only some clients have makes no endpoint unused.
        let all = TrafficPolicies { internal_local: false, ..policies };
        // Without any registered node, this knows nothing about zones.
        let zones_known = nodes.filter(|nodes| !nodes.by_name.is_empty());
        for family in self.service.slice_families() {
            let routes = anywhere.routes(self.service, all, slices(), family, Through::ClusterIp);
            for port in routes.ports {
                self.undefined.extend(port.undefined.iter().map(SocketAddr::ip));
                self.without_hints.extend(port.without_hints.iter().map(SocketAddr::ip));
                if policies.uses_cluster() && zones_known.is_none() {
                    self.backends.extend(port.backends);
                }
            }
            if let Some(nodes) = zones_known.filter(|_| policies.uses_cluster()) {
                self.backends.extend(cluster_backends(self.service, slices(), family, nodes));
            }
            if policies.uses_local() {
                self.undefined.extend(on_several_nodes(self.service, slices(), family));
                let exists = |node: &str| nodes.is_none_or(|nodes| nodes.by_name.contains_key(node));
                for (node, backends) in local_backends(self.service, slices(), family) {
                    if !exists(node) {
                        self.missing_nodes.insert(node.into());
                        continue;
                    }
                    self.local_nodes.insert(node.into());
                    self.backends.extend(backends);
                }
            }
        }
    }

    /// Returns a function that returns how many of an endpoint's addresses, from the first on, some
    /// client uses. The endpoint is one of this slice.
    pub(crate) fn endpoints_of(&self, slice: &EndpointSlice) -> impl Fn(&Endpoint) -> usize + use<'_, 'a> {
        let numbers = numbers_used(self.service, slice);
        move |endpoint| match self.by {
            ServedBy::Nobody => 0,
            ServedBy::OtherProxy { .. } if endpoint.conditions.ready == Some(false) => 0,
            ServedBy::OtherProxy { .. } => endpoint.addresses.len(),
            ServedBy::Dns if endpoint.addresses.iter().any(|address| self.records.contains(address)) => {
                endpoint.addresses.len()
            }
            ServedBy::Dns => 0,
            ServedBy::KubeProxy => {
                let first = endpoint.addresses.first().and_then(|text| address::parse_sloppy(text));
                let is_backend = |ip| {
                    let backend = |number: &u16| self.backends.contains(&SocketAddr::new(ip, *number));
                    numbers.iter().any(backend)
                };
                usize::from(first.is_some_and(is_backend))
            }
        }
    }
}

/// Returns true if the program that serves a Service uses endpoints of a slice. kube-proxy does if
/// the slice has addresses of one of the Service's families, and one of its ports.
pub(crate) fn uses(service: &Service, slice: &EndpointSlice) -> bool {
    match ServedBy::of(service) {
        ServedBy::Nobody => false,
        ServedBy::Dns | ServedBy::OtherProxy { .. } => true,
        ServedBy::KubeProxy => !numbers_used(service, slice).is_empty(),
    }
}

impl crate::facts::objects::Objects {
    /// Returns the nodes of clients.
    pub(crate) fn client_nodes(&self) -> Nodes<'_> {
        Nodes { by_name: &self.nodes, by_zone: &self.zones }
    }
}
