//! Hints of topology mode `Auto`: each ready endpoint for its own zone, but some for another, so that each zone has
//! endpoints in proportion to its CPU (upstream `TopologyCache.AddHints`).
//!
//! Upstream lets chance pick the endpoints that serve another zone, and the zone. Here an endpoint that did so before goes
//! on with it as long as somebody has to, so that the flip of one endpoint moves no hints of others.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::slice::Hint;
use kube_endpoint_core_model::{Endpoint, EndpointSlice, Text};

use super::drafts::{Draft, copied};
use super::hints::{Slices, for_zone, is_ready};
use crate::topology::{Allocation, Disabled, TopologyState, Transfers, allocate, hints_by_zone, transfers};

/// How often hints are looked over again, as later syncs would do. Two rounds settle nearly all.
const MOST_ROUNDS: usize = 8;

/// Hinted endpoints by zone.
type ByZone = BTreeMap<Text, usize>;

/// The zone that an endpoint is hinted for, by name of its target.
type Zones = BTreeMap<Text, Text>;

/// Gives hints to the slices that are written, and to unchanged ones whose hints are wrong; all together have so many ready
/// endpoints. Returns the number of hinted
/// endpoints by zone. On an error hints may be anything and are to be removed.
///
/// Upstream may leave a zone with too few endpoints, because it changes hints only in slices that it writes anyway, and
/// mends that in the sync after. Here the rounds that it would take are all gone through at once.
pub(super) fn assign_topology_hints(
    topology: &TopologyState,
    slices: &mut Slices<'_>,
    ready: usize,
) -> Result<ByZone, Disabled> {
    let allocations = allocate(topology, ready)?;

    let mut hinted = ByZone::new();
    slices.rehint(|slice| !accept(slice, &mut hinted, &allocations));
    let mut open: Vec<&mut Draft<'_>> = slices.written.iter_mut().chain(&mut slices.rehinted).collect();
    let before: Zones =
        open.iter().filter_map(|draft| draft.replaces).flat_map(|slice| zones(slice)).collect();
    assign(topology, &allocations, &mut open, &before, &mut hinted)?;

    for _ in 1..MOST_ROUNDS {
        // Where every zone is in its bounds, so is every slice.
        let in_bounds = |(zone, count): (&Text, &usize)| {
            allocations.get(zone).is_some_and(|allocation| *count <= allocation.maximum)
        };
        if hinted.iter().all(in_bounds) {
            break;
        }
        let (mut open, mut again) = look_over(slices, &allocations);
        if open.is_empty() {
            break;
        }
        let before: Zones = open.iter().flat_map(|draft| zones(&draft.slice)).collect();
        assign(topology, &allocations, &mut open, &before, &mut again)?;
        let after: Zones = open.iter().flat_map(|draft| zones(&draft.slice)).collect();
        hinted = again;
        if after == before {
            break;
        }
    }
    Ok(hinted)
}

/// Counts the hints of a slice in, unless they are wrong.
fn accept(slice: &EndpointSlice, hinted: &mut ByZone, allocations: &BTreeMap<&Text, Allocation>) -> bool {
    let Some(by_zone) = hints_by_zone(slice, hinted, allocations) else { return false };
    for (zone, count) in by_zone {
        *hinted.entry(zone.clone()).or_default() += count;
    }
    true
}

/// A slice among [`Slices`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Which {
    Written(usize),
    Rehinted(usize),
    Unchanged(usize),
}

/// The slices that the next sync would find wrong, and the hints of the others.
fn look_over<'s, 'a>(
    slices: &'s mut Slices<'a>,
    allocations: &BTreeMap<&Text, Allocation>,
) -> (Vec<&'s mut Draft<'a>>, ByZone) {
    let written = slices.written.iter().enumerate().map(|(at, draft)| (&draft.slice, Which::Written(at)));
    let rehinted = slices.rehinted.iter().enumerate().map(|(at, draft)| (&draft.slice, Which::Rehinted(at)));
    let unchanged = slices.unchanged.iter().enumerate().map(|(at, slice)| (&***slice, Which::Unchanged(at)));
    let mut by_name: Vec<(&EndpointSlice, Which)> = written.chain(rehinted).chain(unchanged).collect();
    // New slices come last: they have no name yet to sort them by.
    by_name.sort_by_key(|(slice, which)| (slice.metadata.name.is_empty(), &slice.metadata.name, *which));
    let mut hinted = ByZone::new();
    by_name.retain(|(slice, _)| !accept(slice, &mut hinted, allocations));
    let wrong: BTreeSet<Which> = by_name.into_iter().map(|(_, which)| which).collect();

    let known = slices.rehinted.len();
    let mut at = 0..;
    let rehinted = &mut slices.rehinted;
    slices.unchanged.retain(|slice| {
        let is_wrong = at.next().is_some_and(|at| wrong.contains(&Which::Unchanged(at)));
        if is_wrong {
            rehinted.push(copied(slice));
        }
        !is_wrong
    });
    let open = |(at, draft), which: fn(usize) -> Which| wrong.contains(&which(at)).then_some(draft);
    let written = slices.written.iter_mut().enumerate().filter_map(|one| open(one, Which::Written));
    let rehinted = slices
        .rehinted
        .iter_mut()
        .enumerate()
        .filter_map(|(at, draft)| (at >= known || wrong.contains(&Which::Rehinted(at))).then_some(draft));
    (written.chain(rehinted).collect(), hinted)
}

