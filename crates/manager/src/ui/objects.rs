//! Collects the objects that the search for problems reads from the caches of the controllers.

use kube_endpoint_core_model::retirement::RetiredNamespaces;
use kube_endpoint_core_model::{ObjectKey, Service, Text};
use kube_endpoint_explain::{Known, Objects, Options, names_selector};
use kube_endpoint_informer::{Cluster, Kind};

use crate::plan_options;
use crate::settings::Settings;

/// The number of objects to read under one lock.
pub(super) const STEP: usize = 500;

/// Returns the options of the plans of these settings.
pub(super) fn options(settings: &Settings) -> Options {
    let mut options = Options::default();
    options.slices = plan_options::slices(settings);
    options.endpoints = plan_options::endpoints(settings);
    options.mirroring = plan_options::mirroring(settings);
    let retirement = &settings.retirement;
    options.retired = Some(match retirement.all {
        true => RetiredNamespaces::all(),
        false => retirement.namespaces.iter().map(String::as_str).collect(),
    });
    // Readers may see some namespaces only.
    options.other_namespaces = false;
    options
}

/// Returns the kinds that the caches hold. They depend on the controllers that run.
pub(super) fn known(cluster: &Cluster) -> Known {
    let is_known = |kind| cluster.has_synced_kinds([kind]);
    Known {
        pods: is_known(Kind::Pods),
        nodes: is_known(Kind::Nodes),
        slices: is_known(Kind::EndpointSlices),
        endpoints: is_known(Kind::Endpoints),
        selectors: is_known(Kind::EndpointSelectors),
    }
}

/// Adds the EndpointSelector that a Service names. Returns false if there is none of this name.
pub(super) fn add_endpoint_selector(cluster: &Cluster, objects: &mut Objects, service: &Service) -> bool {
    let Some(name) = names_selector(service) else { return true };
    let key = ObjectKey { namespace: service.key.namespace.clone(), name: name.clone() };
    let selector = cluster.endpoint_selector(&key);
    let exists = selector.is_some();
    selector.into_iter().for_each(|selector| objects.add_endpoint_selector(selector));
    add_lease(cluster, objects, service);
    exists
}

/// Adds the Lease that the EndpointSelector of a Service names, if it is known.
fn add_lease(cluster: &Cluster, objects: &mut Objects, service: &Service) {
    let Some(name) = objects.lease_of(service).cloned() else { return };
    let namespace = service.key.namespace.clone();
    let key = ObjectKey { namespace, name };
    if !cluster.has_listed_leases(&key.namespace) {
        return objects.note_lease_unread(key);
    }
    cluster.lease(&key).into_iter().for_each(|lease| objects.add_lease(lease));
}

/// Adds the EndpointSelectors of a namespace: their names may tell how one is spelled that does not
/// exist.
pub(super) fn add_endpoint_selectors(cluster: &Cluster, objects: &mut Objects, namespace: &Text) {
    let all = cluster.endpoint_selectors().into_iter();
    let of_namespace = all.filter(|selector| selector.key.namespace == *namespace);
    of_namespace.for_each(|selector| objects.add_endpoint_selector(selector));
}

/// Adds all nodes.
pub(super) fn add_nodes(cluster: &Cluster, objects: &mut Objects) {
    cluster.nodes().into_iter().for_each(|node| objects.add_node(node));
}

/// Adds a node that has only a name, and counts as ready.
pub(super) fn assume_ready(objects: &mut Objects, name: &Text) {
    let node = kube_endpoint_core_model::Node { name: name.clone(), ready: true, ..Default::default() };
    objects.add_node(node.into());
}

/// Calls `each` with the pods of a namespace, sorted by name.
pub(super) fn for_each_pod(
    cluster: &Cluster,
    namespace: &Text,
    mut each: impl FnMut(&std::sync::Arc<kube_endpoint_core_model::Pod>),
) {
    let mut after = ObjectKey { namespace: namespace.clone(), name: Text::default() };
    loop {
        let pods = cluster.pods_after(&after, STEP);
        let of_namespace = pods.iter().take_while(|pod| pod.key.namespace == *namespace);
        let read = of_namespace.map(&mut each).count();
        match pods.get(read.wrapping_sub(1)) {
            Some(last) if read == STEP => after = last.key.clone(),
            _ => return,
        }
    }
}

/// Calls `each` with the keys of a namespace. `after` returns the next [`STEP`] keys of all
/// namespaces.
pub(super) fn keys_of(
    namespace: &Text,
    after: impl Fn(&ObjectKey) -> Vec<ObjectKey>,
    mut each: impl FnMut(&ObjectKey),
) {
    let mut last = ObjectKey { namespace: namespace.clone(), name: Text::default() };
    loop {
        let keys = after(&last);
        let of_namespace = keys.iter().take_while(|key| key.namespace == *namespace);
        let read = of_namespace.map(&mut each).count();
        match keys.get(read.wrapping_sub(1)) {
            Some(key) if read == STEP => last = key.clone(),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::Pod;
    use kube_endpoint_informer::StreamEvent;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_pod_of_a_namespace_is_visited_once_in_order() {
        let cluster = Cluster::new(Kind::ALL);
        for (namespace, pods) in [("a", 3), ("b", 2 * STEP), ("c", STEP + 1)] {
            for number in 0..pods {
                let pod = json!({"metadata": {"name": format!("p{number:04}"), "namespace": namespace}});
                cluster.apply::<Pod>(StreamEvent::Applied(serde_json::from_value(pod).unwrap()));
            }
        }
        let visited = |namespace: &str| {
            let mut names = Vec::new();
            for_each_pod(&cluster, &namespace.into(), |pod| {
                assert_eq!(&*pod.key.namespace, namespace);
                names.push(pod.key.name.clone());
            });
            assert!(names.is_sorted_by(|one, two| one < two));
            names.len()
        };
        assert_eq!(["a", "b", "c", "d", ""].map(visited), [3, 2 * STEP, STEP + 1, 0, 0]);
    }
}
