//! The distribution of the cluster's CPU over zones, and that of a Service's hints.

use std::collections::BTreeMap;
use std::fmt;

use kube_endpoint_core_model::{AddressType, Node, Text};
use serde::Serialize;

use super::allocation::allocate;

/// The share of its fair load by which an endpoint may exceed it (upstream `overloadThreshold`).
pub(crate) const OVERLOAD_THRESHOLD: f64 = 0.2;

/// The distribution of the cluster's CPU over zones. It is immutable: the controller computes a new
/// one from all nodes whenever one of them changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyState {
    /// Share of the CPU by zone, for at least two zones; empty if the nodes lack the information.
    pub(super) ratios: BTreeMap<Text, f64>,
    /// True if the ratios come from nodes. Upstream's event differs until they do.
    pub(super) computed: bool,
}

impl TopologyState {
    /// Returns the state before the first node: no Service gets topology hints.
    pub const fn unknown() -> Self {
        Self { ratios: BTreeMap::new(), computed: false }
    }

    /// Computes the ratios from nodes in any order (upstream `SetNodes`). Nodes of the control
    /// plane and nodes that are not ready do not count. If a node lacks zone or CPU there are no
    /// ratios.
    pub fn from_nodes<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut is_complete = true;
        let mut nano_by_zone: BTreeMap<&Text, i128> = BTreeMap::new();
        for node in nodes.into_iter().filter(|node| node.ready && !node.control_plane) {
            match &node.zone {
                Some(zone) if node.allocatable_cpu_nano != 0 => {
                    *nano_by_zone.entry(zone).or_default() += i128::from(node.allocatable_cpu_nano);
                }
                _ => is_complete = false,
            }
        }
        let total: i128 = nano_by_zone.values().sum();
        if !is_complete || total <= 0 || nano_by_zone.len() < 2 {
            return Self { ratios: BTreeMap::new(), computed: true };
        }
        let ratios = nano_by_zone.into_iter().map(|(zone, nano)| (zone.clone(), milli(nano) / milli(total)));
        Self { ratios: ratios.collect(), computed: true }
    }

    /// Returns true if the ratios come from nodes.
    pub fn is_computed(&self) -> bool {
        self.computed
    }

    /// Returns the share of the CPU by zone. It is empty if the nodes lack the information.
    pub fn ratios(&self) -> &BTreeMap<Text, f64> {
        &self.ratios
    }
}

/// Converts to thousandths, rounded up as Kubernetes' `MilliValue` does.
fn milli(nano: i128) -> f64 {
    const NANO_PER_MILLI: i128 = 1_000_000;
    ((nano + NANO_PER_MILLI - 1).div_euclid(NANO_PER_MILLI)) as f64
}

/// The topology hints of a Service after its last sync. Upstream keeps this in its topology cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HintedState {
    /// True if the address type that the plan handled last has hints.
    pub populated: bool,
    /// For each address type that has hints: the number of ready endpoints by the zone in their
    /// hint.
    pub allocations: BTreeMap<AddressType, BTreeMap<Text, usize>>,
    /// For each address type that should have hints but cannot have any: the number of ready
    /// endpoints.
    pub withheld: BTreeMap<AddressType, usize>,
}

impl HintedState {
    /// Records that an address type has hints.
    pub(crate) fn set(&mut self, address_type: AddressType, by_zone: BTreeMap<Text, usize>) {
        self.allocations.insert(address_type, by_zone);
        self.withheld.remove(&address_type);
        self.populated = true;
    }

    /// Records that an address type has no hints and should not have any.
    pub(crate) fn remove(&mut self, address_type: AddressType) {
        self.allocations.remove(&address_type);
        self.withheld.remove(&address_type);
        self.populated = false;
    }

    /// Records that an address type with `ready` ready endpoints should have hints but cannot have
    /// any.
    pub(crate) fn withhold(&mut self, address_type: AddressType, ready: usize) {
        self.remove(address_type);
        self.withheld.insert(address_type, ready);
    }

    /// Returns true if an address type that could not have hints can have some now. Upstream does
    /// not check this.
    pub fn may_be_hinted(&self, topology: &TopologyState) -> bool {
        self.withheld.values().any(|ready| allocate(topology, *ready).is_ok())
    }

    /// Returns true if some zone has too few endpoints for its share of the CPU (upstream
    /// `GetOverloadedServices`), so that the Service has to be synced after a change of the nodes.
    pub fn is_overloaded(&self, topology: &TopologyState) -> bool {
        self.allocations.values().any(|by_zone| is_overloaded(by_zone, topology))
    }
}

impl fmt::Display for HintedState {
    /// Prints as `hints: IPv4 zone-a=3 zone-b=2; IPv6 withheld from 1 ready endpoints`, or
    /// `no hints`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hinted = self.allocations.iter().map(|(address_type, by_zone)| {
            by_zone
                .iter()
                .fold(address_type.to_string(), |text, (zone, count)| format!("{text} {zone}={count}"))
        });
        let withheld = self.withheld.iter();
        let withheld = withheld
            .map(|(address_type, ready)| format!("{address_type} withheld from {ready} ready endpoints"));
        let all: Vec<String> = hinted.chain(withheld).collect();
        if all.is_empty() { f.write_str("no hints") } else { write!(f, "hints: {}", all.join("; ")) }
    }
}

