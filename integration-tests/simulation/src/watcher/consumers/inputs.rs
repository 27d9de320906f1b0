//! What the rules about clients need of the objects of the server, kept up to date from the store's changes:
//! what each Service owes to which address, and since when.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use kube_endpoint_core_model::service::{ServicePort, TargetPort};
use kube_endpoint_core_model::{EndpointSlice, IpFamily, ResourceVersion, Service, StringMap};
use serde::Deserialize;
use serde_json::Value;

use super::super::positions::Position;
use super::super::world::{Endpoints, Since};
use super::rules::{Claim, Claims, Client, State};
use crate::cluster::text;

/// A namespace, and the value of the only label that Services select by.
type App = (String, String);

/// Up to where inputs count as known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Horizon {
    /// What a process had surely read.
    Read(Position),
    /// What has been as it is since then.
    Until(Duration),
}

impl Horizon {
    fn holds(self, since: Since, read: impl Fn(Position) -> u64) -> bool {
        match self {
            Self::Read(position) => since.version <= read(position),
            Self::Until(time) => since.at <= time,
        }
    }
}

/// A port of a container: name, protocol, number.
type ContainerPort = (String, String, u16);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pod {
    app: App,
    addresses: Vec<IpAddr>,
    node: String,
    ports: Vec<ContainerPort>,
    /// None once it has ended.
    state: Option<State>,
}

impl Pod {
    fn of(pod: &Value) -> Self {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let is_ready =
            conditions.filter(|condition| condition["type"] == "Ready").any(|it| it["status"] == "True");
        let state = match (is_ready, pod["metadata"]["deletionTimestamp"].is_null()) {
            (true, true) => State::Ready,
            (true, false) => State::Serving,
            (false, _) => State::NotReady,
        };
        let has_ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        let addresses = pod["status"]["podIPs"].as_array().into_iter().flatten();
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let port = |port: &Value| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
            let number = port["containerPort"].as_u64().and_then(|number| number.try_into().ok())?;
            Some((text(port, "/name").to_owned(), protocol, number))
        };
        Self {
            app: (
                text(pod, "/metadata/namespace").to_owned(),
                text(pod, "/metadata/labels/app").to_owned(),
            ),
            addresses: addresses.filter_map(|it| text(it, "/ip").parse().ok()).collect(),
            node: text(pod, "/spec/nodeName").to_owned(),
            ports: containers
                .flat_map(|it| it["ports"].as_array().into_iter().flatten())
                .filter_map(port)
                .collect(),
            state: (!has_ended).then_some(state),
        }
    }

    /// The number that a port of a Service leads to.
    fn number(&self, port: &ServicePort) -> Option<u16> {
        let number = match &port.target_port {
            TargetPort::Number(0) => port.port,
            TargetPort::Number(number) => *number,
            TargetPort::Name(name) => {
                let is_it = |(held, protocol, _): &&ContainerPort| {
                    *held == **name && *protocol == *port.protocol
                };
                return self.ports.iter().find(is_it).map(|(_, _, number)| *number);
            }
        };
        number.try_into().ok()
    }
}

/// The pods that have an address, and since when they are as they are.
#[derive(Debug)]
struct Address {
    pods: BTreeSet<String>,
    since: Since,
}

#[derive(Debug, Default)]
pub(in super::super) struct Inputs {
    pods: BTreeMap<String, Pod>,
    pods_of: BTreeMap<App, BTreeSet<String>>,
    /// By namespace.
    addresses: BTreeMap<String, BTreeMap<IpAddr, Address>>,
    services: BTreeMap<String, (Service, Since)>,
    services_of: BTreeMap<App, BTreeSet<String>>,
    /// By Service and slice.
    slices: BTreeMap<String, BTreeMap<String, EndpointSlice>>,
    service_of: BTreeMap<String, String>,
    /// Their zones.
    nodes: BTreeMap<String, (String, Since)>,
    /// The Services that something other than a manager has changed since they were last judged, and when.
    changed: BTreeMap<String, Duration>,
    ever: Ever,
}

