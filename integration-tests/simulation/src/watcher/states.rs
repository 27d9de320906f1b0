//! Checks the rules about states from time to time: the published addresses, the kept state and the
//! requests.

use std::time::Duration;

use kube_endpoint_controllers::ManagerHandle;

use super::{Watcher, kept};
use crate::checks::Kept;
use crate::history::Setup;

/// The time after which controllers must have forgotten deleted Services.
const FORGETTING: Duration = Duration::from_secs(15 * 60);
/// The number of kept keys, changes and writes that no object need explain.
const MORE: usize = 10;
/// The number of changes by others that a controller remembers for a key.
const MOST_CHANGES: usize = 16;

impl Watcher {
    /// Checks that endpoints of pods that have been gone for long are not ready, unless a fault
    /// keeps controllers from that. Refused creates do not.
    fn check_dead(&mut self, at: Duration) {
        let long_ago = at.saturating_sub(self.recovery);
        if at < self.recovery || !self.trouble.is_unhindered_since(long_ago) {
            return;
        }
        self.statistics.dead_checks += 1;
        if let Some((service, dead)) = kept::long_dead(&self.world, long_ago).into_iter().next() {
            self.fails("dead endpoints are removed", &service, dead);
        }
        let Some(just_now) = at.checked_sub(self.promptness) else { return };
        if self.trouble.is_over_since(long_ago) {
            let mut dead = kept::long_dead(&self.world, just_now).into_iter();
            if let Some((service, dead)) = dead.find(|(service, _)| !self.edits.is_after(service, long_ago)) {
                self.fails("without trouble, dead endpoints are removed at once", &service, dead);
            }
        }
    }

    /// Checks the rules for a process that writes, has nothing to do and has read everything. Such
    /// a process has also dealt with all edits by hand. `overlap` is true if two processes may
    /// write.
    pub(crate) fn check_idle(&mut self, leaders: &[ManagerHandle], overlap: bool) {
        self.settle_pending(None);
        let at = self.now();
        if self.beside.is_none() {
            self.check_dead(at);
        }
        let last_slice = self.world.last_slice;
        if leaders.iter().any(|leader| crate::checks::is_idle(leader, last_slice)) {
            self.edits.settle(at);
            if !overlap {
                self.trouble.settle(at);
            }
            self.count_anew(at);
            if self.trouble.is_disturbed(at) || self.beside.is_some() {
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

    /// Checks the rules for times without trouble.
    pub(crate) fn check_published(&mut self) {
        self.settle_pending(None);
        let at = self.now();
        let Some(until) = at.checked_sub(self.recovery) else { return };
        if !self.trouble.is_over_since(until) {
            return;
        }
        if self.beside.is_some() {
            self.check_quiet_beside(until);
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

    /// Counts the objects for which controllers keep state anew, once they have had nothing to do
    /// for long enough.
    fn count_anew(&mut self, at: Duration) {
        if at >= self.counted + FORGETTING {
            (self.owners, self.slices) = (self.world.owners(), self.world.slices.len());
            self.counted = at;
        }
    }

    /// Checks that the number of objects bounds the state that controllers keep.
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

    /// Checks the number of requests of each manager in an hour.
    pub(crate) fn check_hour(&mut self, managers: usize, is_idle: bool, limit: usize) {
        let requests = self.traffic.take_hour() / managers.max(1);
        let most = &mut self.statistics.most_requests[usize::from(!is_idle)];
        *most = (*most).max(requests);
        // The server may ask for retries of the slices and of the Endpoints of a Service each
        // second.
        let asked_for = if self.trouble.take_pausing() { 2 * 3600 * self.world.services.len() } else { 0 };
        let limit = limit + asked_for;
        if requests > limit {
            let detail = format!("{requests} requests of each manager in an hour, more than {limit}");
            self.fails("requests are bounded", "", detail);
        }
    }

    /// Checks the history's bounds for an hour: on the writes while servers answer from different
    /// storages, and on the processes that lose the Lease.
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
