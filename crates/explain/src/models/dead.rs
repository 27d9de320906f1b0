//! Compares endpoints that somebody wrote with the pods and the nodes that they name.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use kube_endpoint_core_model::{Endpoint, EndpointSlice, ObjectKey, Pod, Service, Text, Timestamp, address};
use serde::Serialize;

use crate::facts::across::Across;
use crate::facts::age;
use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::models::traffic::{Served, ServedBy, is_ready};

/// An endpoint to which clients are sent, and that answers none of them. Prints as
/// `10.1.0.9 of pod web-0, which does not exist any more`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadEndpoint {
    pub slice: Text,
    pub address: Text,
    /// The pod that the endpoint names, or that has its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Text>,
    pub why: WhyDead,
    /// Another pod that has the address now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<Text>,
}

/// The reason why an endpoint is dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum WhyDead {
    /// Its pod does not exist any more.
    Gone,
    /// Another pod has the name of its pod.
    Replaced,
    Ended,
    NotReady,
    /// Its pod has other addresses.
    Moved {
        has: Vec<Text>,
    },
    /// Its node does not exist any more.
    NodeGone {
        node: Text,
    },
    /// It is the cluster IP of a Service, from which kube-proxy does not send clients on.
    ClusterIp,
}

impl DeadEndpoint {
    /// Returns true if its pod may answer again at this address.
    pub(crate) fn may_come_back(&self) -> bool {
        matches!(self.why, WhyDead::NotReady | WhyDead::NodeGone { .. })
    }
}

impl fmt::Display for DeadEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)?;
        if let Some(pod) = &self.pod {
            write!(f, " of pod {pod}")?;
        }
        match &self.why {
            WhyDead::Gone => f.write_str(", which does not exist any more")?,
            WhyDead::Replaced => f.write_str(", which was deleted; the pod of this name is a new one")?,
            WhyDead::Ended => f.write_str(", which has ended")?,
            WhyDead::NotReady => f.write_str(", which is not ready")?,
            WhyDead::Moved { has } => write!(f, ", which has the address {}", has.join(" and "))?,
            WhyDead::ClusterIp => f.write_str(", which is the cluster IP of a Service")?,
            WhyDead::NodeGone { node } => write!(f, " on node {node}, which does not exist any more")?,
        }
        self.other.iter().try_for_each(|other| write!(f, " (it is the address of pod {other} now)"))
    }
}

/// Where to look for dead endpoints.
pub(crate) struct Living<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) service: &'a Service,
    pub(crate) served: &'a Served<'a>,
    pub(crate) across: &'a Across<'a>,
    pub(crate) options: &'a Options,
    pub(crate) now: Timestamp,
}

impl Living<'_> {
    /// Returns the dead endpoints of a slice to which clients are sent.
    pub(crate) fn dead(&self, slice: &EndpointSlice) -> Vec<DeadEndpoint> {
        let addresses_sent = self.served.endpoints_of(slice);
        let sent = slice
            .endpoints
            .iter()
            .filter(|endpoint| is_ready(endpoint.conditions) && addresses_sent(endpoint) > 0);
        sent.filter_map(|endpoint| self.judge(slice, endpoint)).collect()
    }

    /// Returns why an endpoint is dead to which clients are sent.
    pub(crate) fn judge(&self, slice: &EndpointSlice, endpoint: &Endpoint) -> Option<DeadEndpoint> {
        let address = endpoint.addresses.first()?;
        let target = endpoint.target_ref.as_ref();
        let named = target.filter(|target| *target.kind == *"Pod" && self.is_near(&target.namespace));
        let found = match (named, target) {
            (None, None) if self.is_cluster_ip(address) => Some((None, WhyDead::ClusterIp)),
            _ if !self.options.known.pods => None,
            (Some(target), _) => {
                let key = self.key(&target.name);
                let is_gone = self.objects.is_gone(&key, &target.uid);
                let why = match self.objects.pod(&key) {
                    None => is_gone.then_some(WhyDead::Gone),
                    Some(pod) if !target.uid.is_empty() && pod.uid != target.uid => {
                        is_gone.then_some(WhyDead::Replaced)
                    }
                    Some(pod) => self.why(pod, endpoint),
                };
                why.map(|why| (Some(target.name.clone()), why))
            }
            (None, None) => {
                // Somebody may have had the address before.
                let pods: Vec<_> = self.pods_at(endpoint).collect();
                let all_dead = pods.iter().all(|pod| self.why(pod, endpoint).is_some());
                let pod = pods.iter().find(|pod| !pod.is_terminal()).or(pods.first()).filter(|_| all_dead);
                pod.and_then(|pod| Some((Some(pod.key.name.clone()), self.why(pod, endpoint)?)))
            }
            (None, Some(_)) => None,
        };
        let (pod, why) = found.or_else(|| {
            let node = endpoint.node_name.as_ref().filter(|name| self.is_gone(name))?;
            Some((named.map(|target| target.name.clone()), WhyDead::NodeGone { node: node.clone() }))
        })?;
        let mut others = self
            .pods_at(endpoint)
            .filter(|other| pod.as_ref() != Some(&other.key.name) && !other.is_terminal());
        let other = others.next().map(|other| other.key.name.clone());
        Some(DeadEndpoint { slice: slice.metadata.name.clone(), address: address.clone(), pod, why, other })
    }

    /// Returns true if a node does not exist. Without any node, nobody may have read them.
    fn is_gone(&self, node: &Text) -> bool {
        let nodes = &self.objects.nodes;
        let is_absent = !nodes.is_empty() || self.objects.raw.absent_nodes.contains(node);
        self.options.known.nodes && is_absent && !nodes.contains_key(node)
    }

    /// DNS may answer with a cluster IP: its client connects to that, as to that of any Service.
    fn is_cluster_ip(&self, address: &str) -> bool {
        let parsed = address::parse_sloppy(address);
        let service = parsed.and_then(|ip| self.across.service_at(ip, &self.service.key));
        self.served.by == ServedBy::KubeProxy && service.is_some()
    }

    /// Returns why a pod does not answer at the addresses of an endpoint.
    fn why(&self, pod: &Pod, endpoint: &Endpoint) -> Option<WhyDead> {
        let addresses = || endpoint.addresses.iter().filter_map(|text| address::parse_sloppy(text));
        let is_ready = pod.is_ready() || self.service.publish_not_ready_addresses || {
            let changed = pod.ready.and_then(|ready| ready.last_transition);
            changed.is_some_and(|time| age::since(time, self.now) <= self.options.late_after)
        };
        if pod.is_terminal() {
            Some(WhyDead::Ended)
        } else if pod.has_pod_ip
            && !addresses().any(|address| pod.has_ip(address))
            && !self.objects.raw.has_other_networks(&pod.key)
        {
            Some(WhyDead::Moved { has: pod.pod_ips.iter().map(address::to_text).collect() })
        } else {
            (!is_ready).then_some(WhyDead::NotReady)
        }
    }

    /// Returns the pods of the namespace with the address of an endpoint. Many pods have that of
    /// their node.
    fn pods_at(&self, endpoint: &Endpoint) -> impl Iterator<Item = &Arc<Pod>> {
        let address = endpoint.addresses.first().and_then(|text| address::parse_sloppy(text));
        let pods = address.into_iter().flat_map(move |address| self.across.pods_with(address));
        pods.filter(|pod| pod.key.namespace == self.service.key.namespace)
    }

    fn is_near(&self, namespace: &Text) -> bool {
        namespace.is_empty() || *namespace == self.service.key.namespace
    }

    fn key(&self, name: &Text) -> ObjectKey {
        ObjectKey { namespace: self.service.key.namespace.clone(), name: name.clone() }
    }
}

