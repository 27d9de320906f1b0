//! Tracked writes: each write has a handle of the ledger, so that the controller recognises its
//! echo, and a cache that has not caught up.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_core_model::{ObjectKey, ObjectMeta, ResourceVersion, Text, Writes};
use kube_endpoint_tracker::{PendingWrite, Verb, WriteTracker};
use tokio::time::Instant;

use crate::error::WriteError;
use crate::name_generator::NameGenerator;
use crate::writable::Writable;
use crate::writer::ApiWriter;

/// After a write that took this long to fail, the writer tries no other of its kind: those that
/// remove dead endpoints would wait for its answer too.
const SLOW_ANSWER: Duration = Duration::from_secs(1);

/// The creates or the updates of a plan: how many have succeeded, and how many have failed.
#[derive(Default)]
struct Tally {
    good: usize,
    bad: usize,
}

impl Tally {
    /// Counts a failure. Returns true if no other write of the kind is to be tried.
    fn fails(&mut self, began: Instant) -> bool {
        self.bad += 1;
        self.bad > self.good + 1 || began.elapsed() >= SLOW_ANSWER
    }
}

/// A writer, and the tracker of its writes. Each controller has one.
#[derive(Debug)]
pub struct TrackedWriter {
    writer: ApiWriter,
    tracker: WriteTracker,
    names: NameGenerator,
}

/// The kind of a write, as the `operation` label of metrics has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// `create`, `update` or `delete`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// The answer to a create or an update.
struct Stored {
    version: ResourceVersion,
    /// True if another client changed the object in the meantime.
    is_foreign: bool,
}

impl Stored {
    fn of(write: PendingWrite<'_>, version: ResourceVersion, position: ResourceVersion) -> Self {
        Self { version, is_foreign: write.answered(version, position) }
    }
}

/// The result of a delete that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The delete removed the object.
    Now,
    /// The object no longer existed, but the cache shows it.
    Before,
    /// The object no longer exists, and the cache has shown another one under its name since the
    /// delete was sent. The owner must be synced again.
    Replaced,
    /// This is a dry run: the writer recorded the delete and sent nothing.
    Recorded,
}

/// The result of [`TrackedWriter::carry_out`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried<T> {
    /// True if another client changed an object in the meantime, so that the owner must be synced
    /// again.
    pub changed_meanwhile: bool,
    /// True if the cache shows an object that no longer exists, so that the owner must be synced
    /// again when it does not.
    pub cache_behind: bool,
    /// The updates that changed nothing: the server answered with the version that they were to
    /// replace. Either the content was the same, or a webhook has undone the update.
    pub unchanged: Vec<T>,
    /// The writes that failed.
    pub failed: Vec<FailedWrite>,
}

impl<T> Default for Carried<T> {
    fn default() -> Self {
        Self { changed_meanwhile: false, cache_behind: false, unchanged: Vec::new(), failed: Vec::new() }
    }
}

/// A write that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedWrite {
    pub operation: Operation,
    /// The object; for a create, under the name that was sent.
    pub object: ObjectKey,
    pub error: WriteError,
}

impl FailedWrite {
    /// A delete that failed.
    pub fn delete(object: &ObjectKey, error: WriteError) -> Self {
        Self { operation: Operation::Delete, object: object.clone(), error }
    }
}

impl fmt::Display for FailedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {} {}: {}", self.operation.as_str(), self.object, self.error)
    }
}

impl TrackedWriter {
    /// A writer without writes. `seed` determines the names that it generates.
    pub fn new(writer: ApiWriter, tracker: WriteTracker, seed: u64) -> Self {
        Self { writer, tracker, names: NameGenerator::new(seed) }
    }

    /// The tracker of its writes.
    pub fn tracker(&self) -> &WriteTracker {
        &self.tracker
    }

    /// The inner writer, for requests that need no tracking.
    pub fn writer(&self) -> &ApiWriter {
        &self.writer
    }

