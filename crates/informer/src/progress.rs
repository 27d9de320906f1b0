//! How far each store has come: its position, and whether all of them hold a complete state.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use kube_endpoint_core_model::ResourceVersion;
use tokio::sync::watch;

use crate::{Kind, Kinds};

#[derive(Debug)]
pub(crate) struct Progress {
    positions: [AtomicU64; Kind::ALL.len()],
    epochs: [AtomicU64; Kind::ALL.len()],
    /// One bit for each kind that is waited for and has no complete state yet.
    missing: AtomicU8,
    synced: watch::Sender<bool>,
}

fn bit(kind: Kind) -> u8 {
    1 << kind as u8
}

impl Progress {
    pub(crate) fn new(kinds: Kinds) -> Self {
        let missing = Kind::ALL.into_iter().filter(|kind| kinds.contains(*kind)).map(bit).sum();
        Self {
            positions: Default::default(),
            epochs: Default::default(),
            missing: AtomicU8::new(missing),
            synced: watch::Sender::new(missing == 0),
        }
    }

    pub(crate) fn position(&self, kind: Kind) -> ResourceVersion {
        let position = self.positions.get(kind as usize).map(|at| at.load(Ordering::Acquire));
        ResourceVersion(position.unwrap_or_default())
    }

    pub(crate) fn set_position(&self, kind: Kind, version: ResourceVersion) {
        if let Some(position) = self.positions.get(kind as usize) {
            let before = position.load(Ordering::Acquire);
            if version.0 < before
                && let Some(epoch) = self.epochs.get(kind as usize)
            {
                // Only a list can go back: the server was restored from a backup, or is another one.
                epoch.fetch_add(1, Ordering::AcqRel);
            }
            position.store(version.0, Ordering::Release);
        }
    }

    pub(crate) fn epoch(&self, kind: Kind) -> u64 {
        self.epochs.get(kind as usize).map_or(0, |epoch| epoch.load(Ordering::Acquire))
    }

    /// A kind holds a complete state, and all handlers have heard of it.
    pub(crate) fn complete(&self, kind: Kind) {
        let missing = self.missing.fetch_and(!bit(kind), Ordering::AcqRel) & !bit(kind);
        if missing == 0 {
            self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    pub(crate) async fn synced(&self) {
        // The sender lives as long as `self`, so that waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }
}
