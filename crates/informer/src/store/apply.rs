//! Applies events to the stores and notifies handlers.
//!
//! The steps are always the same: compute the change under a read lock, modify the store (the only
//! moment at which readers wait), move the position, call the handlers.

use std::sync::Arc;

use kube_endpoint_core_model::{ObjectKey, ResourceVersion};
use tokio::time::Instant;

use crate::cluster::Store;
use crate::store::table::{Indexed, Table};
use crate::{Change, Cluster, Handler, Kind, Object, Origin, Scope, StreamEvent};

/// A received view, compared with the one in the store.
pub(crate) enum Update<T> {
    /// The store already holds it in this version.
    Unchanged(Arc<T>),
    /// The store must hold it, but the cluster does not call handlers: only its version is new.
    StoreOnly(Arc<T>),
    /// The store must hold it, and the cluster calls handlers.
    Notify(Arc<T>),
}

impl<T: Object> Update<T> {
    pub(crate) fn of(mut new: T, old: Option<&Arc<T>>) -> Self {
        if let Some(old) = old {
            new.keep_strings(old);
        }
        match old {
            Some(old) if new.same_but_version(old) => {
                if new.resource_version() == old.resource_version() {
                    Self::Unchanged(Arc::clone(old))
                } else if T::NOTIFY_EVERY_VERSION {
                    Self::Notify(Arc::new(new))
                } else {
                    Self::StoreOnly(Arc::new(new))
                }
            }
            _ => Self::Notify(Arc::new(new)),
        }
    }

    pub(crate) fn item(&self) -> &Arc<T> {
        match self {
            Self::Unchanged(item) | Self::StoreOnly(item) | Self::Notify(item) => item,
        }
    }

    pub(crate) fn notifies(&self) -> bool {
        matches!(self, Self::Notify(_))
    }
}

/// A store that events change. Each method moves the position of the list and watch and calls the
/// handlers once the store shows the change.
pub(crate) trait Apply<T> {
    fn put(&mut self, scope: &Scope, new: T, arrived: Instant);
    /// Deletes an object. To delete an unknown one changes nothing.
    fn remove(&mut self, scope: &Scope, key: &ObjectKey, version: ResourceVersion, arrived: Instant);
    /// Replaces the objects of a scope by a complete list.
    fn restart(&mut self, scope: &Scope, list: List<T>, version: ResourceVersion);
}

/// A complete list, and how far the store has read before.
pub(crate) struct List<T> {
    items: Vec<T>,
    undecodable: Vec<ObjectKey>,
    position: ResourceVersion,
}

/// A store of one kind, and what to do with its changes.
struct Single<'a, T, D> {
    cluster: &'a Cluster,
    store: &'a Store<T>,
    deliver: D,
}

impl<T: Indexed, D: FnMut(Change<T>)> Apply<T> for Single<'_, T, D> {
    fn put(&mut self, scope: &Scope, new: T, arrived: Instant) {
        let (key, version) = (new.key(), new.resource_version());
        let old = self.store.table.read().get(&key.namespace, &key.name).cloned();
        let update = Update::of(new, old.as_ref());
        self.store.table.write().put(key, Arc::clone(update.item()));
        self.cluster.advance::<T>(scope, version);
        if update.notifies() {
            let new = Some(Arc::clone(update.item()));
            (self.deliver)(Change { old, new, arrived: Some(arrived) });
        }
    }

    fn remove(&mut self, scope: &Scope, key: &ObjectKey, version: ResourceVersion, arrived: Instant) {
        let old = self.store.table.read().get(&key.namespace, &key.name).cloned();
        self.store.table.write().remove(key);
        self.cluster.advance::<T>(scope, version);
        if old.is_some() {
            (self.deliver)(Change { old, new: None, arrived: Some(arrived) });
        }
    }

    fn restart(&mut self, scope: &Scope, list: List<T>, version: ResourceVersion) {
        let mut table = Table::default();
        let compared = {
            let before = self.store.table.read();
            let mut compared = list.compare(|key| before.get(&key.namespace, &key.name).cloned());
            for item in std::mem::take(&mut compared.items) {
                table.put(item.key(), item);
            }
            compared.delete(before.iter_in(scope), |key| table.get(&key.namespace, &key.name).is_some());
            compared
        };
        let before = self.store.table.write().replace(scope, table);
        self.cluster.restart::<T>(scope, version, &compared);
        compared.changes.into_iter().for_each(&mut self.deliver);
        drop(before);
    }
}

impl Cluster {
    /// Applies an event to a store of its own kind, and calls this method of the handlers for each
    /// change.
    pub(crate) fn apply_to<T: Indexed>(
        &self,
        store: &Store<T>,
        origin: Origin,
        event: StreamEvent<T>,
        call: impl Fn(&dyn Handler, &Change<T>),
    ) {
        store.queue.run((origin, event), |(origin, event)| {
            let handlers = self.handlers();
            let is_relist = matches!(event, StreamEvent::Restarted { .. });
            let deliver = |change: Change<T>| handlers.iter().for_each(|it| call(&**it, &change));
            self.apply_event(&mut Single { cluster: self, store, deliver }, &origin, event);
            if is_relist && T::KIND == Kind::EndpointSlices {
                self.share_all_with_pods();
            }
            for handler in handlers.iter().filter(|_| is_relist) {
                handler.on_relisted(T::KIND, &origin.scope);
            }
        });
    }

