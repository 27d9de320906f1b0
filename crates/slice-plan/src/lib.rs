//! EndpointSlices from the pods of a Service, as a pure plan for controllers, tools and tests:
//! which slices there should be, and the writes to get there.
//!
//! ```
//! use std::{collections::BTreeMap, sync::Arc};
//!
//! use kube_endpoint_slice_plan::{PlanInputs, plan};
//! use serde_json::{from_value, json};
//!
//! let service = from_value(json!({
//!     "metadata": {"name": "web", "namespace": "default", "uid": "5e7a"},
//!     "spec": {"selector": {"app": "web"}, "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"],
//!         "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]},
//! }))?;
//! let pod = from_value(json!({
//!     "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"}},
//!     "spec": {"nodeName": "a"},
//!     "status": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
//!         "conditions": [{"type": "Ready", "status": "True"}]},
//! }))?;
//! let nodes = BTreeMap::from([("a".into(), Arc::new(from_value(json!({"metadata": {"name": "a"}}))?))]);
//! let plan = plan(&PlanInputs::new(&service, &[Arc::new(pod)], &nodes));
//! assert_eq!(plan.to_string(), "\
//! create default/web-*: IPv4, ports 8080/TCP
//!   owner Service web (5e7a)
//!   ready: 10.1.0.1 of Pod web-1 on a
//! pod web-1: published as ready
//! IPv4: endpoints 1 (1 added, 0 removed), slices 1 (1 changed)
//! ");
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! [`plan()`] is a function from objects to writes, without clock, randomness, log and client.
//!
//! The steps, one module each: `pods` decides which pods are published and groups them by ports;
//! `packing` decides which slices there are and which endpoints each holds, in phases that its
//! documentation lists; `drafts` builds the slices to write; `hints` and `topology_hints` set
//! hints; `family` runs these steps for one address family.
//!
//! [`PlanState`] plans the next sync from what has changed since (`incremental`), by the same steps
//! over fewer slices.

mod compaction;
mod drafts;
mod family;
mod hints;
mod incremental;
mod index;
mod inputs;
mod keeping;
mod matching;
mod names;
mod order;
mod outcome;
mod packing;
mod placing;
mod pods;
mod sizing;
mod state;
pub mod topology;
mod topology_hints;

pub use inputs::{DEFAULT_MAX_ENDPOINTS_PER_SLICE, PlanInputs, PlanOptions};
pub use outcome::{AddressTypeStats, GroupStats, Plan, PlanError, PlanStats, SubPlan};
pub use state::PlanState;
pub use topology::{HintedState, TopologyState};

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::time::rfc3339;
use kube_endpoint_core_model::well_known::ANNOTATION_TRIGGER_TIME;
use kube_endpoint_core_model::{AddressType, Endpoint, EndpointSlice, ReadyPods, Service, StringMap, Writes};

use hints::Strategy;
use pods::Candidates;

/// Plans one sync of a Service (upstream `Reconciler.Reconcile`).
pub fn plan(inputs: &PlanInputs<'_>) -> Plan {
    plan_and_keep(inputs).0
}

/// As [`plan`], and returns the state from which [`PlanState::plan`] plans the next sync by the
/// changed pods. The state counts only if all writes of the plan succeed. It is `None` if the next
/// plan depends on more than changed pods, as [`PlanState`] lists.
pub fn plan_and_keep(inputs: &PlanInputs<'_>) -> (Plan, Option<PlanState>) {
    if inputs.ready_pods.is_some_and(ReadyPods::is_exclusive) {
        return (exclusive(inputs), None);
    }
    let mut candidates = Candidates::new(inputs);
    let plan = plan_of(inputs, &mut candidates);
    let state = PlanState::after(inputs, &candidates, &plan);
    (plan, state)
}

/// Plans for a Service with at most one ready endpoint. A leader that another slice holds than the
/// one before takes two plans, so that no order of writes, and no write that fails, publishes two.
fn exclusive(inputs: &PlanInputs<'_>) -> Plan {
    static NOBODY: ReadyPods = ReadyPods::Leader(None);
    let planned = |inputs: &PlanInputs<'_>| plan_of(inputs, &mut Candidates::new(inputs));
    let plan = planned(inputs);
    if inputs.service.publish_not_ready_addresses
        || !makes_ready_beside_another(&plan, inputs.existing_slices)
    {
        return plan;
    }
    Plan { again: true, ..planned(&inputs.clone().with_ready_pods(Some(&NOBODY))) }
}

