//! How far each store has read, which kinds have been listed, and which requests keep failing.
//!
//! A kind has one list and watch, or one for each namespace. Each of these has a position of its
//! own: what one of them has read says nothing about the namespaces of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt;
use kube_endpoint_core_model::{ResourceVersion, Text};
use kube_endpoint_watch_channel as watch;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::reflector::doubts::{Contradiction, Doubts};
use crate::reflector::status::KindFailure;
use crate::{Kind, Kinds, Scope, View};

/// How far a store has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The number of lists so far that showed that the server's storage was set back, as by a
    /// restore: they had a lower version than the store's position, or contradicted the store.
    /// Versions of different epochs cannot be compared.
    pub epoch: u64,
    /// The version of the last event, bookmark or list.
    pub version: ResourceVersion,
}

/// The shortest time between two relists of all kinds because a list contradicted its store.
const CONTRADICTED: Duration = Duration::from_secs(600);
/// The shortest time between two relists of all kinds for which versions are the reason that other
/// requests than lists and watches were answered with. If the API servers of a cluster disagree,
/// there is such a reason all the time.
const SET_BACK: Duration = Duration::from_secs(30);

/// The progress of all kinds.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When all kinds were last listed because a list contradicted its store.
    contradicted: Mutex<Option<Instant>>,
    /// When all kinds were last listed because something else than a list or watch had shown that
    /// the server was set back.
    set_back: Mutex<Option<Instant>>,
    kinds: [KindProgress; Kind::ALL.len()],
    /// The kinds that [`Cluster::synced`](crate::Cluster::synced) waits for.
    awaited: watch::Sender<Kinds>,
    synced: watch::Sender<Kinds>,
    /// Wakes [`Progress::relist`] after each complete list.
    listed: Notify,
}

/// The progress of the lists and watches of one kind.
#[derive(Debug)]
enum KindProgress {
    /// There is one.
    All(Box<StreamProgress>),
    /// There is one for each namespace; at least one.
    Namespaces(BTreeMap<Text, StreamProgress>),
}

/// The progress of one list and watch.
#[derive(Debug, Default)]
struct StreamProgress {
    state: Mutex<StreamState>,
    /// The last failure, until a request succeeds.
    failure: Mutex<Option<KindFailure>>,
    version_check: Notify,
    relist: Notify,
    doubts: Mutex<Doubts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct StreamState {
    position: Position,
    /// The version of the last event of an object since the last list.
    last_event: Option<ResourceVersion>,
    /// When the server last sent something; none before the first list.
    received: Option<Instant>,
    /// True if a complete list was applied and handlers were called for it.
    synced: bool,
    /// When the list under way began.
    began_list: Option<Instant>,
    /// When the list began that was applied last.
    listed: Option<Instant>,
    /// The server's versions went back, and there was no list since.
    must_list: bool,
    /// The list under way began after the server's versions went back.
    begins_epoch: bool,
    /// When a list last began because the server's versions went back.
    began_epoch: Option<Instant>,
}

/// Returns true if something that may happen once in a period was not done for so long; if so, it
/// counts as done now.
fn is_due(last: &Mutex<Option<Instant>>, period: Duration) -> bool {
    let now = Instant::now();
    let mut last = last.lock();
    let is_due = last.is_none_or(|last| now - last >= period);
    if is_due {
        *last = Some(now);
    }
    is_due
}

impl StreamProgress {
    /// Returns true if it is known that the server's versions went back, and no list since then is
    /// complete.
    fn awaits_list(&self) -> bool {
        let state = self.state.lock();
        state.must_list || state.begins_epoch
    }

    /// Has everything listed that it covers.
    fn require_list(&self) {
        self.state.lock().must_list = true;
        self.version_check.notify_one();
    }
}

impl KindProgress {
    fn new(scopes: Vec<Scope>) -> Self {
        let namespaces = scopes.into_iter().filter_map(|scope| match scope {
            Scope::All => None,
            Scope::Namespace(namespace) => Some((namespace, StreamProgress::default())),
        });
        let namespaces: BTreeMap<_, _> = namespaces.collect();
        if namespaces.is_empty() { Self::All(Box::default()) } else { Self::Namespaces(namespaces) }
    }

    fn streams(&self) -> impl Iterator<Item = &StreamProgress> {
        let (all, namespaces) = match self {
            Self::All(all) => (Some(&**all), None),
            Self::Namespaces(namespaces) => (None, Some(namespaces.values())),
        };
        all.into_iter().chain(namespaces.into_iter().flatten())
    }

