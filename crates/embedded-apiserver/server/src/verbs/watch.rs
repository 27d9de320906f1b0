//! `watch`: the current state if requested, then every change after a version, and bookmarks.
//!
//! A watcher is a cursor into the resource's history. It has no queue of its own, so watchers need
//! hardly any memory; a watcher that is slower than the history is long gets `410 Expired`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy::{self, WithWarnings};
use kube_endpoint_watch_channel as watch;
use serde_json::json;
use tokio::time::Instant;

use super::Call;
use super::list::expired;
use crate::answer::{self, Answer};
use crate::body::{self, ConnectionReset};
use crate::connection::Closing;
use crate::faults::WatchFaults;
use crate::form::Form;
use crate::query::ListOptions;
use crate::selection::Selection;
use crate::server::Inner;
use crate::store::{Cursor, EventKind, Store, Stored};
use crate::watch_cache::WatchCaches;
use crate::watches::Ending;

/// The number of changes that a watch reads from the history under one lock.
const BATCH: usize = 128;

/// The number of bytes of initial events that a watch queues at once.
const CHUNK: usize = 64 * 1024;

/// The time from the last bookmark to the end of a watch.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The result of a step of the watch.
enum Step {
    /// Events are queued or may be available.
    Go,
    End,
}

struct Watcher {
    inner: Arc<Inner>,
    caches: WatchCaches,
    table: usize,
    resource: &'static Resource,
    selection: Selection,
    form: Form,
    /// True until the watch has sent column definitions.
    headers: bool,
    /// The watch has processed all changes up to this version.
    version: u64,
    initial: Option<Cursor>,
    /// True if a bookmark must mark the end of the initial events.
    mark_end: bool,
    queue: VecDeque<Bytes>,
    notifier: watch::Receiver<u64>,
    id: u64,
    ending: watch::Receiver<Option<Ending>>,
    closing: Option<Closing>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    faults: WatchFaults,
    stalled_until: Option<Instant>,
    sent: usize,
    over: bool,
}

impl Inner {
    /// Opens a watch.
    pub(crate) async fn watch(self: &Arc<Self>, call: &Call<'_>) -> Result<Answer, Status> {
        let options = ListOptions::read(&call.query, true)?;
        let selection =
            Selection::parse(call.resource, &call.info.namespace, &options)?.named(&call.info.name);
        let media_type = call.form.encoding.watch_media_type();
        let faults = WatchFaults::of(&call.faults);
        let (wants_state, mark_end) = match (options.initial_events, options.resource_version) {
            (Some(true), _) => (true, options.bookmarks),
            (Some(false), _) => (false, false),
            (None, None | Some(0)) => (true, false),
            (None, Some(_)) => (false, false),
        };
        let table = Store::table_of(call.resource);
        // Without a version, the watch starts with the latest state.
        let needed = options.resource_version.unwrap_or_else(|| self.store.lock().version());
        if options.initial_events == Some(true)
            && let Err(status) = self.wait_for(table, call.caches, needed).await
        {
            let event = call.form.event("ERROR", &status.to_json());
            return Ok(answer::stream(media_type, body::once(event)));
        }
        let now = Instant::now();
        let timeout =
            options.timeout.unwrap_or_else(|| Duration::from_secs(1800 + self.random.lock().below(1800)));
        let watcher = {
            let store = self.store.lock();
            let reached = call.caches.reached(table, store.version());
            let objects = store.table(table).at(reached);
            let objects = objects.map_err(|too_old| expired(reached, too_old.oldest))?;
            // This holds the lock of the store, so that a restore of an older state breaks this
            // watch, too.
            let (id, ending) = self.watches.add(call.info);
            Watcher {
                inner: self.clone(),
                caches: call.caches.clone(),
                table,
                resource: call.resource,
                form: call.form,
                headers: true,
                version: match options.resource_version {
                    Some(version) if !wants_state && version > 0 => version,
                    _ => reached,
                },
                initial: wants_state.then(|| objects.cursor(&selection.prefix, &selection.prefix)),
                selection,
                mark_end,
                queue: VecDeque::new(),
                notifier: store.table(table).subscribe(),
                id,
                ending,
                closing: call.closing.clone(),
                bookmarks: options.bookmarks,
                next_bookmark: next_bookmark(self.settings.bookmark_interval, now + timeout),
                deadline: now + timeout,
                stalled_until: faults.stall.map(|stall| now + stall),
                faults,
                sent: 0,
                over: false,
            }
        };
        let events = futures::stream::unfold(watcher, |mut watcher| async move {
            let item = watcher.next().await?;
            Some((item, watcher))
        });
        Ok(answer::stream(media_type, body::stream(events)))
    }
}

