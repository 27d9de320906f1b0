//! The pods and Services of one namespace, and the pods that each Service selects.
//!
//! The index groups pods by label set; the pods of one workload usually share one. So an event
//! about a pod with a known label set evaluates no selector. Each Service has an up-to-date list of
//! the pods that it selects.
//!
//! A label set contains only keys that appear in some selector: no Service can tell apart pods that
//! differ in other labels, such as the name of the pod that StatefulSets and Jobs add to each. When
//! a selector with a new key arrives, the index groups the pods anew.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use ahash::HashMap;
use kube_endpoint_core_model::{EndpointSelector, Pod, Service, StringMap, Text};

use crate::store::pod_list::PodList;
use crate::store::pod_log::{PodLogOptions, SelectedPods};
use crate::store::selection::{Pair, Selection};
use crate::store::selector_index::{SelectorIndex, SetId};

#[derive(Debug, Default)]
pub(crate) struct NamespaceIndex {
    pods: BTreeMap<Text, PodEntry>,
    /// The pods of a list under way, sorted; they come after all of `pods`. See
    /// [`Self::append_pod`].
    appended: Vec<(Text, PodEntry)>,
    services: BTreeMap<Text, ServiceEntry>,
    endpoint_selectors: BTreeMap<Text, Arc<EndpointSelector>>,
    /// The Services that name an EndpointSelector, which need not exist.
    attached: BTreeMap<Text, BTreeSet<Text>>,
    sets: HashMap<SetId, LabelSet>,
    by_labels: HashMap<StringMap, SetId>,
    selector_index: SelectorIndex,
    /// The keys that label sets may have: those of all selectors, and of earlier selectors since
    /// the index last grouped the pods.
    keys: BTreeSet<Text>,
    next_set: SetId,
    pod_log: PodLogOptions,
}

#[derive(Debug)]
struct PodEntry {
    pod: Arc<Pod>,
    set: SetId,
}

#[derive(Debug)]
struct ServiceEntry {
    service: Arc<Service>,
    /// The selector by which `pods` are selected. `None` if it selects no pods.
    selection: Option<Selection>,
    /// The pairs under which the selector index holds the selection.
    index_pairs: Box<[Pair]>,
    pods: SelectedPods,
}

#[derive(Debug)]
struct LabelSet {
    labels: StringMap,
    pods: PodList,
    /// Names of the Services that select it, sorted.
    services: Vec<Text>,
}

/// The node and the label set of a pod. The index by node counts pods by them.
pub(crate) type Placement = (Option<Text>, SetId);

/// The effect of a changed selector, computed before the index changes.
#[derive(Debug)]
pub(crate) struct SelectorChange {
    selection: Option<Selection>,
    left: Vec<SetId>,
    joined: Vec<SetId>,
    pods: PodList,
}

/// Returns true if a name comes after all names of a map, and so is none of them. The API server
/// sorts the objects of a list.
fn is_after<V>(names: &BTreeMap<Text, V>, name: &str) -> bool {
    names.last_key_value().is_none_or(|(last, _)| **last < *name)
}