/// Hints the endpoints of some slices, on top of the hints of all others. `before` are the hints that they had.
fn assign(
    topology: &TopologyState,
    allocations: &BTreeMap<&Text, Allocation>,
    open: &mut [&mut Draft<'_>],
    before: &Zones,
    hinted: &mut ByZone,
) -> Result<(), Disabled> {
    for endpoint in ready_endpoints(open) {
        match own_zone(endpoint) {
            Some(zone) => {
                *hinted.entry(zone.clone()).or_default() += 1;
                endpoint.hints = Some(for_zone(zone));
            }
            None if topology.is_tolerant() => lend(endpoint, allocations, before, hinted),
            None => return Err(Disabled::NoZoneSpecified),
        }
    }
    redistribute(open, transfers(allocations, hinted), before, hinted);
    Ok(())
}

fn ready_endpoints<'s>(open: &'s mut [&mut Draft<'_>]) -> impl Iterator<Item = &'s mut Endpoint> {
    open.iter_mut().flat_map(|draft| &mut draft.slice.endpoints).filter(|endpoint| is_ready(endpoint))
}

fn own_zone(endpoint: &Endpoint) -> Option<&Text> {
    endpoint.zone.as_ref().filter(|zone| !zone.is_empty())
}

/// The zones that the endpoints of a slice are hinted for, by name of the target.
fn zones(slice: &EndpointSlice) -> impl Iterator<Item = (Text, Text)> {
    slice.endpoints.iter().filter(|endpoint| is_ready(endpoint)).filter_map(|endpoint| {
        let hints = endpoint.hints.as_ref()?;
        Some((endpoint.target_ref.as_ref()?.name.clone(), hints.for_zones.first()?.name.clone()))
    })
}

fn zone_before<'b>(endpoint: &Endpoint, before: &'b Zones) -> Option<&'b Text> {
    before.get(&endpoint.target_ref.as_ref()?.name)
}

/// Hints an endpoint that has no zone for the one that it was hinted for before, else the one that lacks most. Proxies
/// ignore the hints of all endpoints for one that has none.
fn lend(
    endpoint: &mut Endpoint,
    allocations: &BTreeMap<&Text, Allocation>,
    before: &Zones,
    hinted: &mut ByZone,
) {
    let count = |zone: &Text| hinted.get(zone).copied().unwrap_or_default();
    let has_room =
        |zone: &&Text| allocations.get(zone).is_some_and(|allocation| count(zone) < allocation.maximum);
    let lack = |zone: &Text, allocation: &Allocation| allocation.desired - count(zone) as f64;
    let neediest = || {
        let by_lack = allocations.iter().map(|(zone, allocation)| (*zone, lack(zone, allocation)));
        // Of several that lack as much, the first by name.
        by_lack.reduce(|most, next| if next.1 > most.1 { next } else { most }).map(|(zone, _)| zone)
    };
    if let Some(zone) = zone_before(endpoint, before).filter(has_room).or_else(neediest).cloned() {
        endpoint.hints = Some(for_zone(&zone));
        *hinted.entry(zone).or_default() += 1;
    }
}

/// Hints endpoints of zones that have too many for zones that have too few (upstream `redistributeHints`).
fn redistribute(open: &mut [&mut Draft<'_>], mut left: Transfers, before: &Zones, hinted: &mut ByZone) {
    if left.is_done() {
        return;
    }
    for endpoint in ready_endpoints(open) {
        if let Some(zone) = zone_before(endpoint, before).filter(|zone| left.receiving.contains_key(*zone)) {
            transfer(endpoint, zone, &mut left, hinted);
        }
    }
    for endpoint in ready_endpoints(open) {
        let neediest = left.receiving.iter().reduce(|most, next| if next.1 > most.1 { next } else { most });
        if let Some(zone) = neediest.map(|(zone, _)| zone.clone()) {
            transfer(endpoint, &zone, &mut left, hinted);
        }
    }
}

/// Hints an endpoint for another zone, if its own has to give.
fn transfer(endpoint: &mut Endpoint, to: &Text, left: &mut Transfers, hinted: &mut ByZone) {
    let Some(own) = own_zone(endpoint) else { return };
    // An endpoint that serves another zone by now is not given twice.
    let is_own = |hint: &Hint| hint.name == *own;
    if !endpoint.hints.as_ref().is_some_and(|hints| hints.for_zones.iter().all(is_own))
        || !Transfers::take(&mut left.giving, own)
    {
        return;
    }
    Transfers::take(&mut left.receiving, to);
    if let Some(count) = hinted.get_mut(own) {
        *count = count.saturating_sub(1);
    }
    *hinted.entry(to.clone()).or_default() += 1;
    endpoint.hints = Some(for_zone(to));
}
