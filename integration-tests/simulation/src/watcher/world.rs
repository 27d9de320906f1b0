//! Keeps the objects of the server for the rules, up to date from the store's changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::text;
use crate::objects::RETIREMENT;

/// The `managed-by` label of slices made from pods.
pub(crate) const FROM_PODS: &str = "endpointslice-controller.k8s.io";
/// The `managed-by` label of mirrored slices.
pub(crate) const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Returns the value of the label of a slice that names its manager.
pub(crate) fn managed_by(slice: &Value) -> &str {
    slice["metadata"]["labels"][MANAGED_BY].as_str().unwrap_or_default()
}

/// Returns namespace and name of the Service of a slice.
pub(crate) fn service_of(slice: &Value) -> String {
    let name = slice["metadata"]["labels"][SERVICE_NAME].as_str().unwrap_or_default();
    format!("{}/{name}", text(slice, "/metadata/namespace"))
}

/// The time and the version of the last change of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    pub(crate) version: u64,
    pub(crate) at: Duration,
}

/// The fields that decide if and where a pod is published.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    pub(crate) app: String,
    /// Ready, not terminating and not finished.
    pub(crate) is_ready: bool,
    pub(crate) is_finished: bool,
    pub(crate) node: String,
    pub(crate) addresses: Vec<String>,
    /// The names of the TCP ports of its containers.
    pub(crate) ports: Vec<String>,
}

/// The fields that decide which pods a Service publishes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Service {
    pub(crate) uid: String,
    /// The value in its selector, or `None` without a selector.
    pub(crate) app: Option<String>,
    pub(crate) families: Value,
    pub(crate) is_deleting: bool,
    /// The annotation that says if it has Endpoints.
    pub(crate) retirement: String,
}

/// The parts of Endpoints that mirroring and the rules need.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Endpoints {
    pub(crate) addresses: Vec<String>,
    /// True if the controller may mirror them.
    pub(crate) is_mirrorable: bool,
    /// True if the endpoints controller has written them.
    pub(crate) is_managed: bool,
}

/// An endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: String,
    /// Namespace and name of the pod.
    pub(crate) pod: Option<String>,
    pub(crate) uid: String,
    pub(crate) is_ready: bool,
}

/// An EndpointSlice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    /// Namespace and name.
    pub(crate) service: String,
    pub(crate) family: String,
    pub(crate) managed_by: String,
    pub(crate) ports: String,
    /// The uid of its first owner.
    pub(crate) owner: String,
    pub(crate) endpoints: Vec<Endpoint>,
}

impl Pod {
    pub(crate) fn of(pod: &Value) -> Self {
        let ready = pod["status"]["conditions"].as_array().into_iter().flatten();
        let ready = ready.filter(|condition| condition["type"] == "Ready").any(|it| it["status"] == "True");
        let finished = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        let addresses = pod["status"]["podIPs"].as_array().into_iter().flatten();
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let ports = containers.flat_map(|it| it["ports"].as_array().into_iter().flatten());
        let ports = ports.filter(|port| port["protocol"].as_str().is_none_or(|protocol| protocol == "TCP"));
        Self {
            uid: text(pod, "/metadata/uid").to_owned(),
            app: text(pod, "/metadata/labels/app").to_owned(),
            is_ready: ready && !finished && pod["metadata"]["deletionTimestamp"].is_null(),
            is_finished: finished,
            node: text(pod, "/spec/nodeName").to_owned(),
            addresses: addresses.map(|it| text(it, "/ip").to_owned()).collect(),
            ports: ports.map(|it| text(it, "/name").to_owned()).collect(),
        }
    }
}

