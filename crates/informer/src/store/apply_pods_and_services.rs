//! Applies events about pods, Services and EndpointSelectors to the index that they share, and
//! notifies handlers.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::{Arc, atomic};

use kube_endpoint_core_model::change::PodChange;
use kube_endpoint_core_model::{EndpointSelector, ObjectKey, Pod, ResourceVersion, Service};
use tokio::time::Instant;

use crate::cluster::PodServiceEvent;
use crate::store::apply::{Apply, List, Update};
use crate::{Change, Cluster, Kind, PodEvent, Scope};

impl Cluster {
    /// Applies an event to the index.
    pub(crate) fn apply_to_index(&self, event: PodServiceEvent) {
        self.inner.pod_service_queue.run(event, |event| match event {
            PodServiceEvent::Pod(origin, event) => self.apply_event(&mut Index(self), &origin, event),
            PodServiceEvent::Service(origin, event) => self.apply_event(&mut Index(self), &origin, event),
            PodServiceEvent::Selector(origin, event) => self.apply_event(&mut Index(self), &origin, event),
        });
    }

    fn notify_pod(&self, event: PodEvent) {
        self.inner.fair_locks.count(1 + event.left.len() + event.joined.len() + event.stayed.len());
        for handler in self.handlers().iter() {
            handler.on_pod(&event);
        }
    }

    /// Puts a Service into the index, under the selector that applies to it.
    fn index_service(&self, service: &Arc<Service>) {
        let index = &self.inner.index;
        let regrouped = index.read().regrouped(service);
        if let Some((scope, part)) = regrouped {
            let before = index.write().replace(&scope, part);
            drop(before);
        }
        let selector_change = index.read().selector_change(&service.key, Some(service));
        let previous_pods = index.write().put_service(Arc::clone(service), selector_change);
        drop(previous_pods);
    }

    /// Stores an EndpointSelector, or removes it, and selects the pods of the Services that name it
    /// anew. Returns these Services.
    fn index_selector(&self, key: &ObjectKey, selector: Option<&Arc<EndpointSelector>>) -> Vec<ObjectKey> {
        let index = &self.inner.index;
        index.write().set_endpoint_selector(key, selector.cloned());
        let attached = index.read().attached_to(key);
        for service in &attached {
            let service = index.read().service(service).cloned();
            if let Some(service) = service {
                self.index_service(&service);
            }
        }
        attached
    }

    /// Lets reflectors list and watch the Leases that EndpointSelectors name.
    pub(crate) fn update_lease_scopes(&self) {
        let by_namespace = self.inner.leases_by_namespace.load(atomic::Ordering::Relaxed);
        let scopes = {
            let index = self.inner.index.read();
            self.watched_namespaces().lease_scopes(index.lease_namespaces().cloned(), by_namespace)
        };
        self.inner.progress.set_scopes(Kind::Leases, scopes);
        self.update_failure_metrics(Kind::Leases);
    }

    fn notify_selector(&self, change: &Change<EndpointSelector>, services: &[ObjectKey]) {
        for handler in self.handlers().iter() {
            handler.on_endpoint_selector(change, services);
        }
    }

    fn notify_service(&self, change: &Change<Service>) {
        for handler in self.handlers().iter() {
            handler.on_service(change);
        }
    }
}

/// The index that pods, Services and EndpointSelectors share.
struct Index<'a>(&'a Cluster);

impl Apply<Pod> for Index<'_> {
    fn put(&mut self, scope: &Scope, new: Pod, arrived: Instant) {
        let index = &self.0.inner.index;
        let version = new.resource_version;
        let old = index.read().pod(&new.key).cloned();
        let update = Update::of(new, old.as_ref());
        let new = update.item();
        let changed = PodChange::of(old.as_deref(), Some(new));
        let needs_services = update.notifies() && !changed.is_none();
        let before = if needs_services { index.read().services_of_pod(&new.key) } else { Vec::new() };
        index.write().put_pod(new);
        let now = if needs_services { index.read().services_of_pod(&new.key) } else { Vec::new() };
        self.0.advance::<Pod>(scope, version);
        if update.notifies() {
            let change = Change { old, new: Some(Arc::clone(new)), arrived: Some(arrived) };
            self.0.notify_pod(pod_event(change, changed, before, now));
        }
    }

    fn remove(&mut self, scope: &Scope, key: &ObjectKey, version: ResourceVersion, arrived: Instant) {
        let index = &self.0.inner.index;
        let (old, before) = {
            let index = index.read();
            (index.pod(key).cloned(), index.services_of_pod(key))
        };
        index.write().remove_pod(key);
        self.0.advance::<Pod>(scope, version);
        if old.is_some() {
            let changed = PodChange::of(old.as_deref(), None);
            let change = Change { old, new: None, arrived: Some(arrived) };
            self.0.notify_pod(pod_event(change, changed, before, Vec::new()));
        }
    }

    fn restart(&mut self, scope: &Scope, list: List<Pod>, version: ResourceVersion) {
        let index = &self.0.inner.index;
        let (now, compared) = {
            // Only the thread that drains the queue writes to the index, so a long read lock blocks
            // no writer.
            let before = index.read();
            let mut compared = list.compare(|key| before.pod(key).cloned());
            let pods = std::mem::take(&mut compared.items).into_iter();
            let now = before.part(scope, before.services_in(scope).cloned(), pods);
            compared.delete(before.pods_in(scope), |key| now.pod(key).is_some());
            (now, compared)
        };
        let before = index.write().replace(scope, now);
        self.0.share_all_with_pods();
        self.0.restart::<Pod>(scope, version, &compared);
        // A handler that begins to want pods later reads the new list.
        let is_wanted = self.0.handlers().iter().any(|it| it.wants_pods());
        for change in compared.changes.into_iter().filter(|_| is_wanted) {
            let changed = PodChange::of(change.old.as_deref(), change.new.as_deref());
            let (mut left, mut joined) = (Vec::new(), Vec::new());
            if !changed.is_none()
                && let Some(pod) = change.latest()
            {
                left = before.services_of_pod(&pod.key);
                joined = index.read().services_of_pod(&pod.key);
            }
            self.0.notify_pod(pod_event(change, changed, left, joined));
        }
    }
}

