//! Records the versions that a process had read at each time, so that the rules judge a write by
//! the knowledge of its process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_core_model::{EndpointSelector, Endpoints, Node, ObjectKey, Service};
use kube_endpoint_informer::{Change, Cluster, Handler, Kind, PodEvent};
use parking_lot::Mutex;

use super::SharedWatcher;
use crate::history::Manager;

/// The longest time from the reading of a plan's inputs to the answer to its last write.
pub(crate) const LONGEST_PLAN: Duration = Duration::from_secs(120);
/// The same time, if no request is late: writes wait only for the limit of requests each second.
pub(crate) const USUAL_PLAN: Duration = Duration::from_secs(20);
/// The time between two recorded positions.
const STEP: Duration = Duration::from_secs(1);

/// The resource versions up to which a process has read its inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) pods: u64,
    pub(crate) services: u64,
    pub(crate) nodes: u64,
    pub(crate) endpoints: u64,
    pub(crate) selectors: u64,
}

impl Position {
    /// Returns true if the process has listed each kind from which slices are planned: that begins
    /// before Endpoints are listed.
    fn is_complete(self) -> bool {
        let Self { pods, services, nodes, selectors, endpoints: _ } = self;
        ![pods, services, nodes, selectors].contains(&0)
    }

    /// Returns the lower version of each kind.
    fn at_most(self, other: Self) -> Self {
        Self {
            pods: self.pods.min(other.pods),
            services: self.services.min(other.services),
            nodes: self.nodes.min(other.nodes),
            endpoints: self.endpoints.min(other.endpoints),
            selectors: self.selectors.min(other.selectors),
        }
    }
}

/// The positions of a process at several times, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Positions(VecDeque<(Duration, Position)>);

impl Positions {
    /// Records a position of a process that has listed the kinds, if the last record is not from
    /// the same second or higher: a list may show an older state.
    pub(crate) fn record(&mut self, at: Duration, position: Position) {
        if self
            .0
            .back()
            .is_some_and(|(last, before)| at < *last + STEP && before.at_most(position) == *before)
        {
            return;
        }
        self.0.push_back((at, position));
        while self.0.get(1).is_some_and(|(second, _)| *second + LONGEST_PLAN <= at) {
            self.0.pop_front();
        }
    }

    /// Returns a position that the inputs of every write at this time had reached, if the process
    /// read them at most `longest` ago. Returns `None` if nothing is known.
    pub(crate) fn surely_read(&self, at: Duration, longest: Duration) -> Option<Position> {
        let is_old = |recorded: Duration| recorded + longest <= at;
        let first = self.0.iter().rposition(|(recorded, _)| is_old(*recorded)).unwrap_or_default();
        self.0.range(first..).map(|(_, position)| *position).reduce(Position::at_most)
    }
}

/// Records positions whenever a store changes, and checks that none goes back.
pub(crate) struct Recorder {
    cluster: Cluster,
    manager: Manager,
    watcher: SharedWatcher,
    positions: Arc<Mutex<Positions>>,
    /// True if the process runs the endpoint selector controller, which does not read Endpoints.
    /// The others do not read EndpointSelectors.
    is_addon: bool,
    /// The last position.
    last: Mutex<Position>,
}

impl Recorder {
    pub(crate) fn new(
        cluster: Cluster,
        manager: Manager,
        watcher: SharedWatcher,
        positions: Arc<Mutex<Positions>>,
        is_addon: bool,
    ) -> Self {
        Self { cluster, manager, watcher, positions, is_addon, last: Mutex::default() }
    }

    fn record(&self) {
        let unread = if self.is_addon { Kind::Endpoints } else { Kind::EndpointSelectors };
        // Nothing that a process does not read keeps it from knowing the state.
        let at = |kind| if kind == unread { u64::MAX } else { self.cluster.position(kind).0 };
        let position = Position {
            pods: at(Kind::Pods),
            services: at(Kind::Services),
            nodes: at(Kind::Nodes),
            endpoints: at(Kind::Endpoints),
            selectors: at(Kind::EndpointSelectors),
        };
        if !position.is_complete() {
            return;
        }
        let before = std::mem::replace(&mut *self.last.lock(), position);
        let mut watcher = self.watcher.lock();
        if before.at_most(position) != before {
            watcher.reads_older(self.manager, before, position);
        }
        self.positions.lock().record(watcher.began().elapsed(), position);
    }
}

impl Handler for Recorder {
    fn on_pod(&self, _: &PodEvent) {
        self.record();
    }

    fn on_service(&self, _: &Change<Service>) {
        self.record();
    }

    fn on_node(&self, _: &Change<Node>) {
        self.record();
    }

    fn on_endpoints(&self, _: &Change<Endpoints>) {
        self.record();
    }

    fn on_endpoint_selector(&self, _: &Change<EndpointSelector>, _: &[ObjectKey]) {
        self.record();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(version: u64) -> Position {
        Position { pods: version, services: version, nodes: version, endpoints: version, selectors: version }
    }

    #[test]
    fn what_was_read_two_minutes_ago_was_read_by_every_plan() {
        let mut positions = Positions::default();
        for (second, version) in [(10, 5), (11, 6), (100, 7), (131, 8), (140, 9)] {
            positions.record(Duration::from_secs(second), position(version));
        }
        let check = |second, want: Option<u64>| {
            let read = positions.surely_read(Duration::from_secs(second), LONGEST_PLAN);
            assert_eq!(read, want.map(position), "{second}");
        };
        check(12, Some(6));
        check(140, Some(6));
        check(221, Some(7));
        check(900, Some(9));
        assert_eq!(Positions::default().surely_read(Duration::from_secs(9), LONGEST_PLAN), None);
        assert_eq!(positions.surely_read(Duration::from_secs(155), USUAL_PLAN), Some(position(8)));
    }

    #[test]
    fn a_list_of_an_older_state_counts() {
        let mut positions = Positions::default();
        for (second, version) in [(1, 50), (200, 60), (200, 20), (201, 61)] {
            positions.record(Duration::from_secs(second), position(version));
        }
        assert_eq!(positions.surely_read(Duration::from_secs(202), LONGEST_PLAN), Some(position(20)));
        assert_eq!(positions.surely_read(Duration::from_secs(400), LONGEST_PLAN), Some(position(61)));
    }

    #[test]
    fn the_first_list_counts_for_a_young_process() {
        let mut positions = Positions::default();
        positions.record(Duration::from_secs(3), position(4));
        positions.record(Duration::from_secs(3), position(5));
        assert_eq!(positions.surely_read(Duration::from_secs(3), LONGEST_PLAN), Some(position(4)));
    }
}
