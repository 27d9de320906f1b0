//! Hints of topology mode `Auto`: each ready endpoint for its own zone, but some for another, so that each zone has
//! endpoints in proportion to its CPU (upstream `TopologyCache.AddHints`).
//!
//! Upstream lets chance pick the endpoints that serve another zone, and the zone. Here an endpoint that did so before goes
//! on with it as long as somebody has to, so that the flip of one endpoint moves no hints of others.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{Endpoint, EndpointSlice, Text};

use super::hints::{Slices, for_zone, is_ready};
use crate::topology::{Allocation, Disabled, TopologyState, Transfers, allocate, hints_by_zone, transfers};

/// Gives hints to the slices that are written, and to unchanged ones whose hints are wrong. Returns the number of hinted
/// endpoints by zone. On an error hints may be anything and are to be removed.
pub(super) fn assign_topology_hints(
    topology: &TopologyState,
    slices: &mut Slices<'_>,
) -> Result<BTreeMap<Text, usize>, Disabled> {
    let written = slices.written.iter().map(|draft| &draft.slice);
    let all = written.chain(slices.unchanged.iter().map(|slice| &***slice));
    let ready = all.flat_map(|slice| &slice.endpoints).filter(|endpoint| is_ready(endpoint)).count();
    let allocations = allocate(topology, ready)?;

    let mut hinted: BTreeMap<Text, usize> = BTreeMap::new();
    slices.rehint(|slice| match hints_by_zone(slice, &hinted, &allocations) {
        Some(by_zone) => {
            for (zone, count) in by_zone {
                *hinted.entry(zone.clone()).or_default() += count;
            }
            false
        }
        None => true,
    });
    for endpoint in slices.drafts().flat_map(ready_endpoints) {
        match own_zone(endpoint) {
            Some(zone) => {
                *hinted.entry(zone.clone()).or_default() += 1;
                endpoint.hints = Some(for_zone(zone));
            }
            None if topology.is_tolerant() => endpoint.hints = None,
            None => return Err(Disabled::NoZoneSpecified),
        }
    }
    if topology.is_tolerant() {
        lend_zoneless(slices, &allocations, &mut hinted);
    }
    redistribute(slices, transfers(&allocations, &hinted), &mut hinted);
    Ok(hinted)
}

fn ready_endpoints(slice: &mut EndpointSlice) -> impl Iterator<Item = &mut Endpoint> {
    slice.endpoints.iter_mut().filter(|endpoint| is_ready(endpoint))
}

fn own_zone(endpoint: &Endpoint) -> Option<&Text> {
    endpoint.zone.as_ref().filter(|zone| !zone.is_empty())
}

/// The zones that endpoints of a slice were hinted for before, by the name of the target.
fn zones_before(replaced: &EndpointSlice) -> BTreeMap<Text, Text> {
    let zone_of = |endpoint: &Endpoint| {
        let hints = endpoint.hints.as_ref()?;
        Some((endpoint.target_ref.as_ref()?.name.clone(), hints.for_zones.first()?.name.clone()))
    };
    replaced.endpoints.iter().filter_map(zone_of).collect()
}

/// Calls `visit` with each ready endpoint of the slices that may be changed, and the zone it was hinted for before.
fn visit(slices: &mut Slices<'_>, mut visit: impl FnMut(&mut Endpoint, Option<&Text>)) {
    for draft in slices.written.iter_mut().chain(&mut slices.rehinted) {
        let before = draft.replaces.map(|slice| zones_before(slice)).unwrap_or_default();
        for endpoint in ready_endpoints(&mut draft.slice) {
            let zone = endpoint.target_ref.as_ref().and_then(|target| before.get(&target.name));
            visit(endpoint, zone);
        }
    }
}

/// Hints endpoints that have no zone for the one they were hinted for before, else the one that lacks most. Proxies ignore
/// the hints of all endpoints for one that has none.
fn lend_zoneless(
    slices: &mut Slices<'_>,
    allocations: &BTreeMap<&Text, Allocation>,
    hinted: &mut BTreeMap<Text, usize>,
) {
    visit(slices, |endpoint, before| {
        if endpoint.hints.is_some() {
            return;
        }
        let count = |zone: &Text| hinted.get(zone).copied().unwrap_or_default();
        let has_room =
            |zone: &&Text| allocations.get(zone).is_some_and(|allocation| count(zone) < allocation.maximum);
        let lack = |zone: &Text, allocation: &Allocation| allocation.desired - count(zone) as f64;
        let neediest = || {
            let by_lack = allocations.iter().map(|(zone, allocation)| (*zone, lack(zone, allocation)));
            // Of several that lack as much, the first by name.
            by_lack.reduce(|most, next| if next.1 > most.1 { next } else { most }).map(|(zone, _)| zone)
        };
        if let Some(zone) = before.filter(has_room).or_else(neediest).cloned() {
            endpoint.hints = Some(for_zone(&zone));
            *hinted.entry(zone).or_default() += 1;
        }
    });
}

/// Hints endpoints of zones that have too many for zones that have too few (upstream `redistributeHints`).
fn redistribute(slices: &mut Slices<'_>, mut open: Transfers, hinted: &mut BTreeMap<Text, usize>) {
    if open.is_done() {
        return;
    }
    visit(slices, |endpoint, before| {
        if let Some(zone) = before.filter(|zone| open.receiving.contains_key(*zone)) {
            transfer(endpoint, &zone.clone(), &mut open, hinted);
        }
    });
    visit(slices, |endpoint, _| {
        let neediest = open.receiving.iter().reduce(|most, next| if next.1 > most.1 { next } else { most });
        if let Some(zone) = neediest.map(|(zone, _)| zone.clone()) {
            transfer(endpoint, &zone, &mut open, hinted);
        }
    });
}

/// Hints an endpoint for another zone, if its own has to give.
fn transfer(endpoint: &mut Endpoint, to: &Text, open: &mut Transfers, hinted: &mut BTreeMap<Text, usize>) {
    let Some(own) = own_zone(endpoint) else { return };
    // An endpoint that serves another zone by now is not given twice.
    let still_own =
        endpoint.hints.as_ref().is_some_and(|hints| hints.for_zones.iter().all(|hint| hint.name == *own));
    if !still_own || !Transfers::take(&mut open.giving, own) {
        return;
    }
    Transfers::take(&mut open.receiving, to);
    if let Some(count) = hinted.get_mut(own) {
        *count = count.saturating_sub(1);
    }
    *hinted.entry(to.clone()).or_default() += 1;
    endpoint.hints = Some(for_zone(to));
}
