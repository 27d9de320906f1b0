//! Pods and Services of one namespace, and which selects which.
//!
//! Pods are grouped by label set: those of one workload share one, so that an event about a pod whose labels are known
//! needs no selector at all. Each Service holds the list of its pods ready to be read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube_endpoint_core_model::{Pod, Service, StringMap, Text};

use crate::pod_list::PodList;
use crate::selector_index::{SelectorIndex, SetId};

#[derive(Debug, Default)]
pub(crate) struct Namespace {
    pods: BTreeMap<Text, PodEntry>,
    services: BTreeMap<Text, ServiceEntry>,
    sets: HashMap<SetId, LabelSet>,
    by_labels: HashMap<StringMap, SetId>,
    selector_index: SelectorIndex,
    next_set: SetId,
}

#[derive(Debug)]
struct PodEntry {
    pod: Arc<Pod>,
    set: SetId,
}

#[derive(Debug)]
struct ServiceEntry {
    service: Arc<Service>,
    /// The pair that its selector is filed under.
    index_pair: Option<(Text, Text)>,
    pods: PodList,
}

#[derive(Debug)]
struct LabelSet {
    labels: StringMap,
    pods: PodList,
    /// Names of the Services that select it, sorted.
    services: Vec<Text>,
}

/// A pod's node and label set, as the index by node counts them.
pub(crate) type Place = (Option<Text>, SetId);

/// What a change of a Service does to the index, worked out before anything is touched.
#[derive(Debug)]
pub(crate) struct Reselection {
    left: Vec<SetId>,
    joined: Vec<SetId>,
    pods: PodList,
}

/// The selector by which a Service selects pods; none if it selects none.
fn selector_of(service: &Service) -> Option<&StringMap> {
    service.selector.as_ref().filter(|_| service.selects_pods())
}

