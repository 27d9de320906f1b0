//! The store: a sorted copy-on-write map and a bounded history for each resource, and one counter
//! of resource versions. Everything here is synchronous, and callers hold the server's lock.

mod cow;
mod history;
mod intern;
mod meta;
mod object;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use kube_endpoint_apiserver_rules::resource::{self, Resource};
use kube_endpoint_watch_channel as watch;

pub(crate) use cow::{CowMap, Cursor};
pub(crate) use history::{Event, Limits, TooOld};
pub(crate) use intern::Text;
pub(crate) use meta::{Meta, owner_is_served};
pub(crate) use object::{Encoded, EventKind, Stored};

use crate::changes::{ChangeObserver, StoreChange};
use crate::watch_cache::WatchCaches;
use history::History;
use intern::Interner;

/// The objects of one resource, their latest changes, and a notifier for watchers.
pub(crate) struct Table {
    /// The objects, in the order of their keys.
    pub(crate) objects: CowMap,
    pub(crate) history: History,
    notifier: watch::Sender<u64>,
}

impl Table {
    /// Returns a receiver that learns of each change of the resource.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.notifier.subscribe()
    }

    /// Returns the objects at `version`, reconstructed by undoing later changes. The cost is
    /// proportional to the number of these changes.
    pub(crate) fn at(&self, version: u64) -> Result<CowMap, TooOld> {
        let mut objects = self.objects.clone();
        for event in self.history.since(version)?.rev() {
            match &event.previous {
                Some(previous) => {
                    objects.insert(previous.clone());
                }
                None => {
                    objects.remove(&event.object.key);
                }
            }
        }
        Ok(objects)
    }
}

/// The location of one object: table and key.
pub(crate) type Place = (usize, Box<str>);

/// All objects of the server.
pub(crate) struct Store {
    version: u64,
    tables: Vec<Table>,
    interner: Interner,
    /// Objects by the uids of their owners, for owners of kinds that this server stores.
    dependents: BTreeMap<Text, BTreeSet<Place>>,
    /// The locations of all objects by uid.
    owners: BTreeMap<Text, Place>,
    observer: Option<ChangeObserver>,
    /// The watch caches of other servers before this store.
    caches: Vec<WatchCaches>,
}

/// The stored resources, in the order of the tables.
static STORAGES: LazyLock<Vec<&'static Resource>> =
    LazyLock::new(|| resource::all().filter(|resource| resource.is_stored()).collect());

/// The number of tables.
pub(crate) static TABLES: LazyLock<usize> = LazyLock::new(|| STORAGES.len());

/// Returns the resource of a table.
pub(crate) fn resource_of_table(table: usize) -> &'static Resource {
    // Every table belongs to a resource, so this never returns the default.
    STORAGES.get(table).copied().unwrap_or(&resource::NAMESPACES)
}

impl Store {
    /// Returns an empty store whose latest version is `version`.
    pub(crate) fn new(history: Limits, version: u64, observer: Option<ChangeObserver>) -> Self {
        let tables = STORAGES
            .iter()
            .map(|_| Table {
                objects: CowMap::default(),
                history: History::new(history, version),
                notifier: watch::Sender::new(version),
            })
            .collect();
        Self {
            version,
            tables,
            interner: Interner::default(),
            dependents: BTreeMap::new(),
            owners: BTreeMap::new(),
            observer,
            caches: Vec::new(),
        }
    }

    /// Returns the number of the table of a resource.
    pub(crate) fn table_of(resource: &Resource) -> usize {
        STORAGES.iter().position(|stored| *stored == resource).unwrap_or_default()
    }

    /// Adds the watch caches of another server before this store.
    pub(crate) fn add_caches(&mut self, caches: WatchCaches) {
        self.caches.push(caches);
    }

    /// Returns the version of the latest change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns one table by number.
    pub(crate) fn table(&self, table: usize) -> &Table {
        &self.tables[table]
    }

    /// Returns all tables, in a fixed order.
    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Returns the fields of an object that the server itself reads, with shared strings.
    pub(crate) fn meta(&mut self, resource: &Resource, object: &serde_json::Value) -> Meta {
        Meta::of(resource, object, &mut self.interner)
    }

