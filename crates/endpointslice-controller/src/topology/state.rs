//! Immutable facts about zones: ratios of CPU from nodes, and what a Service's hints were spread like.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{AddressType, Node, Text};

use super::allocation::allocate;

/// The smallest share of its fair load that an endpoint may exceed (upstream `overloadThreshold`).
pub(crate) const OVERLOAD_THRESHOLD: f64 = 0.2;

/// How the cluster's CPU is spread over zones. Computed anew from all nodes whenever one of them changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyState {
    /// Share of the CPU by zone, two zones at least; empty when the nodes do not say enough.
    pub(super) ratios: BTreeMap<Text, f64>,
    /// Whether some nodes without a zone were tolerated, so that endpoints there may be lent to any zone.
    pub(super) tolerant: bool,
}

impl TopologyState {
    /// Reads ratios from nodes (upstream `SetNodes`), in any order. Nodes of the control plane and nodes that are not
    /// ready are left out. The first node without zone or CPU makes the whole insufficient, but up to `tolerance` (a share
    /// of the nodes that count, 0 to 1) of such nodes are left out instead.
    pub fn from_nodes<'a>(nodes: impl IntoIterator<Item = &'a Node>, tolerance: f64) -> Self {
        let (mut counted, mut incomplete) = (0u32, 0u32);
        let mut nano_by_zone: BTreeMap<&Text, i128> = BTreeMap::new();
        for node in nodes.into_iter().filter(|node| node.ready && !node.control_plane) {
            counted += 1;
            match &node.zone {
                Some(zone) if node.allocatable_cpu_nano != 0 => {
                    *nano_by_zone.entry(zone).or_default() += i128::from(node.allocatable_cpu_nano);
                }
                _ => incomplete += 1,
            }
        }
        let tolerant = tolerance > 0.0;
        let enough = incomplete == 0 || (tolerant && f64::from(incomplete) <= tolerance * f64::from(counted));
        let total: i128 = nano_by_zone.values().sum();
        if !enough || total <= 0 || nano_by_zone.len() < 2 {
            return Self { ratios: BTreeMap::new(), tolerant };
        }
        let ratios = nano_by_zone.into_iter().map(|(zone, nano)| (zone.clone(), milli(nano) / milli(total)));
        Self { ratios: ratios.collect(), tolerant }
    }

    /// Whether endpoints without a zone are tolerated, as nodes without a zone are.
    pub(crate) fn is_tolerant(&self) -> bool {
        self.tolerant
    }

    /// Share of the CPU by zone; empty when the nodes do not say enough.
    pub fn ratios(&self) -> &BTreeMap<Text, f64> {
        &self.ratios
    }
}

/// Thousandths, rounded up as Kubernetes' `MilliValue` does.
fn milli(nano: i128) -> f64 {
    const NANO_PER_MILLI: i128 = 1_000_000;
    ((nano + NANO_PER_MILLI - 1).div_euclid(NANO_PER_MILLI)) as f64
}

/// What a sync left of a Service's topology hints: upstream keeps it in its topology cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintedState {
    /// Whether the last word on this Service, in any address type, was that it has hints.
    pub populated: bool,
    /// Ready endpoints by the zone that they are hinted for, by address type.
    pub allocations: BTreeMap<AddressType, BTreeMap<Text, usize>>,
    /// How many ready endpoints there were, by address type that should have hints and could not be given any.
    pub withheld: BTreeMap<AddressType, usize>,
}

impl HintedState {
    /// Notes that an address type has hints.
    pub(crate) fn set(&mut self, address_type: AddressType, by_zone: BTreeMap<Text, usize>) {
        self.allocations.insert(address_type, by_zone);
        self.withheld.remove(&address_type);
        self.populated = true;
    }

    /// Notes that an address type has none, and shall have none.
    pub(crate) fn remove(&mut self, address_type: AddressType) {
        self.allocations.remove(&address_type);
        self.withheld.remove(&address_type);
        self.populated = false;
    }

