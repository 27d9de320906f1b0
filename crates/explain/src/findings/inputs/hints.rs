//! The hints for zones and nodes that a Service asks for, and why its endpoints have none.

use std::collections::BTreeSet;

use kube_endpoint_core_model::well_known::{ANNOTATION_TOPOLOGY_AWARE_HINTS, ANNOTATION_TOPOLOGY_MODE};
use kube_endpoint_core_model::{NodeLookup, Text};
use kube_endpoint_slice_plan::Plan;

use super::FaultInputs;
use crate::findings::pod::Publication;
use crate::models::hint;

impl FaultInputs<'_> {
    /// Returns the plan of the slices whose endpoints get the hints that the Service asks for:
    /// those made from pods. Without nodes, nobody knows their zones.
    pub(crate) fn hinted_plan(&self) -> Option<&Plan> {
        let is_hinted = self.is_selecting() && self.options.known.nodes;
        self.planned.slices.as_ref().filter(|_| is_hinted)
    }

    /// Returns the reason why endpoints cannot have the hints of topology mode `Auto`, as the
    /// controller's event gives it for the first type of addresses that has none.
    pub(crate) fn withheld_hints(&self) -> Option<&str> {
        let plan = self.hinted_plan()?;
        let mut types = plan.sub_plans.iter().filter(|sub_plan| sub_plan.stats.is_some());
        types.find_map(|sub_plan| hint::withheld(plan, sub_plan.address_type))
    }

    /// Returns the nodes of published pods that have no zone.
    pub(crate) fn published_without_zone(&self) -> BTreeSet<Text> {
        let published = self.explained.iter().filter(|pod| pod.publication == Publication::Ready);
        let without_zone = published.filter_map(|pod| {
            let name = pod.node.as_ref()?;
            let node = self.objects.nodes.node(name)?;
            node.zone.is_none().then(|| name.clone())
        });
        without_zone.collect()
    }

    /// Returns the annotation of topology mode, if the Service has one. The controllers read the
    /// older one first.
    pub(crate) fn topology_annotation(&self) -> Option<&'static str> {
        let has = |annotation: &&str| self.service.annotations.contains_key(annotation);
        [ANNOTATION_TOPOLOGY_AWARE_HINTS, ANNOTATION_TOPOLOGY_MODE].into_iter().find(has)
    }

    /// Returns the annotation or the field of the Service that asks for hints.
    pub(crate) fn asks_for_hints(&self) -> Option<&'static str> {
        let field = self.service.traffic_distribution.as_ref().map(|_| "trafficDistribution");
        self.topology_annotation().filter(|_| self.service.topology_hints_enabled()).or(field)
    }
}
