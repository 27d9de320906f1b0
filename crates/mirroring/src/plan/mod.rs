//! What one sync of an Endpoints object should write: a function of what is known, without clock, randomness, log or
//! client. The same inputs give the same plan, whatever the order of the existing slices.

mod desired;
mod object;
mod recycle;
mod render;

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::well_known::{ANNOTATION_LEADER, LABEL_SKIP_MIRROR};
use kube_endpoint_core_model::{AddressType, EndpointSlice, Endpoints, PlannedEvent, Service};

use desired::{Desired, EndpointsByIdentity};
pub use render::render;

/// All that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct PlanInputs<'a> {
    /// The Service of the same name, if there is one.
    pub service: Option<&'a Service>,
    /// The Endpoints object, if there is one.
    pub endpoints: Option<&'a Endpoints>,
    /// The slices that are labelled with the Service's name and as managed by this controller, none being deleted, in
    /// any order.
    pub existing_slices: &'a [Arc<EndpointSlice>],
    /// Settings.
    pub options: &'a PlanOptions,
}

/// Settings of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// How many addresses of a subset are mirrored at most (`--mirroring-max-endpoints-per-subset`), so that each subset
    /// makes one slice for each address family.
    pub max_endpoints_per_subset: usize,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { max_endpoints_per_subset: 1000 }
    }
}

/// Why nothing is mirrored, so that mirrored slices are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotMirrored {
    /// There are no Endpoints.
    NoEndpoints,
    /// The Endpoints carry the label `endpointslice.kubernetes.io/skip-mirror: "true"`.
    SkipLabel,
    /// The Endpoints are a leader-election lock.
    LeaderElection,
    /// There is no Service of that name.
    NoService,
    /// The Service has a selector: its slices are made of pods.
    Selector,
}

impl std::fmt::Display for NotMirrored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoEndpoints => "there are no Endpoints",
            Self::SkipLabel => "the Endpoints ask for it with the skip-mirror label",
            Self::LeaderElection => "the Endpoints are a leader-election lock",
            Self::NoService => "there is no Service of that name",
            Self::Selector => "the Service has a selector",
        })
    }
}

/// What one sync decided. The writer carries out creates, updates and deletes in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Slices to create, with a prefix of a name and no name.
    pub create: Vec<EndpointSlice>,
    /// Slices to replace, with name, uid and version of the existing ones.
    pub update: Vec<EndpointSlice>,
    /// Slices to delete, sorted by name.
    pub delete: Vec<Arc<EndpointSlice>>,
    /// Events about the Endpoints object.
    pub events: Vec<PlannedEvent>,
    /// Set when nothing is mirrored: all slices are deleted, and the Endpoints count in no metric any more.
    pub not_mirrored: Option<NotMirrored>,
    /// Numbers for the metrics.
    pub stats: Stats,
}

impl Plan {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.update.is_empty() && self.delete.is_empty()
    }
}

/// What upstream's metrics `endpoint_slice_mirroring_controller_*` count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// `endpoints_added_per_sync`
    pub added: usize,
    /// `endpoints_updated_per_sync`
    pub updated: usize,
    /// `endpoints_removed_per_sync`
    pub removed: usize,
    /// `addresses_skipped_per_sync`: invalid ones, and those beyond the maximum.
    pub skipped: usize,
    /// What these Endpoints add to `endpoints_desired`.
    pub endpoints_desired: usize,
    /// What they add to `num_endpoint_slices`.
    pub slices: usize,
    /// What they add to `desired_endpoint_slices`.
    pub slices_desired: usize,
}

/// Slices of one address type and one set of ports belong together.
type Group = (AddressType, PortSet);

/// Plans one sync (upstream `syncEndpoints` and `reconcile`).
pub fn plan(inputs: &PlanInputs<'_>) -> Plan {
    let mut existing: Vec<&Arc<EndpointSlice>> = inputs.existing_slices.iter().collect();
    existing.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    match source(inputs) {
        Ok(endpoints) => mirror(endpoints, &existing, inputs.options.max_endpoints_per_subset),
        Err(reason) => Plan {
            delete: existing.into_iter().cloned().collect(),
            not_mirrored: Some(reason),
            ..Plan::default()
        },
    }
}

/// Whether these Endpoints are mirrored as far as they alone can tell (upstream `shouldMirror`). The controller asks it
/// also of changes, to tell which matter.
pub fn mirrorable(endpoints: &Endpoints) -> Result<(), NotMirrored> {
    if endpoints.metadata.labels.get(LABEL_SKIP_MIRROR).is_some_and(|value| **value == *"true") {
        return Err(NotMirrored::SkipLabel);
    }
    if endpoints.metadata.annotations.contains_key(ANNOTATION_LEADER) {
        return Err(NotMirrored::LeaderElection);
    }
    Ok(())
}

fn source<'a>(inputs: &PlanInputs<'a>) -> Result<&'a Endpoints, NotMirrored> {
    let endpoints = inputs.endpoints.ok_or(NotMirrored::NoEndpoints)?;
    mirrorable(endpoints)?;
    let service = inputs.service.ok_or(NotMirrored::NoService)?;
    if service.selector.is_some() {
        return Err(NotMirrored::Selector);
    }
    Ok(endpoints)
}

fn mirror(endpoints: &Endpoints, existing: &[&Arc<EndpointSlice>], max: usize) -> Plan {
    let Desired { groups, events, skipped } = Desired::of(endpoints, max);
    let mut plan = Plan { events, stats: Stats { skipped, ..Stats::default() }, ..Plan::default() };
    let mut existing_groups: BTreeMap<Group, Vec<&Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in existing {
        let group = (slice.address_type, PortSet::new(&slice.ports));
        existing_groups.entry(group).or_default().push(slice);
    }
    let template = object::Template::of(endpoints);
    for (group, wanted) in groups {
        let found = existing_groups.remove(&group).unwrap_or_default();
        plan_group(&mut plan, &template, group, wanted, found, max);
    }
    // Ports that nobody serves any more. Upstream does not count their endpoints as removed.
    plan.delete.extend(existing_groups.into_values().flatten().cloned());
    recycle::recycle(&mut plan);
    plan.delete.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    plan.update.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    if endpoints.metadata.deletion_timestamp.is_some() {
        plan.create.clear();
    }
    plan
}

/// Plans the slices of one group, of which one stays (upstream `reconcileByPortMapping`).
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
        plan.delete.extend(existing.into_iter().cloned());
        return;
    }
    stats.slices += 1;
    // Upstream keeps whichever comes first. The one with the least to change may have nothing to change at all.
    let compared = existing.iter().map(|slice| (template.changes(slice, &wanted), *slice));
    let Some((changes, kept)) = compared.min_by_key(|(changes, _)| changes.cost()) else {
        stats.added += wanted.len();
        plan.create.push(template.new_slice(group, wanted));
        return;
    };
    stats.added += changes.added;
    stats.updated += changes.updated;
    stats.removed += changes.removed;
    plan.delete.extend(existing.into_iter().filter(|slice| !Arc::ptr_eq(slice, kept)).cloned());
    if changes.cost() > 0 {
        plan.update.push(template.replacement(kept, group, wanted));
    }
}
