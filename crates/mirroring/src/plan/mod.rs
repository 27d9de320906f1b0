//! The plan of one sync of an Endpoints object: a function of its inputs, without clock,
//! randomness, log or client. The same inputs give the same plan, and the order of the existing
//! slices makes no difference.

mod desired;
mod inputs;
mod object;
mod orphans;
mod outcome;
mod reuse;
mod verdict;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::endpoints::EndpointSubset;
use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::well_known::{
    ENDPOINT_CONTROLLER, LABEL_ENDPOINTS_MANAGED_BY, LABEL_SKIP_MIRROR,
};
use kube_endpoint_core_model::{AddressType, EndpointSlice, Endpoints, Service, Writes};

use desired::{Desired, EndpointsByIdentity};

pub use inputs::{DEFAULT_MAX_ENDPOINTS_PER_SUBSET, PlanInputs, PlanOptions};
pub use orphans::{KeptOrphans, KeptReason, OrphanInputs, OrphanVerdict, judge_orphans, kept_events};
pub use outcome::{Plan, PlanStats};
pub use verdict::{AddressVerdict, MirrorVerdict, NotMirrored, SkipReason};

/// Slices with the same address type and the same ports form a group.
type Group = (AddressType, PortSet);

/// Plans one sync (upstream `syncEndpoints` and `reconcile`). The plan is empty if the Endpoints
/// [lack](lacks_content) their addresses.
pub fn plan(inputs: &PlanInputs<'_>) -> Plan {
    let mut existing: Vec<&Arc<EndpointSlice>> = inputs.existing_slices.iter().collect();
    existing.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    match source(inputs) {
        Ok((service, endpoints)) => match endpoints.subsets.listed() {
            Some(subsets) => mirror(service, endpoints, subsets, &existing, inputs.options),
            None => Plan::default(),
        },
        Err(reason) => Plan {
            writes: Writes {
                delete: existing.into_iter().filter(|_| reason.ends_mirroring()).cloned().collect(),
                ..Writes::default()
            },
            verdicts: inputs
                .endpoints
                .map(|endpoints| verdict::not_mirrored(endpoints, reason))
                .unwrap_or_default(),
            not_mirrored: Some(reason),
            ..Plan::default()
        },
    }
}

/// Returns true if the plan would mirror the Endpoints, but the input has only a summary of their
/// addresses. That happens if the endpoints controller wrote them before the Service lost its
/// selector.
pub fn lacks_content(inputs: &PlanInputs<'_>) -> bool {
    source(inputs).is_ok_and(|(_, endpoints)| endpoints.subsets.listed().is_none())
}

/// Checks the conditions for mirroring that concern the Endpoints alone (upstream `shouldMirror`).
/// The controller also calls this for changed Endpoints, to find out if they need a sync.
///
/// # Errors
///
/// The reason why the controller does not mirror them.
pub fn mirrorable(endpoints: &Endpoints) -> Result<(), NotMirrored> {
    if endpoints.metadata.labels.get(LABEL_SKIP_MIRROR).is_some_and(|value| **value == *"true") {
        return Err(NotMirrored::SkipLabel);
    }
    if endpoints.is_lock() {
        return Err(NotMirrored::LeaderElection);
    }
    Ok(())
}

fn source<'a>(inputs: &PlanInputs<'a>) -> Result<(&'a Service, &'a Endpoints), NotMirrored> {
    let endpoints = inputs.endpoints.ok_or(NotMirrored::NoEndpoints)?;
    mirrorable(endpoints)?;
    let service = inputs.service.ok_or(NotMirrored::NoService)?;
    if service.selector.is_some() {
        return Err(NotMirrored::Selector);
    }
    let was_made = endpoints.metadata.labels.get(LABEL_ENDPOINTS_MANAGED_BY);
    if inputs.options.endpoint_selectors
        && service.endpoint_selector().is_some()
        && was_made.is_some_and(|by| **by == *ENDPOINT_CONTROLLER)
    {
        return Err(NotMirrored::EndpointSelector);
    }
    Ok((service, endpoints))
}

fn mirror(
    service: &Service,
    endpoints: &Endpoints,
    subsets: &[EndpointSubset],
    existing: &[&Arc<EndpointSlice>],
    options: &PlanOptions,
) -> Plan {
    let max = options.max_endpoints_per_subset;
    let Desired { groups, events, skipped, verdicts } = Desired::of(subsets, max);
    let stats = PlanStats { skipped, ..PlanStats::default() };
    let mut plan = Plan { events, verdicts, stats, ..Plan::default() };
    let mut existing_groups: BTreeMap<Group, Vec<&Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in existing {
        let group = (slice.address_type, PortSet::new(&slice.ports));
        existing_groups.entry(group).or_default().push(slice);
    }
    let template = object::Template::of(service, endpoints, options);
    for (group, wanted) in groups {
        let found = existing_groups.remove(&group).unwrap_or_default();
        plan_group(&mut plan, &template, group, wanted, found, max);
    }
    // No address serves the ports of these slices any more. Upstream does not count their endpoints
    // as removed.
    plan.writes.delete.extend(existing_groups.into_values().flatten().cloned());
    let mut writes = reuse::reuse_deleted_slices(plan.writes);
    writes.delete.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    writes.update.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    if endpoints.metadata.deletion_timestamp.is_some() {
        writes.create.clear();
    }
    Plan { writes, ..plan }
}

/// Plans the slices of one group: keeps or creates one, and deletes the others (upstream
/// `reconcileByPortMapping`).
fn plan_group(
    plan: &mut Plan,
    template: &object::Template<'_>,
    group: Group,
    wanted: EndpointsByIdentity,
    existing: Vec<&Arc<EndpointSlice>>,
    max: usize,
) {
    let stats = &mut plan.stats;
    stats.endpoints_desired += wanted.len();
    stats.slices_desired += wanted.len().div_ceil(max.max(1));
    if wanted.is_empty() {
        stats.removed += existing.iter().map(|slice| slice.endpoints.len()).sum::<usize>();
        plan.writes.delete.extend(existing.into_iter().cloned());
        return;
    }
    stats.slices += 1;
    // Upstream keeps the first slice that it finds. Keeping the one with the fewest changes may
    // save a write.
    let compared = existing.iter().map(|slice| (template.changes(slice, &wanted), *slice));
    let Some((changes, kept)) = compared.min_by_key(|(changes, _)| changes.cost()) else {
        stats.added += wanted.len();
        plan.writes.create.push(template.new_slice(group, wanted));
        return;
    };
    stats.added += changes.added;
    stats.updated += changes.updated;
    stats.removed += changes.removed;
    plan.writes.delete.extend(existing.into_iter().filter(|slice| !Arc::ptr_eq(slice, kept)).cloned());
    if changes.cost() > 0 {
        plan.writes.update.push(template.replacement(kept, group, wanted));
    }
}