    /// The list and watch that covers a namespace.
    fn covering(&self, namespace: &str) -> Option<&StreamProgress> {
        match self {
            Self::All(all) => Some(all),
            Self::Namespaces(namespaces) => namespaces.get(namespace),
        }
    }

    fn of(&self, scope: &Scope) -> Option<&StreamProgress> {
        match (self, scope) {
            (Self::All(all), Scope::All) => Some(all),
            (Self::Namespaces(namespaces), Scope::Namespace(namespace)) => namespaces.get(namespace),
            _ => None,
        }
    }
}

impl Progress {
    /// `awaited` are the kinds to list before the stores count as synced.
    pub(crate) fn new(awaited: Kinds, view: &View) -> Self {
        let kinds = Kind::ALL.map(|kind| KindProgress::new(view.scopes(kind)));
        Self {
            contradicted: Mutex::default(),
            set_back: Mutex::default(),
            kinds,
            awaited: watch::Sender::new(awaited),
            synced: watch::Sender::new(Kinds::default()),
            listed: Notify::new(),
        }
    }

    fn of(&self, kind: Kind) -> &KindProgress {
        let [pods, services, nodes, endpoint_slices, endpoints] = &self.kinds;
        match kind {
            Kind::Pods => pods,
            Kind::Services => services,
            Kind::Nodes => nodes,
            Kind::EndpointSlices => endpoint_slices,
            Kind::Endpoints => endpoints,
        }
    }

    fn stream(&self, kind: Kind, scope: &Scope) -> Option<&StreamProgress> {
        self.of(kind).of(scope)
    }

    /// The lowest version up to which all lists and watches of a kind have read.
    pub(crate) fn lowest_version(&self, kind: Kind) -> ResourceVersion {
        let versions = self.of(kind).streams().map(|stream| stream.state.lock().position.version);
        versions.min().unwrap_or_default()
    }

    /// How long ago the server last sent something to the list and watch of a kind that has waited
    /// the longest; none before the kind is synced.
    pub(crate) fn lag(&self, kind: Kind) -> Option<Duration> {
        if !self.synced.borrow().contains(kind) {
            return None;
        }
        let received = self.of(kind).streams().filter_map(|stream| stream.state.lock().received);
        received.min().map(|received| received.elapsed())
    }

    /// The position of the list and watch that covers a namespace; the start if none does.
    pub(crate) fn position_in(&self, kind: Kind, namespace: &str) -> Position {
        self.of(kind)
            .covering(namespace)
            .map_or_else(Position::default, |stream| stream.state.lock().position)
    }

    /// The position of one list and watch.
    pub(crate) fn position(&self, kind: Kind, scope: &Scope) -> Position {
        self.stream(kind, scope).map_or_else(Position::default, |stream| stream.state.lock().position)
    }

    /// The version of the last event of an object since the last list; none if there was none, or
    /// if namespaces are listed one by one.
    pub(crate) fn last_event(&self, kind: Kind) -> Option<ResourceVersion> {
        self.stream(kind, &Scope::All).and_then(|stream| stream.state.lock().last_event)
    }

    /// Moves a position to the version of an event of an object, as [`Self::advance`] does.
    pub(crate) fn advance_to_event(&self, kind: Kind, scope: &Scope, version: ResourceVersion) {
        self.advance(kind, scope, version);
        if let Some(stream) = self.stream(kind, scope) {
            let mut state = stream.state.lock();
            state.last_event = state.last_event.max(Some(version));
        }
    }

    /// Moves a position to the version of a bookmark. Neither events nor bookmarks move it back.
    pub(crate) fn advance(&self, kind: Kind, scope: &Scope, version: ResourceVersion) {
        let Some(stream) = self.stream(kind, scope) else { return };
        let mut state = stream.state.lock();
        state.received = Some(Instant::now());
        state.position.version = state.position.version.max(version);
    }