/// Everything that an address of a Service was ever made from; a restore of the server takes nothing away.
/// A process may see a selector and a label together that were never there at the same time.
#[derive(Debug, Default)]
struct Ever {
    selected: BTreeMap<String, BTreeSet<App>>,
    of_pods: BTreeMap<App, BTreeSet<IpAddr>>,
    /// What users have written into Endpoints and slices.
    of_users: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl Ever {
    fn write(&mut self, service: &str, addresses: impl IntoIterator<Item = IpAddr>) {
        self.of_users.entry(service.to_owned()).or_default().extend(addresses);
    }

    fn has(&self, service: &str, ip: IpAddr) -> bool {
        let of_pods = |app: &App| self.of_pods.get(app).is_some_and(|addresses| addresses.contains(&ip));
        self.selected.get(service).is_some_and(|apps| apps.iter().any(of_pods))
            || self.of_users.get(service).is_some_and(|addresses| addresses.contains(&ip))
    }
}

/// The pods that a Service selects.
fn app_of(service: &Service) -> Option<App> {
    let app = service.selector.as_ref()?.get("app")?;
    Some((service.key.namespace.to_string(), app.to_string()))
}

/// Without what changes nothing for clients.
fn reduced(service: Service) -> Service {
    Service {
        resource_version: ResourceVersion::default(),
        labels: StringMap::default(),
        annotations: StringMap::default(),
        traffic_distribution: None,
        ..service
    }
}

/// Namespace and name of the Service of a slice.
pub(super) fn service_of(slice: &EndpointSlice) -> String {
    let name = slice.metadata.labels.get("kubernetes.io/service-name").map_or("", |name| name);
    format!("{}/{name}", slice.metadata.namespace)
}

pub(super) fn addresses_of(slice: &EndpointSlice) -> impl Iterator<Item = IpAddr> {
    slice.endpoints.iter().filter_map(|endpoint| endpoint.addresses.first()?.parse().ok())
}

fn remove<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<String>>, of: &K, key: &str) {
    if let Some(set) = sets.get_mut(of) {
        set.remove(key);
        if set.is_empty() {
            sets.remove(of);
        }
    }
}

impl Inputs {
    /// Forgets all objects, because the server was set back.
    pub(in super::super) fn set_back(&mut self) {
        *self = Self { ever: std::mem::take(&mut self.ever), ..Self::default() };
    }

    /// Applies a change. `object` is none for a deletion, and `by_user` is true if no manager has made it.
    /// Returns the slice before, if it is one.
    pub(in super::super) fn apply(
        &mut self,
        plural: &str,
        key: &str,
        object: Option<&Value>,
        since: Since,
        by_user: bool,
    ) -> Option<EndpointSlice> {
        match plural {
            "pods" => self.apply_pod(key, object, since),
            "services" => self.apply_service(key, object, since),
            "endpoints" if by_user => {
                let written = object.map(Endpoints::of).unwrap_or_default();
                self.ever.write(key, written.addresses.iter().filter_map(|it| it.parse().ok()));
            }
            "nodes" => {
                self.apply_node(key, object, since);
                // The pods of a node may be published now.
                let all = self.services.keys().cloned();
                self.changed.extend(all.map(|service| (service, since.at)));
            }
            "endpointslices" => return self.apply_slice(key, object, since, by_user),
            _ => {}
        }
        None
    }