    /// Carries an event out, in the only place that tells the kinds of events apart.
    pub(crate) fn apply_event<T: Object>(
        &self,
        store: &mut impl Apply<T>,
        Origin { scope, arrived }: &Origin,
        event: StreamEvent<T>,
    ) {
        let metrics = self.metrics(T::KIND);
        match event {
            StreamEvent::Applied(new) => {
                metrics.applied.increment(1);
                store.put(scope, new, *arrived);
            }
            StreamEvent::Deleted(last) => {
                metrics.deleted.increment(1);
                store.remove(scope, &last.key(), last.resource_version(), *arrived);
            }
            StreamEvent::DeletedFinalStateUnknown { key, resource_version } => {
                metrics.deleted.increment(1);
                store.remove(scope, &key, resource_version, *arrived);
            }
            StreamEvent::Restarted { items, undecodable, resource_version } => {
                metrics.restarted.increment(1);
                let position = self.inner.progress.position(T::KIND, scope);
                store.restart(scope, List { items, undecodable, position }, resource_version);
                self.mark_synced::<T>(scope);
            }
            StreamEvent::Bookmark(version) => {
                metrics.bookmarks.increment(1);
                self.inner.progress.advance(T::KIND, scope, version);
            }
        }
    }

    /// Moves the position of a list and watch to the version of an event. An unknown version does
    /// not move it.
    pub(crate) fn advance<T: Object>(&self, scope: &Scope, version: ResourceVersion) {
        self.inner.progress.advance_to_event(T::KIND, scope, version);
        self.metrics(T::KIND).objects.set(self.count(T::KIND) as f64);
    }

    /// Moves the position of a list and watch to the version of a complete list, which may be
    /// lower.
    pub(crate) fn restart<T: Object>(&self, scope: &Scope, version: ResourceVersion, compared: &Compared<T>) {
        if !version.is_none() {
            let lost = compared.changes.iter().any(|change| change.new.is_none());
            self.inner.progress.restart(T::KIND, scope, version, lost);
        }
        if compared.contradicts {
            let kind = T::KIND.name();
            self.report_storage_went_back(format!(
                "a list of {kind} contradicts what their watch has sent before"
            ));
        }
        self.metrics(T::KIND).objects.set(self.count(T::KIND) as f64);
    }

    /// Records that the store has applied a complete list and the cluster has called handlers for
    /// its objects.
    pub(crate) fn mark_synced<T: Object>(&self, scope: &Scope) {
        let is_first = self.inner.progress.mark_synced(T::KIND, scope);
        if self.inner.progress.is_complete(T::KIND) {
            self.metrics(T::KIND).synced.set(1.0);
        }
        if let Some(namespace) = scope.namespace().filter(|_| is_first) {
            for handler in self.handlers().iter() {
                handler.on_first_listed(T::KIND, namespace);
            }
        }
    }
}

/// A complete list, compared with the store.
pub(crate) struct Compared<T> {
    /// The objects to store. They share unchanged objects with the store, and keep the last view of
    /// undecodable ones.
    pub(crate) items: Vec<Arc<T>>,
    /// The changes for the handlers.
    pub(crate) changes: Vec<Change<T>>,
    /// True if an object contradicts the store.
    contradicts: bool,
}

impl<T: Object> List<T> {
    /// Compares the list with the objects that the store has, without those that it lacks; see
    /// [`Compared::delete`].
    pub(crate) fn compare(self, get: impl Fn(&ObjectKey) -> Option<Arc<T>>) -> Compared<T> {
        let Self { items: listed, undecodable, position } = self;
        // Previous views come first, so that a decoded one of the same name replaces them.
        let mut items = Vec::with_capacity(listed.len());
        items.extend(undecodable.iter().filter_map(&get));
        let mut compared = Compared { items, changes: Vec::new(), contradicts: false };
        for new in listed {
            let old = get(&new.key());
            compared.contradicts |= contradicts(old.as_ref(), &new, position, &undecodable);
            let update = Update::of(new, old.as_ref());
            compared.items.push(Arc::clone(update.item()));
            if update.notifies() {
                let new = Some(Arc::clone(update.item()));
                compared.changes.push(Change { old, new, arrived: None });
            }
        }
        compared
    }
}

impl<T: Object> Compared<T> {
    /// Adds the deletions of those objects of the store that the list lacks.
    pub(crate) fn delete<'a>(
        &mut self,
        before: impl Iterator<Item = &'a Arc<T>>,
        is_listed: impl Fn(&ObjectKey) -> bool,
    ) where
        T: 'a,
    {
        let gone = before.filter(|old| !is_listed(&old.key()));
        self.changes.extend(gone.map(|old| Change { old: Some(Arc::clone(old)), new: None, arrived: None }));
    }
}

/// Returns true if an object of a list contradicts a store that has read up to `position`: the
/// store must have shown this version, and shows another one or no object. An `undecodable` object
/// contradicts nothing, because the store could not show it.
fn contradicts<T: Object>(
    old: Option<&Arc<T>>,
    new: &T,
    position: ResourceVersion,
    undecodable: &[ObjectKey],
) -> bool {
    let version = new.resource_version();
    !version.is_none()
        && version <= position
        && old.is_none_or(|old| old.resource_version() != version)
        && !undecodable.contains(&new.key())
}
