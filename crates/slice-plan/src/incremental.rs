//! A plan from the pods that have changed since the last one. It equals the plan from all pods,
//! except that it has verdicts on the changed pods only.
//!
//! The steps are those of [`plan`](super::plan()), over the slices that the change concerns: the
//! slices that hold endpoints of changed pods, and one that takes new endpoints if these have no
//! room. All other endpoints of these slices are right as they are, so each of them stands for its
//! pod. The plan from all pods handles changes that concern more slices, and creates and deletes
//! slices.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube_endpoint_core_model::change::ChangedPod;
use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::{EndpointSlice, IpFamily, Pod, Text};

use super::family;
use super::hints::Strategy;
use super::index::{GroupIndex, Index, IndexVec};
use super::inputs::PlanInputs;
use super::keeping::{Change, keep};
use super::outcome::{AddressTypeStats, GroupStats, Plan, SubPlan};
use super::pods::{Candidate, Candidates, PortGroup};
use super::state::{FamilyState, PlanState, target};
use super::{plan_stats, stamp};
use crate::topology::HintedState;

/// The part of a family's slices that a change concerns.
struct Part<'c, 'a> {
    family: IpFamily,
    group: &'c PortGroup,
    slices: BTreeSet<usize>,
    /// The changed pods whose endpoints are not right as they are, by name, with their candidates,
    /// if they are published.
    changed: BTreeMap<&'a Text, Option<&'c Candidate<'a>>>,
    /// The slices that hold their endpoints.
    before: BTreeMap<&'a Text, usize>,
}

/// How a change was planned for one family.
enum PartPlan {
    /// The family's slices stay as they are.
    Unchanged,
    /// These writes, after which the endpoints of some pods are elsewhere.
    Changed(SubPlan, Vec<Move>),
    /// The change concerns more than single slices.
    NeedsAllPods,
}

/// A changed pod, and the slice that held its endpoint.
struct Move {
    pod: Text,
    from: Option<usize>,
}

/// Where new endpoints have room.
enum Room {
    /// In the slices of the part.
    Here,
    /// In this other slice.
    In(usize),
    /// In no slice that there is.
    Nowhere,
}