    /// In a dry run, records the planned writes of `owner` and returns true. `existing` are the
    /// cached objects. Otherwise it returns false, and the writes have to be carried out.
    pub fn record<'a, T: Writable + 'a>(
        &self,
        owner: &ObjectKey,
        plans: impl IntoIterator<Item = &'a Writes<T>>,
        existing: impl Fn() -> Vec<Arc<T>>,
    ) -> bool {
        let Some(dry_run) = self.writer.dry_run() else { return false };
        let existing = existing();
        for Writes { create, update, delete } in plans {
            for object in create {
                dry_run.record(owner, Operation::Create, object, None);
            }
            for object in update {
                let before = existing.iter().find(|one| one.metadata().name == object.metadata().name);
                dry_run.record(owner, Operation::Update, object, before.map(|before| &**before));
            }
            for object in delete {
                dry_run.record(owner, Operation::Delete, &**object, None);
            }
        }
        true
    }

    /// Carries writes out in order: creates, updates, deletes. `position` returns the position of
    /// the cache; `done` is called after each write that succeeded.
    ///
    /// The first create or update that fails ends the list, with two exceptions. With `without`, a
    /// create that fails does not keep others from being tried, unless the answer took long or
    /// there are more failures than successes, nor does an update that the server refuses. Then
    /// `without` gets the objects that could not be written and the updates and deletes that are
    /// left, and returns those that are safe without these objects; they are carried out. And a
    /// delete that is refused does not keep others from being tried.
    pub async fn carry_out<T: Writable>(
        &self,
        owner: &ObjectKey,
        writes: Writes<T>,
        position: impl Fn() -> ResourceVersion,
        mut done: impl FnMut(Operation),
        without: Option<impl Fn(&[T], Writes<T>) -> Writes<T>>,
    ) -> Carried<T> {
        let mut carried = Carried::default();
        let Writes { create, update, mut delete } = writes;
        let (mut create, mut update) = (create.into_iter(), VecDeque::from(update));
        let (mut missing, mut creates, mut updates) = (Vec::new(), Tally::default(), Tally::default());
        while let Some(object) = create.next() {
            let mut object = Arc::new(object);
            let began = Instant::now();
            match self.create_named(owner, &mut object, &position).await {
                Ok(Stored { is_foreign, .. }) => {
                    carried.changed_meanwhile |= is_foreign;
                    creates.good += 1;
                    done(Operation::Create);
                }
                Err(failed) => {
                    let ends = failed.error.ends_a_plan() || without.is_none();
                    let is_last = creates.fails(began) || failed.error.ends_creates();
                    carried.failed.push(failed);
                    if ends {
                        return carried;
                    }
                    missing.push(Arc::unwrap_or_clone(object));
                    if is_last {
                        missing.extend(create);
                        break;
                    }
                }
            }
        }
        let safe_without = |missing: &[T], update: VecDeque<T>, delete| {
            let rest = Writes { create: Vec::new(), update: update.into(), delete };
            let rest = without.as_ref().map(|without| without(missing, rest))?;
            Some((VecDeque::from(rest.update), rest.delete))
        };
        if !missing.is_empty() {
            (update, delete) = safe_without(&missing, update, delete).unwrap_or_default();
        }
        while let Some(object) = update.pop_front() {
            let object = Arc::new(object);
            let began = Instant::now();
            match self.update(owner, &object, &position).await {
                Ok(Stored { version, is_foreign }) => {
                    carried.changed_meanwhile |= is_foreign;
                    if version == object.metadata().resource_version {
                        carried.unchanged.push(Arc::unwrap_or_clone(object));
                    }
                    updates.good += 1;
                    done(Operation::Update);
                }
                Err(failed) => {
                    let is_refused = matches!(failed.error, WriteError::Refused { .. });
                    carried.failed.push(failed);
                    if !is_refused {
                        return carried;
                    }
                    missing.push(Arc::unwrap_or_clone(object));
                    let is_last = updates.fails(began);
                    if is_last {
                        missing.extend(std::mem::take(&mut update));
                    }
                    let Some(rest) = safe_without(&missing, update, delete) else { return carried };
                    (update, delete) = rest;
                    if is_last {
                        update.clear();
                    }
                }
            }
        }
        for object in &delete {
            match self.delete::<T>(owner, object.metadata()).await {
                Ok(deleted) => {
                    carried.cache_behind |= deleted == Deleted::Before;
                    carried.changed_meanwhile |= deleted == Deleted::Replaced;
                    done(Operation::Delete);
                }
                Err(failed) => {
                    let ends = failed.error.ends_deletes();
                    carried.failed.push(failed);
                    if ends {
                        return carried;
                    }
                }
            }
        }
        carried
    }

