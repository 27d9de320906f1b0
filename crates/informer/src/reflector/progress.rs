//! How far each store has read, which kinds have been listed, and which requests keep failing.
//!
//! A kind has one list and watch, or one for each namespace. Each of these has a position of its
//! own: what one of them has read says nothing about the namespaces of the others.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use kube_endpoint_core_model::{ResourceVersion, Text};
use kube_endpoint_watch_channel as watch;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::reflector::history::History;
use crate::reflector::status::KindFailure;
use crate::{Kind, Kinds, Scope, WatchedNamespaces};

/// The shortest time between two relists of all kinds because stores may differ from the server.
const DIFFERED: Duration = Duration::from_secs(600);

/// The progress of all kinds.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) history: History,
    /// When reflectors last had to list all kinds because a store differed from the server.
    differed: Mutex<Option<Instant>>,
    kinds: [KindProgress; Kind::ALL.len()],
    /// The kinds that [`Cluster::synced`](crate::Cluster::synced) waits for.
    awaited: watch::Sender<Kinds>,
    synced: watch::Sender<Kinds>,
    /// Wakes [`Progress::relist`] after each complete list.
    listed: Notify,
}

/// The progress of the lists and watches of one kind, sorted by scope. The scopes of a kind can
/// change: reflectors of new ones then begin, and others end.
type KindProgress = watch::Sender<Streams>;

type Streams = Arc<[Stream]>;

/// One list and watch.
#[derive(Clone, Debug)]
struct Stream {
    scope: Scope,
    progress: Arc<StreamProgress>,
}

/// The progress of one list and watch.
#[derive(Debug, Default)]
struct StreamProgress {
    state: Mutex<StreamState>,
    /// The last failure, until a request succeeds.
    failure: Mutex<Option<KindFailure>>,
    version_check: Notify,
    relist: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct StreamState {
    /// The version of the last event, bookmark or list.
    position: ResourceVersion,
    /// The version of the last event of an object since the last list.
    last_event: Option<ResourceVersion>,
    /// When the server last sent something, or `None` before the first list.
    received: Option<Instant>,
    /// True if the store holds a complete list and the cluster has called the handlers for it.
    synced: bool,
    /// When the list under way began.
    began_list: Option<Instant>,
    /// When the list began that the store applied last.
    listed: Option<Instant>,
    /// True if the reflector makes the next list because the store may differ from the server.
    suspected: bool,
}

/// Returns the kinds without Leases: other stores show which of them are needed, if any, so nobody
/// can wait until they are listed.
fn awaitable(kinds: Kinds) -> Kinds {
    kinds.iter().filter(|kind| *kind != Kind::Leases).collect()
}

/// Returns the streams whose failure, if any, may pass soon, or all if no other is left: then the
/// kind itself fails.
fn readable(streams: &Streams) -> impl Iterator<Item = &StreamProgress> {
    let lasts = |stream: &Stream| stream.progress.has_lasting_failure();
    let all = streams.iter().all(lasts);
    streams.iter().filter(move |stream| all || !lasts(stream)).map(|stream| &*stream.progress)
}

impl StreamProgress {
    fn is_synced(&self) -> bool {
        self.state.lock().synced
    }

    fn has_lasting_failure(&self) -> bool {
        self.failure.lock().as_ref().is_some_and(KindFailure::lasts)
    }

    fn is_forbidden(&self) -> bool {
        self.failure.lock().as_ref().is_some_and(KindFailure::is_forbidden)
    }
}

/// Returns the streams of these scopes, with the progress that those of `before` have made.
fn streams(scopes: Vec<Scope>, before: &[Stream]) -> Streams {
    let mut streams: Vec<Stream> = scopes
        .into_iter()
        .map(|scope| {
            let same = before.iter().find(|stream| stream.scope == scope);
            let progress = same.map(|stream| Arc::clone(&stream.progress)).unwrap_or_default();
            Stream { scope, progress }
        })
        .collect();
    streams.sort_by(|one, other| one.scope.cmp(&other.scope));
    streams.into()
}

impl Progress {
    /// `awaited` are the kinds that reflectors have to list before the stores count as synced.
    pub(crate) fn new(awaited: Kinds, watched: &WatchedNamespaces) -> Self {
        let kinds = Kind::ALL.map(|kind| watch::Sender::new(streams(watched.scopes(kind), &[])));
        Self {
            history: History::default(),
            differed: Mutex::default(),
            kinds,
            awaited: watch::Sender::new(awaited),
            synced: watch::Sender::new(Kinds::default()),
            listed: Notify::new(),
        }
    }

