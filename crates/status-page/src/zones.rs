//! The zones of a Service's endpoints, and the zones of the clients that should use them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::well_known::{ANNOTATION_TOPOLOGY_AWARE_HINTS, ANNOTATION_TOPOLOGY_MODE};
use kube_endpoint_core_model::{AddressType, EndpointSlice, Node, Service, Text};
use serde::Serialize;

/// The zone map of a Service.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ZoneMap {
    zones: Vec<Zone>,
    /// Endpoints that every client may use.
    without_hints: usize,
    /// Endpoints for clients on certain nodes.
    for_nodes: usize,
    traffic_distribution: Option<Text>,
    topology_mode: Option<Text>,
}

/// A zone. Endpoints without a zone are in one with an empty name.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Zone {
    name: Text,
    nodes: usize,
    endpoints: usize,
    ready: usize,
    hinted_for: Vec<HintedFor>,
}

/// The number of endpoints of a zone that clients of another zone, or of this one, should use.
#[derive(Clone, Debug, Serialize)]
struct HintedFor {
    zone: Text,
    endpoints: usize,
}

/// Makes the zone map of a Service from its slices. A Service with two address families has each
/// endpoint twice; the map counts those of its first family.
pub(crate) fn zone_map(service: &Service, slices: &[Arc<EndpointSlice>], nodes: &[Arc<Node>]) -> ZoneMap {
    let mut zones: BTreeMap<Text, Zone> = BTreeMap::new();
    let mut hints: BTreeMap<(Text, Text), usize> = BTreeMap::new();
    for zone in nodes.iter().filter_map(|node| node.zone.clone()) {
        zones.entry(zone).or_default().nodes += 1;
    }
    let (mut without_hints, mut for_nodes) = (0, 0);
    // An endpoint is in several slices if its ports differ.
    let mut seen = BTreeSet::new();
    let family = family(service, slices);
    let endpoints = slices.iter().filter(|slice| Some(slice.address_type) == family);
    for endpoint in endpoints.flat_map(|slice| &slice.endpoints) {
        let target = endpoint.target_ref.as_ref().map(|target| (&target.kind, &target.name));
        if !seen.insert((endpoint.addresses.first(), target)) {
            continue;
        }
        let name = endpoint.zone.clone().unwrap_or_default();
        let zone = zones.entry(name.clone()).or_default();
        zone.endpoints += 1;
        zone.ready += usize::from(endpoint.conditions.ready != Some(false));
        let hinted = endpoint.hints.as_ref();
        let for_zones = hinted.map_or(&[][..], |hints| &hints.for_zones);
        for hint in for_zones {
            *hints.entry((name.clone(), hint.name.clone())).or_default() += 1;
        }
        let is_for_nodes = hinted.is_some_and(|hints| !hints.for_nodes.is_empty());
        for_nodes += usize::from(is_for_nodes);
        without_hints += usize::from(for_zones.is_empty() && !is_for_nodes);
    }
    for ((from, zone), endpoints) in hints {
        zones.entry(from).or_default().hinted_for.push(HintedFor { zone, endpoints });
    }
    let annotation = |name: &str| service.annotations.get(name).cloned();
    ZoneMap {
        zones: zones.into_iter().map(|(name, zone)| Zone { name, ..zone }).collect(),
        without_hints,
        for_nodes,
        traffic_distribution: service.traffic_distribution.clone(),
        topology_mode: annotation(ANNOTATION_TOPOLOGY_AWARE_HINTS)
            .or_else(|| annotation(ANNOTATION_TOPOLOGY_MODE)),
    }
}

/// Returns the address type of the endpoints to count: that of the Service's first family, if it
/// has slices, otherwise any.
fn family(service: &Service, slices: &[Arc<EndpointSlice>]) -> Option<AddressType> {
    let first = service.ip_families.first().map(|family| AddressType::from(*family));
    let is_there = |wanted: &AddressType| slices.iter().any(|slice| slice.address_type == *wanted);
    first.filter(is_there).or_else(|| slices.iter().map(|slice| slice.address_type).min())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(address_type: &str, endpoints: Value) -> Arc<EndpointSlice> {
        let slice = json!({"metadata": {"name": "a"}, "addressType": address_type, "endpoints": endpoints});
        Arc::new(serde_json::from_value(slice).unwrap())
    }

    fn node(name: &str, zone: &str) -> Arc<Node> {
        let labels = json!({"topology.kubernetes.io/zone": zone});
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap())
    }

    #[test]
    fn endpoints_are_counted_by_zone_and_by_hint() {
        let endpoint = |address: &str, zone: &str, hints: &[&str], ready: bool| {
            let hints: Vec<Value> = hints.iter().map(|zone| json!({"name": zone})).collect();
            json!({"addresses": [address], "zone": zone, "conditions": {"ready": ready}, "hints": {"forZones": hints}})
        };
        let both = endpoint("10.0.0.1", "a", &["a", "b"], true);
        let slices = [
            slice("IPv4", json!([both, endpoint("10.0.0.2", "a", &["a"], false)])),
            slice(
                "IPv4",
                json!([both, {"addresses": ["10.0.0.3"]},
                {"addresses": ["10.0.0.4"], "zone": "b", "hints": {"forNodes": [{"name": "n1"}]}}]),
            ),
            slice("IPv6", json!([{"addresses": ["fd00::1"], "zone": "a"}])),
        ];
        let service = json!({"metadata": {"name": "web", "annotations": {"service.kubernetes.io/topology-mode": "Auto"}},
            "spec": {"ipFamilies": ["IPv4", "IPv6"], "trafficDistribution": "PreferClose"}});
        let nodes = [node("n1", "a"), node("n2", "a"), node("n3", "c")];
        let map = zone_map(&serde_json::from_value(service).unwrap(), &slices, &nodes);
        insta::assert_snapshot!(serde_json::to_string_pretty(&map).unwrap());
    }

    #[test]
    fn a_service_without_slices_has_the_zones_of_the_nodes() {
        let service = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {}})).unwrap();
        let map = zone_map(&service, &[], &[node("n1", "a")]);
        assert_eq!(
            serde_json::to_value(&map).unwrap(),
            json!({"zones": [{"name": "a", "nodes": 1, "endpoints": 0, "ready": 0, "hintedFor": []}],
                "withoutHints": 0, "forNodes": 0, "trafficDistribution": null, "topologyMode": null})
        );
    }
}