impl PlanState {
    /// Plans the sync after the one whose plan left this state. `changed` are the pods that have
    /// changed in between, each once and sorted by name. This ignores [`PlanInputs::pods`]. Nodes
    /// must be the same as for that plan. The plan and the returned state are those of
    /// [`plan_and_keep`](super::plan_and_keep) with all pods, but the plan has only verdicts on the
    /// changed pods.
    ///
    /// Returns `None` if the caller has to plan from all pods, because the slices or the Service
    /// are not as the state has them, or because the change concerns more than single slices.
    pub fn plan<'a>(mut self, inputs: &PlanInputs<'a>, changed: &'a [ChangedPod]) -> Option<(Plan, Self)> {
        if !self.meets(inputs) {
            return None;
        }
        let service = inputs.service;
        let strategy = Strategy::of(service);
        let pods: Vec<&Pod> = changed.iter().filter_map(|changed| changed.now.as_deref()).collect();
        let candidates = Candidates::of(inputs, &pods, Some(&self.group));
        if candidates.groups.len() != 1 || !candidates.errors.is_empty() {
            return None;
        }
        let mut plan =
            Plan { hinted: inputs.hinted.clone(), stats: plan_stats(service, strategy), ..Plan::default() };
        for (number, family) in service.slice_families().into_iter().enumerate() {
            let state = self.families.get(number)?;
            let part = Part::of(&self, state, family, &candidates, changed);
            let sub_plan = match self.plan_part(state, part, inputs, strategy) {
                PartPlan::NeedsAllPods => return None,
                PartPlan::Unchanged => unchanged(state),
                PartPlan::Changed(mut sub_plan, moves) => {
                    let groups = self.carried_out(number, &sub_plan, &moves)?;
                    sub_plan.stats.as_mut()?.groups = groups;
                    sub_plan
                }
            };
            plan.sub_plans.push(sub_plan);
        }
        plan.verdicts = candidates.verdicts;
        stamp(inputs, &mut plan);
        Some((plan, self))
    }

    fn plan_part<'a>(
        &self,
        state: &FamilyState,
        mut part: Part<'_, 'a>,
        inputs: &PlanInputs<'a>,
        strategy: Strategy,
    ) -> PartPlan {
        if part.changed.is_empty() {
            return PartPlan::Unchanged;
        }
        let existing = inputs.existing_slices;
        // Without endpoints there is a placeholder, which the first endpoint replaces. And a plan
        // deletes a slice that becomes empty, unless it is the last one.
        if state.endpoints == 0 || part.empties_a_slice(existing) {
            return PartPlan::NeedsAllPods;
        }
        let mut candidates = part.candidates(existing);
        if part.has_newcomers() {
            match part.room(self, &candidates, inputs) {
                Room::Here => {}
                Room::In(slice) => {
                    part.slices.insert(slice);
                    candidates = part.candidates(existing);
                }
                Room::Nowhere => return PartPlan::NeedsAllPods,
            }
        }
        let slices = part.slices.iter().filter_map(|slice| existing.get(*slice)).collect();
        let mut hinted = HintedState::default();
        let planned = family::plan(inputs, &candidates, part.family, slices, strategy, 0, &mut hinted);
        let sub_plan = planned.sub_plan;
        let is_simple =
            planned.event.is_none() && sub_plan.writes.create.is_empty() && sub_plan.writes.delete.is_empty();
        if !is_simple {
            return PartPlan::NeedsAllPods;
        }
        let moves = part.before.iter().map(|(pod, slice)| Move { pod: Text::clone(pod), from: Some(*slice) });
        let newcomers = part.changed.keys().filter(|name| !part.before.contains_key(*name));
        let newcomers = newcomers.map(|pod| Move { pod: Text::clone(pod), from: None });
        PartPlan::Changed(sub_plan, moves.chain(newcomers).collect())
    }

    /// Takes over what was planned for a family, and returns the numbers of its groups after it.
    fn carried_out(&mut self, family: usize, sub_plan: &SubPlan, moves: &[Move]) -> Option<Vec<GroupStats>> {
        let names: BTreeSet<&Text> = moves.iter().map(|moved| &moved.pod).collect();
        let mut now: BTreeMap<Text, usize> = BTreeMap::new();
        let (mut more, mut less) = (0, 0);
        for update in &sub_plan.writes.update {
            let number = self.slice_named(&update.metadata.name)?;
            let kept = self.slices.get_mut(number)?;
            less += kept.endpoints().len();
            more += update.endpoints.len();
            let held = update.endpoints.iter().filter_map(target).filter(|name| names.contains(name));
            now.extend(held.map(|name| (name.clone(), number)));
            kept.plan(update.endpoints.clone());
        }
        let state = self.families.get_mut(family)?;
        for Move { pod, from } in moves {
            state.moved(pod, *from, now.get(pod).copied());
        }
        state.endpoints = state.endpoints + more - less;
        state.groups.first_mut()?.endpoints = state.endpoints;
        Some(state.groups.clone())
    }
}

/// Returns the sub-plan of a family that does not change.
fn unchanged(state: &FamilyState) -> SubPlan {
    let stats = AddressTypeStats { groups: state.groups.clone(), ..AddressTypeStats::default() };
    SubPlan { address_type: state.address_type, stats: Some(stats), ..SubPlan::default() }
}

