//! The API servers before the store. A manager's connections go to any of them, and move.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube_endpoint_embedded_apiserver::{ApiService, EmbeddedApiServer, Lag, Replica, RequestInfo};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::history::{Kind, Manager, sender};
use crate::text::Field;

/// A server as a manager sees it.
type View = (Manager, u8);

/// The API servers, numbered from 1.
pub(crate) struct Servers {
    pub(super) count: u8,
    /// Each manager has its own view of each server, because a lag may concern only one manager.
    replicas: BTreeMap<View, Replica>,
    /// The lags in effect, by the number of their fault.
    lags: Mutex<BTreeMap<usize, Vec<(View, usize)>>>,
    /// The servers that answer from a storage of their own.
    others: Mutex<BTreeMap<u8, EmbeddedApiServer>>,
    /// The number of answered lists of whole kinds since the last call of [`Self::take_lists`].
    lists: AtomicUsize,
}

impl Servers {
    /// `beside` is true if kube-controller-manager runs, too.
    pub(super) fn new(server: &EmbeddedApiServer, count: u8, beside: bool) -> Self {
        let count = count.max(1);
        let all = [Manager::A, Manager::B, Manager::C]
            .into_iter()
            .chain(beside.then_some(Manager::K))
            .flat_map(|manager| (1..=count).map(move |number| (manager, number)));
        let replicas = all.map(|(manager, number)| ((manager, number), server.replica(number.into())));
        Self {
            count,
            replicas: replicas.collect(),
            lags: Mutex::default(),
            others: Mutex::default(),
            lists: AtomicUsize::new(0),
        }
    }

    /// Returns a server as a manager sees it.
    pub(super) fn service(&self, manager: Manager, number: u8) -> ApiService {
        if let Some(other) = self.others.lock().get(&number) {
            return other.replica(number.into()).service();
        }
        self.replicas[&(manager, number)].service()
    }

    fn selected(&self, by: Option<Manager>, server: Option<u8>) -> impl Iterator<Item = (View, &Replica)> {
        let all = self.replicas.iter().map(|(view, replica)| (*view, replica));
        all.filter(move |((manager, number), _)| {
            by.is_none_or(|by| by == *manager) && server.is_none_or(|server| server == *number)
        })
    }

    /// Makes changes arrive late, until the fault with the number `fault` ends.
    pub(super) fn add_lag(&self, fault: usize, by: Option<Manager>, server: Option<u8>, lag: Lag) {
        let added = self.selected(by, server).map(|(view, replica)| (view, replica.add_lag(lag)));
        self.lags.lock().insert(fault, added.collect());
    }

    /// Ends a lag. Returns how many changes it has delayed.
    pub(super) fn remove_lag(&self, fault: usize) -> usize {
        let ended = self.lags.lock().remove(&fault).unwrap_or_default();
        ended.into_iter().map(|(view, id)| self.replicas[&view].remove_lag(id)).sum()
    }

    /// Returns the time at which all servers have read all changes so far, or `None` if no change
    /// is late.
    pub(crate) fn catch_up_at(&self) -> Option<Instant> {
        self.replicas.values().filter_map(Replica::catches_up_at).max()
    }

    /// Fills the caches of a server anew.
    pub(super) fn restart(&self, number: u8) {
        self.selected(None, Some(number)).for_each(|(_, replica)| replica.restart());
    }

    /// Makes a server answer from another storage.
    pub(super) fn begin_other(&self, number: u8, other: EmbeddedApiServer) {
        self.others.lock().insert(number, other);
    }

    /// Makes a server answer from the storage of the others again.
    pub(super) fn end_other(&self, number: u8) {
        if let Some(other) = self.others.lock().remove(&number) {
            other.break_watches(|_| true);
            self.restart(number);
        }
    }

    /// Counts an answered list of a whole kind.
    pub(super) fn listed(&self) {
        self.lists.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of lists of whole kinds since the last call.
    pub(crate) fn take_lists(&self) -> usize {
        self.lists.swap(0, Ordering::Relaxed)
    }
}

/// Returns true if a request of a manager goes to the server.
pub(super) fn goes_to(request: &RequestInfo, number: u8) -> bool {
    sender(&request.user_agent).is_some() && request.replica == usize::from(number)
}

/// Returns true if a request asks for all objects of a kind: the first page of a list, or a watch
/// that begins with them.
pub(super) fn is_whole_list(uri: &http::Uri) -> bool {
    let kind = uri.path().rsplit('/').next().and_then(Kind::read);
    let query = uri.query().unwrap_or_default();
    let has = |part: &str| query.contains(part);
    kind.is_some_and(|kind| !matches!(kind, Kind::Leases | Kind::Events))
        && if has("watch=true") {
            has("sendInitialEvents=true")
        } else {
            !has("continue=") && !has("Selector=") && !query.split('&').any(|it| it == "limit=1")
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_whole_kinds_are_told_from_other_requests() {
        let check = |uri: &str, want: bool| assert_eq!(is_whole_list(&uri.parse().unwrap()), want, "{uri}");
        check("/api/v1/pods?limit=500", true);
        check("/api/v1/namespaces/team/pods", true);
        check("/api/v1/pods?watch=true&sendInitialEvents=true", true);
        check("/api/v1/pods?watch=true&resourceVersion=7", false);
        check("/api/v1/pods?limit=1", false);
        check("/api/v1/pods?limit=7&continue=x", false);
        check("/apis/x/v1/endpointslices?labelSelector=a", false);
        check("/api/v1/namespaces/team/endpoints/s0", false);
        check("/apis/x/v1/leases", false);
    }
}