impl NamespaceIndex {
    pub(crate) fn new(pod_log: PodLogOptions) -> Self {
        Self { pod_log, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.services.is_empty() && self.endpoint_selectors.is_empty()
    }

    /// Returns the selector that applies to a Service, or `None` if it selects no pods.
    pub(crate) fn selection_of(&self, service: &Service) -> Option<Selection> {
        if service.selects_pods() {
            return service.selector.clone().map(Selection::Labels);
        }
        let selector = self.endpoint_selectors.get(service.endpoint_selector()?)?;
        selector.selector.as_ref().ok().cloned().map(Selection::Expressions)
    }

    pub(crate) fn endpoint_selector(&self, name: &str) -> Option<&Arc<EndpointSelector>> {
        self.endpoint_selectors.get(name)
    }

    pub(crate) fn endpoint_selectors(&self) -> impl Iterator<Item = &Arc<EndpointSelector>> {
        self.endpoint_selectors.values()
    }

    /// Returns the Services that name an EndpointSelector, sorted.
    pub(crate) fn attached_to(&self, selector: &str) -> impl Iterator<Item = &Text> {
        self.attached.get(selector).into_iter().flatten()
    }

    /// Adds or replaces an EndpointSelector, or removes it if there is none now. The Services that
    /// name it keep the pods that they had. The caller must then pass each of them to
    /// [`put_service`](Self::put_service) with its [`selector_change`](Self::selector_change).
    pub(crate) fn set_endpoint_selector(&mut self, name: &Text, selector: Option<Arc<EndpointSelector>>) {
        match selector {
            Some(selector) => self.endpoint_selectors.insert(name.clone(), selector),
            None => self.endpoint_selectors.remove(name),
        };
    }

    /// Ends a list whose pods [`Self::append_pod`] has added.
    pub(crate) fn finish_list(&mut self) {
        // A map that is built at once has full nodes; one that grew at its end has half-empty ones.
        let (pods, appended) = (std::mem::take(&mut self.pods), std::mem::take(&mut self.appended));
        self.pods = match (pods.is_empty(), appended.is_empty()) {
            (true, _) => appended.into_iter().collect(),
            (_, true) => pods.into_iter().collect(),
            _ => pods.into_iter().chain(appended).collect(),
        };
    }

    /// Returns the numbers of pods and of Services.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.pods.len(), self.services.len())
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

    /// Returns the pods after a name, sorted.
    pub(crate) fn pods_after(&self, name: Option<&Text>) -> impl Iterator<Item = &Arc<Pod>> {
        let start = name.map_or(Bound::Unbounded, |name| Bound::Excluded(name.clone()));
        self.pods.range((start, Bound::Unbounded)).map(|(_, entry)| &entry.pod)
    }

    pub(crate) fn services_after(&self, name: Option<&Text>) -> impl Iterator<Item = &Arc<Service>> {
        let start = name.map_or(Bound::Unbounded, |name| Bound::Excluded(name.clone()));
        self.services.range((start, Bound::Unbounded)).map(|(_, entry)| &entry.service)
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services.values().map(|entry| &entry.service)
    }

    /// Returns the pods that a Service selects, or `None` if it has no selector.
    pub(crate) fn pods_of(&self, service: &str) -> Option<&SelectedPods> {
        self.services.get(service).filter(|entry| entry.selection.is_some()).map(|entry| &entry.pods)
    }

    /// Returns the Services that select a pod, sorted.
    pub(crate) fn services_of_pod(&self, name: &str) -> &[Text] {
        self.pods.get(name).map_or(&[], |entry| self.services_of_set(entry.set))
    }

    /// Returns the Services that select a label set, sorted.
    pub(crate) fn services_of_set(&self, set: SetId) -> &[Text] {
        self.sets.get(&set).map_or(&[], |set| &set.services)
    }

    /// Adds a pod of a list, as [`Self::put_pod`] does. Pods of a list are mostly sorted, so this
    /// collects them in a vector: each insertion at the end of a map would compare the name with
    /// all names of the nodes on the path. Call [`Self::finish_list`] before anything else looks at
    /// pods.
    pub(crate) fn append_pod(&mut self, pod: &Arc<Pod>) -> (Option<Placement>, Placement) {
        let name = &pod.key.name;
        let is_last = match self.appended.last() {
            Some((last, _)) => **last < **name,
            None => is_after(&self.pods, name),
        };
        if !is_last {
            self.pods.extend(self.appended.drain(..));
            return self.put_pod(pod);
        }
        let set = self.set_of(&pod.labels);
        self.appended.push((name.clone(), PodEntry { pod: Arc::clone(pod), set }));
        self.add_to_lists(set, pod, None);
        (None, (pod.node_name.clone(), set))
    }

    /// Adds or replaces a pod. Returns its previous and its current placement.
    pub(crate) fn put_pod(&mut self, pod: &Arc<Pod>) -> (Option<Placement>, Placement) {
        let name = &pod.key.name;
        let mut before = None;
        if !is_after(&self.pods, name)
            && let Some(entry) = self.pods.get_mut(name)
        {
            if entry.pod.labels == pod.labels {
                let before = std::mem::replace(&mut entry.pod, Arc::clone(pod));
                let set = entry.set;
                self.add_to_lists(set, pod, Some(&before));
                return (Some((before.node_name.clone(), set)), (pod.node_name.clone(), set));
            }
            before = self.remove_pod(name);
        }
        let set = self.set_of(&pod.labels);
        self.pods.insert(name.clone(), PodEntry { pod: Arc::clone(pod), set });
        self.add_to_lists(set, pod, None);
        (before, (pod.node_name.clone(), set))
    }

    /// Removes a pod. Returns its placement.
    pub(crate) fn remove_pod(&mut self, name: &str) -> Option<Placement> {
        let PodEntry { pod, set: id } = self.pods.remove(name)?;
        if let Some(set) = self.sets.get_mut(&id) {
            set.pods.remove(name);
            for service in &set.services {
                if let Some(entry) = self.services.get_mut(service) {
                    entry.pods.remove(&pod, self.pod_log);
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

    /// Adds a pod to the lists of its label set and of the Services that select the set. These
    /// lists hold the view `before` of it.
    fn add_to_lists(&mut self, set: SetId, pod: &Arc<Pod>, before: Option<&Arc<Pod>>) {
        let Some(set) = self.sets.get_mut(&set) else { return };
        set.pods.put(pod);
        for service in &set.services {
            if let Some(entry) = self.services.get_mut(service) {
                entry.pods.put(pod, before, self.pod_log);
            }
        }
    }

    /// Returns true if a selector has a key that pods have, and that label sets lack. The work
    /// grows with the number of pods, so call it under a read lock.
    pub(crate) fn lacks_keys_of(&self, selection: &Selection) -> bool {
        let lacks =
            |key: &Text| !self.keys.contains(key) && self.pods().any(|pod| pod.labels.contains_key(key));
        selection.keys().iter().any(lacks)
    }

    /// Adds the keys of a selector to those of label sets. Call it before there are any sets.
    pub(crate) fn add_keys_of(&mut self, selection: &Selection) {
        self.keys.extend(selection.keys());
    }

    /// Returns the labels that a selector can refer to.
    fn distinctive(&self, labels: &StringMap) -> StringMap {
        let known = |(key, _): &(&Text, &Text)| self.keys.contains(*key);
        if labels.iter().all(|label| known(&label)) {
            return labels.clone();
        }
        labels.iter().filter(known).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Returns the label set of a pod with these labels. Creates it if it does not exist.
    fn set_of(&mut self, labels: &StringMap) -> SetId {
        let labels = &self.distinctive(labels);
        if let Some(id) = self.by_labels.get(labels) {
            return *id;
        }
        let id = self.next_set;
        self.next_set += 1;
        let candidates = self.selector_index.candidate_services(labels);
        let selects = |name: &&Text| {
            let selection = self.services.get(*name).and_then(|entry| entry.selection.as_ref());
            selection.is_some_and(|selection| selection.selects(labels))
        };
        let mut services: Vec<Text> = candidates.filter(selects).cloned().collect();
        services.sort_unstable();
        services.shrink_to_fit();
        self.selector_index.add_set(id, labels);
        self.by_labels.insert(labels.clone(), id);
        self.sets.insert(id, LabelSet { labels: labels.clone(), pods: PodList::default(), services });
        id
    }

    /// Computes the effect of a new state of a Service, or of its deletion if `service` is `None`.
    /// Returns `None` if its selector does not change. The work grows with the label sets and pods
    /// that it selected and selects, so call it under a read lock.
    pub(crate) fn selector_change(&self, name: &str, service: Option<&Service>) -> Option<SelectorChange> {
        let known = if is_after(&self.services, name) { None } else { self.services.get(name) };
        let before = known.and_then(|entry| entry.selection.as_ref());
        let selection = service.and_then(|service| self.selection_of(service));
        if before == selection.as_ref() {
            return None;
        }
        let (left, joined) = (self.sets_of(before), self.sets_of(selection.as_ref()));
        let pods = joined.iter().filter_map(|id| self.sets.get(id)).flat_map(|set| set.pods.iter());
        let pods = PodList::of(pods.cloned().collect());
        Some(SelectorChange { selection, left, joined, pods })
    }

    fn sets_of(&self, selection: Option<&Selection>) -> Vec<SetId> {
        let Some(selection) = selection else { return Vec::new() };
        let selected = |id: &SetId| self.sets.get(id).is_some_and(|set| selection.selects(&set.labels));
        self.selector_index.candidate_sets(selection).filter(selected).collect()
    }

    /// Adds or replaces a Service, with the result of [`selector_change`](Self::selector_change).
    /// Label sets must have the keys of its selector already, unless no pod has them
    /// ([`lacks_keys_of`](Self::lacks_keys_of)). Returns the list of pods that it selected before,
    /// for the caller to drop after it has released the lock.
    pub(crate) fn put_service(&mut self, service: Arc<Service>, change: Option<SelectorChange>) -> PodList {
        let name = service.key.name.clone();
        self.attach(&name, service.endpoint_selector());
        let (mut selection, mut index_pairs) = (None, Box::default());
        let mut pods = SelectedPods::default();
        let mut dropped = PodList::default();
        match change {
            Some(change) => {
                if !is_after(&self.services, &name) {
                    dropped = self.unselect(&name, &change.left);
                }
                if let Some(selection) = &change.selection {
                    self.add_keys_of(selection);
                    index_pairs = self.selector_index.add_selector(&name, selection);
                }
                for id in change.joined {
                    let Some(set) = self.sets.get_mut(&id) else { continue };
                    if let Err(at) = set.services.binary_search(&name) {
                        set.services.insert(at, name.clone());
                    }
                }
                pods = SelectedPods::new(change.pods, self.pod_log);
                selection = change.selection;
            }
            None => {
                if let Some(entry) = self.services.remove(&name) {
                    (selection, index_pairs, pods) = (entry.selection, entry.index_pairs, entry.pods);
                }
            }
        }
        self.services.insert(name, ServiceEntry { service, selection, index_pairs, pods });
        dropped
    }

    /// Removes a Service, with the result of [`selector_change`](Self::selector_change). Returns
    /// the list of pods that it selected.
    pub(crate) fn remove_service(&mut self, name: &Text, change: Option<SelectorChange>) -> PodList {
        let pods = change.map(|change| self.unselect(name, &change.left)).unwrap_or_default();
        self.attach(name, None);
        self.services.remove(name);
        pods
    }

    /// Records the EndpointSelector that a Service names now. `services` has its previous state.
    fn attach(&mut self, name: &Text, selector: Option<&Text>) {
        let before = self.services.get(name).and_then(|entry| entry.service.endpoint_selector()).cloned();
        if before.as_ref() == selector {
            return;
        }
        if let Some(before) = before
            && let Some(services) = self.attached.get_mut(&before)
        {
            services.remove(name);
            if services.is_empty() {
                self.attached.remove(&before);
            }
        }
        if let Some(selector) = selector {
            self.attached.entry(selector.clone()).or_default().insert(name.clone());
        }
    }

    /// Removes a Service from these label sets, and its selector from the index.
    fn unselect(&mut self, name: &Text, sets: &[SetId]) -> PodList {
        for id in sets {
            let Some(set) = self.sets.get_mut(id) else { continue };
            if let Ok(at) = set.services.binary_search(name) {
                set.services.remove(at);
            }
        }
        let Some(entry) = self.services.get_mut(name) else { return PodList::default() };
        if entry.selection.take().is_some() {
            self.selector_index.remove_selector(name, &std::mem::take(&mut entry.index_pairs));
        }
        std::mem::take(&mut entry.pods).into_pods()
    }

    /// Returns the number of label sets.
    #[cfg(test)]
    pub(crate) fn set_count(&self) -> usize {
        self.sets.len()
    }

    /// Returns true if nothing is left of deleted pods and Services.
    #[cfg(test)]
    #[expect(clippy::disallowed_methods, reason = "the order does not matter")]
    pub(crate) fn is_clean(&self) -> bool {
        !self.is_empty()
            && self.by_labels.len() == self.sets.len()
            && self.sets.values().all(|set| !set.pods.is_empty())
            && self.sets.values().map(|set| set.pods.len()).sum::<usize>() == self.pods.len()
            && (!self.pods.is_empty()
                || self.services.values().any(|entry| entry.selection.is_some())
                || self.selector_index.is_empty())
    }
}
