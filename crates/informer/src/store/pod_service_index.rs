//! All pods, Services and EndpointSelectors, with indexes by selector and by node.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::HashMap;
use kube_endpoint_core_model::{EndpointSelector, ObjectKey, Pod, Service, Text};

use crate::Scope;
use crate::store::namespace_index::{NamespaceIndex, Placement, SelectorChange};
use crate::store::pod_list::PodList;
use crate::store::pod_log::{PodLogOptions, SelectedPods};
use crate::store::selector_index::SetId;

#[derive(Debug, Default)]
pub(crate) struct PodServiceIndex {
    namespaces: BTreeMap<Text, NamespaceIndex>,
    /// The label sets of the pods on each node, with the number of pods in each set.
    nodes: HashMap<Text, BTreeMap<(SetId, Text), u32>>,
    pods: usize,
    services: usize,
    endpoint_selectors: usize,
    /// The namespaces of the EndpointSelectors that name a Lease, with their number.
    lease_namespaces: BTreeMap<Text, usize>,
    pod_log: PodLogOptions,
}

impl PodServiceIndex {
    pub(crate) fn new(pod_log: PodLogOptions) -> Self {
        Self { pod_log, ..Self::default() }
    }

    fn namespace(&mut self, name: &Text) -> &mut NamespaceIndex {
        self.namespaces.entry(name.clone()).or_insert_with(|| NamespaceIndex::new(self.pod_log))
    }

    /// Builds a part from all Services and pods of a scope, for [`Self::replace`].
    pub(crate) fn part(
        &self,
        scope: &Scope,
        services: impl Iterator<Item = Arc<Service>>,
        pods: impl Iterator<Item = Arc<Pod>>,
    ) -> Self {
        self.part_from(Self::new(self.pod_log), scope, services, pods)
    }

    /// Groups the pods of a Service's namespace anew, as [`Self::part`] does, if its selector has a
    /// key that label sets lack.
    pub(crate) fn regrouped(&self, service: &Service) -> Option<(Scope, Self)> {
        let name = &service.key.namespace;
        let space = self.namespaces.get(name)?;
        let selection = &space.selection_of(service)?;
        if !space.lacks_keys_of(selection) {
            return None;
        }
        let scope = Scope::Namespace(name.clone());
        let mut new = Self::new(self.pod_log);
        // Adds all of its keys: some may come from earlier selectors that no Service has any more.
        new.namespace(name).add_keys_of(selection);
        let (services, pods) = (self.services_in(&scope).cloned(), self.pods_in(&scope).cloned());
        let part = self.part_from(new, &scope, services, pods);
        Some((scope, part))
    }

    fn part_from(
        &self,
        mut new: Self,
        scope: &Scope,
        services: impl Iterator<Item = Arc<Service>>,
        pods: impl Iterator<Item = Arc<Pod>>,
    ) -> Self {
        if let Scope::Namespace(namespace) = scope {
            new.nodes = self.nodes.clone();
            // The part replaces the placements on nodes together with the namespace, so that
            // readers need not wait while this function computes them.
            new.nodes.retain(|_, sets| {
                sets.retain(|(_, of), _| of != namespace);
                !sets.is_empty()
            });
        }
        for selector in self.endpoint_selectors_in(scope) {
            new.set_endpoint_selector(&selector.key, Some(Arc::clone(selector)));
        }
        for service in services {
            let change = new.selector_change(&service.key, Some(&service));
            new.put_service(service, change);
        }
        for pod in pods {
            new.append_pod(&pod);
        }
        new.namespaces.values_mut().for_each(NamespaceIndex::finish_list);
        new
    }

    /// Replaces a scope with a part that [`Self::part`] has built for it. Returns the previous
    /// part.
    pub(crate) fn replace(&mut self, scope: &Scope, mut part: Self) -> Self {
        let Scope::Namespace(name) = scope else { return std::mem::replace(self, part) };
        let nodes = std::mem::replace(&mut self.nodes, part.nodes);
        let before = self.namespaces.remove(name);
        if let Some(namespace) = part.namespaces.remove(name) {
            self.namespaces.insert(name.clone(), namespace);
        }
        let (pods, services) = before.as_ref().map_or((0, 0), NamespaceIndex::counts);
        self.pods = self.pods - pods + part.pods;
        self.services = self.services - services + part.services;
        let namespaces = before.into_iter().map(|namespace| (name.clone(), namespace)).collect();
        Self { namespaces, nodes, pods, services, pod_log: self.pod_log, ..Self::default() }
    }

    pub(crate) fn pod(&self, key: &ObjectKey) -> Option<&Arc<Pod>> {
        self.namespaces.get(&key.namespace)?.pod(&key.name)
    }