    fn of(&self, kind: Kind) -> &KindProgress {
        let [pods, services, nodes, endpoint_slices, endpoints, endpoint_selectors, leases] = &self.kinds;
        match kind {
            Kind::Pods => pods,
            Kind::Services => services,
            Kind::Nodes => nodes,
            Kind::EndpointSlices => endpoint_slices,
            Kind::Endpoints => endpoints,
            Kind::EndpointSelectors => endpoint_selectors,
            Kind::Leases => leases,
        }
    }

    fn streams(&self, kind: Kind) -> Streams {
        Arc::clone(&self.of(kind).borrow())
    }

    fn stream(&self, kind: Kind, scope: &Scope) -> Option<Arc<StreamProgress>> {
        let streams = self.of(kind).borrow();
        let at = streams.binary_search_by(|stream| stream.scope.cmp(scope)).ok()?;
        streams.get(at).map(|stream| Arc::clone(&stream.progress))
    }

    /// Returns the list and watch that covers a namespace.
    fn covering(&self, kind: Kind, namespace: &str) -> Option<Arc<StreamProgress>> {
        let streams = self.of(kind).borrow();
        // The scope of all namespaces is the only one of its kind, and the lowest.
        let order =
            |stream: &Stream| stream.scope.namespace().map_or(Ordering::Equal, |own| own.cmp(namespace));
        let at = streams.binary_search_by(order).ok()?;
        streams.get(at).map(|stream| Arc::clone(&stream.progress))
    }

    /// Replaces the scopes of a kind. Those that stay keep their progress.
    pub(crate) fn set_scopes(&self, kind: Kind, scopes: Vec<Scope>) {
        self.of(kind).send_if_modified(|before| {
            let now = streams(scopes, before);
            let same = now.iter().map(|it| &it.scope).eq(before.iter().map(|it| &it.scope));
            if !same {
                *before = now;
            }
            !same
        });
    }

    /// Returns a receiver of the changes of the scopes of a kind.
    pub(crate) fn watch_scopes(&self, kind: Kind) -> ScopesReceiver {
        ScopesReceiver(self.of(kind).subscribe())
    }

    /// Returns the lowest version up to which all lists and watches of a kind have read, apart from
    /// the [unreadable](Self::unreadable) namespaces.
    pub(crate) fn lowest_version(&self, kind: Kind) -> ResourceVersion {
        let streams = self.streams(kind);
        let versions = readable(&streams).map(|stream| stream.state.lock().position);
        versions.min().unwrap_or_default()
    }

    /// Returns how long ago the server last sent something to the list and watch of a kind that has
    /// waited the longest, or `None` before the kind is synced. [Unreadable](Self::unreadable)
    /// namespaces do not count.
    pub(crate) fn lag(&self, kind: Kind) -> Option<Duration> {
        if !self.synced.borrow().contains(kind) {
            return None;
        }
        let streams = self.streams(kind);
        let received = readable(&streams).filter_map(|stream| stream.state.lock().received);
        let longest = received.min().map(|received| received.elapsed());
        if streams.is_empty() { Some(Duration::ZERO) } else { longest }
    }

    /// Returns the version up to which the list and watch that covers a namespace has read, or the
    /// default version if no list and watch covers it.
    pub(crate) fn position_in(&self, kind: Kind, namespace: &str) -> ResourceVersion {
        self.covering(kind, namespace).map(|stream| stream.state.lock().position).unwrap_or_default()
    }

    /// Returns the version up to which one list and watch has read.
    pub(crate) fn position(&self, kind: Kind, scope: &Scope) -> ResourceVersion {
        self.stream(kind, scope).map(|stream| stream.state.lock().position).unwrap_or_default()
    }

    /// Returns the version of the last event of an object since the last list, or `None` without
    /// one, or if reflectors list namespaces one by one.
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
        state.position = state.position.max(version);
    }

    /// Moves a position to the version of a complete list, which may be lower than before. `lost`
    /// is true if the list lacks objects of the store.
    ///
    /// If the reflector made the list because the store may differ from the server, and objects are
    /// lost, this makes the reflectors list all kinds: an administrator may have restored the
    /// server, which may have passed the positions of all kinds since. That happens at most once in
    /// ten minutes.
    pub(crate) fn restart(&self, kind: Kind, scope: &Scope, version: ResourceVersion, lost: bool) {
        let Some(stream) = self.stream(kind, scope) else { return };
        let mut state = stream.state.lock();
        state.received = Some(Instant::now());
        state.position = version;
        state.last_event = None;
        let differs = std::mem::take(&mut state.suspected) && lost;
        drop(state);
        if differs {
            self.require_lists_for_doubt();
        }
    }