impl Service {
    pub(crate) fn of(service: &Value) -> Self {
        Self {
            uid: text(service, "/metadata/uid").to_owned(),
            app: service["spec"]["selector"]["app"].as_str().map(str::to_owned),
            families: service["spec"]["ipFamilies"].clone(),
            is_deleting: !service["metadata"]["deletionTimestamp"].is_null(),
            retirement: service["metadata"]["annotations"][RETIREMENT]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}

/// Returns the names of the container ports behind a Service's ports, or `None` for a port with a
/// number.
fn target_ports(service: &Value) -> Vec<Option<String>> {
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports.map(|port| port["targetPort"].as_str().map(str::to_owned)).collect()
}

/// Returns an address as slices have it. Users write others: `2001:db8::0`.
fn canonical(address: &str) -> String {
    address.parse().map_or_else(|_| address.to_owned(), |address: IpAddr| address.to_string())
}

impl Endpoints {
    pub(crate) fn of(endpoints: &Value) -> Self {
        let subsets = endpoints["subsets"].as_array().into_iter().flatten();
        let lists = subsets.flat_map(|it| [&it["addresses"], &it["notReadyAddresses"]]);
        let addresses = lists.flat_map(|list| list.as_array().into_iter().flatten());
        let metadata = &endpoints["metadata"];
        Self {
            addresses: addresses.map(|it| canonical(text(it, "/ip"))).collect(),
            is_mirrorable: metadata["labels"]["endpointslice.kubernetes.io/skip-mirror"] != "true"
                && metadata["deletionTimestamp"].is_null(),
            is_managed: metadata["labels"]["endpoints.kubernetes.io/managed-by"] == "endpoint-controller",
        }
    }
}

impl Slice {
    pub(crate) fn of(slice: &Value) -> Self {
        let endpoint = |endpoint: &Value| Endpoint {
            address: text(endpoint, "/addresses/0").to_owned(),
            pod: endpoint["targetRef"]["name"]
                .as_str()
                .map(|name| format!("{}/{name}", text(endpoint, "/targetRef/namespace"))),
            uid: text(endpoint, "/targetRef/uid").to_owned(),
            is_ready: endpoint["conditions"]["ready"].as_bool().unwrap_or(true),
        };
        Self {
            service: service_of(slice),
            family: text(slice, "/addressType").to_owned(),
            managed_by: managed_by(slice).to_owned(),
            ports: slice["ports"].to_string(),
            owner: text(slice, "/metadata/ownerReferences/0/uid").to_owned(),
            endpoints: slice["endpoints"].as_array().into_iter().flatten().map(endpoint).collect(),
        }
    }

    /// Returns the slices among which an endpoint occurs once.
    fn group(&self) -> (&str, &str, &str, &str) {
        // An address may occur in several subsets of Endpoints with different ports; a pod has one
        // set of ports.
        let ports = if self.managed_by == MIRRORED { self.ports.as_str() } else { "" };
        (&self.service, &self.family, &self.managed_by, ports)
    }
}

/// The objects of a server, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) pods: BTreeMap<String, (Pod, Since)>,
    pub(crate) services: BTreeMap<String, (Service, Since)>,
    pub(crate) nodes: BTreeMap<String, Since>,
    pub(crate) slices: BTreeMap<String, Slice>,
    /// The versions of the last changes of a slice and of a Service.
    pub(crate) last_slice: u64,
    pub(crate) last_service: u64,
    pub(crate) endpoints: BTreeMap<String, (Endpoints, Since)>,
    /// The target ports of each Service: those of [`target_ports`].
    pub(crate) target_ports: BTreeMap<String, (Vec<Option<String>>, Since)>,
    /// Pods and Services that do not exist any more, and since when.
    pub(crate) gone_pods: BTreeMap<String, Since>,
    pub(crate) gone_services: BTreeMap<String, Since>,
    /// True if Services of the namespace `team` have no Endpoints unless they say otherwise.
    retires_team: bool,
    slices_of: BTreeMap<String, BTreeSet<String>>,
}

fn put<T: PartialEq>(objects: &mut BTreeMap<String, (T, Since)>, key: &str, object: T, since: Since) {
    match objects.get_mut(key) {
        Some((before, _)) if *before == object => {}
        Some(entry) => *entry = (object, since),
        None => drop(objects.insert(key.to_owned(), (object, since))),
    }
}

impl World {
    /// Creates a world without objects.
    pub(crate) fn new(retires_team: bool) -> Self {
        Self { retires_team, ..Self::default() }
    }