    pub(crate) fn pod_named(&self, namespace: &str, name: &str) -> Option<&Arc<Pod>> {
        self.namespaces.get(namespace)?.pod(name)
    }

    fn namespaces_in(&self, scope: &Scope) -> impl Iterator<Item = &NamespaceIndex> {
        let one = scope.namespace().and_then(|namespace| self.namespaces.get(namespace));
        let all = (*scope == Scope::All).then(|| self.namespaces.values());
        all.into_iter().flatten().chain(one)
    }

    /// Returns the pods of a scope.
    pub(crate) fn pods_in(&self, scope: &Scope) -> impl Iterator<Item = &Arc<Pod>> {
        self.namespaces_in(scope).flat_map(NamespaceIndex::pods)
    }

    pub(crate) fn pod_count(&self) -> usize {
        self.pods
    }

    pub(crate) fn service(&self, key: &ObjectKey) -> Option<&Arc<Service>> {
        self.namespaces.get(&key.namespace)?.service(&key.name)
    }

    pub(crate) fn services_after(&self, after: &ObjectKey, limit: usize) -> Vec<ObjectKey> {
        let namespaces = self.namespaces.range(after.namespace.clone()..);
        let services = namespaces.flat_map(|(namespace, space)| {
            let start = if *namespace == after.namespace { Some(&after.name) } else { None };
            space.services_after(start)
        });
        services.take(limit).map(|service| service.key.clone()).collect()
    }

    pub(crate) fn pods_after(&self, after: &ObjectKey, limit: usize) -> Vec<Arc<Pod>> {
        let namespaces = self.namespaces.range(after.namespace.clone()..);
        let pods = namespaces.flat_map(|(namespace, space)| {
            let start = if *namespace == after.namespace { Some(&after.name) } else { None };
            space.pods_after(start)
        });
        pods.take(limit).cloned().collect()
    }

    /// Returns the Services of a scope.
    pub(crate) fn services_in(&self, scope: &Scope) -> impl Iterator<Item = &Arc<Service>> {
        self.namespaces_in(scope).flat_map(NamespaceIndex::services)
    }

    pub(crate) fn endpoint_selector(&self, key: &ObjectKey) -> Option<&Arc<EndpointSelector>> {
        self.namespaces.get(&key.namespace)?.endpoint_selector(&key.name)
    }

    /// Returns the EndpointSelectors of a scope.
    pub(crate) fn endpoint_selectors_in(
        &self,
        scope: &Scope,
    ) -> impl Iterator<Item = &Arc<EndpointSelector>> {
        self.namespaces_in(scope).flat_map(NamespaceIndex::endpoint_selectors)
    }

    /// Returns the Services that name an EndpointSelector, which need not exist, sorted.
    pub(crate) fn attached_to(&self, selector: &ObjectKey) -> Vec<ObjectKey> {
        let Some(space) = self.namespaces.get(&selector.namespace) else { return Vec::new() };
        let key = |name: &Text| ObjectKey { namespace: selector.namespace.clone(), name: name.clone() };
        space.attached_to(&selector.name).map(key).collect()
    }

