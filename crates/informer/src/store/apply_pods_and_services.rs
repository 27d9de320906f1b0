//! Applies events about pods, Services and EndpointSelectors to the index that they share, and
//! notifies handlers.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::{Arc, atomic};

use kube_endpoint_core_model::change::PodChange;
use kube_endpoint_core_model::{EndpointSelector, ObjectKey, Pod, ResourceVersion, Service};

use crate::cluster::PodServiceEvent;
use crate::store::apply::{Update, contradicts};
use crate::{Change, Cluster, Kind, Object, Origin, PodEvent, Scope, StreamEvent};

impl Cluster {
    /// Applies an event to the index.
    pub(crate) fn apply_to_index(&self, event: PodServiceEvent) {
        let metrics = |event: &PodServiceEvent| match event {
            PodServiceEvent::Pod(..) => self.metrics(Kind::Pods),
            PodServiceEvent::Service(..) => self.metrics(Kind::Services),
            PodServiceEvent::Selector(..) => self.metrics(Kind::EndpointSelectors),
        };
        self.inner.pod_service_queue.run(event, metrics, |event| match event {
            PodServiceEvent::Pod(origin, event) => self.apply_pod_event(&origin, event),
            PodServiceEvent::Service(origin, event) => self.apply_service_event(&origin, event),
            PodServiceEvent::Selector(origin, event) => self.apply_selector_event(&origin, event),
        });
    }

    fn apply_pod_event(&self, origin: &Origin, event: StreamEvent<Pod>) {
        let scope = &origin.scope;
        let metrics = self.metrics(Pod::KIND);
        match event {
            StreamEvent::Applied(new) => self.put_pod(origin, new),
            StreamEvent::Deleted(last) => self.remove_pod(origin, &last.key, last.resource_version),
            StreamEvent::DeletedFinalStateUnknown { key, resource_version } => {
                self.remove_pod(origin, &key, resource_version);
            }
            StreamEvent::Restarted { items, undecodable, resource_version } => {
                self.restart_pods(scope, items, &undecodable, resource_version);
            }
            StreamEvent::Bookmark(version) => {
                metrics.bookmarks.increment(1);
                self.advance_to_bookmark::<Pod>(scope, version);
                self.record_lowest_position::<Pod>();
            }
        }
    }

    fn put_pod(&self, Origin { scope, arrived }: &Origin, new: Pod) {
        let index = &self.inner.index;
        let version = new.resource_version;
        let old = index.read().pod(&new.key).cloned();
        let update = Update::of(new, old.as_ref());
        let new = update.item();
        let changed = PodChange::of(old.as_deref(), Some(new));
        let needs_services = update.notifies() && !changed.is_none();
        let before = if needs_services { index.read().services_of_pod(&new.key) } else { Vec::new() };
        index.write().put_pod(new);
        let now = if needs_services { index.read().services_of_pod(&new.key) } else { Vec::new() };
        self.metrics(Pod::KIND).applied.increment(1);
        self.advance::<Pod>(scope, version);
        if update.notifies() {
            let change = Change { old, new: Some(Arc::clone(new)), arrived: Some(*arrived) };
            self.notify_pod(pod_event(change, changed, before, now));
        }
    }

    fn remove_pod(&self, Origin { scope, arrived }: &Origin, key: &ObjectKey, version: ResourceVersion) {
        let index = &self.inner.index;
        let (old, before) = {
            let index = index.read();
            (index.pod(key).cloned(), index.services_of_pod(key))
        };
        index.write().remove_pod(key);
        self.metrics(Pod::KIND).deleted.increment(1);
        self.advance::<Pod>(scope, version);
        if old.is_some() {
            let changed = PodChange::of(old.as_deref(), None);
            let change = Change { old, new: None, arrived: Some(*arrived) };
            self.notify_pod(pod_event(change, changed, before, Vec::new()));
        }
    }

