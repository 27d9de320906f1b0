//! The objects of a small world.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use kube_endpoint_core_model::well_known::{
    ENDPOINTSLICE_CONTROLLER, LABEL_HEADLESS, LABEL_MANAGED_BY, LABEL_SERVICE_NAME,
};
use kube_endpoint_core_model::{AddressType, EndpointSlice, IpFamily, Node, Pod, Service, Text};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Edit, Families, MOST_PODS, Place, PodInWorld, PodState, World};

/// The number of the port of each pod.
pub(super) const PORT: u16 = 8080;
/// The node that exists, and its zone.
pub(super) const NODE: &str = "n0";
pub(super) const ZONE: &str = "z0";

fn read<T: DeserializeOwned>(value: Value) -> T {
    match serde_json::from_value(value) {
        Ok(object) => object,
        Err(error) => panic!("{error}"),
    }
}

/// The nodes that exist.
pub(super) static NODES: LazyLock<BTreeMap<Text, Arc<Node>>> = LazyLock::new(|| {
    let node = json!({
        "metadata": {"name": NODE, "labels": {"topology.kubernetes.io/zone": ZONE}},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    BTreeMap::from([(NODE.into(), Arc::new(read(node)))])
});

/// The pods by number, state and node.
static PODS: LazyLock<Vec<Arc<Pod>>> = LazyLock::new(|| {
    let mut pods = Vec::new();
    for number in 0..MOST_PODS {
        for state in PodState::ALL {
            for node_exists in [false, true] {
                pods.push(Arc::new(read(pod(number, *state, node_exists))));
            }
        }
    }
    pods
});

/// The Services by families.
static SERVICES: LazyLock<Vec<Service>> =
    LazyLock::new(|| Families::ALL.iter().map(|families| read(service(*families))).collect());

pub(super) fn families_of(families: Families) -> &'static [IpFamily] {
    match families {
        Families::V4 => &[IpFamily::IPv4],
        Families::V6 => &[IpFamily::IPv6],
        Families::Both => &[IpFamily::IPv4, IpFamily::IPv6],
    }
}

/// Returns the address of a pod.
pub(super) fn address(number: usize, family: IpFamily) -> String {
    match family {
        IpFamily::IPv4 => format!("10.1.0.{}", number + 1),
        IpFamily::IPv6 => format!("fd00::{}", number + 1),
    }
}

fn stranger(family: IpFamily) -> &'static str {
    match family {
        IpFamily::IPv4 => "10.9.9.9",
        IpFamily::IPv6 => "fd99::9",
    }
}

fn service(families: Families) -> Value {
    let all = families_of(families);
    let ips: Vec<&str> = all
        .iter()
        .map(|family| if *family == IpFamily::IPv4 { "10.96.0.10" } else { "fd00:10:96::10" })
        .collect();
    json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1"},
        "spec": {"selector": {"app": "web"}, "clusterIP": ips[0], "clusterIPs": ips,
            "ipFamilies": all.iter().map(|it| if *it == IpFamily::IPv4 { "IPv4" } else { "IPv6" }).collect::<Vec<_>>(),
            "ports": [{"name": "", "port": 80, "targetPort": PORT, "protocol": "TCP"}]},
    })
}

