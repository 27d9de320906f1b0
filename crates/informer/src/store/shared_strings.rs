//! Names and uids that slices share with the pods that they stand for.
//!
//! Reflectors list slices and pods at the same time, each with strings of its own. Once the stores
//! hold both, the strings of the pods replace those of the slices. A slice that is decoded later
//! shares them at once, and a controller that plans slices from pods uses the strings of the pods.

use std::sync::Arc;

use kube_endpoint_core_model::{Endpoint, EndpointSlice, Pod, Text};

use crate::Cluster;
use crate::store::pod_service_index::PodServiceIndex;

/// Returns true if nothing else holds the uid of the target.
fn is_alone(endpoint: &Endpoint) -> bool {
    endpoint.target_ref.as_ref().is_some_and(|target| Text::strong_count(&target.uid) == Some(1))
}

/// Replaces strings of a slice with those of the pods.
fn share(slice: &mut EndpointSlice, index: &PodServiceIndex) {
    for endpoint in &mut slice.endpoints {
        let Some(target) = endpoint.target_ref.as_mut().filter(|target| *target.kind == *"Pod") else {
            continue;
        };
        let Some(pod) = index.pod_named(&target.namespace, &target.name) else { continue };
        if pod.uid == target.uid {
            (target.name, target.uid) = (pod.key.name.clone(), pod.uid.clone());
            if endpoint.node_name == pod.node_name {
                endpoint.node_name.clone_from(&pod.node_name);
            }
        }
    }
}

/// Replaces strings with those of the previous view, which the indexes and slices hold too.
pub(crate) fn keep(pod: &mut Pod, before: &Pod) {
    if pod.key.name == before.key.name {
        pod.key.name = before.key.name.clone();
    }
    if pod.uid == before.uid {
        pod.uid = before.uid.clone();
    }
}

impl Cluster {
    /// Lets a decoded slice share strings with the pods.
    pub(crate) fn share_with_pods(&self, slice: &mut EndpointSlice) {
        if slice.endpoints.iter().any(is_alone) {
            share(slice, &self.inner.index.read());
        }
    }

    /// Lets all stored slices share strings with the pods, after a list. Does not call handlers,
    /// since nothing has changed.
    pub(crate) fn share_all_with_pods(&self) {
        let slices: Vec<_> = self.inner.endpoint_slices.table.read().iter().cloned().collect();
        for slice in slices {
            if !slice.endpoints.iter().any(is_alone) {
                continue;
            }
            let mut shared = EndpointSlice::clone(&slice);
            let key = shared.key();
            share(&mut shared, &self.inner.index.read());
            let mut table = self.inner.endpoint_slices.table.write();
            if table.get(&key.namespace, &key.name).is_some_and(|stored| Arc::ptr_eq(stored, &slice)) {
                table.put(key, Arc::new(shared));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::{ObjectKey, ObjectMeta, ObjectReference, ResourceVersion};

    use super::*;
    use crate::{Kind, Object, StreamEvent};

    /// Returns a pod with strings of its own.
    fn pod(name: &str, uid: &str, version: u64) -> Pod {
        Pod {
            key: ObjectKey::new("n", name),
            uid: uid.into(),
            node_name: Some("node".into()),
            resource_version: ResourceVersion(version),
            ..Pod::default()
        }
    }

    /// Returns a slice with endpoints of the pods `a` and `b`, and of a pod that no longer exists.
    fn slice() -> EndpointSlice {
        let endpoint = |(name, uid): (&str, &str)| Endpoint {
            target_ref: Some(ObjectReference {
                kind: "Pod".into(),
                namespace: "n".into(),
                name: name.into(),
                uid: uid.into(),
                ..ObjectReference::default()
            }),
            node_name: Some("node".into()),
            ..Endpoint::default()
        };
        let endpoints = [("a", "1"), ("b", "2"), ("b", "old")].map(endpoint).into();
        let metadata = ObjectMeta { name: "s".into(), namespace: "n".into(), ..ObjectMeta::default() };
        EndpointSlice { metadata, endpoints, ..EndpointSlice::default() }
    }

    /// Returns the uids of the targets that share the strings of their pods.
    fn shared(cluster: &Cluster) -> String {
        let slice = cluster.endpoint_slice(&ObjectKey::new("n", "s")).unwrap();
        let is_shared = |endpoint: &&Endpoint| {
            let target = endpoint.target_ref.as_ref().unwrap();
            let pod = cluster.pod(&ObjectKey { namespace: "n".into(), name: target.name.clone() }).unwrap();
            let node = |name: &Option<_>| name.clone().unwrap();
            Text::ptr_eq(&target.name, &pod.key.name)
                && Text::ptr_eq(&target.uid, &pod.uid)
                && Text::ptr_eq(&node(&endpoint.node_name), &node(&pod.node_name))
        };
        let uids = slice.endpoints.iter().filter(is_shared).map(|it| &*it.target_ref.as_ref().unwrap().uid);
        uids.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn slices_share_strings_with_pods_whichever_list_comes_first() {
        for slices_first in [true, false] {
            let cluster = Cluster::new(Kind::ALL);
            let pods = || {
                let pods = vec![pod("a", "1", 1), pod("b", "2", 1)];
                cluster.apply(StreamEvent::restarted(pods, ResourceVersion(1)));
            };
            let slices = || {
                cluster.apply(StreamEvent::restarted(vec![slice()], ResourceVersion(1)));
            };
            if slices_first {
                slices();
                pods();
            } else {
                pods();
                slices();
            }
            assert_eq!(shared(&cluster), "1 2", "{slices_first}");
            let stored = cluster.endpoint_slice(&ObjectKey::new("n", "s")).unwrap();
            assert_eq!(*stored, slice());
            // A new view of a pod keeps its strings.
            cluster.apply(StreamEvent::Applied(Pod { node_name: None, ..pod("a", "1", 2) }));
            let now = cluster.pod(&ObjectKey::new("n", "a")).unwrap();
            assert!(Text::ptr_eq(&now.uid, &stored.endpoints[0].target_ref.as_ref().unwrap().uid));
            // Another pod of the same name does not get them.
            cluster.apply(StreamEvent::Applied(pod("a", "3", 3)));
            assert_eq!(&*cluster.pod(&ObjectKey::new("n", "a")).unwrap().uid, "3");
        }
    }

    #[test]
    fn a_slice_that_is_decoded_later_shares_strings_at_once() {
        let cluster = Cluster::new(Kind::ALL);
        cluster.apply(StreamEvent::restarted(vec![pod("a", "1", 1), pod("b", "2", 1)], ResourceVersion(1)));
        let mut decoded = slice();
        decoded.share_strings(&cluster);
        cluster.apply(StreamEvent::Applied(decoded));
        assert_eq!(shared(&cluster), "1 2");
    }
}
