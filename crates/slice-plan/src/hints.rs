//! Sets hints: finds the kind that a Service asks for, and implements the two simple kinds, by
//! traffic distribution and none. The plan sets hints last, on the slices that it writes anyway. It
//! writes an otherwise unchanged slice only if a hint in it is wrong.

use std::sync::Arc;

use kube_endpoint_core_model::slice::{EndpointHints, Hint};
use kube_endpoint_core_model::{Endpoint, EndpointSlice, Service, Text};

use super::drafts::{Draft, copied};

/// The kind of hints that a Service asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Topology mode `Auto`, by annotation, which overrides the field.
    Topology,
    /// `trafficDistribution`: each endpoint for its own zone.
    TrafficDistribution {
        /// True if each endpoint is also for its own node.
        same_node: bool,
    },
    /// No hints.
    Off,
}

impl Strategy {
    pub(super) fn of(service: &Service) -> Self {
        if service.topology_hints_enabled() {
            return Self::Topology;
        }
        match service.traffic_distribution.as_deref() {
            Some("PreferClose" | "PreferSameZone") => Self::TrafficDistribution { same_node: false },
            Some("PreferSameNode") => Self::TrafficDistribution { same_node: true },
            _ => Self::Off,
        }
    }
}

/// The slices of one family while the plan sets hints.
pub(super) struct Slices<'a> {
    /// New slices, including those that reuse a name, then updates. In this order, which is
    /// upstream's, the plan hints endpoints for other zones.
    pub(super) written: Vec<Draft<'a>>,
    /// Slices without a change so far, by name.
    pub(super) unchanged: Vec<&'a Arc<EndpointSlice>>,
    /// Copies of slices in which only hints may change.
    pub(super) rehinted: Vec<Draft<'a>>,
}

impl<'a> Slices<'a> {
    /// Removes all hints (upstream `RemoveHintsFromSlices`).
    pub(super) fn remove_hints(&mut self) {
        self.rehint(|slice| slice.endpoints.iter().any(|endpoint| endpoint.hints.is_some()));
        for endpoint in self.drafts().flat_map(|slice| &mut slice.endpoints) {
            endpoint.hints = None;
        }
    }

    /// Hints each ready endpoint for its own zone, and with `same_node` also for its own node
    /// (upstream `trafficdist.ReconcileHints`).
    pub(super) fn hint_own_zones(&mut self, same_node: bool) {
        let wrong = |endpoint: &Endpoint| is_ready(endpoint) && !has_own_hints(endpoint, same_node);
        self.rehint(|slice| slice.endpoints.iter().any(wrong));
        for endpoint in self.drafts().flat_map(|slice| &mut slice.endpoints) {
            if is_ready(endpoint) {
                endpoint.hints = own_hints(endpoint, same_node);
            }
        }
    }

    /// Returns the number of ready endpoints. Call it before [`rehint`](Self::rehint).
    pub(super) fn count_ready(&self) -> usize {
        let written = self.written.iter().map(|draft| &draft.slice);
        let all = written.chain(self.unchanged.iter().map(|slice| &***slice));
        all.flat_map(|slice| &slice.endpoints).filter(|endpoint| is_ready(endpoint)).count()
    }

    /// Copies those unchanged slices for which `wrong` returns true, so that the plan can change
    /// their hints.
    pub(super) fn rehint(&mut self, mut wrong: impl FnMut(&EndpointSlice) -> bool) {
        let rehinted = &mut self.rehinted;
        self.unchanged.retain(|slice| {
            let is_wrong = wrong(slice);
            if is_wrong {
                rehinted.push(copied(slice));
            }
            !is_wrong
        });
    }

    /// Returns all slices whose hints the plan may change.
    pub(super) fn drafts(&mut self) -> impl Iterator<Item = &mut EndpointSlice> {
        self.written.iter_mut().chain(&mut self.rehinted).map(|draft| &mut draft.slice)
    }

    /// Returns the written slices, and the copies whose hints differ from the original. Upstream
    /// also writes copies that do not differ.
    pub(super) fn into_drafts(self) -> (Vec<Draft<'a>>, Vec<Draft<'a>>) {
        let changed = |draft: &Draft<'_>| {
            draft.replaces.is_none_or(|replaced| replaced.endpoints != draft.slice.endpoints)
        };
        (self.written, self.rehinted.into_iter().filter(changed).collect())
    }
}

/// Returns true if an endpoint is ready.
pub(super) fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready == Some(true)
}

/// Returns hints for one zone.
pub(super) fn for_zone(zone: &Text) -> Box<EndpointHints> {
    Box::new(EndpointHints { for_zones: vec![Hint { name: zone.clone() }], for_nodes: Vec::new() })
}

/// Returns hints for the zone of an endpoint, and with `same_node` for its node.
fn own_hints(endpoint: &Endpoint, same_node: bool) -> Option<Box<EndpointHints>> {
    let hint = |name: &Option<Text>| name.iter().map(|name| Hint { name: name.clone() }).collect();
    let for_zones: Vec<Hint> = hint(&endpoint.zone);
    let for_nodes: Vec<Hint> = if same_node { hint(&endpoint.node_name) } else { Vec::new() };
    (!for_zones.is_empty() || !for_nodes.is_empty()).then(|| Box::new(EndpointHints { for_zones, for_nodes }))
}

/// Returns true if an endpoint has the hints of [`own_hints`]. Empty hints equal absent ones.
fn has_own_hints(endpoint: &Endpoint, same_node: bool) -> bool {
    fn is(hints: &[Hint], wanted: Option<&Text>) -> bool {
        hints.iter().map(|hint| &hint.name).eq(wanted)
    }
    let (zones, for_nodes) = endpoint
        .hints
        .as_ref()
        .map_or((&[][..], &[][..]), |hints| (hints.for_zones.as_slice(), hints.for_nodes.as_slice()));
    is(zones, endpoint.zone.as_ref()) && is(for_nodes, endpoint.node_name.as_ref().filter(|_| same_node))
}
