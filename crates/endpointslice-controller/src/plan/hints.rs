//! Hints: which of the three ways a Service asks for, and the two simple ones. Hints are given last, on slices that are
//! written anyway; a slice that is not is touched only where a hint in it is wrong.

use std::sync::Arc;

use kube_endpoint_core_model::slice::{EndpointHints, Hint};
use kube_endpoint_core_model::{Endpoint, EndpointSlice, Service, Text};

use super::drafts::{Draft, copied};

/// How a Service wants its hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Topology mode `Auto`, by annotation, which wins over the field.
    Topology,
    /// `trafficDistribution`: the endpoint's own zone.
    Traffic {
        /// And its own node.
        nodes: bool,
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
            Some("PreferClose" | "PreferSameZone") => Self::Traffic { nodes: false },
            Some("PreferSameNode") => Self::Traffic { nodes: true },
            _ => Self::Off,
        }
    }
}

/// The slices of one family on their way through the hints.
pub(super) struct Slices<'a> {
    /// New slices, recycled ones among them, then updates: upstream's order, in which endpoints change zones.
    pub(super) written: Vec<Draft<'a>>,
    /// Slices that nothing has changed so far, by name.
    pub(super) unchanged: Vec<&'a Arc<EndpointSlice>>,
    /// Copies of slices of which nothing but hints may change.
    pub(super) rehinted: Vec<Draft<'a>>,
}

impl<'a> Slices<'a> {
    /// Takes all hints away (upstream `RemoveHintsFromSlices`).
    pub(super) fn remove_hints(&mut self) {
        self.rehint(|slice| slice.endpoints.iter().any(|endpoint| endpoint.hints.is_some()));
        for endpoint in self.drafts().flat_map(|slice| &mut slice.endpoints) {
            endpoint.hints = None;
        }
    }

    /// Hints each ready endpoint for its own zone, and node if so asked (upstream `trafficdist.ReconcileHints`).
    pub(super) fn hint_own_place(&mut self, nodes: bool) {
        let wrong = |endpoint: &Endpoint| is_ready(endpoint) && !says_own_place(endpoint, nodes);
        self.rehint(|slice| slice.endpoints.iter().any(wrong));
        for endpoint in self.drafts().flat_map(|slice| &mut slice.endpoints) {
            if is_ready(endpoint) {
                endpoint.hints = own_place(endpoint, nodes);
            }
        }
    }

    /// How many endpoints are ready, before anything is rehinted.
    pub(super) fn ready(&self) -> usize {
        let written = self.written.iter().map(|draft| &draft.slice);
        let all = written.chain(self.unchanged.iter().map(|slice| &***slice));
        all.flat_map(|slice| &slice.endpoints).filter(|endpoint| is_ready(endpoint)).count()
    }

    /// Copies the unchanged slices of which `wrong` is true, to have their hints changed.
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

    /// All slices whose hints may be changed.
    pub(super) fn drafts(&mut self) -> impl Iterator<Item = &mut EndpointSlice> {
        self.written.iter_mut().chain(&mut self.rehinted).map(|draft| &mut draft.slice)
    }

    /// Slices whose hints really changed; upstream also writes those that came out as they were.
    pub(super) fn rehinted(self) -> (Vec<Draft<'a>>, Vec<Draft<'a>>) {
        let changed = |draft: &Draft<'_>| {
            draft.replaces.is_none_or(|replaced| replaced.endpoints != draft.slice.endpoints)
        };
        (self.written, self.rehinted.into_iter().filter(changed).collect())
    }
}

/// Whether an endpoint says that it is ready.
pub(super) fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready == Some(true)
}

/// Hints for one zone.
pub(super) fn for_zone(zone: &Text) -> EndpointHints {
    EndpointHints { for_zones: vec![Hint { name: zone.clone() }], for_nodes: Vec::new() }
}

fn own_place(endpoint: &Endpoint, nodes: bool) -> Option<EndpointHints> {
    let hint = |name: &Option<Text>| name.iter().map(|name| Hint { name: name.clone() }).collect();
    let for_zones: Vec<Hint> = hint(&endpoint.zone);
    let for_nodes: Vec<Hint> = if nodes { hint(&endpoint.node_name) } else { Vec::new() };
    (!for_zones.is_empty() || !for_nodes.is_empty()).then_some(EndpointHints { for_zones, for_nodes })
}

/// Whether the hints are the wanted ones; empty hints do for none.
fn says_own_place(endpoint: &Endpoint, nodes: bool) -> bool {
    fn is(hints: &[Hint], wanted: Option<&Text>) -> bool {
        hints.iter().map(|hint| &hint.name).eq(wanted)
    }
    let (zones, for_nodes) = endpoint
        .hints
        .as_ref()
        .map_or((&[][..], &[][..]), |hints| (hints.for_zones.as_slice(), hints.for_nodes.as_slice()));
    is(zones, endpoint.zone.as_ref()) && is(for_nodes, endpoint.node_name.as_ref().filter(|_| nodes))
}