    fn restart_pods(
        &self,
        scope: &Scope,
        items: Vec<Pod>,
        undecodable: &[ObjectKey],
        version: ResourceVersion,
    ) {
        let index = &self.inner.index;
        let position = self.inner.progress.position(Kind::Pods, scope);
        let (now, changes, contradicts) = {
            // Only the thread that drains the queue writes to the index, so a long read lock blocks
            // no writer.
            let before = index.read();
            let (pods, mut changes, contradicts) =
                compared(items, undecodable, position, |key| before.pod(key).cloned());
            let now = before.part(scope, before.services_in(scope).cloned(), pods.into_iter());
            for old in before.pods_in(scope).filter(|old| now.pod(&old.key).is_none()) {
                changes.push(Change { old: Some(Arc::clone(old)), new: None, arrived: None });
            }
            (now, changes, contradicts)
        };
        let before = index.write().replace(scope, now);
        self.share_all_with_pods();
        self.metrics(Pod::KIND).restarted.increment(1);
        self.restart::<Pod>(scope, version, contradicts, &changes);
        // A handler that begins to want pods later reads the new list.
        let changes = if self.handlers().iter().any(|it| it.wants_pods()) { changes } else { Vec::new() };
        for change in changes {
            let changed = PodChange::of(change.old.as_deref(), change.new.as_deref());
            let (mut left, mut joined) = (Vec::new(), Vec::new());
            if !changed.is_none()
                && let Some(pod) = change.latest()
            {
                left = before.services_of_pod(&pod.key);
                joined = index.read().services_of_pod(&pod.key);
            }
            self.notify_pod(pod_event(change, changed, left, joined));
        }
        self.mark_synced::<Pod>(scope);
    }

    fn notify_pod(&self, event: PodEvent) {
        self.inner.fair_locks.count(1 + event.left.len() + event.joined.len() + event.stayed.len());
        for handler in self.handlers().iter() {
            handler.on_pod(&event);
        }
    }

    fn apply_service_event(&self, origin: &Origin, event: StreamEvent<Service>) {
        let scope = &origin.scope;
        let metrics = self.metrics(Service::KIND);
        match event {
            StreamEvent::Applied(new) => self.put_service(origin, new),
            StreamEvent::Deleted(last) => self.remove_service(origin, &last.key, last.resource_version),
            StreamEvent::DeletedFinalStateUnknown { key, resource_version } => {
                self.remove_service(origin, &key, resource_version);
            }
            StreamEvent::Restarted { items, undecodable, resource_version } => {
                self.restart_services(scope, items, &undecodable, resource_version);
            }
            StreamEvent::Bookmark(version) => {
                metrics.bookmarks.increment(1);
                self.advance_to_bookmark::<Service>(scope, version);
                self.record_lowest_position::<Service>();
            }
        }
    }

