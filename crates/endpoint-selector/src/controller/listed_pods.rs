//! The pods of slices that the selector of their Service does not lead to: its EndpointSelector
//! does not exist, or the slices of the previous controller stay for now.
//!
//! The index of the caches does not know which Services these pods concern.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::{EndpointSlice, ObjectKey};
use parking_lot::Mutex;

#[derive(Debug, Default)]
pub(super) struct ListedPods(Mutex<Pods>);

#[derive(Debug, Default)]
struct Pods {
    services: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    pods: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

impl ListedPods {
    /// Returns the Services whose slices list a pod.
    pub(super) fn services_of(&self, pod: &ObjectKey) -> Vec<ObjectKey> {
        self.0.lock().services_of(pod)
    }

    /// Records the pods of a Service's slices.
    pub(super) fn set<'a>(&self, service: &ObjectKey, slices: impl Iterator<Item = &'a EndpointSlice>) {
        let targets = slices.flat_map(|slice| &slice.endpoints).filter_map(|it| it.target_ref.as_ref());
        let pods = targets
            .map(|target| ObjectKey { namespace: service.namespace.clone(), name: target.name.clone() })
            .collect();
        self.0.lock().set(service, pods);
    }

    /// Forgets a Service.
    pub(super) fn remove(&self, service: &ObjectKey) {
        self.0.lock().set(service, BTreeSet::new());
    }
}

impl Pods {
    fn services_of(&self, pod: &ObjectKey) -> Vec<ObjectKey> {
        self.pods.get(pod).into_iter().flatten().cloned().collect()
    }

    fn set(&mut self, service: &ObjectKey, pods: BTreeSet<ObjectKey>) {
        for pod in self.services.remove(service).into_iter().flatten() {
            if let Some(services) = self.pods.get_mut(&pod) {
                services.remove(service);
                if services.is_empty() {
                    self.pods.remove(&pod);
                }
            }
        }
        for pod in &pods {
            self.pods.entry(pod.clone()).or_default().insert(service.clone());
        }
        if !pods.is_empty() {
            self.services.insert(service.clone(), pods);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_leads_to_the_services_that_list_it_now() {
        let key = |name: &str| ObjectKey::new("shop", name);
        let mut pods = Pods::default();
        let set = |pods: &mut Pods, service: &str, of: &[&str]| {
            pods.set(&key(service), of.iter().map(|name| key(name)).collect());
        };
        set(&mut pods, "web", &["a", "b"]);
        set(&mut pods, "api", &["b"]);
        assert_eq!(pods.services_of(&key("b")), [key("api"), key("web")]);
        set(&mut pods, "web", &["a"]);
        assert_eq!(pods.services_of(&key("b")), [key("api")]);
        set(&mut pods, "web", &[]);
        set(&mut pods, "api", &[]);
        assert!(pods.services.is_empty() && pods.pods.is_empty());
    }
}