impl<'c, 'a> Part<'c, 'a> {
    fn of(
        state: &'c PlanState,
        of_family: &FamilyState,
        family: IpFamily,
        candidates: &'c Candidates<'a>,
        changed: &'a [ChangedPod],
    ) -> Self {
        let mut part = Self {
            family,
            group: &state.group,
            slices: BTreeSet::new(),
            changed: BTreeMap::new(),
            before: BTreeMap::new(),
        };
        let mut published = candidates.list.iter().peekable();
        for ChangedPod { name, .. } in changed {
            let candidate = published.next_if(|candidate| candidate.name == name);
            let candidate = candidate.filter(|candidate| candidate.has_address(family));
            let place = state.find(of_family, name);
            let endpoint = place.and_then(|(slice, at)| state.slices.get(slice)?.endpoints().get(at));
            let is_right = match (candidate, endpoint) {
                (None, None) => true,
                (Some(one), Some(endpoint)) => one.is(endpoint, family) && one.agrees_with(endpoint),
                _ => false,
            };
            if is_right {
                continue;
            }
            part.changed.insert(name, candidate);
            if let Some((slice, _)) = place {
                part.slices.insert(slice);
                part.before.insert(name, slice);
            }
        }
        part
    }

    /// Returns true if some changed pod may get an endpoint in a slice that does not hold it.
    fn has_newcomers(&self) -> bool {
        self.changed.values().any(Option::is_some)
    }

    /// Returns true if a slice would be left without endpoints that stay in it.
    fn empties_a_slice(&self, existing: &[Arc<EndpointSlice>]) -> bool {
        let stays = |slice: &usize| {
            let endpoints = existing.get(*slice).map_or(&[][..], |slice| &slice.endpoints);
            endpoints.iter().any(|endpoint| match target(endpoint).map(|name| self.changed.get(name)) {
                None => false,
                Some(None) => true,
                Some(Some(candidate)) => candidate.is_some_and(|one| one.is(endpoint, self.family)),
            })
        };
        !self.slices.iter().all(stays)
    }

    /// Returns the changed pods, and the other endpoints of the slices, as candidates.
    fn candidates(&self, existing: &'a [Arc<EndpointSlice>]) -> Candidates<'a> {
        let group = GroupIndex::new(0);
        let mut all: Vec<Candidate<'a>> = self.changed.values().filter_map(|one| one.cloned()).collect();
        for slice in self.slices.iter().filter_map(|slice| existing.get(*slice)) {
            let named = slice.endpoints.iter().filter_map(|endpoint| Some((endpoint, target(endpoint)?)));
            let others = named.filter(|(_, name)| !self.changed.contains_key(name));
            all.extend(others.map(|(endpoint, name)| Candidate::of_endpoint(endpoint, name, group)));
        }
        all.sort_by(|one, two| one.name.cmp(two.name));
        let mut groups = IndexVec::default();
        groups.push(self.group.clone());
        Candidates {
            list: all.into_iter().collect(),
            groups,
            group_of: [(PortSet::new(&self.group.ports), group)].into(),
            verdicts: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Where the new endpoints go, as [`make_room`](super::sizing::make_room) chooses the slice.
    fn room(&self, state: &PlanState, candidates: &Candidates<'a>, inputs: &PlanInputs<'a>) -> Room {
        let (existing, capacity) = (inputs.existing_slices, inputs.capacity());
        let slices = self.slices.iter().filter_map(|slice| existing.get(*slice)).collect();
        let kept = keep(inputs, candidates, self.family, slices);
        let unplaced: usize = kept.unplaced.iter().map(Vec::len).sum();
        let updated = kept.slices.iter().filter(|one| one.change == Change::Update);
        let room: usize = updated.map(|one| capacity.saturating_sub(one.kept.len())).sum();
        let left = unplaced.saturating_sub(room);
        if left == 0 {
            return Room::Here;
        }
        let address_type = self.family.into();
        let others = existing.iter().enumerate().filter(|(slice, one)| {
            one.address_type == address_type && !self.slices.contains(slice) && left < capacity
        });
        let lengths =
            others.map(|(slice, _)| (slice, state.slices.get(slice).map_or(0, |one| one.endpoints().len())));
        let fitting = lengths.filter(|(_, len)| left + len <= capacity);
        let fullest = fitting.max_by_key(|(slice, len)| (*len, Reverse(*slice)));
        fullest.map_or(Room::Nowhere, |(slice, _)| Room::In(slice))
    }
}