fn is_overloaded(by_zone: &BTreeMap<Text, usize>, topology: &TopologyState) -> bool {
    if by_zone.is_empty() {
        return false;
    }
    let total = by_zone.values().sum::<usize>() as f64;
    topology.ratios.is_empty()
        || topology.ratios.iter().any(|(zone, ratio)| {
            let least = (total * ratio * (1.0 / (1.0 + OVERLOAD_THRESHOLD))).ceil();
            by_zone.get(zone).is_none_or(|count| (*count as f64) < least)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(zone: &str, cpu_milli: i64) -> Node {
        Node {
            zone: (!zone.is_empty()).then(|| zone.into()),
            ready: true,
            allocatable_cpu_nano: cpu_milli * 1_000_000,
            ..Node::default()
        }
    }

    #[test]
    fn ratios_are_shares_of_the_cpu_of_ready_worker_nodes() {
        let check = |nodes: &[Node], want: &[(&str, f64)]| {
            let want: BTreeMap<Text, f64> =
                want.iter().map(|(zone, ratio)| (Text::from(*zone), *ratio)).collect();
            assert_eq!(*TopologyState::from_nodes(nodes).ratios(), want, "{nodes:?}");
            let reversed = nodes.iter().rev();
            assert_eq!(*TopologyState::from_nodes(reversed).ratios(), want, "{nodes:?}");
        };
        let thirds = [("a", 0.75), ("b", 0.25)];
        let nodes = [node("a", 1000), node("a", 2000), node("b", 1000)];
        let with = |more: Node| [&nodes[..], &[more]].concat();
        check(&nodes, &thirds);
        check(&with(Node { ready: false, ..node("c", 9000) }), &thirds);
        check(&with(Node { control_plane: true, ..node("c", 9000) }), &thirds);
        check(&with(Node { ready: false, ..node("", 9000) }), &thirds);
        check(&with(node("", 1000)), &[]);
        check(&with(node("c", 0)), &[]);
        check(&[node("a", 1000), node("a", 1000)], &[]);
        check(&[], &[]);
    }

    #[test]
    fn a_service_is_overloaded_when_a_zone_has_too_few() {
        let nodes = [node("a", 1000), node("b", 1000)];
        let check = |nodes: &[Node], by_zone: &[(&str, usize)], want: bool| {
            let mut hinted = HintedState::default();
            hinted.set(
                AddressType::IPv6,
                by_zone.iter().map(|(zone, count)| (Text::from(*zone), *count)).collect(),
            );
            assert_eq!(hinted.is_overloaded(&TopologyState::from_nodes(nodes)), want, "{by_zone:?}");
        };
        check(&nodes, &[("a", 5), ("b", 5)], false);
        check(&nodes, &[("a", 6), ("b", 5)], false);
        check(&nodes, &[("a", 7), ("b", 5)], false);
        check(&nodes, &[("a", 8), ("b", 5)], true);
        check(&nodes, &[("a", 5)], true);
        check(&nodes, &[], false);
        check(&[], &[("a", 5)], true);
        assert!(!HintedState::default().is_overloaded(&TopologyState::default()));
    }

    #[test]
    fn withheld_hints_are_possible_once_there_are_enough_endpoints_for_the_zones() {
        let check = |zones: &[&str], ready: usize, want: bool| {
            let mut hinted = HintedState::default();
            hinted.withhold(AddressType::IPv4, ready);
            let nodes: Vec<Node> = zones.iter().map(|zone| node(zone, 1000)).collect();
            assert_eq!(hinted.may_be_hinted(&TopologyState::from_nodes(&nodes)), want, "{zones:?} {ready}");
        };
        check(&["a", "b"], 4, true);
        check(&["a", "b"], 1, false);
        check(&["a", ""], 4, false);
        check(&["a", "b", "c"], 4, false);
        assert!(
            !HintedState::default()
                .may_be_hinted(&TopologyState::from_nodes(&[node("a", 1000), node("b", 1000)]))
        );
    }

    #[test]
    fn prints_hints_by_address_type() {
        let mut hinted = HintedState::default();
        assert_eq!(hinted.to_string(), "no hints");
        hinted.set(AddressType::IPv4, [("zone-a".into(), 3), ("zone-b".into(), 2)].into());
        hinted.withhold(AddressType::IPv6, 1);
        insta::assert_snapshot!(hinted, @"hints: IPv4 zone-a=3 zone-b=2; IPv6 withheld from 1 ready endpoints");
    }

    #[test]
    fn the_address_type_planned_last_decides_whether_hints_are_populated() {
        let mut hinted = HintedState::default();
        hinted.set(AddressType::IPv4, BTreeMap::new());
        assert!(hinted.populated);
        hinted.remove(AddressType::IPv6);
        assert!(!hinted.populated && hinted.allocations.contains_key(&AddressType::IPv4));
    }
}