    fn apply_node(&mut self, key: &str, object: Option<&Value>, since: Since) {
        let Some(object) = object else {
            self.nodes.remove(key);
            return;
        };
        let zone = object["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().unwrap_or_default();
        let node = self.nodes.entry(key.to_owned()).or_insert_with(|| (String::new(), since));
        node.0 = zone.to_owned();
    }

    fn apply_pod(&mut self, key: &str, object: Option<&Value>, since: Since) {
        let new = object.map(Pod::of);
        if self.pods.get(key) == new.as_ref() {
            return;
        }
        let old = match new.clone() {
            Some(pod) => self.pods.insert(key.to_owned(), pod),
            None => self.pods.remove(key),
        };
        for (pod, is_new) in old.iter().map(|pod| (pod, false)).chain(new.iter().map(|pod| (pod, true))) {
            let of_namespace = self.addresses.entry(pod.app.0.clone()).or_default();
            for address in &pod.addresses {
                let address =
                    of_namespace.entry(*address).or_insert_with(|| Address { pods: BTreeSet::new(), since });
                address.since = since;
                if is_new { address.pods.insert(key.to_owned()) } else { address.pods.remove(key) };
            }
            if is_new {
                self.pods_of.entry(pod.app.clone()).or_default().insert(key.to_owned());
                self.ever.of_pods.entry(pod.app.clone()).or_default().extend(&pod.addresses);
            } else {
                remove(&mut self.pods_of, &pod.app, key);
            }
            let services = self.services_of.get(&pod.app).into_iter().flatten();
            self.changed.extend(services.map(|service| (service.clone(), since.at)));
        }
    }

    fn apply_service(&mut self, key: &str, object: Option<&Value>, since: Since) {
        let new = object.and_then(|object| Service::deserialize(object).ok()).map(reduced);
        if let Some(app) = self.services.get(key).and_then(|(old, _)| app_of(old)) {
            remove(&mut self.services_of, &app, key);
        }
        self.changed.insert(key.to_owned(), since.at);
        let Some(new) = new else {
            self.services.remove(key);
            return;
        };
        if let Some(app) = app_of(&new) {
            self.services_of.entry(app.clone()).or_default().insert(key.to_owned());
            self.ever.selected.entry(key.to_owned()).or_default().insert(app);
        }
        if self.services.get(key).is_none_or(|(old, _)| *old != new) {
            self.services.insert(key.to_owned(), (new, since));
        }
    }

    fn apply_slice(
        &mut self,
        key: &str,
        object: Option<&Value>,
        since: Since,
        by_user: bool,
    ) -> Option<EndpointSlice> {
        let service = self.service_of.remove(key);
        let before = service.as_ref().and_then(|service| self.slices.get_mut(service)?.remove(key));
        let after = object.and_then(|object| EndpointSlice::deserialize(object).ok());
        let Some(after) = after else {
            if let Some(service) = service.filter(|_| by_user) {
                self.changed.insert(service, since.at);
            }
            return before;
        };
        let service = service_of(&after);
        if by_user {
            self.ever.write(&service, addresses_of(&after));
            self.changed.insert(service.clone(), since.at);
        }
        self.service_of.insert(key.to_owned(), service.clone());
        self.slices.entry(service).or_default().insert(key.to_owned(), after);
        before
    }

    /// The Services that have been as they are since before `until`, and that were not judged since.
    pub(super) fn take_unchanged(&mut self, until: Duration) -> Vec<String> {
        let due = self.changed.iter().filter(|(_, at)| **at <= until);
        let due: Vec<String> = due.map(|(service, _)| service.clone()).collect();
        self.changed.retain(|_, at| *at > until);
        due
    }

    pub(super) fn is_known(&self, service: &str, ip: IpAddr) -> bool {
        self.ever.has(service, ip)
    }

    pub(super) fn slice(&self, key: &str) -> Option<&EndpointSlice> {
        self.slices.get(self.service_of.get(key)?)?.get(key)
    }

    /// The slices of a Service, by namespace and name.
    pub(super) fn slices(&self, service: &str) -> impl Iterator<Item = (&String, &EndpointSlice)> {
        self.slices.get(service).into_iter().flatten()
    }

    /// A Service, whatever is known of it.
    pub(super) fn any_service(&self, key: &str) -> Option<&Service> {
        self.services.get(key).map(|(service, _)| service)
    }

    /// A Service that is made from pods, if it is known as it is.
    pub(super) fn service(&self, key: &str, known: Horizon) -> Option<&Service> {
        let (service, since) = self.services.get(key)?;
        let is_known = known.holds(*since, |read| read.services);
        let is_made_from_pods = service.selects_pods() && service.deletion_timestamp.is_none();
        (is_known && is_made_from_pods).then_some(service)
    }

    /// What a Service owes to an address; none if that is not known, or if several pods have it.
    pub(super) fn claim(&self, service: &Service, ip: IpAddr, known: Horizon) -> Option<Claim> {
        let app = app_of(service)?;
        let Address { pods, since } = self.addresses.get(&app.0)?.get(&ip)?;
        if !known.holds(*since, |read| read.pods) {
            return None;
        }
        let mut pods = pods.iter().filter_map(|pod| self.pods.get(pod));
        let mut pods = pods.by_ref().filter(|pod| pod.app == app && pod.state.is_some());
        let (Some(pod), None) = (pods.next(), pods.next()) else { return None };
        let (_, node_since) = self.nodes.get(&pod.node)?;
        if !known.holds(*node_since, |read| read.nodes) {
            return None;
        }
        let state = if service.publish_not_ready_addresses { State::Ready } else { pod.state? };
        let ports = service.ports.iter().map(|port| pod.number(port)).collect();
        Some(Claim { state, node: pod.node.clone(), ports })
    }

    /// What a Service owes to these addresses.
    pub(super) fn claims(
        &self,
        service: &Service,
        addresses: impl IntoIterator<Item = IpAddr>,
        known: Horizon,
    ) -> Claims {
        let claims = addresses.into_iter().filter_map(|ip| Some((ip, self.claim(service, ip, known)?)));
        claims.collect()
    }

    /// The addresses of one family of the pods of a Service.
    pub(super) fn addresses(&self, service: &Service, family: IpFamily) -> Vec<IpAddr> {
        let pods = app_of(service).and_then(|app| self.pods_of.get(&app)).into_iter().flatten();
        let addresses = pods.filter_map(|pod| self.pods.get(pod)).flat_map(|pod| pod.addresses.iter().copied());
        addresses.filter(|it| it.is_ipv6() == (family == IpFamily::IPv6)).collect()
    }

    /// A client on no node, and those on each node, also as if the traffic policy was `Local`.
    pub(super) fn clients(&self) -> Vec<Client> {
        let of_nodes = self.nodes.iter().flat_map(|(node, (zone, _))| {
            [false, true].map(|local| Client { node: node.clone(), zone: zone.clone(), local })
        });
        [Client::default()].into_iter().chain(of_nodes).collect()
    }
}