/// Returns true if an endpoint names a pod.
pub(crate) fn names(endpoint: &Endpoint, pod: &Pod) -> bool {
    endpoint.target_ref.as_ref().is_some_and(|target| {
        *target.kind == *"Pod"
            && target.name == pod.key.name
            && (target.uid.is_empty() || target.uid == pod.uid)
    })
}

/// Returns true if one of these addresses is the pod's, and not that of its node.
pub(crate) fn is_at(addresses: &[Text], pod: &Pod) -> bool {
    let mut addresses = addresses.iter().filter_map(|text| address::parse_sloppy(text));
    !pod.host_network && addresses.any(|address| pod.has_ip(address))
}

impl Objects {
    /// Returns the pods that slices of a Service name, and that are not here.
    pub fn missing_pods(&self, service: &Service) -> BTreeSet<Text> {
        let endpoints = self.slices_of(&service.key).iter().flat_map(|slice| &slice.endpoints);
        let targets = endpoints.filter_map(|endpoint| endpoint.target_ref.as_ref());
        let is_near = |namespace: &Text| namespace.is_empty() || *namespace == service.key.namespace;
        let pods = targets.filter(|target| *target.kind == *"Pod" && is_near(&target.namespace));
        let names = pods.map(|target| &target.name);
        let is_missing = |name: &&Text| {
            let key = ObjectKey { namespace: service.key.namespace.clone(), name: (*name).clone() };
            self.pod(&key).is_none()
        };
        names.filter(is_missing).cloned().collect()
    }

    /// Returns the addresses of the ready endpoints of a Service that no pod of its namespace has
    /// among those that were read.
    pub fn addresses_of_no_pod(&self, service: &ObjectKey) -> BTreeSet<IpAddr> {
        let pods = self.pods_of(&service.namespace);
        let own: BTreeSet<IpAddr> = pods.flat_map(|pod| pod.pod_ips.iter().copied()).collect();
        let endpoints = self.slices_of(service).iter().flat_map(|slice| &slice.endpoints);
        let ready = endpoints.filter(|endpoint| endpoint.conditions.ready != Some(false));
        let addresses = ready.filter_map(|endpoint| endpoint.addresses.first());
        addresses.filter_map(|text| address::parse_sloppy(text)).filter(|ip| !own.contains(ip)).collect()
    }

    /// Returns true if slices of a Service name a pod, or have its address.
    pub fn is_named_by(&self, service: &ObjectKey, pod: &Pod) -> bool {
        let mut endpoints = self.slices_of(service).iter().flat_map(|slice| &slice.endpoints);
        endpoints.any(|endpoint| names(endpoint, pod) || is_at(&endpoint.addresses, pod))
    }

    /// Returns the nodes that endpoints of a Service name, and that are not here.
    pub fn missing_nodes(&self, service: &ObjectKey) -> BTreeSet<Text> {
        let endpoints = self.slices_of(service).iter().flat_map(|slice| &slice.endpoints);
        let nodes = endpoints.filter_map(|endpoint| endpoint.node_name.as_ref());
        nodes.filter(|node| !self.nodes.contains_key(*node)).cloned().collect()
    }
}
