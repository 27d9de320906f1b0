//! Checks the rules about each write of a manager, with their exemptions.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::ChangeKind;

use super::positions::{self, Position};
use super::rules::{self, Write};
use super::world::{Slice, service_of};
use super::{Watcher, kept};
use crate::history::Manager;

/// A write of a manager that changed an object.
pub(super) struct ManagerWrite<'a> {
    pub(super) at: Duration,
    pub(super) manager: Manager,
    /// Namespace and name of the object.
    pub(super) key: &'a str,
    pub(super) kind: ChangeKind,
    pub(super) write: Write<'a>,
    /// The slice before the write, if it is a slice.
    pub(super) slice_before: Option<Slice>,
}

impl Watcher {
    /// Checks a write that the world shows already.
    pub(super) fn check_write(&mut self, made: &ManagerWrite<'_>) {
        let ManagerWrite { at, manager, key, kind, write, slice_before } = made;
        let (at, manager, plural) = (*at, *manager, write.plural);
        if plural == "endpointslices" {
            self.check_twin(at, key, write.user_agent, *kind);
        }
        self.check("managers write outputs only", key, rules::only_outputs(write));
        self.check("nothing that users have written is deleted", key, rules::nothing_of_users_deleted(write));
        // A delete names the uid and no version: as upstream, edits by hand since the cache read
        // the slice go, too.
        let service = write.previous.map(service_of).unwrap_or_default();
        if write.object.is_some() || !self.edits.has_slice(&service, key) {
            self.check("each controller writes its own slices only", key, rules::own_slices_only(write));
        }
        self.check("no slice is over its limit", key, rules::within_limit(write, self.slice_limit));
        if plural == "endpoints" {
            self.check_endpoints(at, manager, key, write);
        }
        if let Some(before) = slice_before {
            self.check_disappearance(at, manager, key, before);
        }
    }

    /// Returns the position that a process had surely read when it planned a write of now, or
    /// `None` if that is not known.
    pub(super) fn surely_read(&self, at: Duration, manager: Manager) -> Option<Position> {
        let longest = self.trouble.longest_plan(at);
        self.positions.get(&manager).and_then(|it| it.lock().surely_read(at, longest))
    }

    fn check_twin(&mut self, at: Duration, key: &str, author: &str, kind: ChangeKind) {
        let process = author.split(' ').next().unwrap_or_default();
        match kind {
            ChangeKind::Deleted => self.authors.forget(key),
            ChangeKind::Added => {
                let service = self.world.slices.get(key).map(|slice| slice.service.as_str());
                let service = service.unwrap_or_default();
                let is_known =
                    |other: &str| self.authors.knows(process, other) && !self.edits.has_slice(service, other);
                let twin = kept::twin(&self.world, key, is_known).cloned();
                if let Some(twin) = twin.filter(|_| !self.trouble.is_disturbed(at)) {
                    let detail = format!("{twin} has one of its endpoints");
                    self.fails("no endpoint is created twice", key, detail);
                }
                self.authors.created(at, key, process);
            }
            // Its process may not know of the update.
            ChangeKind::Modified if self.trouble.is_active() => self.authors.forget(key),
            ChangeKind::Modified => {}
        }
    }

    fn check_endpoints(&mut self, at: Duration, manager: Manager, key: &str, write: &Write<'_>) {
        let Some(read) = self.surely_read(at, manager).filter(|_| !self.trouble.is_disturbed(at)) else {
            return;
        };
        self.statistics.endpoints_checked += 1;
        let outcome = kept::endpoints_of_users_untouched(&self.world, write, key, read);
        self.check("Endpoints of users are not written", key, outcome);
        let outcome = kept::no_ready_pod_leaves_endpoints(&self.world, write, key, read);
        self.check("a ready pod never disappears from Endpoints", key, outcome);
    }

    fn check_disappearance(&mut self, at: Duration, manager: Manager, key: &str, before: &Slice) {
        let is_edited = |address: &str| self.edits.has_address(&before.service, address);
        if !self.trouble.is_overlapping() && !self.trouble.was_restored(at) {
            // The controller asks the server before it deletes all mirrored slices, so the position
            // of its caches does not matter.
            let long_ago = at.saturating_sub(positions::LONGEST_PLAN);
            let outcome = kept::not_all_mirrored_slices_deleted(&self.world, before, long_ago, is_edited);
            self.check("mirrored slices are deleted for a reason", key, outcome);
        }
        if self.trouble.is_disturbed(at) || self.trouble.is_undone(at) {
            return;
        }
        let Some(read) = self.surely_read(at, manager) else { return };
        self.statistics.disappearances_checked += 1;
        let after = self.world.slices.get(key);
        let is_edited = |address: &str| self.edits.has_address(&before.service, address);
        let pods = rules::no_ready_pod_disappears(&self.world, before, after, read, is_edited);
        let addresses = kept::no_address_leaves_mirrored_slices(&self.world, before, after, read, is_edited);
        self.check("a ready pod never disappears", key, pods);
        self.check("a mirrored address never disappears", key, addresses);
    }
}