    /// Makes the reflectors list all kinds because stores may differ from the server, at most once
    /// in ten minutes. Returns true if they do.
    pub(crate) fn require_lists_for_doubt(&self) -> bool {
        let now = Instant::now();
        let mut last = self.differed.lock();
        let is_due = last.is_none_or(|last| now - last >= DIFFERED);
        if is_due {
            *last = Some(now);
            self.require_lists();
        }
        is_due
    }

    /// Forgets how far a list and watch has read, since that says nothing about the history that
    /// the server shows now.
    pub(crate) fn forget_position(&self, kind: Kind, scope: &Scope) {
        if let Some(stream) = self.stream(kind, scope) {
            stream.state.lock().position = ResourceVersion::default();
        }
    }

    /// Makes the reflectors list all kinds.
    pub(crate) fn require_lists(&self) {
        for kind in Kind::ALL {
            self.streams(kind).iter().for_each(|stream| stream.progress.relist.notify_one());
        }
    }

    /// Makes a reflector list because the server's version of its kind was lower, although a second
    /// read did not confirm it, and the others too: the server may have passed the positions of
    /// all.
    pub(crate) fn version_was_lower(&self, kind: Kind, scope: &Scope) {
        self.suspect(kind, scope);
        self.require_lists_for_doubt();
    }

    /// Makes a reflector list because its store may differ from the server.
    pub(crate) fn suspect(&self, kind: Kind, scope: &Scope) {
        if let Some(stream) = self.stream(kind, scope) {
            stream.state.lock().suspected = true;
            stream.relist.notify_one();
        }
    }

    /// Records that a reflector begins a complete list.
    pub(crate) fn begin_list(&self, kind: Kind, scope: &Scope) {
        let Some(stream) = self.stream(kind, scope) else { return };
        let mut state = stream.state.lock();
        // This list answers all requests that came before it began.
        let _ = stream.relist.notified().now_or_never();
        state.began_list = Some(Instant::now());
    }

    /// Records that a store holds a complete list and that the cluster has called the handlers for
    /// it. Returns true if it is the first one of this list and watch.
    pub(crate) fn mark_synced(&self, kind: Kind, scope: &Scope) -> bool {
        let mut is_first = false;
        if let Some(stream) = self.stream(kind, scope) {
            let mut state = stream.state.lock();
            is_first = !std::mem::replace(&mut state.synced, true);
            state.listed = state.began_list.take().or(state.listed);
        }
        self.listed.notify_waiters();
        self.update_synced(kind);
        is_first
    }

    fn update_synced(&self, kind: Kind) {
        if self.is_complete(kind) {
            self.synced.send_if_modified(|synced| {
                let is_new = !synced.contains(kind);
                *synced = synced.with(kind);
                is_new
            });
        }
    }

    /// Returns true if the store has applied a list of each list and watch of a kind, apart from
    /// those whose requests keep failing while others succeed: nobody waits for a namespace that
    /// cannot be read. Stays true once it is true, but for Leases, whose scopes change.
    pub(crate) fn is_complete(&self, kind: Kind) -> bool {
        if kind != Kind::Leases && self.synced.borrow().contains(kind) {
            return true;
        }
        let streams = self.streams(kind);
        let is_done = |stream: &Stream| stream.progress.is_synced() || stream.progress.has_lasting_failure();
        streams.iter().all(is_done)
            && (streams.is_empty() || streams.iter().any(|it| it.progress.is_synced()))
    }

    /// Returns true if the store has applied a list of this list and watch.
    pub(crate) fn is_synced(&self, kind: Kind, scope: &Scope) -> bool {
        self.stream(kind, scope).is_some_and(|stream| stream.is_synced())
    }

    /// Returns true if the store has applied a list that covers a namespace.
    pub(crate) fn is_covered(&self, kind: Kind, namespace: &str) -> bool {
        self.covering(kind, namespace).is_some_and(|stream| stream.is_synced())
    }

    /// Returns true if the store has applied a list that covers a namespace and began at `since` or
    /// later.
    pub(crate) fn is_listed_since(&self, kind: Kind, namespace: &str, since: Instant) -> bool {
        let listed = self.covering(kind, namespace).and_then(|stream| stream.state.lock().listed);
        listed.is_some_and(|listed| listed >= since)
    }

    /// Replaces the kinds that [`Self::synced`] waits for.
    pub(crate) fn set_awaited(&self, kinds: Kinds) {
        self.awaited.send_replace(kinds);
    }

    pub(crate) fn has_synced(&self) -> bool {
        let awaited = *self.awaited.borrow();
        self.has_synced_kinds(awaited)
    }

