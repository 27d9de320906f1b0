//! The rules about states, which are checked at times: what is published, kept and asked for.

use std::time::Duration;

use kube_endpoint_manager_core::ManagerHandle;

use super::{Watcher, kept};
use crate::checks::Kept;
use crate::history::Setup;

/// What controllers keep of deleted Services is forgotten after this time.
const FORGETTING: Duration = Duration::from_secs(15 * 60);
/// So many keys, changes and writes may be kept that no object explains.
const MORE: usize = 10;
/// Changes by others that are remembered for a key.
const MOST_CHANGES: usize = 16;

impl Watcher {
    /// Checks that endpoints of pods that were deleted long ago are not ready, unless something
    /// keeps controllers from that. Refused creates do not.
    fn check_dead(&mut self, at: Duration) {
        let long_ago = at.saturating_sub(self.recovery);
        if at < self.recovery || !self.trouble.is_unhindered_since(long_ago) {
            return;
        }
        self.statistics.dead_checks += 1;
        if let Some(dead) = kept::long_dead(&self.world, long_ago) {
            self.fails("dead endpoints are removed", "", dead);
        }
    }

    /// Checks what must hold while a process that writes has nothing to do and has read everything.
    /// Then nothing is left to be done about what was written by hand. `overlap` says whether two
    /// processes may write.
    pub(crate) fn check_idle(&mut self, leaders: &[ManagerHandle], overlap: bool) {
        self.settle_pending(None);
        let at = self.now();
        self.check_dead(at);
        let last_slice = self.world.last_slice;
        if leaders.iter().any(|leader| crate::checks::is_idle(leader, last_slice)) {
            self.edits.settle(at);
            if !overlap {
                self.trouble.settle(at);
            }
            self.count_anew(at);
            if self.trouble.is_disturbed(at) {
                return;
            }
            self.statistics.idle_checks += 1;
            let last_service = self.world.last_service;
            let has_read = |it: &ManagerHandle| crate::checks::has_read_services(it, last_service);
            if leaders.iter().filter(|it| crate::checks::is_idle(it, last_slice)).any(has_read)
                && let Some(slice) = self.world.foreign_owner()
            {
                self.fails("after a sync, slices belong to their Services", "", slice);
            }
            if let Some(duplicate) = self.world.duplicates().into_iter().next() {
                self.fails("after a sync, an endpoint is in one slice of a group", "", duplicate);
            }
        }
    }

    /// Checks what must hold once there has been no trouble for some time.
    pub(crate) fn check_published(&mut self) {
        self.settle_pending(None);
        let at = self.now();
        let Some(until) = at.checked_sub(self.recovery) else { return };
        if !self.trouble.is_over_since(until) {
            return;
        }
        for service in self.world.services.keys() {
            if self.edits.is_after(service, until) {
                continue;
            }
            self.statistics.services_checked += 1;
            if let Some(found) = self.world.wrongly_published(service, until).into_iter().next() {
                let service = service.clone();
                self.fails(
                    "after a quiet time, ready pods are published and ended ones are not",
                    &service,
                    found,
                );
                return;
            }
        }
        self.judge_services(until);
    }

    /// Counts the objects anew that controllers keep something for, when they have had nothing to
    /// do for long enough.
    fn count_anew(&mut self, at: Duration) {
        if at >= self.counted + FORGETTING {
            (self.owners, self.slices) = (self.world.owners(), self.world.slices.len());
            self.counted = at;
        }
    }

    /// Checks that what controllers keep is bounded by what there is.
    pub(crate) fn check_kept(&mut self, kept: Kept) {
        let Kept { keys, changes, outstanding } = kept;
        let (owners, slices) = (self.owners, self.slices);
        let now = [keys, changes, outstanding];
        let most = &mut self.statistics.most_kept;
        *most = std::array::from_fn(|of| most[of].max(now[of]));
        let limits = [owners, MOST_CHANGES * owners, 2 * (owners + slices)].map(|limit| limit + MORE);
        if now.iter().zip(&limits).any(|(kept, limit)| kept > limit) {
            let detail = format!("{kept:?} for {owners} Services and Endpoints and {slices} slices");
            self.fails("memory is bounded", "", detail);
        }
    }

    /// Checks the requests of an hour, as the number of each manager.
    pub(crate) fn check_hour(&mut self, managers: usize, is_idle: bool, limit: usize) {
        let requests = self.traffic.take_hour() / managers.max(1);
        let most = &mut self.statistics.most_requests[usize::from(!is_idle)];
        *most = (*most).max(requests);
        // The server may ask for a retry of the slices and of the Endpoints of a Service each
        // second.
        let asked_for = if self.trouble.take_pausing() { 2 * 3600 * self.world.services.len() } else { 0 };
        let limit = limit + asked_for;
        if requests > limit {
            let detail = format!("{requests} requests of each manager in an hour, more than {limit}");
            self.fails("requests are bounded", "", detail);
        }
    }

    /// Checks what the history says about an hour: the writes while servers answer from different
    /// storages, and the processes that lose the Lease.
    pub(crate) fn check_bounds_of_hour(&mut self, setup: &Setup) {
        let (accepted, lost) = self.traffic.take_accepted_and_lost();
        let is_too_few = |least: u16| accepted < least.into();
        if self.trouble.has_other_storage() && setup.least_writes.is_some_and(is_too_few) {
            let detail = format!("{accepted} writes of outputs were accepted in an hour");
            self.fails("writes go on while servers disagree", "", detail);
        }
        if setup.most_lost.is_some_and(|most| lost > most.into()) {
            self.fails("losses of the Lease are bounded", "", format!("{lost} processes lost it in an hour"));
        }
    }

    /// Checks the requests since the last call of [`Self::take_span`], in which nothing has
    /// changed.
    pub(crate) fn check_quiet_span(&mut self, managers: usize, limit: usize) {
        let requests = self.traffic.take_span() / managers.max(1);
        let most = &mut self.statistics.most_requests_when_quiet;
        *most = (*most).max(requests);
        if requests > limit {
            let detail =
                format!("{requests} requests of each manager although nothing changes, more than {limit}");
            self.fails("requests are bounded", "", detail);
        }
    }
}
