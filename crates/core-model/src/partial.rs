//! Chooses the writes of a plan that are safe when the API server has refused others of the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::slice::{EndpointConditions, EndpointIdentity};
use crate::well_known::ANNOTATION_TRIGGER_TIME;
use crate::{Endpoint, EndpointSlice, ObjectKey, Writes};

/// A slice that a plan updates or deletes.
struct Change {
    old: Arc<EndpointSlice>,
    /// The slice after the plan, or `None` if the plan deletes it.
    new: Option<EndpointSlice>,
    /// True if the change would remove the only entry of a ready endpoint. If so, the reduced write
    /// only removes entries from the slice.
    unsafe_now: bool,
}

/// Reduces the writes of a plan to those that are safe although the plan could not create or update
/// the slices in `missing`. `rest` are the plan's updates and deletes that are left, and `existing`
/// are the slices that they concern.
///
/// After the returned writes
///
/// - every endpoint that was ready and that the plan keeps ready has a ready entry: the one that it
///   had, or the planned one;
/// - no endpoint is ready that the plan removes or makes unready.
///
/// If an update or delete takes the only entry from such an endpoint, this replaces it by an update
/// that removes the entries that the plan places elsewhere or nowhere, and that makes the entries
/// unready that the plan makes unready. It leaves out an update for which `existing` has no slice
/// of the same version.
pub fn writes_without(
    existing: &[Arc<EndpointSlice>],
    rest: Writes<EndpointSlice>,
    missing: &[EndpointSlice],
) -> Writes<EndpointSlice> {
    // The planned endpoints that have no place.
    let mut unplaced: BTreeMap<EndpointIdentity, EndpointConditions> = BTreeMap::new();
    let mut added: Vec<(EndpointIdentity, EndpointConditions)> = entries(missing).collect();
    let by_name: BTreeMap<ObjectKey, &Arc<EndpointSlice>> =
        existing.iter().map(|it| (it.key(), it)).collect();
    let mut changes = Vec::with_capacity(rest.len());
    for new in rest.update {
        match by_name.get(&new.key()).filter(|old| is_same_version(old, &new)) {
            Some(old) => changes.push(Change { old: Arc::clone(old), new: Some(new), unsafe_now: false }),
            None => added.extend(entries([&new])),
        }
    }
    changes.extend(rest.delete.into_iter().map(|old| Change { old, new: None, unsafe_now: false }));

    let removers = removers(&changes);
    while let Some((identity, conditions)) = added.pop() {
        let needed = is_ready(conditions);
        if needed {
            for index in removers.get(&identity).into_iter().flatten() {
                let Some(change) = changes.get_mut(*index).filter(|change| !change.unsafe_now) else {
                    continue;
                };
                change.unsafe_now = true;
                added.extend(entries(&change.new));
            }
        }
        let known = unplaced.entry(identity).or_insert(conditions);
        if needed {
            *known = conditions;
        }
    }

    let trigger_time =
        missing.first().and_then(|slice| slice.metadata.annotations.get(ANNOTATION_TRIGGER_TIME));
    let mut writes = Writes::default();
    let mut reduced = Vec::new();
    for change in changes {
        match change {
            Change { old, unsafe_now: true, .. } => {
                let mut slice = EndpointSlice::clone(&old);
                slice.endpoints = slice.endpoints.into_iter().filter_map(|it| kept(it, &unplaced)).collect();
                if slice.endpoints != old.endpoints {
                    let annotations = &mut slice.metadata.annotations;
                    *annotations = match trigger_time {
                        Some(time) => annotations.with(ANNOTATION_TRIGGER_TIME, time.clone()),
                        None => annotations.without(ANNOTATION_TRIGGER_TIME),
                    };
                    reduced.push(slice);
                }
            }
            Change { new: Some(new), .. } => writes.update.push(new),
            Change { old, .. } => writes.delete.push(old),
        }
    }
    // They remove entries that planned updates add elsewhere.
    writes.update.extend(reduced);
    writes
}

/// Returns the changes that remove the ready entry of an endpoint, by endpoint.
fn removers(changes: &[Change]) -> BTreeMap<EndpointIdentity, Vec<usize>> {
    let mut removers: BTreeMap<EndpointIdentity, Vec<usize>> = BTreeMap::new();
    for (index, change) in changes.iter().enumerate() {
        let same_ports = |new: &&EndpointSlice| new.ports == change.old.ports;
        let stays: BTreeSet<EndpointIdentity> =
            entries(change.new.as_ref().filter(same_ports)).map(|(identity, _)| identity).collect();
        for (identity, conditions) in entries([&*change.old]) {
            if is_ready(conditions) && !stays.contains(&identity) {
                removers.entry(identity).or_default().push(index);
            }
        }
    }
    removers
}

/// Returns an entry of a slice whose planned change is not safe, or `None` if the plan places the
/// endpoint elsewhere or nowhere.
fn kept(
    mut endpoint: Endpoint,
    unplaced: &BTreeMap<EndpointIdentity, EndpointConditions>,
) -> Option<Endpoint> {
    let planned = *unplaced.get(&endpoint.identity())?;
    if !is_ready(planned) {
        endpoint.conditions = planned;
    }
    Some(endpoint)
}

fn entries<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
) -> impl Iterator<Item = (EndpointIdentity, EndpointConditions)> {
    slices.into_iter().flat_map(|slice| &slice.endpoints).map(|it| (it.identity(), it.conditions))
}

/// Absent readiness means ready.
fn is_ready(conditions: EndpointConditions) -> bool {
    conditions.ready != Some(false)
}

fn is_same_version(old: &EndpointSlice, new: &EndpointSlice) -> bool {
    let (old, new) = (&old.metadata, &new.metadata);
    old.uid == new.uid && old.resource_version == new.resource_version
}

#[cfg(test)]
mod tests;
