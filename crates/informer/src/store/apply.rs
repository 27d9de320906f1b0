//! Applies events to the stores and notifies handlers.
//!
//! The steps are always the same: compute the change under a read lock, modify the store (the only
//! moment at which readers wait), move the position, call the handlers.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::{ObjectKey, ResourceVersion};

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
        let metrics = |_: &_| self.metrics(T::KIND);
        store.queue.run((origin, event), metrics, |(origin, event)| {
            let handlers = self.handlers();
            let is_relist = matches!(event, StreamEvent::Restarted { .. });
            self.store_one(store, &origin, event, &mut |change| {
                for handler in handlers.iter() {
                    call(&**handler, &change);
                }
            });
            if is_relist && T::KIND == Kind::EndpointSlices {
                self.share_all_with_pods();
            }
            for handler in handlers.iter().filter(|_| is_relist) {
                handler.on_relisted(T::KIND, &origin.scope);
            }
        });
    }

    fn store_one<T: Indexed>(
        &self,
        store: &Store<T>,
        Origin { scope, arrived }: &Origin,
        event: StreamEvent<T>,
        deliver: &mut dyn FnMut(Change<T>),
    ) {
        let arrived = Some(*arrived);
        let get = |key: &ObjectKey| store.table.read().get(&key.namespace, &key.name).cloned();
        let metrics = self.metrics(T::KIND);
        match event {
            StreamEvent::Applied(new) => {
                let (key, version) = (new.key(), new.resource_version());
                let old = get(&key);
                let update = Update::of(new, old.as_ref());
                store.table.write().put(key, Arc::clone(update.item()));
                metrics.applied.increment(1);
                self.advance::<T>(scope, version);
                if update.notifies() {
                    deliver(Change { old, new: Some(Arc::clone(update.item())), arrived });
                }
            }
            StreamEvent::Deleted(last) => {
                let deliver = |old| deliver(Change { old, new: None, arrived });
                self.remove::<T>(store, scope, &last.key(), last.resource_version(), deliver);
            }
            StreamEvent::DeletedFinalStateUnknown { key, resource_version } => {
                let deliver = |old| deliver(Change { old, new: None, arrived });
                self.remove::<T>(store, scope, &key, resource_version, deliver);
            }
            StreamEvent::Restarted { items, undecodable, resource_version } => {
                let position = self.inner.progress.position(T::KIND, scope);
                let (table, changes, contradicts) =
                    replaced(&store.table.read(), scope, items, &undecodable, position);
                let before = store.table.write().replace(scope, table);
                metrics.restarted.increment(1);
                self.restart::<T>(scope, resource_version, contradicts, &changes);
                changes.into_iter().for_each(deliver);
                self.mark_synced::<T>(scope);
                drop(before);
            }
            StreamEvent::Bookmark(version) => {
                metrics.bookmarks.increment(1);
                self.advance_to_bookmark::<T>(scope, version);
                self.record_lowest_position::<T>();
            }
        }
    }

    fn remove<T: Indexed>(
        &self,
        store: &Store<T>,
        scope: &Scope,
        key: &ObjectKey,
        version: ResourceVersion,
        deliver: impl FnOnce(Option<Arc<T>>),
    ) {
        let old = store.table.read().get(&key.namespace, &key.name).cloned();
        store.table.write().remove(key);
        self.metrics(T::KIND).deleted.increment(1);
        self.advance::<T>(scope, version);
        // Deleting an unknown object changes nothing.
        if old.is_some() {
            deliver(old);
        }
    }

    /// Moves the position of a list and watch to the version of an event. An unknown version does
    /// not move it.
    pub(crate) fn advance<T: Object>(&self, scope: &Scope, version: ResourceVersion) {
        self.inner.progress.advance_to_event(T::KIND, scope, version);
        self.record_position::<T>(scope);
    }

    /// Moves the position of a list and watch to the version of a bookmark.
    pub(crate) fn advance_to_bookmark<T: Object>(&self, scope: &Scope, version: ResourceVersion) {
        self.inner.progress.advance(T::KIND, scope, version);
        self.record_position::<T>(scope);
    }

    fn record_position<T: Object>(&self, scope: &Scope) {
        let metrics = self.metrics(T::KIND);
        metrics.objects.set(self.count(T::KIND) as f64);
        // Bookmarks update the gauge with the lowest of several positions, which is often enough.
        if *scope == Scope::All {
            metrics.set_store_resource_version(self.inner.progress.position(T::KIND, scope));
        }
    }

    /// Moves the position of a list and watch to the version of a complete list, which may be
    /// lower. `contradicts` is true if an object of the list [`contradicts`] the store, and
    /// `changes` are those from the store to the list.
    pub(crate) fn restart<T: Object>(
        &self,
        scope: &Scope,
        version: ResourceVersion,
        contradicts: bool,
        changes: &[Change<T>],
    ) {
        if !version.is_none() {
            let lost = changes.iter().any(|change| change.new.is_none());
            self.inner.progress.restart(T::KIND, scope, version, lost);
        }
        if contradicts {
            let kind = T::KIND.name();
            self.report_storage_went_back(format!(
                "a list of {kind} contradicts what their watch has sent before"
            ));
        }
        self.metrics(T::KIND).objects.set(self.count(T::KIND) as f64);
        self.record_lowest_position::<T>();
    }

    pub(crate) fn record_lowest_position<T: Object>(&self) {
        self.metrics(T::KIND).set_store_resource_version(self.position(T::KIND));
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

/// Returns true if an object of a list contradicts a store that has read up to `position`: the
/// store must have shown this version, and shows another one or no object. An `undecodable` object
/// contradicts nothing, because the store could not show it.
pub(crate) fn contradicts<T: Object>(
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

/// Compares a complete list with the part of the previous table that it replaces. Returns the new
/// part, the changes for the handlers, and true if an object [`contradicts`] a store with this
/// position. The new part shares unchanged objects with the previous table, and keeps the last view
/// of undecodable ones.
fn replaced<T: Indexed>(
    before: &Table<T>,
    scope: &Scope,
    items: Vec<T>,
    undecodable: &[ObjectKey],
    position: ResourceVersion,
) -> (Table<T>, Vec<Change<T>>, bool) {
    let mut table = Table::default();
    let mut changes = Vec::new();
    let mut contradicted = false;
    for new in items {
        let key = new.key();
        let old = before.get(&key.namespace, &key.name);
        contradicted |= contradicts(old, &new, position, undecodable);
        let update = Update::of(new, old);
        if update.notifies() {
            changes.push(Change { old: old.cloned(), new: Some(Arc::clone(update.item())), arrived: None });
        }
        table.put(key, Arc::clone(update.item()));
    }
    for key in undecodable.iter().collect::<BTreeSet<_>>() {
        if let Some(old) = before.get(&key.namespace, &key.name)
            && table.get(&key.namespace, &key.name).is_none()
        {
            table.put(key.clone(), Arc::clone(old));
        }
    }
    for old in before.iter_in(scope) {
        let key = old.key();
        if table.get(&key.namespace, &key.name).is_none() {
            changes.push(Change { old: Some(Arc::clone(old)), new: None, arrived: None });
        }
    }
    (table, changes, contradicted)
}