    /// Moves a position to the version of a complete list. A lower version than before begins a new
    /// epoch: the server was restored from a backup, or is another one.
    ///
    /// So does a list that contradicts the store: the server was restored, and has passed the
    /// position since. All kinds must be listed then, because nothing shows which other stores are
    /// wrong. A deletion counts only in a namespace whose writers have doubted the store; otherwise
    /// it is normal. Returns whether all kinds will be listed for this reason, which happens at
    /// most once in ten minutes.
    pub(crate) fn restart(
        &self,
        kind: Kind,
        scope: &Scope,
        version: ResourceVersion,
        contradiction: &Contradiction,
    ) -> bool {
        let Some(stream) = self.stream(kind, scope) else { return false };
        let contradicted = std::mem::take(&mut *stream.doubts.lock()).are_confirmed_by(contradiction);
        let mut state = stream.state.lock();
        state.received = Some(Instant::now());
        let begins_epoch = std::mem::take(&mut state.begins_epoch);
        if begins_epoch || contradicted || version < state.position.version {
            state.position.epoch += 1;
        }
        state.position.version = version;
        state.last_event = None;
        drop(state);
        // All kinds are listed already if this list began an epoch.
        contradicted && !begins_epoch && self.list_others(stream)
    }

    /// Has all kinds listed, except one that has just been, unless that was done within the last
    /// ten minutes.
    fn list_others(&self, listed: &StreamProgress) -> bool {
        if !is_due(&self.contradicted, CONTRADICTED) {
            return false;
        }
        let streams = self.kinds.iter().flat_map(KindProgress::streams);
        streams.filter(|stream| !std::ptr::eq(*stream, listed)).for_each(StreamProgress::require_list);
        true
    }

    /// Has everything listed in a new epoch.
    fn require_lists(&self) {
        self.kinds.iter().flat_map(KindProgress::streams).for_each(StreamProgress::require_list);
    }

    /// Has all kinds listed in a new epoch, unless that was done within the last ten minutes.
    /// Returns whether it is done.
    pub(crate) fn report_set_back(&self) -> bool {
        let may_list = is_due(&self.contradicted, CONTRADICTED);
        if may_list {
            self.require_lists();
        }
        may_list
    }

    /// Records that writers have found that a store differs from the server.
    pub(crate) fn doubt(&self, kind: Kind, scope: &Scope) {
        if let Some(stream) = self.stream(kind, scope) {
            stream.doubts.lock().lead_to_list();
        }
    }

    /// Records that the server's version is lower than the position of a list and watch. Everything
    /// must then be listed: other positions may be so low that the server has passed them again,
    /// although their stores show what was lost.
    pub(crate) fn went_back(&self, kind: Kind, scope: &Scope) {
        // Another one has found out before.
        if self.stream(kind, scope).is_some_and(StreamProgress::awaits_list) {
            return;
        }
        self.require_lists();
    }

    /// Has everything listed because an object got a version that the list and watch which covers
    /// its namespace had read past. Returns false if it was not done because of [`SET_BACK`].
    pub(crate) fn versions_went_back(&self, kind: Kind, namespace: &str) -> bool {
        if self.of(kind).covering(namespace).is_some_and(StreamProgress::awaits_list) {
            return true;
        }
        let may_list = is_due(&self.set_back, SET_BACK);
        if may_list {
            self.require_lists();
        }
        may_list
    }

    /// Has everything listed that was not listed since the server was set back, which was after
    /// `since`. Returns false if it was not done because of [`SET_BACK`].
    pub(crate) fn list_again(&self, since: Instant) -> bool {
        let is_listed = |stream: &StreamProgress| {
            stream.awaits_list() || stream.state.lock().began_epoch.is_some_and(|began| began >= since)
        };
        let streams = self.kinds.iter().flat_map(KindProgress::streams);
        let mut streams = streams.filter(|stream| !is_listed(stream)).peekable();
        if streams.peek().is_none() {
            return true;
        }
        let may_list = is_due(&self.set_back, SET_BACK);
        if may_list {
            streams.for_each(StreamProgress::require_list);
        }
        may_list
    }

    /// Returns true if a list is needed because the server's versions went back.
    pub(crate) fn must_list(&self, kind: Kind, scope: &Scope) -> bool {
        self.stream(kind, scope).is_some_and(|stream| stream.state.lock().must_list)
    }

    /// Records that a complete list begins.
    pub(crate) fn begin_list(&self, kind: Kind, scope: &Scope) {
        let Some(stream) = self.stream(kind, scope) else { return };
        let mut state = stream.state.lock();
        state.began_list = Some(Instant::now());
        // This list answers a request for one.
        let _ = stream.relist.notified().now_or_never();
        if std::mem::take(&mut state.must_list) {
            state.begins_epoch = true;
            state.began_epoch = Some(Instant::now());
            // A list answers a request for a check.
            let _ = stream.version_check.notified().now_or_never();
        }
    }

