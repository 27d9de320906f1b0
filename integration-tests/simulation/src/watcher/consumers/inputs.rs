//! Keeps the objects of the server for the rules about clients, up to date from the store's
//! changes: the traffic that each Service owes to an address, and since when.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use kube_endpoint_core_model::{EndpointSlice, IpFamily, ResourceVersion, Service, StringMap};
use serde::Deserialize;
use serde_json::Value;

use super::super::positions::Position;
use super::super::world::{Endpoints, Since};
use super::ever::Ever;
use super::mirrored::Mirrored;
use super::pod::{App, Pod};
use super::rules::{Claim, Claims, Client, State};

/// The limit up to which inputs count as known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Horizon {
    /// The inputs that a process had surely read.
    Read(Position),
    /// The inputs that have not changed since then.
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

/// The pods that have an address, and the time of their last change.
#[derive(Debug)]
struct Address {
    pods: BTreeSet<String>,
    since: Since,
}

#[derive(Debug, Default)]
pub(in super::super) struct Inputs {
    pods: BTreeMap<String, Pod>,
    pods_of: BTreeMap<App, BTreeSet<String>>,
    /// The addresses by namespace.
    addresses: BTreeMap<String, BTreeMap<IpAddr, Address>>,
    services: BTreeMap<String, (Service, Since)>,
    services_of: BTreeMap<App, BTreeSet<String>>,
    endpoints: BTreeMap<String, (Mirrored, Since)>,
    /// The slices by Service and name.
    slices: BTreeMap<String, BTreeMap<String, EndpointSlice>>,
    service_of: BTreeMap<String, String>,
    nodes: BTreeMap<String, (String, Since)>,
    /// The Services that have changed since they were last judged, and when: at the last change
    /// that no manager made, or at the first write of a slice by one.
    changed: BTreeMap<String, Duration>,
    ever: Ever,
}

/// Returns the pods that a Service selects.
fn app_of(service: &Service) -> Option<App> {
    let app = service.selector.as_ref()?.get("app")?;
    Some((service.key.namespace.to_string(), app.to_string()))
}

/// Drops the fields that do not matter to clients.
fn reduced(service: Service) -> Service {
    Service {
        resource_version: ResourceVersion::default(),
        labels: StringMap::default(),
        annotations: StringMap::default(),
        traffic_distribution: None,
        ..service
    }
}