    /// Notes that an address type with so many ready endpoints should have hints, but can have none.
    pub(crate) fn withhold(&mut self, address_type: AddressType, ready: usize) {
        self.remove(address_type);
        self.withheld.insert(address_type, ready);
    }

    /// Whether an address type that could not be given hints may get some now. Upstream does not ask that.
    pub fn may_be_hinted(&self, topology: &TopologyState) -> bool {
        self.withheld.values().any(|ready| allocate(topology, *ready).is_ok())
    }

    /// Whether some zone has too few endpoints for its share of the CPU (upstream `GetOverloadedServices`), so that the
    /// Service is to be synced after a change of the nodes.
    pub fn is_overloaded(&self, topology: &TopologyState) -> bool {
        self.allocations.values().any(|by_zone| is_overloaded(by_zone, topology))
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
    fn ratios_are_shares_of_the_cpu_of_ready_ordinary_nodes() {
        let check = |nodes: &[Node], tolerance: f64, want: &[(&str, f64)]| {
            let want: BTreeMap<Text, f64> =
                want.iter().map(|(zone, ratio)| (Text::from(*zone), *ratio)).collect();
            assert_eq!(*TopologyState::from_nodes(nodes, tolerance).ratios(), want, "{nodes:?}");
            let turned = nodes.iter().rev();
            assert_eq!(*TopologyState::from_nodes(turned, tolerance).ratios(), want, "{nodes:?}");
        };
        let thirds = [("a", 0.75), ("b", 0.25)];
        let nodes = [node("a", 1000), node("a", 2000), node("b", 1000)];
        let with = |more: Node| [&nodes[..], &[more]].concat();
        check(&nodes, 0.0, &thirds);
        check(&with(Node { ready: false, ..node("c", 9000) }), 0.0, &thirds);
        check(&with(Node { control_plane: true, ..node("c", 9000) }), 0.0, &thirds);
        check(&with(Node { ready: false, ..node("", 9000) }), 0.0, &thirds);
        check(&with(node("", 1000)), 0.0, &[]);
        check(&with(node("c", 0)), 0.0, &[]);
        check(&with(node("", 1000)), 0.25, &thirds);
        check(&with(node("c", 0)), 0.25, &thirds);
        check(&with(node("", 1000)), 0.24, &[]);
        check(&[node("a", 1000), node("a", 1000)], 0.0, &[]);
        check(&[node("a", 1000), node("", 1000)], 1.0, &[]);
        check(&[], 0.0, &[]);
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
            assert_eq!(hinted.is_overloaded(&TopologyState::from_nodes(nodes, 0.0)), want, "{by_zone:?}");
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
    fn hints_may_come_back_when_there_is_a_zone_for_each_of_enough_endpoints() {
        let check = |zones: &[&str], ready: usize, want: bool| {
            let mut hinted = HintedState::default();
            hinted.withhold(AddressType::IPv4, ready);
            let nodes: Vec<Node> = zones.iter().map(|zone| node(zone, 1000)).collect();
            assert_eq!(
                hinted.may_be_hinted(&TopologyState::from_nodes(&nodes, 0.0)),
                want,
                "{zones:?} {ready}"
            );
        };
        check(&["a", "b"], 4, true);
        check(&["a", "b"], 1, false);
        check(&["a", ""], 4, false);
        check(&["a", "b", "c"], 4, false);
        assert!(
            !HintedState::default()
                .may_be_hinted(&TopologyState::from_nodes(&[node("a", 1000), node("b", 1000)], 0.0))
        );
    }

    #[test]
    fn one_address_type_without_hints_is_the_last_word() {
        let mut hinted = HintedState::default();
        hinted.set(AddressType::IPv4, BTreeMap::new());
        assert!(hinted.populated);
        hinted.remove(AddressType::IPv6);
        assert!(!hinted.populated && hinted.allocations.contains_key(&AddressType::IPv4));
    }
}
