//! Computes how many ready endpoints should have a hint for each zone, and how many of them come
//! from another zone.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{EndpointSlice, Text};

use super::state::{OVERLOAD_THRESHOLD, TopologyState};

/// How many endpoints a zone should have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Allocation {
    /// With fewer endpoints, the load of each would be too high.
    minimum: usize,
    /// With more endpoints, another zone would have too few.
    pub(crate) maximum: usize,
    /// The number in proportion to the CPU.
    pub(crate) desired: f64,
}

/// The reason why a Service gets no hints, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Disabled {
    #[error("One or more endpoints do not have a zone specified")]
    NoZoneSpecified,
    #[error("Insufficient Node information: allocatable CPU or zone not specified on one or more nodes")]
    InsufficientNodeInfo,
    #[error("Nodes only ready in one zone")]
    NodesReadyInOneZoneOnly,
    #[error("Insufficient number of endpoints ({endpoints} endpoints, {zones} zones)")]
    InsufficientNumberOfEndpoints { endpoints: usize, zones: usize },
    #[error(
        "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold \
         ({endpoints} endpoints, {zones} zones)"
    )]
    MinAllocationExceedsOverloadThreshold { endpoints: usize, zones: usize },
}

/// Allocates ready endpoints to zones (upstream `getAllocations`).
pub(crate) fn allocate(
    topology: &TopologyState,
    endpoints: usize,
) -> Result<BTreeMap<&Text, Allocation>, Disabled> {
    let zones = topology.ratios.len();
    if zones == 0 {
        // Upstream's cache starts with an empty map of ratios, and drops it when the nodes give no
        // ratios.
        let insufficient = topology.is_computed();
        return Err(if insufficient {
            Disabled::InsufficientNodeInfo
        } else {
            Disabled::NodesReadyInOneZoneOnly
        });
    }
    if zones > endpoints {
        return Err(Disabled::InsufficientNumberOfEndpoints { endpoints, zones });
    }
    let mut allocations: BTreeMap<&Text, Allocation> = topology
        .ratios
        .iter()
        .map(|(zone, ratio)| {
            let desired = ratio * endpoints as f64;
            let minimum = (desired * (1.0 / (1.0 + OVERLOAD_THRESHOLD))).ceil();
            let allocation =
                Allocation { minimum: minimum as usize, maximum: 0, desired: desired.max(minimum) };
            (zone, allocation)
        })
        .collect();
    let least: usize = allocations.values().map(|allocation| allocation.minimum).sum();
    let Some(spare) = endpoints.checked_sub(least) else {
        return Err(Disabled::MinAllocationExceedsOverloadThreshold { endpoints, zones });
    };
    for allocation in allocations.values_mut() {
        allocation.maximum = allocation.minimum + spare;
    }
    Ok(allocations)
}

/// Counts the hints of a slice by zone (upstream `getHintsByZone`). Returns `None` if the plan has
/// to write the slice: a ready endpoint has no hint, or a hint for a zone without allocation, or
/// some zone has more hints than its maximum together with those of `others`.
pub(crate) fn hints_by_zone<'s>(
    slice: &'s EndpointSlice,
    others: &BTreeMap<Text, usize>,
    allocations: &BTreeMap<&Text, Allocation>,
) -> Option<BTreeMap<&'s Text, usize>> {
    let mut by_zone: BTreeMap<&Text, usize> = BTreeMap::new();
    for endpoint in slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready == Some(true)) {
        let zones =
            endpoint.hints.as_ref().map(|hints| &hints.for_zones).filter(|zones| !zones.is_empty())?;
        for zone in zones {
            *by_zone.entry(&zone.name).or_default() += 1;
        }
    }
    let fits = by_zone.iter().all(|(zone, count)| {
        allocations
            .get(zone)
            .is_some_and(|allocation| count + others.get(*zone).unwrap_or(&0) <= allocation.maximum)
    });
    fits.then_some(by_zone)
}

/// How many endpoints of some zones should get hints for others (upstream
/// `getGivingAndReceivingZones`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transfers {
    pub(crate) giving: BTreeMap<Text, usize>,
    pub(crate) receiving: BTreeMap<Text, usize>,
}

impl Transfers {
    /// Returns true if nothing is left to move.
    pub(crate) fn is_done(&self) -> bool {
        self.giving.is_empty() || self.receiving.is_empty()
    }

    /// Takes one endpoint from the count of a zone. Returns false if the count is zero.
    pub(crate) fn take(zones: &mut BTreeMap<Text, usize>, zone: &Text) -> bool {
        let Some(count) = zones.get_mut(zone) else { return false };
        *count -= 1;
        if *count == 0 {
            zones.remove(zone);
        }
        true
    }
}