    /// See [`NamespaceIndex::set_endpoint_selector`].
    pub(crate) fn set_endpoint_selector(&mut self, key: &ObjectKey, selector: Option<Arc<EndpointSelector>>) {
        let space = self.namespace(&key.namespace);
        let before = space.endpoint_selector(&key.name).cloned();
        let counts = [before.is_some(), selector.is_some()].map(usize::from);
        let names = [&before, &selector].map(|it| it.as_ref().is_some_and(|it| it.names_lease()));
        space.set_endpoint_selector(&key.name, selector);
        if space.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        let [before, now] = counts;
        self.endpoint_selectors = self.endpoint_selectors + now - before;
        match names {
            [false, true] => *self.lease_namespaces.entry(key.namespace.clone()).or_default() += 1,
            [true, false] => {
                if let Some(count) = self.lease_namespaces.get_mut(&key.namespace) {
                    *count -= 1;
                    if *count == 0 {
                        self.lease_namespaces.remove(&key.namespace);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the namespaces of the EndpointSelectors that name a Lease.
    pub(crate) fn lease_namespaces(&self) -> impl ExactSizeIterator<Item = &Text> {
        self.lease_namespaces.keys()
    }

    pub(crate) fn endpoint_selector_count(&self) -> usize {
        self.endpoint_selectors
    }

    /// Returns all Services.
    pub(crate) fn services(&self) -> impl Iterator<Item = &Arc<Service>> {
        self.services_in(&Scope::All)
    }

    pub(crate) fn service_count(&self) -> usize {
        self.services
    }

    /// Returns the pods that a Service selects, or `None` if there is no such Service.
    pub(crate) fn pods_of(&self, service: &ObjectKey) -> Option<&SelectedPods> {
        self.namespaces.get(&service.namespace)?.pods_of(&service.name)
    }

    /// Returns the Services that select a pod, sorted.
    pub(crate) fn services_of_pod(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        let Some(space) = self.namespaces.get(&key.namespace) else { return Vec::new() };
        let services = space.services_of_pod(&key.name).iter();
        services.map(|name| ObjectKey { namespace: key.namespace.clone(), name: name.clone() }).collect()
    }

    /// Returns the Services that select a pod on a node, sorted.
    pub(crate) fn services_on_node(&self, node: &str) -> Vec<ObjectKey> {
        let mut found = Vec::new();
        for (set, namespace) in self.nodes.get(node).into_iter().flat_map(BTreeMap::keys) {
            let Some(space) = self.namespaces.get(namespace) else { continue };
            let services = space.services_of_set(*set).iter();
            found.extend(services.map(|name| ObjectKey { namespace: namespace.clone(), name: name.clone() }));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    pub(crate) fn put_pod(&mut self, pod: &Arc<Pod>) {
        let placements = self.namespace(&pod.key.namespace).put_pod(pod);
        self.place(&pod.key.namespace, placements);
    }

    /// See [`NamespaceIndex::append_pod`].
    fn append_pod(&mut self, pod: &Arc<Pod>) {
        let placements = self.namespace(&pod.key.namespace).append_pod(pod);
        self.place(&pod.key.namespace, placements);
    }

    /// Counts a new pod, and moves it from the count of its previous node to that of its current
    /// one.
    fn place(&mut self, namespace: &Text, (before, now): (Option<Placement>, Placement)) {
        self.pods += usize::from(before.is_none());
        if before.as_ref() != Some(&now) {
            self.remove_placement(namespace, before);
            let (Some(node), set) = now else { return };
            *self.nodes.entry(node).or_default().entry((set, namespace.clone())).or_default() += 1;
        }
    }

    pub(crate) fn remove_pod(&mut self, key: &ObjectKey) {
        let Some(space) = self.namespaces.get_mut(&key.namespace) else { return };
        let before = space.remove_pod(&key.name);
        if space.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        self.pods -= usize::from(before.is_some());
        self.remove_placement(&key.namespace, before);
    }

    /// Removes a pod from the count of its node.
    fn remove_placement(&mut self, namespace: &Text, placement: Option<Placement>) {
        let Some((Some(node), set)) = placement else { return };
        let Some(sets) = self.nodes.get_mut(&node) else { return };
        let key = (set, namespace.clone());
        if let Some(count) = sets.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                sets.remove(&key);
            }
        }
        if sets.is_empty() {
            self.nodes.remove(&node);
        }
    }

    /// See [`NamespaceIndex::selector_change`].
    pub(crate) fn selector_change(
        &self,
        key: &ObjectKey,
        service: Option<&Service>,
    ) -> Option<SelectorChange> {
        match self.namespaces.get(&key.namespace) {
            Some(space) => space.selector_change(&key.name, service),
            None => NamespaceIndex::default().selector_change(&key.name, service),
        }
    }

    /// See [`NamespaceIndex::put_service`].
    pub(crate) fn put_service(&mut self, service: Arc<Service>, change: Option<SelectorChange>) -> PodList {
        let space = self.namespace(&service.key.namespace);
        let (_, before) = space.counts();
        let pods = space.put_service(service, change);
        // `put_service` removes no Service.
        self.services += space.counts().1 - before;
        pods
    }

    /// See [`NamespaceIndex::remove_service`].
    pub(crate) fn remove_service(&mut self, key: &ObjectKey, change: Option<SelectorChange>) -> PodList {
        self.services -= usize::from(self.service(key).is_some());
        let Some(space) = self.namespaces.get_mut(&key.namespace) else { return PodList::default() };
        let pods = space.remove_service(&key.name, change);
        if space.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        pods
    }

    /// Returns the number of label sets.
    #[cfg(test)]
    pub(crate) fn set_count(&self) -> usize {
        self.namespaces.values().map(NamespaceIndex::set_count).sum()
    }

    /// Returns true if nothing is left of deleted objects.
    #[cfg(test)]
    #[expect(clippy::disallowed_methods, reason = "the order does not matter")]
    pub(crate) fn is_clean(&self) -> bool {
        let placed = self.pods_in(&Scope::All).filter(|pod| pod.node_name.is_some()).count();
        self.namespaces.values().all(NamespaceIndex::is_clean)
            && self.nodes.values().all(|sets| !sets.is_empty())
            && self.nodes.values().flat_map(BTreeMap::values).map(|count| *count as usize).sum::<usize>()
                == placed
            && self.pods_in(&Scope::All).count() == self.pods
            && self.services().count() == self.services
    }
}