    /// Returns the awaited kinds that are not synced.
    pub(crate) fn unsynced(&self) -> Kinds {
        let (awaited, synced) = (*self.awaited.borrow(), *self.synced.borrow());
        awaitable(awaited).iter().filter(|kind| !synced.contains(*kind)).collect()
    }

    /// Returns true if the stores have applied lists of these kinds that cover a namespace.
    pub(crate) fn covers(&self, kinds: Kinds, namespace: &str) -> bool {
        awaitable(kinds).iter().all(|kind| self.is_covered(kind, namespace))
    }

    pub(crate) fn has_synced_kinds(&self, kinds: Kinds) -> bool {
        self.synced.borrow().contains_all(awaitable(kinds))
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
        let kinds = awaitable(kinds);
        let _ = self.synced.subscribe().wait_for(|synced| synced.contains_all(kinds)).await;
    }

    /// Returns the failure of a kind that began first, among those that last. Failures of
    /// [unreadable](Self::unreadable) namespaces are not the kind's.
    pub(crate) fn failure(&self, kind: Kind) -> Option<KindFailure> {
        let streams = self.streams(kind);
        let failures = readable(&streams).filter_map(|stream| stream.failure.lock().clone());
        failures.min_by_key(|failure| failure.since)
    }

    /// Returns the namespaces in which requests for a kind keep failing, with the failures, while
    /// others succeed.
    pub(crate) fn unreadable(&self, kind: Kind) -> Vec<(Text, KindFailure)> {
        let streams = self.streams(kind);
        let failing = streams.iter().filter_map(|stream| {
            let failure = stream.progress.failure.lock().clone().filter(KindFailure::lasts)?;
            Some((stream.scope.namespace()?.into(), failure))
        });
        let failing: Vec<_> = failing.collect();
        if failing.len() == streams.len() { Vec::new() } else { failing }
    }

    /// Records a failed request, or `None` after one that succeeded.
    pub(crate) fn set_failure(&self, kind: Kind, scope: &Scope, failure: Option<KindFailure>) {
        if let Some(stream) = self.stream(kind, scope) {
            *stream.failure.lock() = failure;
            // Nobody waits for it any more, perhaps.
            self.listed.notify_waiters();
            self.update_synced(kind);
        }
    }

    /// Waits until the store has applied a list that began at `since` or later, in each namespace
    /// that has a list of its own, unless the server forbids it. Makes the reflectors without such
    /// a list begin one.
    pub(crate) async fn relist(&self, kind: Kind, since: Instant) {
        let is_since = |at: Option<Instant>| at.is_some_and(|at| at >= since);
        let is_listed = |stream: &StreamProgress| is_since(stream.state.lock().listed);
        let is_listing = |stream: &StreamProgress| is_since(stream.state.lock().began_list);
        for stream in self.streams(kind).iter().map(|stream| &stream.progress) {
            if !is_listed(stream) && !is_listing(stream) {
                stream.relist.notify_one();
            }
        }
        loop {
            let listed = self.listed.notified();
            let streams = self.streams(kind);
            let is_done = |stream: &Stream| is_listed(&stream.progress) || stream.progress.is_forbidden();
            if streams.iter().all(is_done)
                && (streams.is_empty() || streams.iter().any(|stream| is_listed(&stream.progress)))
            {
                return;
            }
            listed.await;
        }
    }

    /// Waits until somebody requests a relist. Returns at once if somebody did since the last list
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
        if let Some(stream) = self.covering(kind, namespace) {
            stream.version_check.notify_one();
        }
    }

    /// Waits until somebody requests a version check. Returns at once if somebody did meanwhile.
    pub(crate) async fn version_check_requested(&self, kind: Kind, scope: &Scope) {
        match self.stream(kind, scope) {
            Some(stream) => stream.version_check.notified().await,
            None => std::future::pending().await,
        }
    }
}

/// The progress of a scope. Equal only to itself.
#[derive(Clone)]
pub(crate) struct ScopeProgress(Arc<StreamProgress>);

impl PartialEq for ScopeProgress {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Receives the scopes of a kind.
pub(crate) struct ScopesReceiver(watch::Receiver<Streams>);

impl ScopesReceiver {
    /// Returns the current scopes, which then count as seen. A scope that went and came back has
    /// another progress.
    pub(crate) fn current(&mut self) -> Vec<(Scope, ScopeProgress)> {
        let streams = self.0.borrow_and_update();
        streams.iter().map(|it| (it.scope.clone(), ScopeProgress(Arc::clone(&it.progress)))).collect()
    }

    /// Waits for scopes that have not been seen.
    pub(crate) async fn changed(&mut self) {
        // The sender lives as long as the cluster.
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