    fn put_service(&self, Origin { scope, arrived }: &Origin, new: Service) {
        let index = &self.inner.index;
        let version = new.resource_version;
        let old = index.read().service(&new.key).cloned();
        let update = Update::of(new, old.as_ref());
        self.index_service(update.item());
        self.metrics(Service::KIND).applied.increment(1);
        self.advance::<Service>(scope, version);
        if update.notifies() {
            let new = Some(Arc::clone(update.item()));
            self.notify_service(&Change { old, new, arrived: Some(*arrived) });
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

    fn remove_service(&self, Origin { scope, arrived }: &Origin, key: &ObjectKey, version: ResourceVersion) {
        let index = &self.inner.index;
        let (old, selector_change) = {
            let index = index.read();
            (index.service(key).cloned(), index.selector_change(key, None))
        };
        let previous_pods = index.write().remove_service(key, selector_change);
        drop(previous_pods);
        self.metrics(Service::KIND).deleted.increment(1);
        self.advance::<Service>(scope, version);
        if old.is_some() {
            self.notify_service(&Change { old, new: None, arrived: Some(*arrived) });
        }
    }

    fn restart_services(
        &self,
        scope: &Scope,
        items: Vec<Service>,
        undecodable: &[ObjectKey],
        version: ResourceVersion,
    ) {
        let index = &self.inner.index;
        let position = self.inner.progress.position(Kind::Services, scope);
        let (now, changes, contradicts) = {
            let before = index.read();
            let (services, mut changes, contradicts) =
                compared(items, undecodable, position, |key| before.service(key).cloned());
            let now = before.part(scope, services.into_iter(), before.pods_in(scope).cloned());
            for old in before.services_in(scope).filter(|old| now.service(&old.key).is_none()) {
                changes.push(Change { old: Some(Arc::clone(old)), new: None, arrived: None });
            }
            (now, changes, contradicts)
        };
        let before = index.write().replace(scope, now);
        self.metrics(Service::KIND).restarted.increment(1);
        self.restart::<Service>(scope, version, contradicts, &changes);
        for change in &changes {
            self.notify_service(change);
        }
        self.mark_synced::<Service>(scope);
        drop(before);
    }

    fn apply_selector_event(&self, origin: &Origin, event: StreamEvent<EndpointSelector>) {
        let scope = &origin.scope;
        let metrics = self.metrics(EndpointSelector::KIND);
        let arrived = Some(origin.arrived);
        match event {
            StreamEvent::Applied(new) => {
                let version = new.resource_version;
                let old = self.endpoint_selector(&new.key);
                let update = Update::of(new, old.as_ref());
                let change = Change { old, new: Some(Arc::clone(update.item())), arrived };
                let services = self.index_selector(&update.item().key, change.new.as_ref());
                self.update_lease_scopes();
                metrics.applied.increment(1);
                self.advance::<EndpointSelector>(scope, version);
                if update.notifies() {
                    self.notify_selector(&change, &services);
                }
            }
            StreamEvent::Deleted(last) => self.remove_selector(origin, &last.key, last.resource_version),
            StreamEvent::DeletedFinalStateUnknown { key, resource_version } => {
                self.remove_selector(origin, &key, resource_version);
            }
            StreamEvent::Restarted { items, undecodable, resource_version } => {
                self.restart_selectors(scope, items, &undecodable, resource_version);
            }
            StreamEvent::Bookmark(version) => {
                metrics.bookmarks.increment(1);
                self.advance_to_bookmark::<EndpointSelector>(scope, version);
                self.record_lowest_position::<EndpointSelector>();
            }
        }
    }

    fn remove_selector(&self, Origin { scope, arrived }: &Origin, key: &ObjectKey, version: ResourceVersion) {
        let old = self.endpoint_selector(key);
        let services = self.index_selector(key, None);
        self.update_lease_scopes();
        self.metrics(EndpointSelector::KIND).deleted.increment(1);
        self.advance::<EndpointSelector>(scope, version);
        if old.is_some() {
            self.notify_selector(&Change { old, new: None, arrived: Some(*arrived) }, &services);
        }
    }

    /// Applies a complete list, one selector after the other: readers see each Service with the
    /// pods of the selector before or after the list.
    fn restart_selectors(
        &self,
        scope: &Scope,
        items: Vec<EndpointSelector>,
        undecodable: &[ObjectKey],
        version: ResourceVersion,
    ) {
        let position = self.inner.progress.position(Kind::EndpointSelectors, scope);
        let (changes, contradicts) = {
            let before = self.inner.index.read();
            let (selectors, mut changes, contradicts) =
                compared(items, undecodable, position, |key| before.endpoint_selector(key).cloned());
            let now: BTreeSet<&ObjectKey> = selectors.iter().map(|selector| &selector.key).collect();
            for old in before.endpoint_selectors_in(scope).filter(|old| !now.contains(&old.key)) {
                changes.push(Change { old: Some(Arc::clone(old)), new: None, arrived: None });
            }
            (changes, contradicts)
        };
        let mut services = Vec::with_capacity(changes.len());
        for change in &changes {
            let key = change.latest().map(|selector| selector.key.clone()).unwrap_or_default();
            services.push(self.index_selector(&key, change.new.as_ref()));
        }
        self.update_lease_scopes();
        self.metrics(EndpointSelector::KIND).restarted.increment(1);
        self.restart::<EndpointSelector>(scope, version, contradicts, &changes);
        for (change, services) in changes.iter().zip(services) {
            self.notify_selector(change, &services);
        }
        self.mark_synced::<EndpointSelector>(scope);
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

/// Compares a complete list with the store. Returns the objects to store, the changes for the
/// handlers without deletions, and true if an object [`contradicts`] a store with this position.
/// The result shares unchanged objects with the store, and keeps the last view of undecodable ones.
fn compared<T: Object>(
    items: Vec<T>,
    undecodable: &[ObjectKey],
    position: ResourceVersion,
    get: impl Fn(&ObjectKey) -> Option<Arc<T>>,
) -> (Vec<Arc<T>>, Vec<Change<T>>, bool) {
    let mut contradicted = false;
    let mut kept = Vec::with_capacity(items.len());
    let mut changes = Vec::new();
    // Previous views come first, so that a decoded one of the same name replaces them.
    kept.extend(undecodable.iter().filter_map(&get));
    for new in items {
        let old = get(&new.key());
        contradicted |= contradicts(old.as_ref(), &new, position, undecodable);
        let update = Update::of(new, old.as_ref());
        kept.push(Arc::clone(update.item()));
        if update.notifies() {
            changes.push(Change { old, new: Some(Arc::clone(update.item())), arrived: None });
        }
    }
    (kept, changes, contradicted)
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
