//! How far each store has read, and whether all of them have been listed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kube_endpoint_core_model::ResourceVersion;
use tokio::sync::watch;

use crate::{Kind, Kinds};

/// The progress of all kinds.
#[derive(Debug)]
pub(crate) struct Progress {
    kinds: [KindProgress; Kind::ALL.len()],
    synced: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct KindProgress {
    position: AtomicU64,
    epoch: AtomicU64,
    /// Whether the kind must still be listed before the stores count as synced.
    is_awaited: AtomicBool,
}

impl Progress {
    /// Waits for a complete list of each of `kinds`.
    pub(crate) fn new(kinds: Kinds) -> Self {
        let progress = |kind| KindProgress {
            is_awaited: AtomicBool::new(kinds.contains(kind)),
            ..KindProgress::default()
        };
        Self { kinds: Kind::ALL.map(progress), synced: watch::Sender::new(kinds.is_empty()) }
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
        ResourceVersion(self.of(kind).position.load(Ordering::Acquire))
    }

    /// Moves the position of a kind. A lower version than before begins a new epoch.
    pub(crate) fn set_position(&self, kind: Kind, version: ResourceVersion) {
        let KindProgress { position, epoch, .. } = self.of(kind);
        if version.0 < position.load(Ordering::Acquire) {
            // Only a list can go back: the server was restored from a backup, or is another one.
            epoch.fetch_add(1, Ordering::AcqRel);
        }
        position.store(version.0, Ordering::Release);
    }

    pub(crate) fn epoch(&self, kind: Kind) -> u64 {
        self.of(kind).epoch.load(Ordering::Acquire)
    }

    /// Records that the store of a kind holds a complete list and that all handlers have been called for it.
    pub(crate) fn mark_synced(&self, kind: Kind) {
        self.of(kind).is_awaited.store(false, Ordering::SeqCst);
        if self.kinds.iter().all(|kind| !kind.is_awaited.load(Ordering::SeqCst)) {
            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    pub(crate) async fn synced(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }
}