    /// Creates an object; one without a name is named from its `generateName`.
    async fn create_named<T: Writable>(
        &self,
        owner: &ObjectKey,
        object: &mut Arc<T>,
        position: impl Fn() -> ResourceVersion,
    ) -> Result<Stored, FailedWrite> {
        if !object.metadata().name.is_empty() {
            return self.create(owner, object, &position).await;
        }
        let lost = self.tracker.take_unresolved(owner);
        let was_lost = lost.is_some();
        let metadata = Arc::make_mut(object).metadata_mut();
        metadata.name = lost.unwrap_or_else(|| self.names.generate_name(&metadata.generate_name));
        let key = metadata.key();
        let error = match self.create(owner, object, &position).await {
            Ok(stored) => return Ok(stored),
            Err(failed) => failed.error,
        };
        let failed = |error| Err(FailedWrite { operation: Operation::Create, object: key.clone(), error });
        match error {
            WriteError::AlreadyExists(message) => {
                // Most likely our own create, whose response was lost. Only the server knows which
                // version the cache has to wait for; the sync then starts over with the existing
                // object.
                match self.writer.get::<T>(&key).await {
                    Ok(found) => {
                        self.tracker.found(owner, &key, found.version(), position());
                        failed(WriteError::AlreadyExists(message))
                    }
                    Err(error @ WriteError::NotFound(_)) => failed(error),
                    Err(error) => {
                        self.tracker.keep_unresolved(owner, &key.name);
                        failed(error)
                    }
                }
            }
            // The namespace takes the object with it, if it exists.
            WriteError::NamespaceTerminating(_) => failed(error),
            // This failure says nothing about the earlier create of this name.
            error => {
                if was_lost {
                    self.tracker.keep_unresolved(owner, &key.name);
                }
                failed(error)
            }
        }
    }

    /// Creates an object under the name that it carries.
    ///
    /// # Errors
    ///
    /// The write, if it failed. If its outcome is unknown, the ledger keeps the name.
    /// `CacheBehind` if the server answered 404 because the Service no longer exists.
    async fn create<T: Writable>(
        &self,
        owner: &ObjectKey,
        object: &Arc<T>,
        position: impl Fn() -> ResourceVersion,
    ) -> Result<Stored, FailedWrite> {
        let key = object.metadata().key();
        let mut write = self.tracker.write(owner, &key, Verb::Create, position());
        let mut error = match self.writer.create(object, &mut write).await {
            Ok(version) => return Ok(Stored::of(write, version, position())),
            Err(error) => error,
        };
        failed(write, &error);
        if let WriteError::NotFound(message) = error {
            // The namespace does not exist. The Service is in it, so the Service shows whether that
            // is true.
            error = match self.writer.service(owner).await {
                Ok(None) => WriteError::CacheBehind(message),
                Ok(Some(_)) => WriteError::NotFound(message),
                Err(error) => error,
            };
        }
        Err(FailedWrite { operation: Operation::Create, object: key, error })
    }

    /// Replaces an object.
    ///
    /// # Errors
    ///
    /// The write, if it failed. If its outcome is unknown, the ledger keeps the update, and a sync
    /// that finds nothing to write must call [`Self::resolve_updates`]. `CacheBehind` if the object
    /// no longer exists.
    async fn update<T: Writable>(
        &self,
        owner: &ObjectKey,
        object: &Arc<T>,
        position: impl Fn() -> ResourceVersion,
    ) -> Result<Stored, FailedWrite> {
        let key = object.metadata().key();
        let verb = Verb::Update(object.metadata().resource_version);
        let mut write = self.tracker.write(owner, &key, verb, position());
        let mut error = match self.writer.update(object, &mut write).await {
            Ok(version) => return Ok(Stored::of(write, version, position())),
            Err(error) => error,
        };
        let mut gone = false;
        if let WriteError::NotFound(message) = error {
            (gone, error) = match self.is_gone::<T>(&key, &object.metadata().uid).await {
                Ok(true) => (true, WriteError::CacheBehind(message)),
                Ok(false) => (false, WriteError::NotFound(message)),
                Err(error) => (false, error),
            };
        }
        if gone {
            write.deleted(&object.metadata().uid);
        } else {
            failed(write, &error);
        }
        Err(FailedWrite { operation: Operation::Update, object: key, error })
    }