impl Apply<Service> for Index<'_> {
    fn put(&mut self, scope: &Scope, new: Service, arrived: Instant) {
        let version = new.resource_version;
        let old = self.0.inner.index.read().service(&new.key).cloned();
        let update = Update::of(new, old.as_ref());
        self.0.index_service(update.item());
        self.0.advance::<Service>(scope, version);
        if update.notifies() {
            let new = Some(Arc::clone(update.item()));
            self.0.notify_service(&Change { old, new, arrived: Some(arrived) });
        }
    }

    fn remove(&mut self, scope: &Scope, key: &ObjectKey, version: ResourceVersion, arrived: Instant) {
        let index = &self.0.inner.index;
        let (old, selector_change) = {
            let index = index.read();
            (index.service(key).cloned(), index.selector_change(key, None))
        };
        let previous_pods = index.write().remove_service(key, selector_change);
        drop(previous_pods);
        self.0.advance::<Service>(scope, version);
        if old.is_some() {
            self.0.notify_service(&Change { old, new: None, arrived: Some(arrived) });
        }
    }

    fn restart(&mut self, scope: &Scope, list: List<Service>, version: ResourceVersion) {
        let index = &self.0.inner.index;
        let (now, compared) = {
            let before = index.read();
            let mut compared = list.compare(|key| before.service(key).cloned());
            let services = std::mem::take(&mut compared.items).into_iter();
            let now = before.part(scope, services, before.pods_in(scope).cloned());
            compared.delete(before.services_in(scope), |key| now.service(key).is_some());
            (now, compared)
        };
        let before = index.write().replace(scope, now);
        self.0.restart::<Service>(scope, version, &compared);
        for change in &compared.changes {
            self.0.notify_service(change);
        }
        drop(before);
    }
}

impl Apply<EndpointSelector> for Index<'_> {
    fn put(&mut self, scope: &Scope, new: EndpointSelector, arrived: Instant) {
        let version = new.resource_version;
        let old = self.0.endpoint_selector(&new.key);
        let update = Update::of(new, old.as_ref());
        let change = Change { old, new: Some(Arc::clone(update.item())), arrived: Some(arrived) };
        let services = self.0.index_selector(&update.item().key, change.new.as_ref());
        self.0.update_lease_scopes();
        self.0.advance::<EndpointSelector>(scope, version);
        if update.notifies() {
            self.0.notify_selector(&change, &services);
        }
    }

    fn remove(&mut self, scope: &Scope, key: &ObjectKey, version: ResourceVersion, arrived: Instant) {
        let old = self.0.endpoint_selector(key);
        let services = self.0.index_selector(key, None);
        self.0.update_lease_scopes();
        self.0.advance::<EndpointSelector>(scope, version);
        if old.is_some() {
            self.0.notify_selector(&Change { old, new: None, arrived: Some(arrived) }, &services);
        }
    }

    /// Applies the list one selector after the other: readers see each Service with the pods of the
    /// selector before or after the list.
    fn restart(&mut self, scope: &Scope, list: List<EndpointSelector>, version: ResourceVersion) {
        let compared = {
            let before = self.0.inner.index.read();
            let mut compared = list.compare(|key| before.endpoint_selector(key).cloned());
            let now: BTreeSet<ObjectKey> = compared.items.iter().map(|it| it.key.clone()).collect();
            compared.delete(before.endpoint_selectors_in(scope), |key| now.contains(key));
            compared
        };
        let mut services = Vec::with_capacity(compared.changes.len());
        for change in &compared.changes {
            let key = change.latest().map(|selector| selector.key.clone()).unwrap_or_default();
            services.push(self.0.index_selector(&key, change.new.as_ref()));
        }
        self.0.update_lease_scopes();
        self.0.restart::<EndpointSelector>(scope, version, &compared);
        for (change, services) in compared.changes.iter().zip(services) {
            self.0.notify_selector(change, &services);
        }
    }
}

/// Builds the event from the Services that selected the pod before and those that select it now,
/// both sorted.
fn pod_event(
    change: Change<Pod>,
    changed: PodChange,
    before: Vec<ObjectKey>,
    now: Vec<ObjectKey>,
) -> PodEvent {
    let (mut left, mut joined, mut stayed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut before, mut now) = (before.into_iter().peekable(), now.into_iter().peekable());
    loop {
        let order = match (before.peek(), now.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(now)) => before.cmp(now),
        };
        match order {
            Ordering::Less => left.extend(before.next()),
            Ordering::Greater => joined.extend(now.next()),
            Ordering::Equal => {
                before.next();
                stayed.extend(now.next());
            }
        }
    }
    PodEvent { change, changed, left, joined, stayed }
}
