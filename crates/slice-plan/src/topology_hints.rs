//! Hints of topology mode `Auto`: each ready endpoint gets a hint for its own zone, except for some
//! that get a hint for another zone, so that each zone has endpoints in proportion to its CPU
//! (upstream `TopologyCache.AddHints`).
//!
//! Upstream picks the endpoints that serve another zone, and that zone, at random. Here an endpoint
//! serves the other zone until that zone has enough endpoints of its own, so that a change of one
//! endpoint does not move the hints of others.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::slice::Hint;
use kube_endpoint_core_model::{Endpoint, EndpointSlice, Text};

use super::drafts::{Draft, copied};
use super::hints::{Slices, for_zone, is_ready};
use crate::topology::{Allocation, Disabled, TopologyState, Transfers, allocate, hints_by_zone, transfers};

/// The maximum number of rounds of assigning hints. Each corresponds to a sync of upstream's
/// controller; nearly always two suffice.
const MAX_ROUNDS: usize = 8;

/// Number of hinted endpoints by zone.
type ByZone = BTreeMap<Text, usize>;

/// The zones in the hints of endpoints, by name of their target.
type Zones = BTreeMap<Text, Text>;

/// Sets the hints of the slices that the plan writes, and of unchanged slices whose hints are
/// wrong. `ready` is the number of ready endpoints of all slices. Returns the number of hinted
/// endpoints by zone.
///
/// Upstream may leave a zone with too few endpoints until its next sync, because it changes hints
/// only in slices that it writes anyway. This makes all rounds of upstream in one plan.
///
/// # Errors
///
/// The reason why there can be no hints. The slices then still have arbitrary hints, which the
/// caller has to remove.
pub(super) fn assign_topology_hints(
    topology: &TopologyState,
    slices: &mut Slices<'_>,
    ready: usize,
) -> Result<ByZone, Disabled> {
    let allocations = allocate(topology, ready)?;

    let mut hinted = ByZone::new();
    slices.rehint(|slice| !add_if_right(slice, &mut hinted, &allocations));
    let mut drafts: Vec<&mut Draft<'_>> = slices.written.iter_mut().chain(&mut slices.rehinted).collect();
    let before: Zones =
        drafts.iter().filter_map(|draft| draft.replaces).flat_map(|slice| zones(slice)).collect();
    assign(&allocations, &mut drafts, &before, &mut hinted)?;

    for _ in 1..MAX_ROUNDS {
        // If no zone has more than its maximum, the hints of every slice are right.
        let is_within = |(zone, count): (&Text, &usize)| {
            allocations.get(zone).is_some_and(|allocation| *count <= allocation.maximum)
        };
        if hinted.iter().all(is_within) {
            break;
        }
        let (mut drafts, mut hinted_elsewhere) = find_wrong(slices, &allocations);
        if drafts.is_empty() {
            break;
        }
        let before: Zones = drafts.iter().flat_map(|draft| zones(&draft.slice)).collect();
        assign(&allocations, &mut drafts, &before, &mut hinted_elsewhere)?;
        let after: Zones = drafts.iter().flat_map(|draft| zones(&draft.slice)).collect();
        hinted = hinted_elsewhere;
        if after == before {
            break;
        }
    }
    Ok(hinted)
}