    /// Deletes the object with the uid in this metadata.
    ///
    /// # Errors
    ///
    /// The write, if it failed. An object that no longer exists is no error.
    pub async fn delete<T: Writable>(
        &self,
        owner: &ObjectKey,
        seen: &ObjectMeta,
    ) -> Result<Deleted, FailedWrite> {
        let key = seen.key();
        if let Some(dry_run) = self.writer.dry_run() {
            dry_run.record_delete::<T>(owner, &key);
            return Ok(Deleted::Recorded);
        }
        let mut write = self.tracker.write(owner, &key, Verb::Delete, ResourceVersion::default());
        let answer = self.writer.delete_seen::<T>(seen, &mut write).await;
        self.conclude_delete::<T>(write, &key, &seen.uid, answer, true).await
    }

    /// Deletes an object if its uid and version are still those in its metadata.
    ///
    /// # Errors
    ///
    /// The write, if it failed; `Conflict` if the object has changed. An object that no longer
    /// exists is no error.
    pub async fn delete_unchanged<T: Writable>(
        &self,
        owner: &ObjectKey,
        object: &T,
    ) -> Result<Deleted, FailedWrite> {
        if let Some(dry_run) = self.writer.dry_run() {
            dry_run.record(owner, Operation::Delete, object, None);
            return Ok(Deleted::Recorded);
        }
        let ObjectMeta { uid, .. } = object.metadata();
        let key = object.metadata().key();
        let mut write = self.tracker.write(owner, &key, Verb::Delete, ResourceVersion::default());
        let answer = self.writer.delete_unchanged(object, &mut write).await;
        self.conclude_delete::<T>(write, &key, uid, answer, false).await
    }

    async fn conclude_delete<T: Writable>(
        &self,
        write: PendingWrite<'_>,
        key: &ObjectKey,
        uid: &Text,
        answer: Result<(), WriteError>,
        conflict_is_another_uid: bool,
    ) -> Result<Deleted, FailedWrite> {
        let concluded = match answer {
            Ok(()) => Ok(Deleted::Now),
            // A proxy may answer 404 for an object that exists. And on a conflict, most likely the
            // name now belongs to an object of another uid; but a webhook may answer that too.
            Err(error)
                if matches!(error, WriteError::NotFound(_))
                    || conflict_is_another_uid && matches!(error, WriteError::Conflict(_)) =>
            {
                match self.is_gone::<T>(key, uid).await {
                    Ok(true) => Ok(Deleted::Before),
                    Ok(false) => Err(error),
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        match concluded {
            Ok(deleted) => {
                let is_replaced = write.deleted(uid);
                Ok(if is_replaced { Deleted::Replaced } else { deleted })
            }
            Err(error) => {
                failed(write, &error);
                Err(FailedWrite { operation: Operation::Delete, object: key.clone(), error })
            }
        }
    }

    /// Asks the server about the object of this uid. Returns true if it no longer exists.
    async fn is_gone<T: Writable>(&self, key: &ObjectKey, uid: &Text) -> Result<bool, WriteError> {
        match self.writer.get::<T>(key).await {
            Ok(found) => Ok(found.metadata.uid != *uid),
            Err(WriteError::NotFound(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Ends a write that failed. Unless it was refused, its outcome is unknown.
fn failed(write: PendingWrite<'_>, error: &WriteError) {
    if error.is_refusal() {
        write.refused();
    }
}

mod updates;

#[cfg(test)]
mod tests;