/// Returns when the next bookmark is due. The last one comes shortly before the end, so that the
/// client can resume from there.
fn next_bookmark(interval: Duration, deadline: Instant) -> Instant {
    let now = Instant::now();
    let last = deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    let next = now + interval;
    last.filter(|last| *last < next).unwrap_or(next)
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.inner.watches.remove(self.id);
    }
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<Bytes, ConnectionReset>> {
        loop {
            let ending = *self.ending.borrow();
            if let (Some(ending @ (Ending::Broken | Ending::Silent)), false) = (ending, self.over) {
                return self.end(ending).await;
            }
            if let Some(bytes) = self.queue.pop_front() {
                return Some(Ok(bytes));
            }
            if self.over {
                return None;
            }
            if let Some((_, ending)) = self.faults.ending.filter(|(events, _)| self.sent >= *events) {
                return self.end(ending).await;
            }
            if let Step::End = self.step().await {
                self.over = true;
            }
        }
    }

    /// Ends the response as told, at once or, for a silent watch, when the listener shuts down.
    async fn end(&mut self, ending: Ending) -> Option<Result<Bytes, ConnectionReset>> {
        self.over = true;
        self.queue.clear();
        match (ending, &mut self.closing) {
            (Ending::Closed, _) => None,
            (Ending::Broken, _) => Some(Err(ConnectionReset)),
            (Ending::Silent, Some(closing)) => {
                closing.wait().await;
                None
            }
            (Ending::Silent, None) => std::future::pending().await,
        }
    }

    async fn step(&mut self) -> Step {
        if self.faults.expire {
            let oldest = self.inner.store.lock().version();
            self.fail(&expired(self.version, oldest));
            return Step::End;
        }
        // The timers come before changes: a watch in whose table something always changes must end
        // in time, and must get its bookmarks, too.
        let now = Instant::now();
        if now >= self.deadline {
            return Step::End;
        }
        if let Some(until) = self.stalled_until.filter(|until| now < *until) {
            return self.wait(until.min(self.deadline), false).await;
        }
        if self.initial.is_some() {
            self.send_initial();
            return Step::Go;
        }
        if let Err(status) = self.send_changes() {
            self.fail(&status);
            return Step::End;
        }
        if !self.may_send() {
            // A fault ends the watch before some of these changes, so no bookmark may cover them.
            return Step::Go;
        }
        if self.mark_end {
            self.mark_end = false;
            self.bookmark(true);
        }
        if self.bookmarks && now >= self.next_bookmark {
            self.next_bookmark = next_bookmark(self.inner.settings.bookmark_interval, self.deadline);
            self.bookmark(false);
        }
        if !self.queue.is_empty() {
            // With a constant backlog it never waits, and would not notice its end.
            return if self.is_closed() { Step::End } else { Step::Go };
        }
        let bookmark = Some(self.next_bookmark).filter(|_| self.bookmarks);
        let next = [bookmark, self.caches.next_arrival(self.table)].into_iter().flatten().min();
        self.wait(next.map_or(self.deadline, |next| next.min(self.deadline)), true).await
    }

    /// Returns true if the watch has to end in order, after the queued events.
    fn is_closed(&self) -> bool {
        *self.ending.borrow() == Some(Ending::Closed) || self.closing.as_ref().is_some_and(Closing::has_begun)
    }

    /// Waits until a time, or until the watch ends or, if `changes`, has changes to send.
    async fn wait(&mut self, until: Instant, changes: bool) -> Step {
        let closing = async {
            match &mut self.closing {
                Some(closing) => closing.wait().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = closing => Step::End,
            _ = self.ending.changed() => {
                // The watch notices other endings before the next step.
                if *self.ending.borrow() == Some(Ending::Closed) { Step::End } else { Step::Go }
            }
            () = tokio::time::sleep_until(until) => Step::Go,
            changed = self.notifier.changed(), if changes => if changed.is_ok() { Step::Go } else { Step::End },
        }
    }

    fn bookmark(&mut self, end_of_initial: bool) {
        if self.version > self.reached(&self.inner.store.lock()) {
            // As on the real server, a watch from a version that does not exist yet is silent.
            return;
        }
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if end_of_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        // Every other field has its zero value. An object that has only metadata decodes as any
        // kind.
        if let Ok(WithWarnings { object, .. }) =
            strategy::decode(self.resource, json!({"metadata": metadata}))
        {
            let headers = std::mem::take(&mut self.headers);
            self.queue
                .push_back(self.form.event("BOOKMARK", &self.form.of_object(self.resource, object, headers)));
        }
    }

    /// Returns the version up to which the watch cache has read.
    fn reached(&self, store: &Store) -> u64 {
        self.caches.reached(self.table, store.version())
    }

    fn fail(&mut self, status: &Status) {
        self.queue.push_back(self.form.event("ERROR", &status.to_json()));
    }

    fn send_initial(&mut self) {
        let Some(mut cursor) = self.initial.take() else { return };
        let mut bytes = 0;
        while bytes < CHUNK && self.may_send() {
            let Some(object) = cursor.next() else { return };
            if self.selection.matches(&object) {
                bytes += object.item().len();
                self.send(EventKind::Added, &object);
            }
        }
        self.initial = Some(cursor);
    }

    fn may_send(&self) -> bool {
        self.faults.ending.is_none_or(|(events, _)| self.sent < events)
    }

    /// Sends the next changes. It sends a change that takes an object out of the selection as a
    /// deletion.
    fn send_changes(&mut self) -> Result<(), Status> {
        let events: Vec<_> = {
            let store = self.inner.store.lock();
            let oldest = self.caches.oldest();
            if self.version < oldest {
                return Err(expired(self.version, oldest));
            }
            let events = store.table(self.table).history.since(self.version);
            let events = events.map_err(|too_old| expired(self.version, too_old.oldest))?;
            let reached = self.reached(&store);
            let events = events.take_while(|event| event.version <= reached).take(BATCH);
            let events: Vec<_> = events.cloned().collect();
            if events.len() < BATCH {
                // This resource has no other changes up to that version, so bookmarks may carry it.
                self.version = self.version.max(reached);
                self.notifier.mark_unchanged();
            } else if let Some(last) = events.last() {
                self.version = last.version;
            }
            events
        };
        for event in events {
            if !self.may_send() {
                break;
            }
            let is = event.kind != EventKind::Deleted && self.selection.matches(&event.object);
            let was = event.previous.as_ref().is_some_and(|previous| self.selection.matches(previous));
            match (was, is) {
                (false, true) => self.send(EventKind::Added, &event.object),
                (true, true) => self.send(EventKind::Modified, &event.object),
                (true, false) if event.kind == EventKind::Deleted => {
                    self.send(EventKind::Deleted, &event.object);
                }
                (true, false) => {
                    if let Some(previous) = &event.previous {
                        self.send(EventKind::Deleted, &previous.restamped(EventKind::Deleted, event.version));
                    }
                }
                (false, false) => {}
            }
        }
        Ok(())
    }

    fn send(&mut self, kind: EventKind, object: &Stored) {
        self.sent += 1;
        let headers = std::mem::take(&mut self.headers);
        self.form.stored_event(self.resource, kind, object, headers, |bytes| self.queue.push_back(bytes));
    }
}