    /// Records that a store holds a complete list and that all handlers have been called for it.
    /// Returns whether the whole kind is synced.
    pub(crate) fn mark_synced(&self, kind: Kind, scope: &Scope) -> bool {
        if let Some(stream) = self.stream(kind, scope) {
            let mut state = stream.state.lock();
            state.synced = true;
            state.listed = state.began_list.take().or(state.listed);
        }
        self.listed.notify_waiters();
        let all_synced = self.of(kind).streams().all(|stream| stream.state.lock().synced);
        if all_synced {
            self.synced.send_if_modified(|synced| {
                let is_new = !synced.contains(kind);
                *synced = synced.with(kind);
                is_new
            });
        }
        all_synced
    }

    /// Returns true if the list of one list and watch has been applied.
    pub(crate) fn is_synced(&self, kind: Kind, scope: &Scope) -> bool {
        self.stream(kind, scope).is_some_and(|stream| stream.state.lock().synced)
    }

    /// Replaces the kinds that [`Self::synced`] waits for.
    pub(crate) fn set_awaited(&self, kinds: Kinds) {
        self.awaited.send_replace(kinds);
    }

    pub(crate) fn has_synced(&self) -> bool {
        let awaited = *self.awaited.borrow();
        self.has_synced_kinds(awaited)
    }

    /// The awaited kinds that are not synced.
    pub(crate) fn unsynced(&self) -> Kinds {
        let (awaited, synced) = (*self.awaited.borrow(), *self.synced.borrow());
        Kind::ALL.into_iter().filter(|kind| awaited.contains(*kind) && !synced.contains(*kind)).collect()
    }

    pub(crate) fn has_synced_kinds(&self, kinds: Kinds) -> bool {
        self.synced.borrow().contains_all(kinds)
    }

    pub(crate) async fn synced(&self) {
        let mut awaited = self.awaited.subscribe();
        loop {
            let kinds = *awaited.borrow_and_update();
            tokio::select! {
                biased;
                () = self.synced_kinds(kinds) => return,
                // The sender lives as long as `self`, so waiting cannot fail.
                _ = awaited.changed() => {}
            }
        }
    }

    pub(crate) async fn synced_kinds(&self, kinds: Kinds) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| synced.contains_all(kinds)).await;
    }

    /// The failure of a kind that began first, of those that last.
    pub(crate) fn failure(&self, kind: Kind) -> Option<KindFailure> {
        let failures = self.of(kind).streams().filter_map(|stream| stream.failure.lock().clone());
        failures.min_by_key(|failure| failure.since)
    }

    /// Records a failed request, or none after one that succeeded. Returns the failure that
    /// [`Self::failure`] shows now.
    pub(crate) fn set_failure(
        &self,
        kind: Kind,
        scope: &Scope,
        failure: Option<KindFailure>,
    ) -> Option<KindFailure> {
        if let Some(stream) = self.stream(kind, scope) {
            *stream.failure.lock() = failure;
        }
        self.failure(kind)
    }

    /// Lists a kind once more, and waits until a list that began after the call has been applied in
    /// each namespace that is listed by itself.
    pub(crate) async fn relist(&self, kind: Kind) {
        let called = Instant::now();
        self.of(kind).streams().for_each(|stream| stream.relist.notify_one());
        let is_listed = |stream: &StreamProgress| stream.state.lock().listed.is_some_and(|at| at >= called);
        loop {
            let listed = self.listed.notified();
            if self.of(kind).streams().all(is_listed) {
                return;
            }
            listed.await;
        }
    }

    /// Waits until a relist is requested. Returns at once if one was requested since the last list
    /// began.
    pub(crate) async fn relist_requested(&self, kind: Kind, scope: &Scope) {
        match self.stream(kind, scope) {
            Some(stream) => stream.relist.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Asks the reflector that covers a namespace for a version check. Requests that it has not
    /// taken up yet count as one.
    pub(crate) fn request_version_check(&self, kind: Kind, namespace: &str) {
        if let Some(stream) = self.of(kind).covering(namespace) {
            stream.doubts.lock().add(namespace);
            stream.version_check.notify_one();
        }
    }

    /// Waits until a version check is requested. Returns at once if one was requested meanwhile.
    pub(crate) async fn version_check_requested(&self, kind: Kind, scope: &Scope) {
        match self.stream(kind, scope) {
            Some(stream) => stream.version_check.notified().await,
            None => std::future::pending().await,
        }
    }
}
