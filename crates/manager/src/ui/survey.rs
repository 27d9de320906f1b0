//! Counts Services, slices and endpoints in each namespace.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{EndpointSlice, ObjectKey, Text};
use kube_endpoint_explain::figures::FILL_CLASSES;
use kube_endpoint_informer::Cluster;

/// The number of objects to read under one lock.
const STEP: usize = 500;

/// The namespaces that have Services or slices.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    pub(super) namespaces: BTreeMap<Text, Totals>,
}

/// The counts of a namespace, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) services: usize,
    pub(super) slices: usize,
    pub(super) endpoints: usize,
    pub(super) ready: usize,
    /// The slices of the endpointslice controller, by tenths of their capacity. Full ones are in
    /// the last class.
    pub(super) fill: [usize; FILL_CLASSES],
}

impl Totals {
    /// Counts a slice. `capacity` is that of the slices of `manager`; `fill` does not count other
    /// slices.
    fn add_slice(&mut self, slice: &EndpointSlice, manager: &str, capacity: usize) {
        let ready =
            slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false)).count();
        self.slices += 1;
        self.endpoints += slice.endpoints.len();
        self.ready += ready;
        if slice.is_managed_by(manager) {
            let class = (slice.endpoints.len() * FILL_CLASSES / capacity.max(1)).min(FILL_CLASSES - 1);
            self.fill[class] += 1;
        }
    }

    /// Adds the counts of another namespace.
    pub(super) fn add(&mut self, other: &Self) {
        self.services += other.services;
        self.slices += other.slices;
        self.endpoints += other.endpoints;
        self.ready += other.ready;
        self.fill.iter_mut().zip(other.fill).for_each(|(sum, one)| *sum += one);
    }
}

impl Survey {
    /// Reads the caches, a few hundred objects at a time.
    pub(super) fn of(cluster: &Cluster, manager: &str, capacity: usize) -> Self {
        let mut namespaces: BTreeMap<Text, Totals> = BTreeMap::new();
        let mut after = ObjectKey::default();
        loop {
            let keys = cluster.services_after(&after, STEP);
            let Some(last) = keys.last() else { break };
            after = last.clone();
            for key in keys {
                namespaces.entry(key.namespace).or_default().services += 1;
            }
        }
        let mut after = ObjectKey::default();
        loop {
            let slices = cluster.endpoint_slices_after(&after, STEP);
            let Some(last) = slices.last() else { break };
            after = last.key();
            for slice in slices {
                let totals = namespaces.entry(slice.metadata.namespace.clone()).or_default();
                totals.add_slice(&slice, manager, capacity);
            }
        }
        Self { namespaces }
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::Service;
    use kube_endpoint_informer::{Kind, StreamEvent};
    use serde_json::json;

    use super::*;

    #[test]
    fn services_slices_and_endpoints_are_counted_by_namespace() {
        let cluster = Cluster::new(Kind::ALL);
        for number in 0..1200 {
            let namespace = if number < 700 { "a" } else { "b" };
            let service =
                json!({"metadata": {"name": format!("s{number}"), "namespace": namespace}, "spec": {}});
            cluster.apply::<Service>(StreamEvent::Applied(serde_json::from_value(service).unwrap()));
        }
        let slice = |namespace: &str, name: &str, manager: &str, endpoints: usize, ready: usize| {
            let endpoint = |n: usize| json!({"addresses": ["10.0.0.1"], "conditions": {"ready": n < ready}});
            let slice = json!({"metadata": {"name": name, "namespace": namespace,
                    "labels": {"endpointslice.kubernetes.io/managed-by": manager}},
                "addressType": "IPv4", "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>()});
            cluster.apply::<EndpointSlice>(StreamEvent::Applied(serde_json::from_value(slice).unwrap()));
        };
        slice("b", "x", "ours", 10, 7);
        slice("b", "y", "ours", 0, 0);
        slice("b", "z", "others", 3, 3);
        slice("c", "x", "ours", 5, 0);
        let survey = Survey::of(&cluster, "ours", 10);
        let found: Vec<_> = survey
            .namespaces
            .iter()
            .map(|(name, it)| (&**name, it.services, it.slices, it.endpoints, it.ready, it.fill))
            .collect();
        let (mut b, mut c) = ([0; 10], [0; 10]);
        (b[0], b[9], c[5]) = (1, 1, 1);
        assert_eq!(found, [("a", 700, 0, 0, 0, [0; 10]), ("b", 500, 3, 13, 10, b), ("c", 0, 1, 5, 0, c)]);
    }
}
