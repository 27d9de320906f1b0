//! From the pods of slices that the selector of their Service does not lead to, to the Service: its
//! EndpointSelector does not exist, or the slices of the previous controller stay for now.
//!
//! The index of the caches does not know which Services these pods concern.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::ObjectKey;
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(super) struct ListedPods(Mutex<BTreeMap<ObjectKey, BTreeSet<ObjectKey>>>);

impl ListedPods {
    /// Returns the Services whose slices list a pod.
    pub(super) fn services_of(&self, pod: &ObjectKey) -> Vec<ObjectKey> {
        self.0.lock().get(pod).into_iter().flatten().cloned().collect()
    }

    /// Records that the slices of a Service list these pods and no longer those.
    pub(super) fn replace(
        &self,
        service: &ObjectKey,
        before: &BTreeSet<ObjectKey>,
        now: &BTreeSet<ObjectKey>,
    ) {
        let mut pods = self.0.lock();
        for pod in before.difference(now) {
            if let Some(services) = pods.get_mut(pod) {
                services.remove(service);
                if services.is_empty() {
                    pods.remove(pod);
                }
            }
        }
        for pod in now.difference(before) {
            pods.entry(pod.clone()).or_default().insert(service.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_leads_to_the_services_that_list_it_now() {
        let key = |name: &str| ObjectKey::new("shop", name);
        let of = |names: &[&str]| names.iter().map(|name| key(name)).collect();
        let pods = ListedPods::default();
        pods.replace(&key("web"), &of(&[]), &of(&["a", "b"]));
        pods.replace(&key("api"), &of(&[]), &of(&["b"]));
        assert_eq!(pods.services_of(&key("b")), [key("api"), key("web")]);
        pods.replace(&key("web"), &of(&["a", "b"]), &of(&["a"]));
        assert_eq!(pods.services_of(&key("b")), [key("api")]);
        pods.replace(&key("web"), &of(&["a"]), &of(&[]));
        pods.replace(&key("api"), &of(&["b"]), &of(&[]));
        assert!(pods.0.lock().is_empty());
    }
}
