//! Collects the objects of an explanation from the caches of the controllers.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::retirement::RetiredNamespaces;
use kube_endpoint_core_model::{ObjectKey, Service, StringMap, Text};
use kube_endpoint_explain::{Known, Objects, Options, names_selector, near_pods, needs_all_nodes};
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
    known_if(|kind| cluster.has_synced_kinds([kind]))
}

/// Returns the kinds that the caches hold of a namespace.
pub(super) fn known_in(cluster: &Cluster, namespace: &str) -> Known {
    known_if(|kind| cluster.has_listed(kind, namespace))
}

fn known_if(is_known: impl Fn(Kind) -> bool) -> Known {
    Known {
        pods: is_known(Kind::Pods),
        nodes: is_known(Kind::Nodes),
        slices: is_known(Kind::EndpointSlices),
        endpoints: is_known(Kind::Endpoints),
        selectors: is_known(Kind::EndpointSelectors),
    }
}

/// Returns sentences about the parts that an explanation from the caches lacks.
pub(super) fn notes(known: Known, service: &Service) -> Vec<String> {
    let mut notes = vec![
        "The manager's caches hold neither events nor Leases, and not who wrote an object last; of pods they lack probes and owners, of nodes the version, \
         of Services externalName and finalizers. kubectl endpoints explain reads these."
            .to_owned(),
    ];
    let kinds = [
        (known.pods, "pods", "What Services with a selector should have is not known."),
        (
            known.nodes,
            "nodes",
            "Nodes are taken to be ready, and slices are not compared with what they should be.",
        ),
        (known.slices, "EndpointSlices", "Slices are not checked."),
        (known.endpoints, "Endpoints", "Endpoints are not checked."),
        (
            known.selectors || names_selector(service).is_none(),
            "EndpointSelectors",
            "The controller endpoint-selector-controller reads them; what the Service should have is not known.",
        ),
    ];
    let unknown = kinds.into_iter().filter(|(is_known, ..)| !is_known);
    notes.extend(unknown.map(|(_, kind, consequence)| {
        format!("The {kind} are not in the caches, or have not been listed yet. {consequence}")
    }));
    notes
}

/// Returns the objects of a Service's explanation, and the labels of pods that may nearly match its
/// selector. Returns `None` if there is no such Service.
pub(super) fn of_service(
    cluster: &Cluster,
    key: &ObjectKey,
    known: Known,
) -> Option<(Objects, Vec<(Text, StringMap)>)> {
    let mut objects = Objects::new();
    let service = cluster.service(key)?;
    let pods = cluster.pods_of(key);
    let mut nearby = Vec::new();
    if !add_endpoint_selector(cluster, &mut objects, &service) {
        add_endpoint_selectors(cluster, &mut objects, &key.namespace);
    }
    let rehearsed = service.rehearsed_selector().and_then(|_| objects.named_selector(&service)).cloned();
    if let Some(selector) = rehearsed {
        for_each_pod(cluster, &key.namespace, |pod| {
            if selector.matches(&pod.labels) {
                objects.add_pod(Arc::clone(pod));
            }
        });
    }
    let required = objects.required_labels(&service);
    let misses = objects.attached_selector(&service).filter(|_| !pods.is_empty());
    let misses: Vec<_> = misses.into_iter().flat_map(|it| it.misses()).map(|(_, miss)| miss).collect();
    if !misses.is_empty() {
        for_each_pod(cluster, &key.namespace, |pod| {
            if misses.iter().any(|miss| miss.matches(&pod.labels)) {
                nearby.push((pod.key.name.clone(), pod.labels.clone()));
            }
        });
    } else if pods.is_empty() && required.is_some() {
        for_each_pod(cluster, &key.namespace, |pod| {
            nearby.push((pod.key.name.clone(), pod.labels.clone()));
        });
    }
    if known.nodes && needs_all_nodes(&service) {
        add_nodes(cluster, &mut objects);
    }
    let bound: BTreeSet<&Text> = pods.iter().filter_map(|pod| pod.node_name.as_ref()).collect();
    for name in bound {
        if known.nodes {
            cluster.node(name).into_iter().for_each(|node| objects.add_node(node));
        } else {
            assume_ready(&mut objects, name);
        }
    }
    if service.selector.is_none() {
        // An endpoint that somebody has written may be the cluster IP of one of these.
        keys_of(
            &key.namespace,
            |after| cluster.services_after(after, STEP),
            |other| cluster.service(other).into_iter().for_each(|other| objects.add_service(other)),
        );
    }
    if service.is_headless() {
        // The pods may have their DNS names from the Service that their subdomain names.
        let subdomains: BTreeSet<&Text> = pods.iter().filter_map(|pod| pod.subdomain.as_ref()).collect();
        for name in subdomains {
            let other = ObjectKey { namespace: key.namespace.clone(), name: name.clone() };
            cluster.service(&other).into_iter().for_each(|other| objects.add_service(other));
        }
    }
    if let Some(labels) = required.as_ref().filter(|_| pods.is_empty()) {
        for name in near_pods(labels, nearby.iter().map(|(name, labels)| (name, labels))) {
            let near = ObjectKey { namespace: key.namespace.clone(), name };
            cluster.pod(&near).into_iter().for_each(|pod| objects.add_pod(pod));
        }
    }
    objects.add_service(Arc::clone(&service));
    pods.into_iter().for_each(|pod| objects.add_pod(pod));
    cluster.slices_of(key).into_iter().for_each(|slice| objects.add_slice(slice, None));
    for name in objects.missing_pods(&service) {
        let pod = ObjectKey { namespace: key.namespace.clone(), name };
        cluster.pod(&pod).into_iter().for_each(|pod| objects.add_pod(pod));
    }
    if known.nodes && objects.has_hints_for_others(key) {
        add_nodes(cluster, &mut objects);
    }
    cluster.endpoints(key).into_iter().for_each(|endpoints| objects.add_endpoints(endpoints, None));
    Some((objects, nearby))
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

    #[test]
    fn kinds_that_are_not_listed_are_noted() {
        let attached = json!({"metadata": {"name": "web", "namespace": "shop", "annotations": {
            "kube-endpoint-manager.github.io/endpoint-selector": "web-stable"}}});
        let attached: Service = serde_json::from_value(attached).unwrap();
        let none = known(&Cluster::new(Kind::ALL));
        let count = |known: Known, service: &Service| notes(known, service).len();
        assert_eq!(count(none, &Service::default()), 5);
        assert_eq!(count(none, &attached), 6);
        assert_eq!(count(Known::ALL, &attached), 1);
    }
}
