//! Counts Services, slices and endpoints in each namespace.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{ObjectKey, Text};
use kube_endpoint_informer::Cluster;
use kube_endpoint_status_page::Totals;

/// The number of objects to read under one lock.
const STEP: usize = 500;

/// The namespaces that have Services or slices.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    pub(super) namespaces: BTreeMap<Text, Totals>,
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
    use kube_endpoint_core_model::{EndpointSlice, Service};
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