/// Returns namespace and name of the Service of a slice.
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
    /// Forgets all objects, because somebody restored the server.
    pub(in super::super) fn set_back(&mut self) {
        *self = Self { ever: std::mem::take(&mut self.ever), ..Self::default() };
    }

    /// Applies a change. `object` is `None` for a deletion, and `by_user` is true if no manager has
    /// made it. Returns the slice before the change, if it is a slice.
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
            "endpoints" => {
                self.apply_endpoints(key, object, since);
                if by_user {
                    let written = object.map(Endpoints::of).unwrap_or_default();
                    self.ever.written(key, written.addresses.iter().filter_map(|it| it.parse().ok()));
                    self.changed.insert(key.to_owned(), since.at);
                }
            }
            "nodes" => {
                self.apply_node(key, object, since);
                // Controllers may publish the pods of a node now.
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

    fn apply_endpoints(&mut self, key: &str, object: Option<&Value>, since: Since) {
        let Some(new) = object.map(Mirrored::of) else {
            self.endpoints.remove(key);
            return;
        };
        if self.endpoints.get(key).is_none_or(|(old, _)| *old != new) {
            self.endpoints.insert(key.to_owned(), (new, since));
        }
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
                if is_new {
                    address.pods.insert(key.to_owned())
                } else {
                    address.pods.remove(key)
                };
            }
            if is_new {
                self.pods_of.entry(pod.app.clone()).or_default().insert(key.to_owned());
                self.ever.has_pod(pod);
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
            self.ever.selects(key, app);
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
            if let Some(service) = service {
                self.slice_changed(service, since, by_user);
            }
            return before;
        };
        let service = service_of(&after);
        if by_user {
            self.ever.written(&service, addresses_of(&after));
        }
        self.slice_changed(service.clone(), since, by_user);
        self.service_of.insert(key.to_owned(), service.clone());
        self.slices.entry(service).or_default().insert(key.to_owned(), after);
        before
    }

    fn slice_changed(&mut self, service: String, since: Since, by_user: bool) {
        // A manager that writes again and again does not put the judgement off.
        let at = self.changed.entry(service).or_insert(since.at);
        if by_user {
            *at = since.at;
        }
    }

    /// Takes the Services that have not changed since before `until`, and that nobody has judged
    /// since.
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

    /// Returns the slices of a Service, by namespace and name.
    pub(super) fn slices(&self, service: &str) -> impl Iterator<Item = (&String, &EndpointSlice)> {
        self.slices.get(service).into_iter().flatten()
    }

    /// Returns a Service, even if it is not known.
    pub(super) fn any_service(&self, key: &str) -> Option<&Service> {
        self.services.get(key).map(|(service, _)| service)
    }

    /// Returns a Service, if its present state is known.
    pub(super) fn service(&self, key: &str, known: Horizon) -> Option<&Service> {
        let (service, since) = self.services.get(key)?;
        let is_known = known.holds(*since, |read| read.services);
        (is_known && service.deletion_timestamp.is_none()).then_some(service)
    }

    /// Returns what a Service owes to an address, or `None` if that is not known or several pods
    /// have it.
    pub(super) fn claim(&self, service: &Service, ip: IpAddr, known: Horizon) -> Option<Claim> {
        let Some(app) = app_of(service) else {
            let (mirrored, since) = self.mirrored(service)?;
            let is_known = known.holds(*since, |read| read.endpoints);
            return mirrored.claim(service, ip).filter(|_| is_known);
        };
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

    /// Returns what a Service owes to these addresses.
    pub(super) fn claims(
        &self,
        service: &Service,
        addresses: impl IntoIterator<Item = IpAddr>,
        known: Horizon,
    ) -> Claims {
        let claims = addresses.into_iter().filter_map(|ip| Some((ip, self.claim(service, ip, known)?)));
        claims.collect()
    }

    fn mirrored(&self, service: &Service) -> Option<&(Mirrored, Since)> {
        self.endpoints.get(&format!("{}/{}", service.key.namespace, service.key.name))
    }

    /// Returns the addresses of one family of the pods of a Service, or of its Endpoints.
    pub(super) fn addresses(&self, service: &Service, family: IpFamily) -> Vec<IpAddr> {
        let pods = app_of(service).and_then(|app| self.pods_of.get(&app)).into_iter().flatten();
        let of_pods = pods.filter_map(|pod| self.pods.get(pod)).flat_map(|pod| &pod.addresses);
        let mirrored = self.mirrored(service).filter(|_| service.selector.is_none());
        let mirrored = mirrored.into_iter().flat_map(|(mirrored, _)| mirrored.addresses());
        let all = of_pods.chain(mirrored).copied();
        all.filter(|it| it.is_ipv6() == (family == IpFamily::IPv6)).collect()
    }

    /// Returns a client on no node, and the clients on each node, also as if the traffic policy was
    /// `Local`.
    pub(super) fn clients(&self) -> Vec<Client> {
        let of_nodes = self.nodes.iter().flat_map(|(node, (zone, _))| {
            [false, true].map(|local| Client { node: node.clone(), zone: zone.clone(), local })
        });
        [Client::default()].into_iter().chain(of_nodes).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL: Horizon = Horizon::Until(Duration::MAX);

    fn at(second: u64) -> Since {
        Since { version: second, at: Duration::from_secs(second) }
    }

    fn pod(app: &str, address: &str, ready: &str) -> Value {
        json!({
            "metadata": {"namespace": "n", "labels": {"app": app}},
            "spec": {"nodeName": "n0", "containers": [{"ports": [{"name": "web", "containerPort": 8080}]}]},
            "status": {"podIPs": [{"ip": address}], "conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    fn service(app: &str, unready: bool) -> Value {
        json!({
            "metadata": {"name": "s", "namespace": "n"},
            "spec": {
                "selector": {"app": app}, "clusterIP": "10.96.0.1", "publishNotReadyAddresses": unready,
                "ports": [
                    {"name": "web", "port": 80, "targetPort": "web", "protocol": "TCP"},
                    {"name": "dns", "port": 53, "targetPort": "web", "protocol": "UDP"},
                    {"name": "raw", "port": 81, "targetPort": 81, "protocol": "TCP"},
                ],
            },
        })
    }

    /// Returns a Service and a node, and the pods with these names.
    fn inputs(pods: &[(&str, Value)]) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.apply("services", "n/s", Some(&service("a", false)), at(1), true);
        inputs.apply("nodes", "n0", Some(&json!({})), at(1), true);
        for (name, pod) in pods {
            inputs.apply("pods", name, Some(pod), at(2), true);
        }
        inputs
    }

    fn claim(inputs: &Inputs, known: Horizon) -> Option<Claim> {
        let service = inputs.service("n/s", known)?;
        inputs.claim(service, "10.0.0.1".parse().unwrap(), known)
    }

    #[test]
    fn a_claim_has_the_state_of_the_pod_and_the_numbers_of_the_ports() {
        let mut inputs = inputs(&[("n/p", pod("a", "10.0.0.1", "True"))]);
        let ports = vec![Some(8080), None, Some(81)];
        let want = Claim { state: State::Ready, node: "n0".to_owned(), ports };
        assert_eq!(claim(&inputs, ALL), Some(want.clone()));
        let mut change = |edit: &dyn Fn(&mut Value), state: Option<State>| {
            let mut changed = pod("a", "10.0.0.1", "True");
            edit(&mut changed);
            inputs.apply("pods", "n/p", Some(&changed), at(3), true);
            assert_eq!(claim(&inputs, ALL).map(|claim| claim.state), state, "{changed}");
        };
        let ends = |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        change(&ends, Some(State::Serving));
        change(&|pod| pod["status"]["conditions"][0]["status"] = "False".into(), Some(State::NotReady));
        change(&|pod| pod["status"]["phase"] = "Failed".into(), None);
        change(&|pod| pod["metadata"]["labels"]["app"] = "b".into(), None);
        change(&|pod| pod["spec"]["nodeName"] = "unknown".into(), None);
        inputs.apply("services", "n/s", Some(&service("a", true)), at(4), true);
        inputs.apply("pods", "n/p", Some(&pod("a", "10.0.0.1", "False")), at(4), true);
        assert_eq!(claim(&inputs, ALL), Some(want), "the Service publishes what is not ready");
    }

    #[test]
    fn nothing_is_claimed_for_what_has_changed_or_is_shared() {
        let ready = || pod("a", "10.0.0.1", "True");
        let mut inputs = inputs(&[("n/p", ready())]);
        let until = |second: u64| Horizon::Until(Duration::from_secs(second));
        assert!(claim(&inputs, until(1)).is_none() && claim(&inputs, until(2)).is_some());
        inputs.apply("pods", "n/p", Some(&ready()), at(5), true);
        assert!(claim(&inputs, until(2)).is_some(), "nothing has changed");
        inputs.apply("pods", "n/q", Some(&ready()), at(6), true);
        assert!(claim(&inputs, ALL).is_none(), "two pods have the address");
        inputs.apply("pods", "n/q", None, at(7), true);
        assert!(claim(&inputs, until(6)).is_none() && claim(&inputs, until(7)).is_some());
        let read = Position { pods: 7, services: 1, nodes: 1, endpoints: 0, selectors: 0 };
        assert!(claim(&inputs, Horizon::Read(read)).is_some());
        for behind in
            [Position { pods: 6, ..read }, Position { services: 0, ..read }, Position { nodes: 0, ..read }]
        {
            assert!(claim(&inputs, Horizon::Read(behind)).is_none(), "{behind:?}");
        }
    }

    #[test]
    fn an_address_that_was_once_the_services_is_known_for_ever() {
        let ip = |text: &str| text.parse().unwrap();
        let mut inputs =
            inputs(&[("n/p", pod("a", "10.0.0.1", "True")), ("n/q", pod("b", "10.0.0.2", "True"))]);
        inputs.apply("pods", "n/p", None, at(3), true);
        inputs.set_back();
        assert!(inputs.is_known("n/s", ip("10.0.0.1")) && !inputs.is_known("n/s", ip("10.0.0.2")));
        inputs.apply("services", "n/s", Some(&service("b", false)), at(4), true);
        assert!(inputs.is_known("n/s", ip("10.0.0.2")), "a process may still see the pod");
        let endpoints = json!({"subsets": [{"addresses": [{"ip": "192.0.2.1"}]}]});
        inputs.apply("endpoints", "n/s", Some(&endpoints), at(5), false);
        assert!(!inputs.is_known("n/s", ip("192.0.2.1")), "a manager wrote them");
        inputs.apply("endpoints", "n/s", Some(&endpoints), at(6), true);
        assert!(inputs.is_known("n/s", ip("192.0.2.1")));
        let slice = |address: &str| {
            json!({
                "metadata": {"name": "s-1", "namespace": "n", "labels": {"kubernetes.io/service-name": "s"}},
                "addressType": "IPv4", "endpoints": [{"addresses": [address]}],
            })
        };
        inputs.apply("endpointslices", "n/s-1", Some(&slice("192.0.2.2")), at(7), false);
        assert!(!inputs.is_known("n/s", ip("192.0.2.2")));
        let before = inputs.apply("endpointslices", "n/s-1", Some(&slice("192.0.2.3")), at(8), true);
        assert!(before.is_some_and(|before| before.endpoints[0].addresses[0] == *"192.0.2.2"));
        assert!(inputs.is_known("n/s", ip("192.0.2.3")));
    }

    #[test]
    fn a_service_is_judged_once_after_each_change_that_no_manager_makes() {
        let until = Duration::from_secs;
        let mut inputs = inputs(&[("n/p", pod("a", "10.0.0.1", "True"))]);
        assert!(inputs.take_unchanged(until(1)).is_empty());
        assert_eq!(inputs.take_unchanged(until(2)), ["n/s"]);
        assert!(inputs.take_unchanged(until(3)).is_empty());
        inputs.apply("pods", "n/p", Some(&pod("a", "10.0.0.1", "False")), at(4), true);
        assert_eq!(inputs.take_unchanged(until(4)), ["n/s"]);
        inputs.apply("pods", "n/p", Some(&pod("a", "10.0.0.1", "False")), at(5), true);
        assert!(inputs.take_unchanged(until(5)).is_empty());
    }
}