impl Namespace {
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.services.is_empty()
    }

    pub(crate) fn pod(&self, name: &str) -> Option<&Arc<Pod>> {
        self.pods.get(name).map(|entry| &entry.pod)
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values().map(|entry| &entry.pod)
    }

    pub(crate) fn service(&self, name: &str) -> Option<&Arc<Service>> {
        self.services.get(name).map(|entry| &entry.service)
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.values().map(|entry| &entry.service)
    }

    /// The pods that a Service selects.
    pub(crate) fn pods_of(&self, service: &str) -> Option<&PodList> {
        self.services.get(service).map(|entry| &entry.pods)
    }

    /// The Services that select a pod, sorted.
    pub(crate) fn services_of_pod(&self, name: &str) -> &[Text] {
        self.pods.get(name).map_or(&[], |entry| self.services_of_set(entry.set))
    }

    /// The Services that select a label set, sorted.
    pub(crate) fn services_of_set(&self, set: SetId) -> &[Text] {
        self.sets.get(&set).map_or(&[], |set| &set.services)
    }

    /// Adds a pod or replaces it. Returns where it was and where it is now.
    pub(crate) fn put_pod(&mut self, pod: &Arc<Pod>) -> (Option<Place>, Place) {
        let name = &pod.key.name;
        if let Some(entry) = self.pods.get_mut(name)
            && entry.pod.labels == pod.labels
        {
            let before = std::mem::replace(&mut entry.pod, Arc::clone(pod));
            let set = entry.set;
            self.list(set, pod);
            return (Some((before.node_name.clone(), set)), (pod.node_name.clone(), set));
        }
        let before = self.remove_pod(name);
        let set = self.set_of(&pod.labels);
        self.pods.insert(name.clone(), PodEntry { pod: Arc::clone(pod), set });
        self.list(set, pod);
        (before, (pod.node_name.clone(), set))
    }

    /// Removes a pod. Returns where it was.
    pub(crate) fn remove_pod(&mut self, name: &str) -> Option<Place> {
        let PodEntry { pod, set: id } = self.pods.remove(name)?;
        if let Some(set) = self.sets.get_mut(&id) {
            set.pods.remove(name);
            for service in &set.services {
                if let Some(entry) = self.services.get_mut(service) {
                    entry.pods.remove(name);
                }
            }
            if set.pods.is_empty() {
                self.selector_index.remove_set(id, &set.labels);
                self.by_labels.remove(&set.labels);
                self.sets.remove(&id);
            }
        }
        Some((pod.node_name.clone(), id))
    }

    /// Puts a pod into the lists of its label set and of the Services that select that.
    fn list(&mut self, set: SetId, pod: &Arc<Pod>) {
        let Some(set) = self.sets.get_mut(&set) else { return };
        set.pods.put(pod);
        for service in &set.services {
            if let Some(entry) = self.services.get_mut(service) {
                entry.pods.put(pod);
            }
        }
    }

    /// The label set of some labels, made if there is none yet.
    fn set_of(&mut self, labels: &StringMap) -> SetId {
        if let Some(id) = self.by_labels.get(labels) {
            return *id;
        }
        let id = self.next_set;
        self.next_set += 1;
        let candidates = self.selector_index.candidate_services(labels);
        let selects = |name: &&Text| {
            let entry = self.services.get(*name);
            entry
                .and_then(|entry| selector_of(&entry.service))
                .is_some_and(|selector| selector.selects(labels))
        };
        let mut services: Vec<Text> = candidates.filter(selects).cloned().collect();
        services.sort_unstable();
        services.shrink_to_fit();
        self.selector_index.add_set(id, labels);
        self.by_labels.insert(labels.clone(), id);
        self.sets.insert(id, LabelSet { labels: labels.clone(), pods: PodList::default(), services });
        id
    }

    /// Works out what a new state of a Service (none: its deletion) does to the index; nothing if it selects as before.
    /// The work grows with the label sets and pods that it selected and selects, which is why it only reads.
    pub(crate) fn reselect(&self, name: &str, service: Option<&Service>) -> Option<Reselection> {
        let before = self.services.get(name).and_then(|entry| selector_of(&entry.service));
        let after = service.and_then(selector_of);
        if before == after {
            return None;
        }
        let (left, joined) = (self.sets_of(before), self.sets_of(after));
        let pods = joined.iter().filter_map(|id| self.sets.get(id)).flat_map(|set| set.pods.iter());
        let pods = PodList::of(pods.cloned().collect());
        Some(Reselection { left, joined, pods })
    }

    fn sets_of(&self, selector: Option<&StringMap>) -> Vec<SetId> {
        let Some(selector) = selector else { return Vec::new() };
        let selected = |id: &SetId| self.sets.get(id).is_some_and(|set| selector.selects(&set.labels));
        self.selector_index.candidate_sets(selector).filter(selected).collect()
    }

    /// Adds a Service or replaces it, with what [`Namespace::reselect`] found for it. Returns the pods that it had listed,
    /// for the caller to drop once he holds no lock.
    pub(crate) fn put_service(&mut self, service: Arc<Service>, change: Option<Reselection>) -> PodList {
        let name = service.key.name.clone();
        let mut index_pair = None;
        let mut pods = PodList::default();
        let mut dropped = PodList::default();
        match change {
            Some(change) => {
                dropped = self.unselect(&name, &change.left);
                if let Some(selector) = selector_of(&service) {
                    index_pair = self.selector_index.add_selector(&name, selector);
                }
                for id in change.joined {
                    let Some(set) = self.sets.get_mut(&id) else { continue };
                    if let Err(at) = set.services.binary_search(&name) {
                        set.services.insert(at, name.clone());
                    }
                }
                pods = change.pods;
            }
            None => {
                if let Some(entry) = self.services.remove(&name) {
                    (index_pair, pods) = (entry.index_pair, entry.pods);
                }
            }
        }
        self.services.insert(name, ServiceEntry { service, index_pair, pods });
        dropped
    }

    /// Removes a Service, with what [`Namespace::reselect`] found for its deletion. Returns the pods that it had listed.
    pub(crate) fn remove_service(&mut self, name: &Text, change: Option<Reselection>) -> PodList {
        let pods = change.map(|change| self.unselect(name, &change.left)).unwrap_or_default();
        self.services.remove(name);
        pods
    }

    /// Takes a Service out of the label sets that it selects, and its selector out of the index.
    fn unselect(&mut self, name: &Text, sets: &[SetId]) -> PodList {
        for id in sets {
            let Some(set) = self.sets.get_mut(id) else { continue };
            if let Ok(at) = set.services.binary_search(name) {
                set.services.remove(at);
            }
        }
        let Some(entry) = self.services.get_mut(name) else { return PodList::default() };
        if selector_of(&entry.service).is_some() {
            self.selector_index.remove_selector(name, entry.index_pair.as_ref());
        }
        std::mem::take(&mut entry.pods)
    }

    /// Whether nothing is left behind of pods and Services that are gone.
    #[cfg(test)]
    pub(crate) fn is_clean(&self) -> bool {
        !self.is_empty()
            && self.by_labels.len() == self.sets.len()
            && self.sets.values().all(|set| !set.pods.is_empty())
            && self.sets.values().map(|set| set.pods.len()).sum::<usize>() == self.pods.len()
            && (!self.pods.is_empty()
                || self.services().any(|service| service.selects_pods())
                || self.selector_index.is_empty())
    }
}