/// Compares the desired with the present numbers of hints.
pub(crate) fn transfers(
    allocations: &BTreeMap<&Text, Allocation>,
    hinted: &BTreeMap<Text, usize>,
) -> Transfers {
    let mut surplus: BTreeMap<&Text, f64> = BTreeMap::new();
    let mut deficit: BTreeMap<&Text, f64> = BTreeMap::new();
    for (zone, allocation) in allocations {
        let present = hinted.get(*zone).copied().unwrap_or_default() as f64;
        if present > allocation.desired {
            surplus.insert(zone, present - allocation.desired);
        } else if present < allocation.desired {
            deficit.insert(zone, allocation.desired - present);
        }
    }
    let mut transfers = Transfers::default();
    while let (Some((giver, gives)), Some((receiver, receives))) = (most(&surplus), most(&deficit)) {
        // Stop if either side lacks half an endpoint, or if both lack a whole one.
        if (gives < 1.0 && receives < 1.0) || gives < 0.5 || receives < 0.5 {
            break;
        }
        *transfers.giving.entry(giver.clone()).or_default() += 1;
        *transfers.receiving.entry(receiver.clone()).or_default() += 1;
        surplus.insert(giver, gives - 1.0);
        deficit.insert(receiver, receives - 1.0);
    }
    transfers
}

/// Returns the zone with the highest number, the first by name among equals, or `None` if no number
/// is above zero.
fn most<'z>(zones: &BTreeMap<&'z Text, f64>) -> Option<(&'z Text, f64)> {
    let mut most: Option<(&Text, f64)> = None;
    for (zone, number) in zones {
        if *number > most.map_or(0.0, |(_, number)| number) {
            most = Some((zone, *number));
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(ratios: &[(&str, f64)]) -> TopologyState {
        let ratios = ratios.iter().map(|(zone, ratio)| (Text::from(*zone), *ratio));
        TopologyState { ratios: ratios.collect(), computed: true }
    }

    #[test]
    fn a_cluster_of_which_no_node_was_seen_has_nodes_in_less_than_two_zones() {
        let check = |topology: &TopologyState, want| assert_eq!(allocate(topology, 9), Err(want));
        check(&TopologyState::unknown(), Disabled::NodesReadyInOneZoneOnly);
        check(&TopologyState::from_nodes([]), Disabled::InsufficientNodeInfo);
    }

    #[test]
    fn endpoints_may_be_overloaded_by_a_fifth() {
        let check =
            |ratios: &[(&str, f64)], endpoints: usize, want: Result<&[(usize, usize, f64)], Disabled>| {
                let topology = topology(ratios);
                let got = allocate(&topology, endpoints).map(|allocations| {
                    let triple = |one: &Allocation| (one.minimum, one.maximum, one.desired);
                    allocations.values().map(triple).collect::<Vec<_>>()
                });
                assert_eq!(got, want.map(<[_]>::to_vec), "{ratios:?} {endpoints}");
            };
        let halves = [("a", 0.5), ("b", 0.5)];
        check(&halves, 6, Ok(&[(3, 3, 3.0), (3, 3, 3.0)]));
        check(&halves, 12, Ok(&[(5, 7, 6.0), (5, 7, 6.0)]));
        check(&[("a", 0.75), ("b", 0.25)], 4, Ok(&[(3, 3, 3.0), (1, 1, 1.0)]));
        check(&[("a", 0.9), ("b", 0.1)], 5, Ok(&[(4, 4, 4.5), (1, 1, 1.0)]));
        check(&[], 9, Err(Disabled::InsufficientNodeInfo));
        check(&halves, 1, Err(Disabled::InsufficientNumberOfEndpoints { endpoints: 1, zones: 2 }));
        check(&halves, 5, Err(Disabled::MinAllocationExceedsOverloadThreshold { endpoints: 5, zones: 2 }));
    }

    #[test]
    fn only_whole_endpoints_are_moved() {
        let check = |desired: &[(&str, f64)],
                     hinted: &[(&str, usize)],
                     giving: &[(&str, usize)],
                     receiving: &[(&str, usize)]| {
            let names: Vec<Text> = desired.iter().map(|(zone, _)| Text::from(*zone)).collect();
            let allocation = |desired: f64| Allocation { minimum: 0, maximum: 99, desired };
            let allocations =
                names.iter().zip(desired).map(|(zone, (_, desired))| (zone, allocation(*desired))).collect();
            let owned = |zones: &[(&str, usize)]| -> BTreeMap<Text, usize> {
                zones.iter().map(|(zone, count)| (Text::from(*zone), *count)).collect()
            };
            let want = Transfers { giving: owned(giving), receiving: owned(receiving) };
            assert_eq!(transfers(&allocations, &owned(hinted)), want, "{desired:?} {hinted:?}");
        };
        check(&[("a", 2.0), ("b", 2.0)], &[("a", 2), ("b", 2)], &[], &[]);
        check(&[("a", 2.0), ("b", 2.0)], &[("a", 4)], &[("a", 2)], &[("b", 2)]);
        check(&[("a", 2.4), ("b", 1.6)], &[("a", 3), ("b", 1)], &[], &[]);
        check(&[("a", 2.0), ("b", 1.4), ("c", 0.6)], &[("a", 4)], &[("a", 2)], &[("b", 1), ("c", 1)]);
        check(
            &[("a", 1.0), ("b", 1.0), ("c", 2.0)],
            &[("a", 2), ("b", 2)],
            &[("a", 1), ("b", 1)],
            &[("c", 2)],
        );
        check(&[("a", 5.6), ("b", 4.4)], &[("a", 6), ("b", 4)], &[], &[]);
        check(&[], &[("elsewhere", 3)], &[], &[]);
    }
}
