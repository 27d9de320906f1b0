//! Looks for faults that keep kube-proxy from using slices or endpoints of a Service.

use std::net::IpAddr;
use std::sync::Arc;

use kube_endpoint_core_model::well_known::LABEL_HEADLESS;
use kube_endpoint_core_model::{AddressType, EndpointSlice, Text, address};

use super::{Looked, is_mirrored};
use crate::Fault;
use crate::fault::{LocalPolicy, UnusedSlice};
use crate::traffic::{self, ServedBy};

impl Looked<'_> {
    /// Adds a fault for each reason why consumers do not use all ready endpoints.
    pub(super) fn of_consumers(&self, faults: &mut Vec<Fault>) {
        match &self.served.by {
            ServedBy::KubeProxy if self.options.known.slices => {
                self.of_ignored_slices(faults);
                self.of_unused_slices(faults);
                self.of_ignored_hints(faults);
                self.of_policies(faults);
            }
            ServedBy::OtherProxy { name } => faults.push(Fault::OtherProxy { proxy: name.clone() }),
            ServedBy::KubeProxy | ServedBy::Dns | ServedBy::Nobody => {}
        }
    }

    /// Returns true if a controller is about to write a slice.
    fn is_due(&self, slice: &Arc<EndpointSlice>) -> bool {
        let writes = || self.planned.slice_writes();
        writes().flat_map(|writes| &writes.update).any(|due| due.metadata.name == slice.metadata.name)
            || writes().flat_map(|writes| &writes.delete).any(|due| Arc::ptr_eq(due, slice))
    }

    fn slices(&self) -> &[Arc<EndpointSlice>] {
        self.objects.slices_of(&self.service.key)
    }

    /// Looks for slices that kube-proxy ignores because of a label, and that no controller is about
    /// to write.
    fn of_ignored_slices(&self, faults: &mut Vec<Fault>) {
        let is_ignored = |slice: &&Arc<EndpointSlice>| {
            traffic::is_labelled_headless(self.service, slice)
                && traffic::has_ready(slice)
                && !self.is_due(slice)
        };
        let ignored: Vec<&Arc<EndpointSlice>> = self.slices().iter().filter(is_ignored).collect();
        if ignored.is_empty() {
            return;
        }
        let endpoints = self.objects.endpoints_of(&self.service.key);
        let mirrored = endpoints.filter(|endpoints| {
            endpoints.metadata.labels.contains_key(LABEL_HEADLESS) && ignored.iter().any(|it| is_mirrored(it))
        });
        faults.push(Fault::SlicesIgnored {
            endpoints: mirrored.map(|endpoints| endpoints.metadata.name.clone()),
            slices: ignored.into_iter().map(|slice| slice.metadata.name.clone()).collect(),
            none_is_left: self.counts.is_down(),
        });
    }

    /// Looks for slices whose ports or addresses kube-proxy does not use. If no endpoint has a port
    /// or a family of the Service, another fault says that. Slices made from pods always have the
    /// Service's ports and families.
    fn of_unused_slices(&self, faults: &mut Vec<Fault>) {
        let is_told = |slice: &EndpointSlice, cause: &UnusedSlice| {
            faults.iter().any(|fault| match (cause, fault) {
                (UnusedSlice::Ports { .. }, Fault::EndpointPortsDiffer { family, .. }) => {
                    family.is_none_or(|family| AddressType::from(family) == slice.address_type)
                }
                (UnusedSlice::Family { .. }, Fault::EndpointFamiliesDiffer { .. }) => true,
                _ => false,
            })
        };
        let manager = self.selection.plan_options(self.options).manager.clone();
        let unused = self.slices().iter().filter_map(|slice| {
            let is_planned = self.selection.selects_pods() && slice.is_managed_by(&manager);
            let cause = traffic::of_slice(self.service, slice).filter(|cause| !is_told(slice, cause))?;
            let is_fault = !is_planned && !self.is_due(slice);
            is_fault.then(|| Fault::SliceUnused { slice: slice.metadata.name.clone(), cause })
        });
        let unused: Vec<Fault> = unused.collect();
        faults.extend(unused);
    }

    /// Looks for hints that kube-proxy ignores, if no other fault says why some endpoints lack
    /// hints.
    fn of_ignored_hints(&self, faults: &mut Vec<Fault>) {
        let without = &self.served.without_hints;
        let tells =
            |fault: &Fault| matches!(fault, Fault::NoZones { .. } | Fault::TopologyHintsWithheld { .. });
        let is_due = self.planned.slice_writes().any(|writes| !writes.is_empty());
        if without.is_empty() || is_due || faults.iter().any(tells) {
            return;
        }
        let holds = |slice: &&Arc<EndpointSlice>| {
            let addresses = slice.endpoints.iter().filter_map(|endpoint| endpoint.addresses.first());
            addresses.filter_map(|text| address::parse_sloppy(text)).any(|ip| without.contains(&ip))
        };
        faults.push(Fault::HintsIgnored {
            addresses: without.iter().map(IpAddr::to_string).map(Text::from).collect(),
            slices: self.slices().iter().filter(holds).map(|slice| slice.metadata.name.clone()).collect(),
            asked_by: self.asks_for_hints(),
        });
    }

    /// Looks for nodes whose clients have no endpoint because a policy is `Local`. If no endpoint
    /// is ready at all, that is the reason instead.
    fn of_policies(&self, faults: &mut Vec<Fault>) {
        let policies = self.policies;
        let external = policies.external_local && policies.externally_accessible;
        let local = [(policies.internal_local, LocalPolicy::Internal), (external, LocalPolicy::External)];
        let are_nodes_known = self.options.known.nodes;
        let nodes = &self.objects.nodes;
        let has_endpoint = |node: &Text| self.served.local_nodes.contains(node);
        let with = self.served.local_nodes.len();
        let is_ready = |slice: &Arc<EndpointSlice>| traffic::has_ready(slice);
        if with == 0 && !(self.counts.ready > 0 && self.slices().iter().any(is_ready)) {
            return;
        }
        let lacking = nodes.values().filter(|node| are_nodes_known && !has_endpoint(&node.name));
        // Few clients are on nodes that keep pods away, and a DaemonSet leaves them out, too.
        let (without, closed): (Vec<_>, Vec<_>) =
            lacking.partition(|node| node.ready && !node.keeps_pods_away);
        let without: Vec<Text> = without.into_iter().map(|node| node.name.clone()).collect();
        // Other clients are sent to endpoints of all nodes.
        let missing = Some(&self.served.missing_nodes).filter(|_| !policies.uses_cluster());
        let missing: Vec<Text> = missing.into_iter().flatten().cloned().collect();
        if are_nodes_known && without.is_empty() && missing.is_empty() && with > 0 {
            return;
        }
        faults.extend(local.into_iter().filter(|(is_local, _)| *is_local).map(|(_, policy)| {
            Fault::NoLocalEndpoint {
                policy,
                with,
                without: without.clone(),
                closed: closed.len(),
                missing: missing.clone(),
                are_nodes_known,
                has_health_check: policies.has_health_check,
            }
        }));
    }
}
