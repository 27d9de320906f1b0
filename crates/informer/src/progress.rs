//! How far each store has read, which kinds have been listed, and which requests keep failing.

use futures::FutureExt;
use kube_endpoint_core_model::ResourceVersion;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::status::KindFailure;
use crate::{Kind, Kinds};

/// The progress of all kinds.
#[derive(Debug)]
pub(crate) struct Progress {
    kinds: [KindProgress; Kind::ALL.len()],
    /// The kinds that [`Cluster::synced`](crate::Cluster::synced) waits for.
    awaited: Kinds,
    synced: watch::Sender<Kinds>,
}

#[derive(Debug, Default)]
struct KindProgress {
    position: Mutex<Position>,
    /// The last failure, until a request succeeds.
    failure: Mutex<Option<KindFailure>>,
    version_check: Notify,
}

#[derive(Clone, Copy, Debug, Default)]
struct Position {
    epoch: u64,
    version: ResourceVersion,
    /// The server's versions went back, and the kind has not been listed since.
    must_list: bool,
    /// The list under way began after the server's versions went back.
    begins_epoch: bool,
}

impl Progress {
    /// `awaited` are the kinds to list before the stores count as synced.
    pub(crate) fn new(awaited: Kinds) -> Self {
        let kinds = Kind::ALL.map(|_| KindProgress::default());
        Self { kinds, awaited, synced: watch::Sender::new(Kinds::default()) }
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

    pub(crate) fn position(&self, kind: Kind) -> ResourceVersion {
        self.of(kind).position.lock().version
    }

    pub(crate) fn epoch(&self, kind: Kind) -> u64 {
        self.of(kind).position.lock().epoch
    }

    /// Moves the position of a kind to the version of an event. Events do not move it back.
    pub(crate) fn advance(&self, kind: Kind, version: ResourceVersion) {
        let mut position = self.of(kind).position.lock();
        position.version = position.version.max(version);
    }

    /// Moves the position of a kind to the version of a complete list. A lower version than before begins a new epoch: the
    /// server was restored from a backup, or is another one.
    pub(crate) fn restart(&self, kind: Kind, version: ResourceVersion) {
        let mut position = self.of(kind).position.lock();
        if std::mem::take(&mut position.begins_epoch) || version < position.version {
            position.epoch += 1;
        }
        position.version = version;
    }

    /// Records that the server's version is lower than the position of a kind. All kinds must then be listed: the positions of
    /// others may be so low that the server has passed them again, although their stores show what was lost.
    pub(crate) fn went_back(&self, kind: Kind) {
        // Another kind has found out before.
        if self.must_list(kind) {
            return;
        }
        for kind in &self.kinds {
            kind.position.lock().must_list = true;
            kind.version_check.notify_one();
        }
    }

    /// Whether a kind must be listed because the server's versions went back.
    pub(crate) fn must_list(&self, kind: Kind) -> bool {
        self.of(kind).position.lock().must_list
    }

    /// Records that a complete list of a kind begins.
    pub(crate) fn begin_list(&self, kind: Kind) {
        let kind = self.of(kind);
        let mut position = kind.position.lock();
        if std::mem::take(&mut position.must_list) {
            position.begins_epoch = true;
            // A list answers a request for a check.
            let _ = kind.version_check.notified().now_or_never();
        }
    }

    /// Records that the store of a kind holds a complete list and that all handlers have been called for it.
    pub(crate) fn mark_synced(&self, kind: Kind) {
        self.synced.send_if_modified(|synced| {
            let is_new = !synced.contains(kind);
            *synced = synced.with(kind);
            is_new
        });
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.has_synced_kinds(self.awaited)
    }

    pub(crate) fn has_synced_kinds(&self, kinds: Kinds) -> bool {
        self.synced.borrow().contains_all(kinds)
    }

    pub(crate) async fn synced(&self) {
        self.synced_kinds(self.awaited).await;
    }

    pub(crate) async fn synced_kinds(&self, kinds: Kinds) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| synced.contains_all(kinds)).await;
    }

    pub(crate) fn failure(&self, kind: Kind) -> Option<KindFailure> {
        self.of(kind).failure.lock().clone()
    }

    /// Records a failed request, or none after one that succeeded.
    pub(crate) fn set_failure(&self, kind: Kind, failure: Option<KindFailure>) {
        *self.of(kind).failure.lock() = failure;
    }

    /// Asks the reflector of a kind for a version check. Requests that it has not taken up yet count as one.
    pub(crate) fn request_version_check(&self, kind: Kind) {
        self.of(kind).version_check.notify_one();
    }

    /// Waits until a version check of a kind is requested. Returns at once if one was requested meanwhile.
    pub(crate) async fn version_check_requested(&self, kind: Kind) {
        self.of(kind).version_check.notified().await;
    }
}