/// Returns true if a plan writes a slice with a ready endpoint while another slice of the family
/// has one, or one that was chosen and may be ready soon: whoever reads the slices after a crash
/// between two writes would take both for chosen.
fn makes_ready_beside_another(plan: &Plan, existing: &[Arc<EndpointSlice>]) -> bool {
    let has_ready = |slice: &EndpointSlice| slice.endpoints.iter().any(hints::is_ready);
    let may_have = |slice: &EndpointSlice| {
        let is_chosen = |endpoint: &Endpoint| endpoint.conditions.terminating == Some(false);
        has_ready(slice) || slice.endpoints.iter().any(is_chosen)
    };
    let written = plan.sub_plans.iter().flat_map(|sub_plan| {
        let Writes { create, update, .. } = &sub_plan.writes;
        create.iter().map(|slice| (slice, true)).chain(update.iter().map(|slice| (slice, false)))
    });
    written.filter(|(slice, _)| has_ready(slice)).any(|(slice, is_new)| {
        existing.iter().any(|other| {
            other.address_type == slice.address_type
                && (is_new || other.metadata.name != slice.metadata.name)
                && may_have(other)
        })
    })
}

fn plan_of(inputs: &PlanInputs<'_>, candidates: &mut Candidates<'_>) -> Plan {
    let service = inputs.service;
    let mut slices: Vec<&Arc<EndpointSlice>> = inputs.existing_slices.iter().collect();
    slices.sort_by(|one, two| one.metadata.name.cmp(&two.metadata.name));
    let mut by_type: BTreeMap<AddressType, Vec<&Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in slices {
        by_type.entry(slice.address_type).or_default().push(slice);
    }

    let strategy = Strategy::of(service);
    let mut plan = Plan {
        verdicts: std::mem::take(&mut candidates.verdicts),
        errors: std::mem::take(&mut candidates.errors),
        hinted: inputs.hinted.clone(),
        stats: plan_stats(service, strategy),
        ..Plan::default()
    };
    let families = service.slice_families();
    let has = |address_type| families.iter().any(|family| AddressType::from(*family) == address_type);
    let (mut by_type, obsolete): (BTreeMap<_, _>, BTreeMap<_, _>) =
        by_type.into_iter().partition(|(address_type, _)| has(*address_type));
    obsolete.keys().for_each(|address_type| plan.hinted.remove(*address_type));
    let mut extra_writes = 0;
    for family in families {
        let slices = by_type.remove(&family.into()).unwrap_or_default();
        let planned =
            family::plan(inputs, candidates, family, slices, strategy, extra_writes, &mut plan.hinted);
        extra_writes += planned.extra_writes;
        plan.events.extend(planned.event);
        plan.sub_plans.push(planned.sub_plan);
    }
    for (address_type, slices) in obsolete {
        let delete = slices.into_iter().map(Arc::clone).collect();
        let writes = Writes { delete, ..Writes::default() };
        plan.sub_plans.push(SubPlan { address_type, writes, stats: None });
    }
    stamp(inputs, &mut plan);
    plan
}

fn plan_stats(service: &Service, strategy: Strategy) -> PlanStats {
    PlanStats {
        topology_auto: strategy == Strategy::Topology,
        traffic_distribution: match strategy {
            Strategy::TrafficDistribution { .. } => service.traffic_distribution.clone(),
            Strategy::Topology | Strategy::Off => None,
        },
    }
}

/// Sets the trigger time on all slices of the plan's writes, or removes an old one (upstream
/// `addTriggerTimeAnnotation`).
fn stamp(inputs: &PlanInputs<'_>, plan: &mut Plan) {
    let time = inputs.trigger_time.map(rfc3339);
    // Most slices have the same annotations: they then share one map.
    let mut last: Option<(StringMap, StringMap)> = None;
    let writes = plan.sub_plans.iter_mut().map(|sub_plan| &mut sub_plan.writes);
    for slice in writes.flat_map(|writes| writes.create.iter_mut().chain(&mut writes.update)) {
        let annotations = &mut slice.metadata.annotations;
        let stamped = match &last {
            Some((before, after)) if before == annotations => after.clone(),
            _ => match &time {
                Some(time) => annotations.with(ANNOTATION_TRIGGER_TIME, time.as_str()),
                None => annotations.without(ANNOTATION_TRIGGER_TIME),
            },
        };
        let before = std::mem::replace(annotations, stamped.clone());
        last = Some((before, stamped));
    }
}