/// Adds the hints of a slice to `hinted` and returns true, unless some of them are wrong.
fn add_if_right(
    slice: &EndpointSlice,
    hinted: &mut ByZone,
    allocations: &BTreeMap<&Text, Allocation>,
) -> bool {
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

/// Returns the slices whose hints the next sync would find wrong, and the hints of the others.
fn find_wrong<'s, 'a>(
    slices: &'s mut Slices<'a>,
    allocations: &BTreeMap<&Text, Allocation>,
) -> (Vec<&'s mut Draft<'a>>, ByZone) {
    let written = slices.written.iter().enumerate().map(|(at, draft)| (&draft.slice, Which::Written(at)));
    let rehinted = slices.rehinted.iter().enumerate().map(|(at, draft)| (&draft.slice, Which::Rehinted(at)));
    let unchanged = slices.unchanged.iter().enumerate().map(|(at, slice)| (&***slice, Which::Unchanged(at)));
    let mut by_name: Vec<(&EndpointSlice, Which)> = written.chain(rehinted).chain(unchanged).collect();
    // New slices come last: they have no name yet.
    by_name.sort_by_key(|(slice, which)| (slice.metadata.name.is_empty(), &slice.metadata.name, *which));
    let mut hinted = ByZone::new();
    by_name.retain(|(slice, _)| !add_if_right(slice, &mut hinted, allocations));
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
    let is_wrong = |(at, draft), which: fn(usize) -> Which| wrong.contains(&which(at)).then_some(draft);
    let written = slices.written.iter_mut().enumerate().filter_map(|one| is_wrong(one, Which::Written));
    let rehinted = slices
        .rehinted
        .iter_mut()
        .enumerate()
        .filter_map(|(at, draft)| (at >= known || wrong.contains(&Which::Rehinted(at))).then_some(draft));
    (written.chain(rehinted).collect(), hinted)
}

/// Sets the hints of the endpoints of `drafts`, and adds them to `hinted`, which counts the hints
/// of all other slices. `before` are the hints that the endpoints had.
fn assign(
    allocations: &BTreeMap<&Text, Allocation>,
    drafts: &mut [&mut Draft<'_>],
    before: &Zones,
    hinted: &mut ByZone,
) -> Result<(), Disabled> {
    for endpoint in ready_endpoints(drafts) {
        match own_zone(endpoint) {
            Some(zone) => {
                *hinted.entry(zone.clone()).or_default() += 1;
                endpoint.hints = Some(for_zone(zone));
            }
            None => return Err(Disabled::NoZoneSpecified),
        }
    }
    redistribute(drafts, transfers(allocations, hinted), before, hinted);
    Ok(())
}

fn ready_endpoints<'s>(drafts: &'s mut [&mut Draft<'_>]) -> impl Iterator<Item = &'s mut Endpoint> {
    drafts.iter_mut().flat_map(|draft| &mut draft.slice.endpoints).filter(|endpoint| is_ready(endpoint))
}

fn own_zone(endpoint: &Endpoint) -> Option<&Text> {
    endpoint.zone.as_ref().filter(|zone| !zone.is_empty())
}

/// Returns the zones in the hints of a slice's endpoints, by name of the target.
fn zones(slice: &EndpointSlice) -> impl Iterator<Item = (Text, Text)> {
    slice.endpoints.iter().filter(|endpoint| is_ready(endpoint)).filter_map(|endpoint| {
        let hints = endpoint.hints.as_ref()?;
        Some((endpoint.target_ref.as_ref()?.name.clone(), hints.for_zones.first()?.name.clone()))
    })
}

fn zone_before<'b>(endpoint: &Endpoint, before: &'b Zones) -> Option<&'b Text> {
    before.get(&endpoint.target_ref.as_ref()?.name)
}

/// Hints endpoints of zones that have too many for zones that have too few (upstream
/// `redistributeHints`).
fn redistribute(
    drafts: &mut [&mut Draft<'_>],
    mut remaining: Transfers,
    before: &Zones,
    hinted: &mut ByZone,
) {
    if remaining.is_done() {
        return;
    }
    for endpoint in ready_endpoints(drafts) {
        if let Some(zone) =
            zone_before(endpoint, before).filter(|zone| remaining.receiving.contains_key(*zone))
        {
            transfer(endpoint, zone, &mut remaining, hinted);
        }
    }
    for endpoint in ready_endpoints(drafts) {
        let most_lacking =
            remaining.receiving.iter().reduce(|most, next| if next.1 > most.1 { next } else { most });
        if let Some(zone) = most_lacking.map(|(zone, _)| zone.clone()) {
            transfer(endpoint, &zone, &mut remaining, hinted);
        }
    }
}

/// Hints an endpoint for another zone, if its own zone has too many.
fn transfer(endpoint: &mut Endpoint, to: &Text, remaining: &mut Transfers, hinted: &mut ByZone) {
    let Some(own) = own_zone(endpoint) else { return };
    // An endpoint that already serves another zone stays there.
    let is_own = |hint: &Hint| hint.name == *own;
    if !endpoint.hints.as_ref().is_some_and(|hints| hints.for_zones.iter().all(is_own))
        || !Transfers::take(&mut remaining.giving, own)
    {
        return;
    }
    Transfers::take(&mut remaining.receiving, to);
    if let Some(count) = hinted.get_mut(own) {
        *count = count.saturating_sub(1);
    }
    *hinted.entry(to.clone()).or_default() += 1;
    endpoint.hints = Some(for_zone(to));
}