fn pod(number: usize, state: PodState, node_exists: bool) -> Value {
    let is_ready = matches!(state, PodState::Ready | PodState::Terminating);
    let ips: Vec<Value> =
        [IpFamily::IPv4, IpFamily::IPv6].map(|family| json!({"ip": address(number, family)})).to_vec();
    json!({
        "metadata": {"name": format!("p{number}"), "namespace": "shop", "uid": format!("p{number}"),
            "labels": {"app": "web"}, "resourceVersion": "1",
            "deletionTimestamp": (state == PodState::Terminating).then_some("2026-01-01T00:00:00Z")},
        "spec": {"nodeName": if node_exists { NODE } else { "missing" }},
        "status": {"phase": if state == PodState::Failed { "Failed" } else { "Running" },
            "podIP": ips[0]["ip"], "podIPs": ips,
            "conditions": [{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]},
    })
}

/// Returns the conditions `ready`, `serving` and `terminating` of a pod that a slice lists. Those
/// of a pod that none lists are those that it had before it was gone.
fn conditions(pod: &PodInWorld) -> [bool; 3] {
    let right = match pod.state {
        PodState::Ready | PodState::Absent | PodState::Failed => [true, true, false],
        PodState::Unready => [false, false, false],
        PodState::Terminating => [false, true, true],
    };
    match (pod.is_stale, right) {
        (false, right) => right,
        (true, [true, ..]) => [false, false, false],
        (true, _) => [true, true, false],
    }
}

impl World {
    pub(super) fn service(&self) -> &'static Service {
        let position = Families::ALL.iter().position(|families| *families == self.families);
        &SERVICES[position.unwrap_or_default()]
    }

    /// Returns the pods that exist, sorted by name.
    pub(super) fn existing_pods(&self) -> Vec<Arc<Pod>> {
        let existing = self.pods.iter().enumerate().filter(|(_, pod)| pod.state != PodState::Absent);
        let of_table = |(number, pod): (usize, &PodInWorld)| {
            let state = PodState::ALL.iter().position(|state| *state == pod.state).unwrap_or_default();
            let position = (number * PodState::ALL.len() + state) * 2 + usize::from(pod.node_exists);
            Arc::clone(&PODS[position])
        };
        existing.map(of_table).collect()
    }

    /// Returns the slices before the sync.
    pub(super) fn slices(&self) -> Vec<Arc<EndpointSlice>> {
        let mut slices = Vec::new();
        for family in families_of(self.families) {
            let mut is_first = true;
            for (name, place) in [("a", Place::First), ("b", Place::Second)] {
                let edit = if is_first { self.edit } else { Edit::None };
                if let Some(slice) = self.slice(name, place, *family, edit) {
                    slices.push(Arc::new(slice));
                    is_first = false;
                }
            }
        }
        slices
    }

    fn slice(&self, name: &str, place: Place, family: IpFamily, edit: Edit) -> Option<EndpointSlice> {
        let listed = self.pods.iter().enumerate();
        let mut endpoints: Vec<Value> = listed
            .filter(|(_, pod)| pod.place == place || pod.place == Place::Both)
            .map(|(number, pod)| {
                let [ready, serving, terminating] = conditions(pod);
                json!({
                    "addresses": [address(number, family)],
                    "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                    "nodeName": if pod.node_exists { NODE } else { "missing" },
                    "zone": pod.node_exists.then_some(ZONE),
                    "targetRef": {"kind": "Pod", "namespace": "shop", "name": format!("p{number}"),
                        "uid": format!("p{number}")},
                })
            })
            .collect();
        if endpoints.is_empty() {
            return None;
        }
        let mut labels = json!({
            LABEL_SERVICE_NAME: "web",
            LABEL_MANAGED_BY: ENDPOINTSLICE_CONTROLLER,
        });
        let mut owners = json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u",
            "controller": true, "blockOwnerDeletion": true}]);
        match edit {
            Edit::None => {}
            Edit::Label => labels[LABEL_HEADLESS] = "".into(),
            Edit::Owner => owners = json!([]),
            Edit::EndpointRemoved => drop(endpoints.remove(0)),
            Edit::AddressAdded => endpoints.push(json!({
                "addresses": [stranger(family)],
                "conditions": {"ready": true, "serving": true, "terminating": false},
            })),
            Edit::Hint => endpoints[0]["hints"] = json!({"forZones": [{"name": "z1"}]}),
        }
        let address_type = AddressType::from(family);
        Some(read(json!({
            "metadata": {"name": format!("web-{name}{}", if family == IpFamily::IPv4 { 4 } else { 6 }),
                "namespace": "shop", "generateName": "web-", "uid": format!("{name}{family:?}"),
                "resourceVersion": "1", "generation": 1, "labels": labels, "ownerReferences": owners},
            "addressType": address_type,
            "ports": [{"name": "", "port": PORT, "protocol": "TCP"}],
            "endpoints": endpoints,
        })))
    }
}