    /// Returns a world without objects in which the same is retired.
    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.retires_team)
    }

    /// Returns true if a Service is to have no Endpoints, or was until a rehearsal ended.
    pub(crate) fn is_retired(&self, key: &str, service: &Service) -> bool {
        let setting = &service.retirement;
        setting == "retired"
            || setting.starts_with("retired-until=")
            || self.retires_team && key.starts_with("team/") && setting != "published"
    }

    /// Applies a change. `object` is `None` for a deletion.
    pub(crate) fn apply(&mut self, plural: &str, key: &str, object: Option<&Value>, since: Since) {
        match (plural, object) {
            ("pods", Some(object)) => {
                self.gone_pods.remove(key);
                put(&mut self.pods, key, Pod::of(object), since);
            }
            ("pods", None) => {
                self.pods.remove(key);
                self.gone_pods.insert(key.to_owned(), since);
            }
            ("services", Some(object)) => {
                self.last_service = since.version;
                self.gone_services.remove(key);
                put(&mut self.target_ports, key, target_ports(object), since);
                put(&mut self.services, key, Service::of(object), since);
            }
            ("services", None) => {
                self.last_service = since.version;
                self.services.remove(key);
                self.target_ports.remove(key);
                self.gone_services.insert(key.to_owned(), since);
            }
            ("nodes", Some(_)) => drop(self.nodes.entry(key.to_owned()).or_insert(since)),
            ("nodes", None) => drop(self.nodes.remove(key)),
            ("endpoints", Some(object)) => put(&mut self.endpoints, key, Endpoints::of(object), since),
            ("endpoints", None) => drop(self.endpoints.remove(key)),
            ("endpointslices", object) => {
                self.last_slice = since.version;
                if let Some(before) = self.slices.remove(key)
                    && let Some(slices) = self.slices_of.get_mut(&before.service)
                {
                    slices.remove(key);
                    if slices.is_empty() {
                        self.slices_of.remove(&before.service);
                    }
                }
                if let Some(object) = object {
                    let slice = Slice::of(object);
                    self.slices_of.entry(slice.service.clone()).or_default().insert(key.to_owned());
                    self.slices.insert(key.to_owned(), slice);
                }
            }
            _ => {}
        }
    }

    /// Returns the number of Services and Endpoints. Controllers keep state for each.
    pub(crate) fn owners(&self) -> usize {
        let endpoints = self.endpoints.keys().filter(|key| !self.services.contains_key(*key)).count();
        self.services.len() + endpoints
    }

    /// Returns the slices of a Service.
    pub(crate) fn slices_of(&self, service: &str) -> impl Iterator<Item = &Slice> {
        let keys = self.slices_of.get(service).into_iter().flatten();
        keys.filter_map(|key| self.slices.get(key))
    }

    /// Returns the number of slices in a namespace.
    pub(crate) fn slices_in(&self, namespace: &str) -> usize {
        let prefix = format!("{namespace}/");
        self.slices.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix)).count()
    }

    /// Returns the faults of a Service's slices, if the inputs have not changed since `until`: pods
    /// that are ready on a known node and not published, and pods that have ended and are
    /// published.
    pub(crate) fn wrongly_published(&self, key: &str, until: Duration) -> Vec<String> {
        let Some((service, since)) = self.services.get(key) else { return Vec::new() };
        let (Some(app), Some((namespace, _))) = (&service.app, key.split_once('/')) else {
            return Vec::new();
        };
        if service.is_deleting || since.at > until {
            return Vec::new();
        }
        let slices: Vec<&Slice> = self.slices_of(key).filter(|slice| slice.managed_by == FROM_PODS).collect();
        let prefix = format!("{namespace}/");
        let pods = self.pods.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        let mut found = Vec::new();
        for (name, (pod, _)) in pods.filter(|(_, (pod, since))| pod.app == *app && since.at <= until) {
            let is_known = self.nodes.get(&pod.node).is_some_and(|since| since.at <= until);
            let publishes = |family: &str, ready_only: bool| {
                let of_family = slices.iter().filter(|slice| slice.family == family);
                let mut endpoints = of_family.flat_map(|slice| &slice.endpoints);
                endpoints.any(|it| it.uid == pod.uid && (it.is_ready || !ready_only))
            };
            for family in service.families.as_array().into_iter().flatten().filter_map(Value::as_str) {
                if pod.is_ready && is_known && !publishes(family, true) {
                    found.push(format!("{name} is ready and in no {family} slice of {key}"));
                }
                if pod.is_finished && publishes(family, false) {
                    found.push(format!("{name} has ended and is in a slice of {key}"));
                }
            }
        }
        found
    }

    /// Returns a slice made from pods whose owner is not its present Service. As upstream, the
    /// controller keeps a placeholder, which has no endpoints, whoever owns it.
    pub(crate) fn foreign_owner(&self) -> Option<String> {
        let wrong = |(key, slice): (&String, &Slice)| {
            let (service, _) = self.services.get(&slice.service)?;
            let is_wrong = slice.managed_by == FROM_PODS
                && !slice.endpoints.is_empty()
                && service.app.is_some()
                && !service.is_deleting
                && slice.owner != service.uid;
            is_wrong.then(|| format!("{key} is owned by {:?} and not by {}", slice.owner, service.uid))
        };
        self.slices.iter().find_map(wrong)
    }

    /// Returns the endpoints that occur twice among the slices of a group that a controller of ours
    /// manages. Slices made from pods for a Service that has lost its selector are exempt: no
    /// controller writes them any more.
    pub(crate) fn duplicates(&self) -> Vec<String> {
        let mut seen = BTreeMap::new();
        let mut found = Vec::new();
        for (key, slice) in &self.slices {
            let has_selector =
                || self.services.get(&slice.service).is_none_or(|(service, _)| service.app.is_some());
            if slice.managed_by != MIRRORED && !(slice.managed_by == FROM_PODS && has_selector()) {
                continue;
            }
            for endpoint in &slice.endpoints {
                let identity = (slice.group(), endpoint.address.as_str(), endpoint.uid.as_str());
                if let Some(other) = seen.insert(identity, key) {
                    found.push(format!(
                        "{} of {} is in {other} and in {key}",
                        endpoint.address, slice.service
                    ));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(name: &str, manager: &str, port: u16, addresses: &[&str]) -> (String, Value) {
        let endpoints: Vec<Value> = addresses.iter().map(|it| json!({"addresses": [it]})).collect();
        let slice = json!({
            "metadata": {"name": name, "namespace": "default",
                "labels": {SERVICE_NAME: "s0", MANAGED_BY: manager}},
            "addressType": "IPv4", "ports": [{"port": port}], "endpoints": endpoints,
        });
        (format!("default/{name}"), slice)
    }

    #[track_caller]
    fn check(slices: &[(String, Value)], want: &[&str]) {
        let mut world = World::default();
        for (key, slice) in slices {
            world.apply("endpointslices", key, Some(slice), Since { version: 1, at: Duration::ZERO });
        }
        assert_eq!(world.duplicates(), want);
    }

    #[test]
    fn an_endpoint_in_two_slices_of_a_group_is_found() {
        let found = ["10.0.0.1 of default/s0 is in default/a and in default/b"];
        check(&[slice("a", FROM_PODS, 1, &["10.0.0.1"]), slice("b", FROM_PODS, 1, &["10.0.0.1"])], &found);
        check(&[slice("a", FROM_PODS, 1, &["10.0.0.1"]), slice("b", FROM_PODS, 2, &["10.0.0.1"])], &found);
        check(&[slice("a", MIRRORED, 1, &["10.0.0.1"]), slice("b", MIRRORED, 1, &["10.0.0.1"])], &found);
    }

    #[test]
    fn slices_without_a_ready_pod_or_with_one_that_has_ended_are_found() {
        let at = Duration::from_secs(10);
        let check = |pod: Value, is_published: bool, until: u64, want: &[&str]| {
            let mut world = World::default();
            let since = Since { version: 1, at };
            let service = json!({"spec": {"selector": {"app": "a0"}, "ipFamilies": ["IPv4"]}});
            world.apply("services", "default/s0", Some(&service), since);
            world.apply("nodes", "n0", Some(&Value::Null), since);
            world.apply("pods", "default/p", Some(&pod), since);
            let (key, mut made) = slice("a", FROM_PODS, 1, &["10.0.0.1"]);
            made["endpoints"][0]["targetRef"] = json!({"name": "p", "namespace": "default", "uid": "u"});
            if is_published {
                world.apply("endpointslices", &key, Some(&made), since);
            }
            assert_eq!(world.wrongly_published("default/s0", Duration::from_secs(until)), want, "{pod}");
        };
        let pod = |app: &str, node: &str, phase: &str| {
            json!({
                "metadata": {"uid": "u", "labels": {"app": app}}, "spec": {"nodeName": node},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
            })
        };
        let missing = "default/p is ready and in no IPv4 slice of default/s0";
        check(pod("a0", "n0", "Running"), false, 10, &[missing]);
        check(pod("a0", "n0", "Running"), false, 9, &[]);
        check(pod("a0", "n0", "Running"), true, 10, &[]);
        check(pod("a1", "n0", "Running"), false, 10, &[]);
        check(pod("a0", "n1", "Running"), false, 10, &[]);
        check(pod("a0", "n0", "Failed"), true, 10, &["default/p has ended and is in a slice of default/s0"]);
        check(pod("a0", "n0", "Failed"), false, 10, &[]);
    }

    #[test]
    fn endpoints_of_different_groups_are_no_duplicates() {
        check(&[slice("a", FROM_PODS, 1, &["10.0.0.1"]), slice("b", FROM_PODS, 1, &["10.0.0.2"])], &[]);
        check(&[slice("a", FROM_PODS, 1, &["10.0.0.1"]), slice("b", MIRRORED, 1, &["10.0.0.1"])], &[]);
        check(&[slice("a", MIRRORED, 1, &["10.0.0.1"]), slice("b", MIRRORED, 2, &["10.0.0.1"])], &[]);
        check(&[slice("a", "another", 1, &["10.0.0.1"]), slice("b", "another", 1, &["10.0.0.1"])], &[]);
    }

    #[test]
    fn something_is_as_it_is_since_it_last_changed() {
        let mut world = World::default();
        let pod = |ready: &str| json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}});
        for (version, ready) in [(1, "True"), (2, "True"), (3, "False"), (4, "False")] {
            world.apply("pods", "default/p", Some(&pod(ready)), Since { version, at: Duration::ZERO });
        }
        assert_eq!(world.pods["default/p"].1.version, 3);
    }
}
