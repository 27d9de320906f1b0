//! Looks for the reasons why a Service that asks for hints has none.

use std::collections::BTreeSet;

use kube_endpoint_core_model::well_known::{ANNOTATION_TOPOLOGY_AWARE_HINTS, ANNOTATION_TOPOLOGY_MODE};
use kube_endpoint_core_model::{NodeLookup, Text};

use super::Looked;
use crate::cluster::SomeNodes;
use crate::fault::Withheld;
use crate::pod::Publication;
use crate::{Fault, hint};

impl Looked<'_> {
    pub(super) fn of_hints(&self, faults: &mut Vec<Fault>) {
        let Some(plan) = self.planned.slices.as_ref().filter(|_| self.options.known.nodes) else { return };
        if plan.stats.topology_auto {
            let types = plan.sub_plans.iter().filter(|sub_plan| sub_plan.stats.is_some());
            let withheld = types.filter_map(|sub_plan| hint::withheld(plan, sub_plan.address_type)).next();
            let causes = withheld.map(|message| self.causes(message)).unwrap_or_default();
            faults.extend(causes.into_iter().map(|cause| Fault::TopologyHintsWithheld {
                message: withheld.unwrap_or_default().to_owned(),
                cause,
            }));
            self.of_override(withheld.is_some(), faults);
            return;
        }
        let Some(value) = &self.service.traffic_distribution else { return };
        if plan.stats.traffic_distribution.is_none() {
            faults.push(Fault::UnknownTrafficDistribution { value: value.clone() });
            return;
        }
        let nodes = self.published_without_zone();
        if !nodes.is_empty() && **value != *"PreferSameNode" {
            faults.push(Fault::NoZones { nodes: nodes.into_iter().collect() });
        }
    }

    /// Returns the nodes of published pods that have no zone.
    fn published_without_zone(&self) -> BTreeSet<Text> {
        let published = self.explained.iter().filter(|pod| pod.publication == Publication::Ready);
        let without_zone = published.filter_map(|pod| {
            let name = pod.node.as_ref()?;
            let node = self.objects.nodes.node(name)?;
            node.zone.is_none().then(|| name.clone())
        });
        without_zone.collect()
    }

    /// Finds the causes for the message of the controller's event. Upstream's controller has one
    /// message for nodes that lack something and for nodes in one zone only.
    fn causes(&self, message: &str) -> Vec<Withheld> {
        let all = &self.cluster.topology;
        let is = |start: &str| message.starts_with(start);
        if is("One or more endpoints do not have a zone") {
            let nodes = SomeNodes::from_iter(&self.published_without_zone());
            return vec![Withheld::EndpointsWithoutZone { nodes }];
        }
        if is("Insufficient number of endpoints") {
            return vec![Withheld::TooFewEndpoints];
        }
        if is("Unable to allocate minimum required endpoints") {
            return vec![Withheld::Unbalanced];
        }
        if !is("Insufficient Node information") && !is("Nodes only ready in one zone") {
            return vec![Withheld::Other];
        }
        let mut causes = Vec::new();
        if !all.without_zone.is_empty() {
            causes.push(Withheld::NodesWithoutZone { nodes: all.without_zone.clone() });
        }
        if !all.without_cpu.is_empty() {
            causes.push(Withheld::NodesWithoutCpu { nodes: all.without_cpu.clone() });
        }
        if causes.is_empty() {
            causes.push(Withheld::OneZone {
                zone: all.zones.first().cloned(),
                not_ready: all.not_ready.clone(),
                control_plane: all.control_plane.clone(),
            });
        }
        causes
    }

    /// Returns the annotation of topology mode, if the Service has one. The controllers read the
    /// older one first.
    fn topology_annotation(&self) -> Option<&'static str> {
        let has = |annotation: &&str| self.service.annotations.contains_key(annotation);
        [ANNOTATION_TOPOLOGY_AWARE_HINTS, ANNOTATION_TOPOLOGY_MODE].into_iter().find(has)
    }

    /// Returns the annotation or the field of the Service that asks for hints.
    pub(super) fn asks_for_hints(&self) -> Option<&'static str> {
        let field = self.service.traffic_distribution.as_ref().map(|_| "trafficDistribution");
        self.topology_annotation().filter(|_| self.service.topology_hints_enabled()).or(field)
    }

    /// Looks for a traffic distribution that the annotation of topology mode overrides.
    fn of_override(&self, withheld: bool, faults: &mut Vec<Fault>) {
        let Some(value) = &self.service.traffic_distribution else { return };
        faults.extend(self.topology_annotation().map(|annotation| Fault::DistributionOverridden {
            annotation: annotation.into(),
            value: value.clone(),
            withheld,
        }));
    }
}
