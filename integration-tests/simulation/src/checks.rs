//! Reads the state and the activity of managers from their handles.

use kube_endpoint_controller_runtime::StateCounts;
use kube_endpoint_controllers::{ManagerHandle, RunningControllers};
use kube_endpoint_informer::Kind;

/// Returns the controllers of a manager, each with the number of keys that are queued or being
/// synced, and the counts of its state.
pub(crate) fn controllers(handle: &ManagerHandle) -> [(&'static str, usize, StateCounts); 4] {
    let RunningControllers { endpoint_slice, endpoints, retire_all: _, mirroring, endpoint_selector } =
        handle.controllers();
    let counts = |found: Option<(usize, StateCounts)>| found.unwrap_or_default();
    let slices = counts(endpoint_slice.as_ref().map(|it| (it.pending(), it.state_counts())));
    let endpoints = counts(endpoints.as_ref().map(|it| (it.pending(), it.state_counts())));
    let mirroring = counts(mirroring.as_ref().map(|it| (it.pending(), it.state_counts())));
    let selector = counts(endpoint_selector.as_ref().map(|it| (it.pending(), it.state_counts())));
    [
        ("endpointslice", slices.0, slices.1),
        ("endpoints", endpoints.0, endpoints.1),
        ("mirroring", mirroring.0, mirroring.1),
        ("endpoint selector", selector.0, selector.1),
    ]
}

/// Returns true if a manager that writes has nothing to do and has read all changes of slices.
pub(crate) fn is_idle(handle: &ManagerHandle, last_slice: u64) -> bool {
    let is_quiet =
        |counts: &StateCounts| counts.deferred == 0 && counts.failing == 0 && counts.outstanding_writes == 0;
    *handle.leading().borrow()
        && handle.has_synced()
        && handle.cluster().position(Kind::EndpointSlices).0 >= last_slice
        && controllers(handle).iter().all(|(_, pending, counts)| *pending == 0 && is_quiet(counts))
}

/// Returns true if a manager has read all changes of Services.
pub(crate) fn has_read_services(handle: &ManagerHandle, last_service: u64) -> bool {
    handle.cluster().position(Kind::Services).0 >= last_service
}

/// Checks that all caches have read up to a version. Bookmarks tell the version if nothing changes.
///
/// # Errors
///
/// If one has not.
pub(crate) fn has_read(handle: &ManagerHandle, version: u64) -> Result<(), String> {
    // The endpoint selector controller asks for Endpoints when it takes a Service over. The others
    // read no EndpointSelectors.
    let is_addon = handle.controllers().endpoint_selector.is_some();
    let unread = if is_addon { Kind::Endpoints } else { Kind::EndpointSelectors };
    // Once no EndpointSelector names a Lease, nobody reads Leases.
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != unread && *kind != Kind::Leases) {
        let read = handle.cluster().position(kind).0;
        if read < version {
            return Err(format!("the cache of {} has read up to {read} and not to {version}", kind.name()));
        }
    }
    Ok(())
}

/// Checks that the controllers keep no state for any key.
///
/// # Errors
///
/// If one does.
pub(crate) fn keeps_nothing(handle: &ManagerHandle) -> Result<(), String> {
    for (name, pending, counts) in controllers(handle) {
        if pending != 0 || counts != StateCounts::default() {
            return Err(format!("the {name} controller has {pending} keys queued and keeps {counts:?}"));
        }
    }
    Ok(())
}

/// Checks that no key is queued, put off or failing. A controller may keep the name of a create
/// whose answer was lost for the next create.
///
/// # Errors
///
/// If one is.
pub(crate) fn waits_for_nothing(handle: &ManagerHandle) -> Result<(), String> {
    for (name, pending, counts) in controllers(handle) {
        if (pending, counts.deferred, counts.failing) != (0, 0, 0) {
            return Err(format!("the {name} controller still waits: {pending} keys queued, {counts:?}"));
        }
    }
    Ok(())
}

/// The amount of state of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The number of keys with state.
    pub(crate) keys: usize,
    /// Changes of outputs by other clients.
    pub(crate) changes: usize,
    /// Writes that the cache does not show yet, with their keys.
    pub(crate) outstanding: usize,
}

/// Returns the maxima over the controllers.
pub(crate) fn most_kept(handle: &ManagerHandle) -> Kept {
    controllers(handle).iter().fold(Kept::default(), |most, (_, pending, counts)| {
        let StateCounts {
            trigger_times,
            outstanding_writes,
            reported,
            deferred,
            foreign_changes,
            failing,
            leftovers,
            own,
        } = *counts;
        let keys = [*pending, trigger_times, reported, deferred, failing, leftovers, own];
        Kept {
            keys: keys.into_iter().fold(most.keys, usize::max),
            changes: most.changes.max(foreign_changes),
            outstanding: most.outstanding.max(outstanding_writes),
        }
    })
}