    /// Stores an object under a new version and notifies watchers.
    pub(crate) fn write(&mut self, table: usize, key: &str, encoded: &Encoded, meta: Meta) -> Arc<Stored> {
        let previous = self.tables[table].objects.get(key).cloned();
        let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
        self.version += 1;
        let stored = Arc::new(Stored::new(key, self.version, kind, encoded, Arc::new(meta)));
        if let Some(previous) = &previous {
            self.unlink(table, previous);
        }
        self.link(table, &stored);
        self.tables[table].objects.insert(stored.clone());
        self.record(table, kind, stored.clone(), previous);
        stored
    }

    /// Stores an object as part of the initial state: the change is not in the history.
    pub(crate) fn seed(&mut self, table: usize, key: &str, encoded: &Encoded, meta: Meta) {
        if let Some(previous) = self.tables[table].objects.get(key).cloned() {
            self.unlink(table, &previous);
        }
        self.version += 1;
        let stored = Arc::new(Stored::new(key, self.version, EventKind::Added, encoded, Arc::new(meta)));
        self.link(table, &stored);
        self.tables[table].objects.insert(stored);
        self.compact();
    }

    /// Removes an object and returns it with the version of its deletion, as watchers see it.
    pub(crate) fn remove(&mut self, table: usize, key: &str) -> Option<Arc<Stored>> {
        let previous = self.tables[table].objects.remove(key)?;
        self.unlink(table, &previous);
        self.version += 1;
        let gone = Arc::new(previous.restamped(EventKind::Deleted, self.version));
        self.record(table, EventKind::Deleted, gone.clone(), Some(previous));
        Some(gone)
    }

    /// Drops all changes so far from the history.
    pub(crate) fn compact(&mut self) {
        for table in &mut self.tables {
            table.history.forget(self.version);
        }
    }

    /// Replaces all objects and the version, which may go back, and empties the history.
    pub(crate) fn reset(&mut self, version: u64, tables: &[CowMap]) {
        self.version = version;
        self.caches.iter().for_each(|caches| caches.fill(version));
        self.dependents.clear();
        self.owners.clear();
        for (index, objects) in tables.iter().enumerate() {
            for object in objects.cursor("", "") {
                self.link(index, &object);
            }
            let table = &mut self.tables[index];
            table.objects = objects.clone();
            table.history.reset(version);
            table.notifier.send_replace(version);
        }
    }

    /// Returns the objects that name `uid` as an owner, in a fixed order.
    pub(crate) fn dependents_of(&self, uid: &str) -> Vec<Place> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// Returns the object with this uid, if it exists.
    pub(crate) fn by_uid(&self, uid: &str) -> Option<&Arc<Stored>> {
        let (table, key) = self.owners.get(uid)?;
        self.tables[*table].objects.get(key)
    }

    /// Returns the location of the object with this uid.
    pub(crate) fn place_of(&self, uid: &str) -> Option<&Place> {
        self.owners.get(uid)
    }

    fn record(&mut self, table: usize, kind: EventKind, object: Arc<Stored>, previous: Option<Arc<Stored>>) {
        let event = Arc::new(Event { version: self.version, kind, object, previous });
        if let Some(observer) = &self.observer {
            observer(&StoreChange::new(table, &event));
        }
        self.caches.iter().for_each(|caches| caches.changed(table, self.version));
        let table = &mut self.tables[table];
        table.history.push(event);
        table.notifier.send_replace(self.version);
    }

    fn link(&mut self, table: usize, stored: &Stored) {
        for owner in &stored.meta.owners {
            self.dependents.entry(owner.clone()).or_default().insert((table, stored.key.clone()));
        }
        self.owners.insert(stored.meta.uid.clone(), (table, stored.key.clone()));
    }

    fn unlink(&mut self, table: usize, stored: &Stored) {
        let place = (table, stored.key.clone());
        for owner in &stored.meta.owners {
            if let Some(places) = self.dependents.get_mut(owner) {
                places.remove(&place);
                if places.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
        self.owners.remove(&stored.meta.uid);
    }
}
